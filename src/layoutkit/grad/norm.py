"""Batch normalisation and its gradients, in any layout.

    y = weight * (x - mean) / sqrt(variance + eps) + bias      by channel

In NCHW, NHWC, nChw16c and their siblings a nest of its own computes it, `_core/nests/norms/batch_norm.pyx`. Float64 and
other layouts are computed by depthwise 1x1 convolutions and the gradients of their filters and biases, where numbers
narrower than float32 are widened to it first.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from .._core.nests.norms import batch_norm as nest
from ..choosing.threads import check_threads
from ..choosing.watching import CallInfo, watched
from ..convolutions.conv import CLASSES
from ..convolutions.problem import sizes_text
from ..convolutions.types import TYPES, conversion_of, dtype_of
from ..formats.layout import Layout
from ..memory.arguments import Argument, layout_for, logical, result_array, returned
from ..memory.foreign import takes_torch
from ..reorders.reorder import reorder
from . import bias as of_bias
from . import weight as of_weight
from .arguments import activations, check_same_type, float_types
from .norm_axes import four_axes, views


class Norm(NamedTuple):
    """A checked call."""

    what: str
    source: Argument  # of x
    element: str
    rank: int
    threads: int

    @property
    def layout(self) -> Layout:
        """Of x and the result."""
        return self.source.layout.dense

    def call_info(self) -> CallInfo:
        """What watchers are told of a call."""
        problem = f"{self.what} {sizes_text(self.source.shape)} {self.layout} {self.element} t{self.threads}"
        return CallInfo(self.what, problem, "by channel", self.threads)

    @property
    def channels(self) -> int:
        return self.source.shape[1]

    def by_channel(self, value: Any, name: str, default: float) -> np.ndarray:
        """An argument that has a number for each channel, in double precision."""
        if value is None:
            return np.full(self.channels, float(default))
        numbers = np.asarray(logical(value, f"{self.what}: {name}"))
        if numbers.shape != (self.channels,) or numbers.dtype.kind not in "fiu":
            raise ValueError(
                f"{self.what}: {name}: expected {self.channels} numbers, got {numbers.dtype} of shape {numbers.shape}"
            )
        return numbers.astype(float)

    def scaled(self, x: np.ndarray, factor: np.ndarray, offset: np.ndarray | None, add: np.ndarray | None = None):
        """``factor * x + offset + add`` by channel, a new array like `x`."""
        one = (1,) * self.rank
        filters = np.broadcast_to(factor.astype(x.dtype), (1, self.channels)).T.reshape(self.channels, 1, *one)
        op = CLASSES[self.rank](
            np.ascontiguousarray(filters), None if offset is None else offset.astype(x.dtype), groups=self.channels,
            layout=self.layout, accuracy="strict", threads=self.threads,
        )  # fmt: skip
        return op(x, add=add, shape=self.source.shape)

    def sums(self, x: np.ndarray) -> np.ndarray:
        """Over images and pixels."""
        run = {1: of_bias.conv1d_bias, 2: of_bias.conv2d_bias, 3: of_bias.conv3d_bias}[self.rank]
        return run(x, layout=self.layout, shape=self.source.shape, threads=self.threads).astype(float)

    def products(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Sums of the products of elements."""
        run = {1: of_weight.conv1d_weight, 2: of_weight.conv2d_weight, 3: of_weight.conv3d_weight}[self.rank]
        size = (self.channels, 1, *(1,) * self.rank)
        sums = run(
            x, size, y, groups=self.channels, layout=self.layout, shape=self.source.shape, grad_shape=self.source.shape,
            accuracy="strict", threads=self.threads,
        )  # fmt: skip
        return sums.reshape(-1).astype(float)

    @property
    def elements(self) -> int:
        """Of a channel."""
        return self.source.shape[0] * prod(self.source.shape[2:])

    def written(self, computed: np.ndarray, out: Any, x: Any, *inputs: np.ndarray) -> Any:
        """A result in the type of `x`, in `out` or as a new array or Tensor."""
        shape = self.source.shape
        element = self.source.array.dtype
        narrow = conversion_of((TYPES[self.element].elements[2], self.element))
        if out is None and narrow is None:
            return returned(computed, self.layout, shape, x, out)
        to = result_array(out, self.layout, shape, element, inputs, self.what)
        view = to.view(dtype_of(self.element))
        reorder(computed, self.layout, self.layout, shape=shape, out=view, dtype=narrow, threads=self.threads)
        return returned(to, self.layout, shape, x, out)


