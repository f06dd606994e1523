"""Gradients of filters: check, plan, execute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._core.runtime import registry
from ..choosing.cache import plans
from ..choosing.plan import Plan, planner
from ..choosing.problem import Choice
from ..choosing.table import cost_table
from ..choosing.threads import check_threads
from ..choosing.watching import watched, watchers
from ..convolutions.calls import call_info, check_workspace, plan_of
from ..convolutions.filter import call_key, check_dimensions
from ..convolutions.order import reproducible
from ..convolutions.problem import ACCURACIES, ConvProblem, pad_pairs
from ..convolutions.route import Arrays
from ..convolutions.task import slowness
from ..convolutions.types import TYPES, ConvTypes, check_type, conversion_of, dtype_of, types_of
from ..formats.families import meaning_of_activations, meaning_of_filters
from ..formats.layout import Layout
from ..formats.nearest import none_of
from ..memory.arguments import Argument, layout_for, result_array, returned, tensor_argument
from ..memory.arrays import as_array, empty, strided
from ..memory.foreign import takes_torch
from ..memory.tensor import Tensor
from ..reorders.reorder import reorder
from ..signatures import like, with_parameters
from .accumulate import add_scaled, check_beta
from .algorithms import AUTO, NAMES
from .arguments import exchanged, outputs, sizes, split_groups, without_groups
from .attributes import WeightAttributes
from .task import WeightRoute, WeightTask, best_sums


class WeightGradient(NamedTuple):
    """A checked call: the gradient of a filter."""

    what: str
    problem: ConvProblem
    x: Any  # the array that the convolution reads
    dy: Any  # the gradient of what it writes
    layout: Layout  # of the result, the filter of the convolution
    size: tuple[int, ...]
    element: str
    dtype: np.dtype
    algorithm: str
    transposed: bool  # of a transposed convolution: `problem` is the convolution that it is the gradient of

    @property
    def result_layout(self) -> Layout:
        """Of the result, as the caller sees it: outputs come first in transposed convolutions, too."""
        return exchanged(self.layout) if self.transposed else self.layout

    @property
    def result_size(self) -> tuple[int, ...]:
        """Its logical shape, likewise."""
        return (self.size[1], self.size[0], *self.size[2:]) if self.transposed else self.size


def checked(what, rank, x, weight_size, grad_output, a: WeightAttributes, transposed: bool) -> WeightGradient:
    """Check what `conv2d_weight` was given; `transposed`: of a transposed convolution."""
    size = sizes(weight_size, rank, f"{what}: weight_size")
    a = a.checked(what, rank, transposed)
    if size[0] % a.groups:
        raise ValueError(f"{what}: weight_size {size}: {size[0]} channels do not divide into {a.groups} groups")
    for name, value, known in (("algorithm", a.algorithm, NAMES), ("accuracy", a.accuracy, ACCURACIES)):
        if value not in known:
            raise ValueError(none_of(f"{what}: {name}", value, known))
    names = meaning_of_activations(rank)
    layout = Layout(names) if (layout := layout_for(x, a.layout)) is None else Layout(layout)
    grad_layout = layout_for(grad_output, a.grad_layout)
    grad_layout = layout.dense if grad_layout is None else Layout(grad_layout)
    outer, inner = size[1] * a.groups, size[0]  # channels that the convolution reads and writes
    x_channels, dy_channels = (inner, outer) if transposed else (outer, inner)
    source = _tensor(x, layout, a.shape, x_channels, names, f"{what}: x")
    grad_shape = a.grad_shape
    if not transposed:
        pads = pad_pairs(a.padding, source.shape[2:], size[2:], a.stride, a.dilation, f"{what}: padding")
        if grad_shape is None:  # it follows from that of x
            grad_shape = source.shape[0], inner, *outputs(source.shape[2:], size[2:], a.stride, pads, a.dilation, what)
    after = _tensor(grad_output, grad_layout, grad_shape, dy_channels, names, f"{what}: grad_output")
    if transposed:
        pads = pad_pairs(a.padding, after.shape[2:], size[2:], a.stride, a.dilation, f"{what}: padding")
    types = types_of(source.array, a.dtype, f"{what}: x")
    if types.types.integers:
        raise TypeError(f"{what}: x of {source.array.dtype}: integers have no gradients")
    check_type(after.array, types.src, f"{what}: grad_output")
    src, dst = (after, source) if transposed else (source, after)
    names = meaning_of_filters(rank)
    default = ("io" + names[2:]) if transposed else names
    to = Layout(default if a.filter_layout is None else a.filter_layout)
    check_dimensions(to, names, f"{what}: filter_layout")
    if not to.is_dense:
        raise ValueError(f"{what}: filter_layout {to} has explicit strides; give them by out=")
    wide: ConvTypes = TYPES[types.types.elements[0]]
    p = ConvProblem(
        src.shape[0], outer, inner, src.shape[2:], size[2:], a.stride, pads, a.dilation, a.groups,
        src.layout.dense, dst.layout.dense, ACCURACIES[0] if reproducible() else a.accuracy, types=wide,
    )  # fmt: skip
    if dst.shape != p.dst_shape:
        first, second = ("grad_output", "x") if transposed else ("x", "grad_output")
        raise ValueError(
            f"{what}: a convolution of {first} of shape {src.shape} with filters of {size} has a result of shape "
            f"{p.dst_shape}, {second} has {dst.shape}"
        )
    return WeightGradient(what, p, src.array, dst.array, exchanged(to) if transposed else to.dense, size,
                 types.types.elements[3], types.dst, a.algorithm, transposed)  # fmt: skip


def _tensor(value, layout: Layout, shape: Sequence[int] | None, channels: int, names: str, what: str) -> Argument:
    """An argument of so many channels: without a `shape` only channels are pads."""
    check_dimensions(layout, names, f"{what}: layout")
    if isinstance(value, Tensor) or shape is not None:
        tensor = tensor_argument(value, layout, shape, what)
    else:
        tensor = tensor_argument(as_array(value, what), layout, None, what)
        exact = (tensor.shape[0], channels, *tensor.shape[2:])
        if layout.dense.physical_shape(exact) == tensor.array.shape:
            tensor = tensor._replace(shape=exact)
    if tensor.shape[1] != channels:
        raise ValueError(f"{what} of shape {tensor.shape} has {tensor.shape[1]} channels, weight_size says {channels}")
    return tensor


def _weight(
    what, rank, x, weight_size, grad_output, out=None, beta=0.0, threads=None, workspace=None, transposed=False,
    **attributes,
) -> Any:  # fmt: skip
    check_beta(beta, out, what)
    threads = check_threads(threads)
    key = call_key(what, (x, grad_output), dict(attributes, size=weight_size))
    gradient = None if key is None else plans.get(key)
    if gradient is None:
        gradient = checked(what, rank, x, weight_size, grad_output, WeightAttributes(**attributes), transposed)
        if key is not None:
            plans.put(key, gradient._replace(x=None, dy=None))
    else:
        arrays = (grad_output, x) if gradient.transposed else (x, grad_output)
        gradient = gradient._replace(x=arrays[0], dy=arrays[1])
    layout, size = gradient.result_layout, gradient.result_size
    to = result_array(out, layout, size, gradient.dtype, (gradient.x, gradient.dy), what)
    _compute(gradient, to, workspace, beta, threads)
    return returned(to, layout, size, x, out)


def _compute(gradient: WeightGradient, to: np.ndarray, workspace, beta: float, threads: int) -> None:
    if gradient.problem.fits and to.size:
        route = _route(gradient, threads)
        if workspace is not None:
            check_workspace(gradient.what, workspace, route.needs, (gradient.x, gradient.dy, to), None)
            workspace = workspace.reshape(-1).view(np.uint8)
        info = partial(call_info, gradient.what, _task(gradient, threads), threads)
        watched(info, write_sums, route, gradient, workspace, to, float(beta), threads)
    elif to.size and beta:
        add_scaled(None, to, gradient.layout, gradient.size, gradient.element, float(beta))
    else:
        to[...] = 0


def repeatable(
    what: str, rank: int, x: np.ndarray, weight_size: tuple[int, ...], grad_output: np.ndarray, threads: int,
    **attributes: Any,
) -> Callable[[np.ndarray, np.ndarray, np.ndarray], None]:  # fmt: skip
    """`conv2d_weight` of arrays like these: a function of `x`, `grad_output` and a result of the right shape and type,
    none of which it looks at."""
    kept = checked(what, rank, x, weight_size, grad_output, WeightAttributes(**attributes), False)
    arrays = Arrays(x.strides, grad_output.strides)
    kept = kept._replace(x=None, dy=None)
    sums = kept.problem.fits and prod(kept.size) > 0
    planned: tuple[Any, ...] = (None, None, None)

    def computed(x: np.ndarray, grad_output: np.ndarray, out: np.ndarray) -> None:
        nonlocal planned
        count = check_threads(threads)
        if watchers or not sums:
            _compute(kept._replace(x=x, dy=grad_output), out, None, 0.0, count)
            return
        key = count, cost_table.generation, registry.isa()
        found, route, written = planned
        if found != key:
            route = best_sums(_task(kept, count), arrays)
            written = Written.of(route, kept)
            planned = key, route, written
        written.write(route(x, grad_output, None), out, 0, count)

    return computed


def _task(gradient: WeightGradient, threads: int) -> WeightTask:
    return WeightTask(gradient.problem, threads, gradient.algorithm)


def _route(gradient: WeightGradient, threads: int) -> WeightRoute:
    return best_sums(_task(gradient, threads), Arrays(gradient.x.strides, gradient.dy.strides))


class Sums(Protocol):
    """What computes sums; `layout` and `shape` are theirs."""

    layout: Layout
    shape: tuple[int, ...]

    def __call__(self, x: np.ndarray, y: np.ndarray, workspace: np.ndarray | None = None) -> np.ndarray: ...


class Written(NamedTuple):
    """How sums become a gradient: all that does not depend on the numbers."""

    gradient: WeightGradient
    sums: Layout
    shape: tuple[int, ...]
    layout: Layout  # of the gradient, as they are written to it
    grouped: bool  # whether sums have an axis of groups
    number: tuple[str, str] | None  # the conversion

    @classmethod
    def of(cls, route: Sums, g: WeightGradient) -> Written:
        """That of the sums of a route."""
        number = conversion_of(({4: "f32", 8: "f64"}[g.problem.types.wide.sum.itemsize], g.element))
        if g.problem.groups == 1 and route.layout.block(0) == 1:
            return cls(g, without_groups(route.layout), route.shape[1:], g.layout, False, number)
        return cls(
            g, route.layout, route.shape, split_groups(g.layout) if g.layout.is_plain else g.layout, True, number
        )

    def write(self, sums: np.ndarray, out: np.ndarray, beta: float, threads: int) -> None:
        """Write sums to `out`, plus `beta` times what is there."""
        g, layout, shape = self.gradient, self.sums, self.shape
        out = out.view(dtype_of(g.element))  # bfloat16 may be held as bits
        if not self.grouped:
            sums = sums[0]
        elif g.layout.is_plain:
            out = _split(out, g)
        else:
            order = Layout("abcde"[: len(g.size)])
            plain = empty(g.size, sums.dtype, g.what)
            reorder(sums, layout, split_groups(order), shape=shape, out=plain.reshape(shape), threads=threads)
            sums, layout, shape = plain, order, g.size
        reorder(sums, layout, self.layout, shape=shape, out=out, dtype=self.number, threads=threads, beta=beta)


def write_sums(route: Sums, g: WeightGradient, workspace, out: np.ndarray, beta: float, threads: int) -> None:
    """Sum a gradient, and write it to `out` in its layout and type."""
    sums = route(g.x, g.dy, workspace)
    Written.of(route, g).write(sums, out, beta or 0, threads)


def _split(out: np.ndarray, g: WeightGradient) -> np.ndarray:
    """A plain filter (O, ..) with its axis of O as two: groups, O/groups."""
    groups = g.problem.groups
    at = next(i for i, factor in enumerate(g.layout.factors) if factor.dim == 0)
    each = out.shape[at] // groups
    shape = (*out.shape[:at], groups, each, *out.shape[at + 1 :])
    strides = (*out.strides[:at], each * out.strides[at], out.strides[at], *out.strides[at + 1 :])
    return strided(out, shape, strides)


@takes_torch
def conv2d_weight(
    x, weight_size, grad_output, *, stride=1, padding=0, dilation=1, groups=1, layout=None, grad_layout=None,
    filter_layout=None, shape=None, grad_shape=None, algorithm=AUTO, accuracy="standard", dtype=None, out=None,
    beta=0.0, threads=None, workspace=None,
) -> Any:  # fmt: skip
    """The gradient of the filter of `conv2d`.

    Parameters
    ----------
    x : array_like of float32, float64, float16 or bfloat16 (of ml_dtypes), or Tensor
        The input of the convolution; its axes are the physical axes of `layout`. Any strides.
    weight_size : sequence of int
        The logical shape of the filter, (O, I/groups, kernel height, kernel width).
    grad_output : array_like of the type of `x`, or Tensor
        The gradient of the result, in `grad_layout`.
    stride, padding, dilation, groups
        Of the convolution, as of `conv2d`.
    layout, grad_layout : str or Layout, optional
        Of `x`: "NCHW", or that of a `Tensor`. Of `grad_output`: that of `x` by default.
    filter_layout : str or Layout, optional
        Of the result: "OIHW" by default. Pads are zeros.
    shape, grad_shape : sequence of int, optional
        The logical shapes of `x` and `grad_output`, where blocks of other dimensions than the channels are padded. That
        of `grad_output` follows from `x`.
    algorithm : {ALGORITHMS}
        "auto" takes what the cost table thinks fastest.
    accuracy : {"standard", "reproducible", "strict", "fast"}
        What "auto" may choose from, as of `conv2d`.
    dtype : dtype or str, optional
        Of the result: that of `x` by default; of float16 and bfloat16 also float32, in which all sums are made.
        A pair names the type of `x` too: ``("bfloat16", "float32")`` takes uint16 as bfloat16.
    out : ndarray or Tensor, optional
        Where to write; it must not overlap the inputs.
    beta : float, optional
        ``gradient + beta * out`` is written: 1 accumulates.
    threads : int, optional
        At most this many threads. The result of an algorithm does not depend on how many; which one "auto" takes may,
        except with accuracy "reproducible".
    workspace : ndarray, optional
        Contiguous memory used in place of new, of the bytes that ``lk.plan(lk.grad.conv2d_weight, ..).workspace`` says.
        Only filters of several groups in blocked layouts are still put in order in new memory.

    Returns
    -------
    ndarray of the type of `x` or `dtype`, or Tensor
        The physical array of the gradient: `out`, or a new one; a `Tensor` if `x` is one.

    Raises
    ------
    TypeError, ValueError
        Before anything is written: types, shapes, layouts or attributes do not fit.

    Notes
    -----
    A sum over the pixels of all images is made in blocks of at most 400, whose totals are added one after another
    within at most 16 slabs, which are added in a tree. With B blocks in a slab the error is at most ``(B + 406) * eps``
    times the sum of the magnitudes of the products, eps that of the type of the sums. "winograd", which "strict" leaves
    out, rounds more, see docs/training.md. Padding is summed as zeros: where it meets Inf or NaN the sum is NaN.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> x = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    >>> dy = np.ones((1, 1, 2, 2), np.float32)
    >>> lk.grad.conv2d_weight(x, (1, 1, 2, 2), dy).tolist()
    [[[[8.0, 12.0], [20.0, 24.0]]]]
    """
    return _weight(
        "grad.conv2d_weight", 2, x, weight_size, grad_output, stride=stride, padding=padding, dilation=dilation,
        groups=groups, layout=layout, grad_layout=grad_layout, filter_layout=filter_layout, shape=shape,
        grad_shape=grad_shape, algorithm=algorithm, accuracy=accuracy, dtype=dtype, out=out, beta=beta, threads=threads,
        workspace=workspace,
    )  # fmt: skip


_SIZE = """\
weight_size : sequence of int
    The logical shape of the filter, (I, O/groups, kernel height, kernel width), as torch has it.
