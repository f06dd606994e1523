"""Gradients of biases: sums over all pixels, as the gradient of a filter of one tap over an input of ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..choosing.threads import check_threads
from ..choosing.watching import watched
from ..convolutions.calls import call_info
from ..convolutions.problem import ConvProblem
from ..convolutions.route import Arrays
from ..convolutions.types import TYPES, conversion_of, dtype_of, types_of
from ..formats.layout import Layout
from ..memory.arguments import result_array
from ..memory.foreign import takes_torch
from ..reorders.reorder import reorder
from ..signatures import like
from .accumulate import add_scaled, check_beta
from .arguments import activations
from .task import WeightTask, best_sums


@takes_torch
def conv2d_bias(grad_output, *, layout=None, shape=None, dtype=None, out=None, beta=0.0, threads=None) -> Any:
    """The gradient of the bias of `conv2d`, and of `conv_transpose2d`: sums over images and pixels.

    Parameters
    ----------
    grad_output : array_like of float32, float64, float16 or bfloat16 (of ml_dtypes), or Tensor
        The gradient of the result.
    layout : str or Layout, optional
        Of `grad_output`: "NCHW", or that of a `Tensor`.
    shape : sequence of int, optional
        The logical shape of `grad_output`, where blocks are padded: of the channels, too.
    dtype : dtype or str, optional
        Of the result: that of `grad_output` by default; of float16 and bfloat16 also float32, as the sums are.
    out : ndarray, optional
        Where to write.
    beta : float, optional
        ``gradient + beta * out`` is written: 1 accumulates.
    threads : int, optional
        At most this many threads. The result does not depend on how many.

    Returns
    -------
    ndarray
        (O,)

    Raises
    ------
    TypeError
        `grad_output` is of integers, or `dtype` or `out` of a type that it has no sums in.
    ValueError
        The shape, the layout or `out` does not fit.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> lk.grad.conv2d_bias(np.ones((2, 3, 4, 4), np.float32)).tolist()
    [32.0, 32.0, 32.0]
    """
    return _bias("grad.conv2d_bias", 2, grad_output, layout, shape, dtype, out, beta, threads)


@like(conv2d_bias, 1)
@takes_torch
def conv1d_bias(grad_output, *, layout=None, shape=None, dtype=None, out=None, beta=0.0, threads=None) -> Any:
    return _bias("grad.conv1d_bias", 1, grad_output, layout, shape, dtype, out, beta, threads)


@like(conv2d_bias, 3)
@takes_torch
def conv3d_bias(grad_output, *, layout=None, shape=None, dtype=None, out=None, beta=0.0, threads=None) -> Any:
    return _bias("grad.conv3d_bias", 3, grad_output, layout, shape, dtype, out, beta, threads)


def _bias(what: str, rank: int, grad_output, layout, shape, dtype, out, beta, threads) -> np.ndarray:
    gradient = activations(grad_output, layout, shape, rank, what, ("grad_output", "layout"))
    types = types_of(gradient.array, dtype, f"{what}: grad_output")
    if types.types.integers:
        raise TypeError(f"{what}: grad_output of {gradient.array.dtype}: integers have no gradients")
    check_beta(beta, out, what)
    threads = check_threads(threads)
    n, channels, *size = gradient.shape
    to = result_array(out, Layout("a"), (channels,), types.dst, (gradient.array,), what)
    one = (1,) * rank
    inputs = Layout("ab" + "cde"[:rank])
    p = ConvProblem(
        n, 1, channels, tuple(size), one, one, ((0, 0),) * rank, one, 1, inputs, gradient.layout.dense, "reproducible",
        types=TYPES[types.types.elements[0]],
    )  # fmt: skip
    if not p.fits:
        if beta:
            add_scaled(None, to, Layout("a"), (channels,), types.types.elements[3], float(beta))
        else:
            to[...] = 0
        return to if out is None else out
    ones = np.broadcast_to(_one(gradient.array.dtype, types.types.elements[0]), p.src_shape)
    task = WeightTask(p, threads)
    route = best_sums(task, Arrays(ones.strides, gradient.array.strides))
    elements = TYPES[types.types.elements[0]].elements[2], types.types.elements[3]
    shape, plain = (1, channels, 1, *one), Layout("abc" + "def"[:rank])
    written = to.view(dtype_of(elements[1])).reshape(shape)  # bfloat16 may be held as bits

    def run() -> None:
        sums, how = route(ones, gradient.array), dict(dtype=conversion_of(elements), threads=threads, beta=float(beta))
        reorder(sums, route.layout, plain, shape=shape, out=written, **how)

    watched(partial(call_info, what, task, threads), run)
    return to if out is None else out


def _one(dtype: np.dtype, element: str) -> np.ndarray:
    """1 as an element of an array of this type, which may hold bfloat16 as bits."""
    return np.array(0x3F80 if element == "bf16" and dtype == np.uint16 else 1, dtype)