def _checked(what: str, x, layout, shape, dtype, threads) -> Norm:
    layout = layout_for(x, layout)
    layout = Layout("NCHW" if layout is None else layout)
    rank = layout.rank - 2
    if rank not in CLASSES:
        raise ValueError(f"{what}: layout {layout} has {layout.rank} dimensions, expected 3 to 5")
    source = activations(x, layout, shape, rank, what, ("x", "layout"))
    if not source.shape[1]:
        raise ValueError(f"{what}: x of shape {source.shape} has no channels")
    return Norm(what, source, float_types(source.array, dtype, what).elements[0], rank, check_threads(threads))


def _widened(tensor: Argument, element: str, threads: int) -> np.ndarray:
    wide = conversion_of((element, TYPES[element].elements[2]))
    if wide is None:
        return tensor.array
    layout = tensor.layout.dense
    return reorder(
        tensor.array.view(dtype_of(element)), layout, layout, shape=tensor.shape, dtype=wide, threads=threads
    )


def _given(n: Norm, mean: Any, variance: Any, eps: float) -> tuple[np.ndarray, np.ndarray] | None:
    """Mean and variance, checked; None for those of the batch."""
    if (mean is None) != (variance is None):
        raise ValueError(f"{n.what}: mean and variance: expected both, or neither for those of the batch")
    if mean is None and not n.elements:
        raise ValueError(f"{n.what}: x of shape {n.source.shape} has no elements to take the mean of")
    given = None if mean is None else (n.by_channel(mean, "mean", 0), n.by_channel(variance, "variance", 1))
    if not eps >= 0 or (given is not None and (given[1] + eps < 0).any()):
        raise ValueError(f"{n.what}: variance + eps is negative, or eps ({eps!r}) is")
    return given


