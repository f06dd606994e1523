"""Gradients of activations, element by element: arrays of any layout are read in the order of their memory."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi, sqrt
from typing import Any

import numpy as np

from ..choosing.threads import check_threads
from ..choosing.watching import CallInfo, watched
from ..convolutions.problem import sizes_text
from ..convolutions.types import TYPES, conversion_of, dtype_of
from ..formats.layout import Layout
from ..formats.nearest import near
from ..memory.arguments import layout_for, result_array, returned, tensor_argument
from ..memory.foreign import takes_torch
from ..reorders.reorder import reorder
from .arguments import check_same_type, float_types

CHUNK = 1 << 14  # elements at a time, so that intermediate results stay in the caches
LIMIT = 1000.0  # beyond it the slopes of smooth activations are their limits; x**3 does not overflow


def _limited(x: np.ndarray) -> np.ndarray:
    """x within the limits beyond which slopes do not change, so that no Inf - Inf gives NaN."""
    return np.clip(x, -LIMIT, LIMIT)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * np.tanh(0.5 * x) + 0.5


def _inside(x: np.ndarray, low: float, high: float) -> np.ndarray:
    return ((x > low) | (low == -inf)) & ((x < high) | (high == inf))


def _swish(x: np.ndarray, beta: float = 1.0) -> np.ndarray:
    v = _limited(beta * x)
    s = _sigmoid(v)
    return s * (1 + v * (1 - s))


def _mish(x: np.ndarray) -> np.ndarray:
    x = _limited(x)
    t = np.tanh(np.logaddexp(x, 0))
    return t + x * (1 - t * t) * _sigmoid(x)


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    a, x = sqrt(2 / pi), _limited(x)
    t = np.tanh(a * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * a * (1 + 3 * 0.044715 * x * x)


def _hardswish(x: np.ndarray) -> np.ndarray:
    return np.where(x <= -3, 0, np.where(x >= 3, 1, x / 3 + 0.5)).astype(x.dtype)


# The derivative at x, by the name of the activation and how many numbers come with it; at a kink that of torch.
DERIVATIVES: dict[tuple[str, int], Callable[..., np.ndarray]] = {
    ("relu", 0): lambda x: x > 0,
    ("relu6", 0): lambda x: _inside(x, 0, 6),
    ("clip", 2): _inside,
    ("leaky_relu", 1): lambda x, a: np.where(x > 0, 1, x.dtype.type(a)),
    ("elu", 1): lambda x, a: np.where(x > 0, 1, x.dtype.type(a) * np.exp(np.minimum(x, 0))),
    ("sigmoid", 0): lambda x: _sigmoid(x) * _sigmoid(-x),
    ("tanh", 0): lambda x: 1 - np.tanh(x) ** 2,
    ("silu", 0): _swish,
    ("swish", 1): _swish,
    ("mish", 0): _mish,
    ("gelu_tanh", 0): _gelu_tanh,
    ("hardswish", 0): _hardswish,
    ("hardsigmoid", 2): lambda x, a, b: x.dtype.type(a) * _inside(x * x.dtype.type(a) + x.dtype.type(b), 0, 1),
    ("softplus", 0): _sigmoid,
}


@takes_torch
def activation_input(
    x, grad_output, activation, *, layout=None, grad_layout=None, shape=None, dtype=None, out=None, threads=None
) -> Any:
    """The gradient of the input of an activation: `grad_output` times its slope at `x`.

    At Inf and -Inf the slope is its limit: of "silu" and those like it 1 and 0. That of NaN is NaN.

    Parameters
    ----------
    x : array_like of float32, float64, float16 or bfloat16 (of ml_dtypes), or Tensor
        What the activation was applied to, in `layout`.
    grad_output : array_like of the type of `x`, or Tensor
        The gradient of its result, in `grad_layout`.
    activation : str or tuple
        A name, or a name and numbers, as of `conv2d`: {NAMES}.
    layout, grad_layout : str or Layout, optional
        Of `x` and the result, "NCHW" or that of a `Tensor`; of `grad_output`, the same by default. Any rank.
    shape : sequence of int, optional
        The logical shape of `x`, where blocks are padded.
    dtype : optional
        ``("bfloat16", "bfloat16")`` takes uint16 as bfloat16.
    out : ndarray or Tensor, optional
        Where to write. It may be `x` or `grad_output`, if that is in `layout`.
    threads : int, optional
        Of reorders; the rest is NumPy's.

    Returns
    -------
    ndarray of the type of `x`, or Tensor
        `out`, or a new one; a `Tensor` if `x` is one.

    Raises
    ------
    TypeError
        `x` is not of floats, or `grad_output` of another type.
    ValueError
        The activation is not known; shapes, layouts or `out` do not fit.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> lk.grad.activation_input(np.array([-1, 2.0]), np.array([5.0, 7.0]), "relu", layout="a").tolist()
    [0.0, 7.0]
    """
    what = "grad.activation_input"
    name, *numbers = activation if isinstance(activation, tuple | list) and activation else (activation,)
    slope = DERIVATIVES.get((name, len(numbers))) if isinstance(name, str) else None
    if slope is None or not all(isinstance(n, int | float | np.number) for n in numbers):
        close = near(name, (activation for activation, _ in DERIVATIVES))
        hint = f"; did you mean {close!r}?" if close and close != name else ""
        raise ValueError(f"{what}: activation {activation!r}: expected {_names()}{hint}")
    layout = layout_for(x, layout)
    layout = Layout("NCHW" if layout is None else layout)
    source = tensor_argument(x, layout, shape, f"{what}: x")
    grad_layout = layout_for(grad_output, grad_layout)
    gradient = tensor_argument(
        grad_output, layout if grad_layout is None else grad_layout, source.shape, f"{what}: grad_output"
    )
    element = float_types(source.array, dtype, what).elements[0]
    check_same_type(gradient.array, source.array, what)
    threads, dense = check_threads(threads), layout.dense
    dy = gradient.array
    if gradient.layout.dense != dense:
        dy = reorder(dy, gradient.layout.dense, dense, shape=source.shape, threads=threads)
    to = result_array(out, dense, source.shape, source.array.dtype, (), what)
    wide = dtype_of(TYPES[element].elements[2])
    problem = f"{what} {sizes_text(source.shape)} {dense} {element} {name}"
    watched(lambda: CallInfo(what, problem, "element by element", 1), _fill, source.array, dy, to,
             lambda v: _with_nan(v, slope(v, *map(float, numbers))), element, wide)  # fmt: skip
    if dense.full_shape(source.shape) != source.shape:  # pads may hold anything
        reorder(to.copy(), dense, dense, shape=source.shape, out=to, threads=threads)
    return returned(to, dense, source.shape, x, out)


def _with_nan(x: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """The slopes at x; that of NaN is NaN."""
    nan = np.isnan(x)
    return np.where(nan, x, slopes) if nan.any() else slopes


def _fill(x, dy, to, slope: Callable[[np.ndarray], np.ndarray], element: str, wide: np.dtype) -> None:
    """``dy * slope(x)`` in `to`, some elements at a time."""
    narrow = conversion_of((element, TYPES[element].elements[2])) is not None
    parts = np.nditer(
        [x, dy, to], ["external_loop", "buffered", "delay_bufalloc", "zerosize_ok"],
        [["readonly"], ["readonly"], ["writeonly", "no_broadcast"]], buffersize=CHUNK, order="K",
    )  # fmt: skip
    with parts, np.errstate(over="ignore", invalid="ignore", under="ignore"):
        parts.reset()
        for a, b, c in parts:
            if narrow:
                a, b = (v.view(dtype_of(element)).astype(wide) for v in (a, b))
                c[...] = (b * slope(a)).astype(dtype_of(element)).view(c.dtype)
            else:
                np.multiply(b, slope(a), out=c)


def _names() -> str:
    spelled = [repr(name) if not n else f"({name!r}{', a, b'[: 3 * n]})" for name, n in DERIVATIVES]
    return ", ".join(spelled)


activation_input.__doc__ = str(activation_input.__doc__).replace("{NAMES}", _names())
