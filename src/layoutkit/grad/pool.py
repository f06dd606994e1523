"""Pooling over windows and its gradients, in any layout.

Layouts with channels innermost, whole or in blocks, are pooled directly, and so are planes of float32 whose rows are
contiguous; others, and gradients of these, through channels last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._core.nests.images.pooling import PlanePooling, pool, pool_back
from ..choosing import repeats
from ..choosing.repeats import repeated
from ..choosing.threads import check_threads
from ..choosing.watching import CallInfo, watched
from ..convolutions.algorithms.base import CHANNELS_LAST
from ..convolutions.problem import pad_pairs, per_axis, sizes_text
from ..convolutions.types import conversion_of, dtype_of
from ..formats.families import meaning_of_activations
from ..formats.layout import Layout
from ..graph.operators.pool import counts
from ..graph.operators.windows import window
from ..memory.arguments import Argument, layout_for, result_array, returned
from ..memory.arrays import as_out, empty
from ..memory.foreign import takes_torch
from ..memory.tensor import Tensor
from ..reorders.reorder import reorder
from ..signatures import like, with_parameters
from .arguments import activations, check_same_type, float_types, sizes

Windows = list[tuple[int, int, int, int]]  # kernel, stride, dilation, padding before, of three axes


class Pooling(NamedTuple):
    """A checked call."""

    what: str
    source: Argument
    element: str
    windows: Windows
    scales: list[np.ndarray] | None  # of means: by axis and output
    shape: tuple[int, ...]  # of the result
    threads: int

    @property
    def layout(self) -> Layout:
        """Of x and the result."""
        return self.source.layout.dense

    def call_info(self) -> CallInfo:
        """What watchers are told of a call."""
        kernel, stride, dilation, _ = zip(*self.windows[3 - len(self.source.shape[2:]) :])
        problem = (
            f"{self.what} {sizes_text(self.source.shape)} {self.layout} {self.element} k{sizes_text(kernel)} "
            f"s{sizes_text(stride)} d{sizes_text(dilation)} t{self.threads}"
        )
        last = pooled_layout(self.layout)
        direct = last == self.layout or (not self.what.startswith("grad.") and in_planes(self, self.source.array))
        return CallInfo(self.what, problem, "pooling" if direct else f"pooling via {last}", self.threads)


@dataclass(frozen=True)
class WindowAttributes:
    """Attributes of windows as they were given: see `max_pool2d` and `avg_pool2d` for the parameters."""

    stride: Any = None
    padding: Any = 0
    dilation: Any = 1
    ceil_mode: bool = False
    count_include_pad: bool = True


def checked(what, rank, mean, x, kernel, *, layout=None, shape=None, dtype=None, threads=None, **windows) -> Pooling:
    """Check what `max_pool2d` or `avg_pool2d` was given."""
    source = activations(x, layout, shape, rank, what, ("x", "layout"))
    element = float_types(source.array, dtype, what).elements[0]
    size = source.shape[2:]
    kernel, a = per_axis(kernel, rank, f"{what}: kernel", 1), WindowAttributes(**windows)
    stride = kernel if a.stride is None else per_axis(a.stride, rank, f"{what}: stride", 1)
    dilation = per_axis(a.dilation, rank, f"{what}: dilation", 1)
    pads = pad_pairs(a.padding, size, kernel, stride, dilation, f"{what}: padding")
    node = dict(  # as that of ONNX has them
        kernel_shape=kernel, strides=stride, dilations=dilation, pads=[p for side in zip(*pads) for p in side],
        ceil_mode=bool(a.ceil_mode), count_include_pad=bool(a.count_include_pad),
    )  # fmt: skip
    try:
        geometry = window(node, size)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    more = 3 - rank
    axes = [(1, 1, 1, 0)] * more + [(k, s, d, p) for k, s, d, (p, _) in zip(kernel, stride, dilation, pads)]
    scales = None
    if mean:
        wide = np.float64 if element == "f64" else np.float32
        elements = [[1]] * more + counts(node, size)
        scales = [np.reciprocal(np.maximum(c, 1).astype(wide)) for c in elements]
    return Pooling(what, source, element, axes, scales, (*source.shape[:2], *geometry.out), check_threads(threads))


def in_place(layout: Layout) -> bool:
    """Whether channels are innermost, whole or in blocks, and no other dimension is blocked."""
    dims = [f.dim for f in layout.factors]
    whole = dims.count(1) == 1 or layout.factors[-1].size > 0
    return dims[-1] == 1 and whole and dims.count(1) <= 2 and len(dims) - dims.count(1) == layout.rank - 1


def axes6(array: np.ndarray, layout: Layout) -> np.ndarray:
    """A view with axes image, run of channels, depth, height, width, channel."""
    dims = [f.dim for f in layout.factors]
    order = [dims.index(0), *[dims.index(d) for d in range(2, layout.rank)], len(dims) - 1]
    if dims.count(1) == 2:
        order.insert(1, dims.index(1))
    view = array.transpose(order)
    if dims.count(1) == 1:
        view = view[:, None]
    return view[(slice(None), slice(None), *[None] * (5 - layout.rank))]


def pooled_layout(layout: Layout) -> Layout:
    """The layout in which an array is pooled: its own, or channels last."""
    return layout if in_place(layout) else Layout(CHANNELS_LAST[layout.rank])


def converted_to(
    array: np.ndarray, layout: Layout, shape: Sequence[int], element: str, to: Layout, wide: str, threads: int
):
    """An array of such elements in layout `to`, of elements `wide`: the same one if it is that, else a new one."""
    element_type = dtype_of(element)
    if element == wide and to == layout and aligned(array, element_type.itemsize):
        return array.view(element_type)
    return reorder(array, layout, to, shape=shape, dtype=conversion_of((element, wide)), threads=threads)


def aligned(array: np.ndarray, width: int) -> bool:
    """Whether channels follow one another, and all else is whole elements apart."""
    return (array.shape[-1] == 1 or array.strides[-1] == width) and all(s % width == 0 for s in array.strides)


@repeated
def _pool(x, what, rank, mean, kernel, out=None, **attributes) -> Any:
    if isinstance(x, np.ndarray) and x.ndim == rank + 1:
        layout = Layout(attributes.get("layout") or meaning_of_activations(rank))
        if layout.is_plain:  # a single input, without the axis of the batch
            at = layout.digits(0)[0]
            to = None if out is None else np.expand_dims(as_out(out, what), at)
            y = _pool(np.expand_dims(x, at), what, rank, mean, kernel, to, **attributes)
            return y.squeeze(at) if out is None else out
    p = checked(what, rank, mean, x, kernel, **attributes)
    to = result_array(out, p.layout, p.shape, p.source.array.dtype, (p.source.array,), what)
    if to.size:
        watched(p.call_info, pooled, p, to)
    return returned(to, p.layout, p.shape, x, out)


def in_planes(p: Pooling, *arrays: np.ndarray) -> bool:
    """Whether these can be pooled as planes: of float32, rows of pixels contiguous."""
    plain = p.layout.is_plain and [f.dim for f in p.layout.factors] == list(range(p.layout.rank))
    return plain and p.element == "f32" and all(aligned(a, 4) for a in arrays)


def pooled(p: Pooling, to: np.ndarray) -> None:
    """Pool into `to`, which is not empty."""
    if in_planes(p, p.source.array, to):
        between = (slice(None), slice(None), *[None] * (5 - to.ndim))
        arrays = p.source.array, to
        planes = PlanePooling(arrays, [a[between] for a in arrays], p.windows, p.scales, p.threads)
        repeats.run(planes, *arrays)
        return
    last = pooled_layout(p.layout)
    array = converted_to(p.source.array, p.layout, p.source.shape, p.element, last, p.element, p.threads)

    element, windows, scales, threads = p.element, p.windows, p.scales, p.threads

    def nest(x: np.ndarray, y: np.ndarray) -> None:  # which may be kept: without p, which has an array
        pool(element, axes6(x, last), axes6(y, last), windows, scales, threads)

    def run(result: np.ndarray) -> None:
        repeats.run(nest, array, result)

    _write(p, run, to, last, p.shape, p.element)


def _pool_back(what, rank, mean, x, grad_output, kernel, grad_layout=None, out=None, **attributes) -> Any:
    p = checked(what, rank, mean, x, kernel, **attributes)
    dy = activations(grad_output, grad_layout, p.shape, rank, what, ("grad_output", "grad_layout"), p.layout)
    check_same_type(dy.array, p.source.array, what)
    size = p.source.shape
    to = result_array(out, p.layout, size, p.source.array.dtype, (p.source.array, dy.array), what)
    if to.size:
        watched(p.call_info, pooled_back, p, mean, dy, to)
    return returned(to, p.layout, size, x, out)


def pooled_back(p: Pooling, mean: bool, grad: Argument, to: np.ndarray) -> None:
    """The gradient of the input, into `to`, which is not empty."""
    wide, last, size = ("f64" if p.element == "f64" else "f32"), pooled_layout(p.layout), p.source.shape
    if mean:  # only its shape counts
        array = np.broadcast_to(np.zeros((), dtype_of(wide)), last.physical_shape(size))
    else:
        array = converted_to(p.source.array, p.layout, size, p.element, last, wide, p.threads)
    gradient = converted_to(grad.array, grad.layout.dense, p.shape, p.element, last, wide, p.threads)

    def run(result: np.ndarray) -> None:
        x, dy, dx = (axes6(a, last) for a in (array, gradient, result))
        pool_back(wide, x, dy, dx, p.windows, p.scales, p.threads)

    _write(p, run, to, last, size, wide)


def _write(
    p: Pooling, run: Callable[[np.ndarray], None], to: np.ndarray, last: Layout, shape: tuple[int, ...], element: str
) -> None:
    """Let `run` write an array in layout `last`, of such elements: `to` itself, or one that is reordered to it."""
    view, channels = to.view(dtype_of(p.element)), shape[1]
    if last == p.layout and element == p.element and aligned(view, view.itemsize):
        run(view)
        rest = channels % last.block(1)
        if rest:
            repeats.not_again()
            axes6(view, last)[:, -1, ..., rest:] = 0
        return
    result = empty(last.physical_shape(shape), dtype_of(element), p.what)
    run(result)
    reorder(result, last, p.layout, shape=shape, out=view, dtype=conversion_of((element, p.element)), threads=p.threads)


@takes_torch
def max_pool2d(
    x, kernel, *, stride=None, padding=0, dilation=1, ceil_mode=False, layout=None, shape=None, dtype=None, out=None,
    threads=None,
) -> Any:  # fmt: skip
    """The largest of each window, as in torch, in the layout that the data has.

    Parameters
    ----------
    x : array_like of float32, float64, float16 or bfloat16 (of ml_dtypes), torch tensor, or Tensor
        Its axes are the physical axes of `layout`, or of a plain one all of them but the batch's. Any strides.
    kernel : int or pair of int
        Sizes of the window.
    stride : int or pair of int, optional
        `kernel` by default.
    padding : int, pair of int, or pairs of (before, after)
        Padding is never the largest. A window of nothing else gives -Inf.
    dilation : int or pair of int
        Distance of the elements of a window.
    ceil_mode : bool
        Windows that reach over the end count, too, if they begin before it.
    layout : str or Layout, optional
        Of `x` and the result: "NCHW", or that of a `Tensor`. Where channels are not innermost both are reordered.
    shape : sequence of int, optional
        The logical shape of `x`, where blocks are padded. Pads of the result are zeros.
    dtype : optional
        ``("bfloat16", "bfloat16")`` takes uint16 as bfloat16.
    out : ndarray or Tensor, optional
        Where to write; it must not overlap `x`.
    threads : int, optional
        At most this many threads.

    Returns
    -------
    ndarray of the type of `x`, or Tensor
        `out`, or a new one; a `Tensor` if `x` is one. NaN stays NaN.

    Raises
    ------
    TypeError, ValueError
        Before anything is written: types, shapes, layouts or attributes do not fit.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> lk.max_pool2d(x, 2).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """
    return _pool(
        x, "max_pool2d", 2, False, kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode,
        layout=layout, shape=shape, dtype=dtype, out=out, threads=threads,
    )  # fmt: skip


@like(max_pool2d, 1)
@takes_torch
def max_pool1d(x, kernel, **attributes) -> Any:
    return _pool(x, "max_pool1d", 1, False, kernel, **attributes)


@like(max_pool2d, 3)
@takes_torch
def max_pool3d(x, kernel, **attributes) -> Any:
    return _pool(x, "max_pool3d", 3, False, kernel, **attributes)


_OF_MEANS = """\
padding : int, pair of int, or pairs of (before, after)
    Zeros, which count or not as `count_include_pad` says.