"""
_FILTER_LAYOUT = """\
filter_layout : str or Layout, optional
    Of the result: "IOHW" by default; as of `conv_transpose2d`, logically outputs come first. Pads are zeros.
"""
_SHAPES = """\
shape, grad_shape : sequence of int, optional
    The logical shapes of `x` and `grad_output`, where blocks are padded.
"""


@with_parameters(conv2d_weight, weight_size=_SIZE, filter_layout=_FILTER_LAYOUT, shape=_SHAPES)
@takes_torch
def conv_transpose2d_weight(x, weight_size, grad_output, **attributes) -> Any:
    """The gradient of the filter of `conv_transpose2d`.

    Parameters
    ----------
    {PARAMETERS}

    Returns
    -------
    ndarray of the type of `x` or `dtype`, or Tensor
        The physical array of the gradient: `out`, or a new one; a `Tensor` if `x` is one.

    Raises
    ------
    TypeError, ValueError
        Before anything is written: types, shapes, layouts or attributes do not fit.

    Notes
    -----
    Sums are made as those of `conv2d_weight`.
    """
    return _weight("grad.conv_transpose2d_weight", 2, x, weight_size, grad_output, transposed=True, **attributes)


@like(conv2d_weight, 1)
@takes_torch
def conv1d_weight(x, weight_size, grad_output, **attributes) -> Any:
    return _weight("grad.conv1d_weight", 1, x, weight_size, grad_output, **attributes)


@like(conv_transpose2d_weight, 1)
@takes_torch
def conv_transpose1d_weight(x, weight_size, grad_output, **attributes) -> Any:
    return _weight("grad.conv_transpose1d_weight", 1, x, weight_size, grad_output, transposed=True, **attributes)


@like(conv2d_weight, 3)
@takes_torch
def conv3d_weight(x, weight_size, grad_output, **attributes) -> Any:
    return _weight("grad.conv3d_weight", 3, x, weight_size, grad_output, **attributes)


@like(conv_transpose2d_weight, 3)
@takes_torch
def conv_transpose3d_weight(x, weight_size, grad_output, **attributes) -> Any:
    return _weight("grad.conv_transpose3d_weight", 3, x, weight_size, grad_output, transposed=True, **attributes)


def _plan(what, rank, transposed, x, weight_size, grad_output, out=None, beta=0.0, threads=None, workspace=None,
          **attributes) -> Plan:  # fmt: skip
    gradient = checked(what, rank, x, weight_size, grad_output, WeightAttributes(**attributes), transposed)
    threads = check_threads(threads)
    task = _task(gradient, threads)
    rows = task.problem.types.wide.rows
    needs = _route(gradient, threads).needs

    def more_facts(ranked: Sequence[Choice], _: bool) -> tuple[str | None, ...]:
        return (slowness(task, ranked),)

    return plan_of(task, threads, rows, more_facts, what, workspace=needs)


for _rank, _operations in {
    1: (conv1d_weight, conv_transpose1d_weight), 2: (conv2d_weight, conv_transpose2d_weight),
    3: (conv3d_weight, conv_transpose3d_weight),
}.items():  # fmt: skip
    for _operation in _operations:
        _operation.__doc__ = str(_operation.__doc__).replace("{ALGORITHMS}", "{" + ", ".join(map(repr, NAMES)) + "}")
        planner(_operation)(partial(_plan, f"grad.{_operation.__name__}", _rank, "transpose" in _operation.__name__))