def _statistics(n: Norm, x: np.ndarray, given: Any, eps: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, ``x - mean``, and ``1 / sqrt(variance + eps)``."""
    average = n.sums(x) / n.elements if given is None else given[0]
    centred = n.scaled(x, np.ones(n.channels), -average)
    spread = n.products(centred, centred) / n.elements if given is None else given[1]
    with np.errstate(divide="ignore"):
        return average, centred, 1 / np.sqrt(spread + eps)


def _seen(n: Norm, out: Any, *gradients: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """The array of the result, and what the nest sees: x, the result and gradients; None if it cannot."""
    sizes = four_axes(n.layout, n.source.shape) if n.element in nest.WIDTHS else []
    if not sizes:
        return None
    x = n.source.array
    to = result_array(out, n.layout, n.source.shape, x.dtype, (x, *gradients), n.what)
    seen = views((x, to, *gradients), sizes)
    return None if seen is None else (to, seen)


@takes_torch
def batch_norm(
    x, weight=None, bias=None, *, mean=None, variance=None, eps=1e-5, layout=None, shape=None, dtype=None, out=None,
    threads=None,
) -> Any:  # fmt: skip
    """``weight * (x - mean) / sqrt(variance + eps) + bias`` by channel, in the layout that the data has.

    Parameters
    ----------
    x : array_like of float32, float64, float16 or bfloat16 (of ml_dtypes), or Tensor
        Its axes are the physical axes of `layout`, which is of N, C and one to three spatial dimensions. Any strides.
    weight, bias : array_like, optional
        (C,), 1 and 0 by default.
    mean, variance : array_like, optional
        (C,): those of training. By default those of `x`: the variance is the mean of squares, as torch normalises by.
    eps : float, optional
    layout, shape, dtype, out, threads
        As of `max_pool2d`.

    Returns
    -------
    ndarray of the type of `x`, or Tensor
        `out`, or a new one; a `Tensor` if `x` is one.

    Raises
    ------
    TypeError, ValueError
        Types, shapes or layouts do not fit.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> lk.batch_norm(np.array([[[[1, 3]]]], np.float32), eps=0).tolist()
    [[[[-1.0, 1.0]]]]
    """
    n = _checked("batch_norm", x, layout, shape, dtype, threads)
    factor, offset = n.by_channel(weight, "weight", 1), n.by_channel(bias, "bias", 0)

    given = _given(n, mean, variance, eps)

    def run() -> Any:
        if (seen := _seen(n, out)) is not None:
            to, (source, y) = seen
            average, spread = given or (np.empty(n.channels), np.empty(n.channels))
            nest.batch_norm(
                n.element, source, y, factor, offset, average, spread, eps, n.threads, given=given is not None
            )  # fmt: skip
            return returned(to, n.layout, n.source.shape, x, out)
        _, centred, inverse = _statistics(n, _widened(n.source, n.element, n.threads), given, eps)
        return n.written(n.scaled(centred, factor * inverse, offset), out, x, n.source.array)

    return watched(n.call_info, run)


@takes_torch
def batch_norm_gradients(
    x, grad_output, weight=None, *, mean=None, variance=None, eps=1e-5, layout=None, grad_layout=None, shape=None,
    dtype=None, out=None, threads=None,
) -> tuple[Any, np.ndarray, np.ndarray]:  # fmt: skip
    """The gradients of `batch_norm`, all of them, since they need the same sums.

    Parameters
    ----------
    x, weight, mean, variance, eps, layout, shape, dtype, threads
        As of `batch_norm`: without `mean` and `variance` those of the batch depend on `x`, as in training.
    grad_output : array_like of the type of `x`, or Tensor
        The gradient of the result, in `grad_layout`.
    grad_layout : str or Layout, optional
        That of `x` by default.
    out : ndarray or Tensor, optional
        Where to write the gradient of `x`.

    Returns
    -------
    grad_x : ndarray of the type of `x`, or Tensor
    grad_weight, grad_bias : ndarray
        (C,), of the type that sums are computed in: float32, or float64.

    Raises
    ------
    TypeError, ValueError
        Types, shapes or layouts do not fit.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> x, dy = np.array([[[1, 3]]], np.float32), np.array([[[5, 7]]], np.float32)
    >>> dx, dw, db = lk.grad.batch_norm(x, dy, eps=0, layout="NCW")
    >>> dx.tolist(), dw.tolist(), db.tolist()
    ([[[0.0, 0.0]]], [2.0], [12.0])
    """
    n = _checked("grad.batch_norm", x, layout, shape, dtype, threads)
    names = "grad_output", "grad_layout"
    gradient = activations(grad_output, grad_layout, n.source.shape, n.rank, n.what, names, n.layout)
    check_same_type(gradient.array, n.source.array, n.what)
    factor = n.by_channel(weight, "weight", 1)
    return watched(n.call_info, _gradients, n, gradient, factor, _given(n, mean, variance, eps), eps, out, x)


def _gradients(n: Norm, gradient: Argument, factor: np.ndarray, given: Any, eps: float, out: Any, x: Any):
    """Of x, weight and bias."""
    dy = gradient.array
    if gradient.layout.dense != n.layout:
        dy = reorder(dy, gradient.layout.dense, n.layout, shape=n.source.shape, threads=n.threads)
    if (seen := _seen(n, out, dy)) is None:
        return _by_convolutions(n, Argument(dy, n.layout, n.source.shape), factor, given, eps, out, x)
    to, (source, dx, slopes) = seen
    average, spread = given or (np.empty(n.channels), np.empty(n.channels))
    if given is None:  # what it writes is overwritten below
        nest.batch_norm(n.element, source, dx, None, None, average, spread, eps, n.threads)
    products, sums = np.zeros(n.channels), np.zeros(n.channels)
    nest.batch_norm(
        n.element, source, dx, factor, None, average, spread, eps, n.threads, dy=slopes, sums=sums, products=products,
        given=given is not None,
    )  # fmt: skip
    wide = TYPES[n.element].sum
    return returned(to, n.layout, n.source.shape, x, out), products.astype(wide), sums.astype(wide)


def _by_convolutions(n: Norm, gradient: Argument, factor: np.ndarray, given: Any, eps: float, out: Any, x: Any):
    dy = _widened(gradient, n.element, n.threads)
    _, centred, inverse = _statistics(n, _widened(n.source, n.element, n.threads), given, eps)
    grad_offset, grad_factor = n.sums(dy), n.products(centred, dy) * inverse
    if given is None:
        slope = -factor * inverse**2 * grad_factor / n.elements
        add = n.scaled(centred, slope, None)
        dx = n.scaled(dy, factor * inverse, -factor * inverse * grad_offset / n.elements, add)
    else:
        dx = n.scaled(dy, factor * inverse, None)
    sums = TYPES[n.element].sum
    return n.written(dx, out, x, n.source.array, gradient.array), grad_factor.astype(sums), grad_offset.astype(sums)