"""
_AND_WHAT_COUNTS = """\
ceil_mode : bool
    Windows that reach over the end count, too, if they begin before it.
count_include_pad : bool
    Whether means are over the padding too; otherwise they are over what there is of `x` in the window.
"""


@with_parameters(max_pool2d, padding=_OF_MEANS, ceil_mode=_AND_WHAT_COUNTS)
@takes_torch
def avg_pool2d(
    x, kernel, *, stride=None, padding=0, dilation=1, ceil_mode=False, count_include_pad=True, layout=None, shape=None,
    dtype=None, out=None, threads=None,
) -> Any:  # fmt: skip
    """The mean of each window, as in torch, in the layout that the data has.

    Parameters
    ----------
    {PARAMETERS}

    Returns
    -------
    ndarray of the type of `x`, or Tensor
        `out`, or a new one; a `Tensor` if `x` is one. Sums are made in the type of `x`, of float16 and bfloat16 in
        float32.

    Raises
    ------
    TypeError, ValueError
        Before anything is written: types, shapes, layouts or attributes do not fit.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> lk.avg_pool2d(np.ones((1, 1, 2, 4), np.float32), 2, padding=(0, 1)).tolist()
    [[[[0.5, 1.0, 0.5]]]]
    """
    return _pool(
        x, "avg_pool2d", 2, True, kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode,
        count_include_pad=count_include_pad, layout=layout, shape=shape, dtype=dtype, out=out, threads=threads,
    )  # fmt: skip


@like(avg_pool2d, 1)
@takes_torch
def avg_pool1d(x, kernel, **attributes) -> Any:
    return _pool(x, "avg_pool1d", 1, True, kernel, **attributes)


@like(avg_pool2d, 3)
@takes_torch
def avg_pool3d(x, kernel, **attributes) -> Any:
    return _pool(x, "avg_pool3d", 3, True, kernel, **attributes)


_X_AND_GRADIENT = """\
x : array_like of float32, float64, float16 or bfloat16 (of ml_dtypes), or Tensor
    What was pooled, in `layout`.
grad_output : array_like of the type of `x`, or Tensor
    The gradient of the result, in `grad_layout`.
"""
_SIZE_AND_GRADIENT = """\
input_size : sequence of int
    The logical shape of the input, (N, C, height, width).
grad_output : array_like of float32, float64, float16 or bfloat16 (of ml_dtypes), or Tensor
    The gradient of the result, in `grad_layout`.
"""
_LAYOUTS = """\
layout, grad_layout : str or Layout, optional
    Of the input and its gradient, and of `grad_output`: each is as the other by default, both "NCHW" if none is given.
    A `Tensor` has its own.
"""
_WITHOUT_SHAPE = """\
dtype : optional
    ``("bfloat16", "bfloat16")`` takes uint16 as bfloat16.
"""


@with_parameters(max_pool2d, x=_X_AND_GRADIENT, layout=_LAYOUTS)
@takes_torch
def max_pool2d_input(
    x, grad_output, kernel, *, stride=None, padding=0, dilation=1, ceil_mode=False, layout=None, grad_layout=None,
    shape=None, dtype=None, out=None, threads=None,
) -> Any:  # fmt: skip
    """The gradient of the input of `max_pool2d`: each element of `grad_output` goes to the first largest of its window.

    Parameters
    ----------
    {PARAMETERS}

    Returns
    -------
    ndarray of the type of `x`, or Tensor
        `out`, or a new one; a `Tensor` if `x` is one.

    Raises
    ------
    TypeError, ValueError
        Before anything is written: types, shapes, layouts or attributes do not fit.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> x = np.array([[[[1, 3, 2, 4]]]], np.float32)
    >>> lk.grad.max_pool2d_input(x, np.array([[[[10, 20]]]], np.float32), (1, 2)).tolist()
    [[[[0.0, 10.0, 0.0, 20.0]]]]
    """
    return _pool_back(
        "grad.max_pool2d_input", 2, False, x, grad_output, kernel, stride=stride, padding=padding, dilation=dilation,
        ceil_mode=ceil_mode, layout=layout, grad_layout=grad_layout, shape=shape, dtype=dtype, out=out, threads=threads,
    )  # fmt: skip


@like(max_pool2d_input, 1)
@takes_torch
def max_pool1d_input(x, grad_output, kernel, **attributes) -> Any:
    what = "grad.max_pool1d_input"
    return _pool_back(what, 1, False, x, grad_output, kernel, **attributes)


@like(max_pool2d_input, 3)
@takes_torch
def max_pool3d_input(x, grad_output, kernel, **attributes) -> Any:
    what = "grad.max_pool3d_input"
    return _pool_back(what, 3, False, x, grad_output, kernel, **attributes)


@with_parameters(avg_pool2d, x=_SIZE_AND_GRADIENT, layout=_LAYOUTS, shape=_WITHOUT_SHAPE, dtype="")
@takes_torch
def avg_pool2d_input(
    input_size, grad_output, kernel, *, stride=None, padding=0, dilation=1, ceil_mode=False, count_include_pad=True,
    layout=None, grad_layout=None, dtype=None, out=None, threads=None,
) -> Any:  # fmt: skip
    """The gradient of the input of `avg_pool2d`: each element of `grad_output` is shared among those of its window.

    Parameters
    ----------
    {PARAMETERS}

    Returns
    -------
    ndarray of the type of `grad_output`, or Tensor
        `out`, or a new one; a `Tensor` if `grad_output` is one.

    Raises
    ------
    TypeError, ValueError
        Before anything is written: types, shapes, layouts or attributes do not fit.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> lk.grad.avg_pool2d_input((1, 1, 1, 4), np.array([[[[10, 20]]]], np.float32), (1, 2)).tolist()
    [[[[5.0, 5.0, 10.0, 10.0]]]]
    """
    return _avg_back(
        "grad.avg_pool2d_input", 2, input_size, grad_output, kernel, stride=stride, padding=padding, dilation=dilation,
        ceil_mode=ceil_mode, count_include_pad=count_include_pad, layout=layout, grad_layout=grad_layout, dtype=dtype,
        out=out, threads=threads,
    )  # fmt: skip


@like(avg_pool2d_input, 1)
@takes_torch
def avg_pool1d_input(input_size, grad_output, kernel, **attributes) -> Any:
    return _avg_back("grad.avg_pool1d_input", 1, input_size, grad_output, kernel, **attributes)


@like(avg_pool2d_input, 3)
@takes_torch
def avg_pool3d_input(input_size, grad_output, kernel, **attributes) -> Any:
    return _avg_back("grad.avg_pool3d_input", 3, input_size, grad_output, kernel, **attributes)


def _avg_back(what, rank, input_size, grad_output, kernel, layout=None, grad_layout=None, **attributes) -> Any:
    grad_layout = layout_for(grad_output, grad_layout)
    layout = grad_layout if layout is None else layout
    layout = Layout(meaning_of_activations(rank) if layout is None else layout).dense
    size = sizes(input_size, rank, f"{what}: input_size")
    dtype = grad_output.array.dtype if isinstance(grad_output, Tensor) else np.asarray(grad_output).dtype
    x: Any = np.broadcast_to(np.zeros((), dtype), layout.physical_shape(size))  # only its shape counts
    if isinstance(grad_output, Tensor):
        x = Tensor(x, layout, size)
        return _pool_back(what, rank, True, x, grad_output, kernel, grad_layout=grad_layout, **attributes)
    return _pool_back(what, rank, True, x, grad_output, kernel, layout=layout, shape=size, grad_layout=grad_layout,
                      **attributes)  # fmt: skip
