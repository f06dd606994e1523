"""Transposed convolution: check, plan, execute; its phases are in `phases`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from .._core.runtime import registry
from .._core.runtime.arrays import strides_key
from ..choosing.best import choices
from ..choosing.cache import plans
from ..choosing.plan import Plan, planner
from ..choosing.problem import Choice
from ..choosing.table import cost_table
from ..choosing.threads import at_most, check_threads
from ..choosing.watching import watched, watchers
from ..formats.layout import Layout
from ..memory.arguments import layout_for, target
from ..memory.arrays import check_out, contiguous_strides, empty
from ..memory.foreign import is_torch, takes_torch
from ..memory.tensor import Tensor
from ..reorders.reorder import reorder
from ..signatures import like, with_parameters
from .algorithms import AUTO
from .calls import (
    ConvolutionBase,
    Repeated,
    bind_epilogue,
    call_info,
    check_workspace,
    documented_by,
    input_shape,
    packing_info,
    plan_of,
    workspace_operands,
)
from .conv import conv2d
from .filter import Filter, call_key, filter_argument
from .images_route import images_at_a_time
from .phases import Phase, TransposedRoute, TransposedTask, all_phases, best_transposed, filter_taps
from .problem import MAX_SIZE, in_sizes, pad_pairs, per_axis, sizes_text
from .route import Arrays
from .types import dtype_for

MAX_BOUND = 256  # shapes and strides of inputs that an object remembers the decision for


class _ConvTranspose(ConvolutionBase):
    """A transposed convolution with its filter packed once; see `conv_transpose2d` for the parameters."""

    rank: int
    _once = False  # whether the filter is packed for one call only
    _what = ""  # the operation, for errors, if it is another one than this

    def __init__(self, w, bias=None, *, stride=1, padding=0, output_padding=0, groups=1, dilation=1, layout=None,
                 filter_layout=None, filter_shape=None, out_layout=None, algorithm=AUTO, accuracy="standard",
                 activation=None, scale=None, dtype=None, zero_point=0, out_scale=1.0, out_zero_point=0,
                 threads=None) -> None:  # fmt: skip
        rank, what = self.rank, self._what or f"conv_transpose{self.rank}d"
        if filter_layout is None and not isinstance(w, Tensor):
            filter_layout = "IO" + "DHW"[3 - rank :]
        weights = filter_argument(w, filter_layout, filter_shape, rank, what)
        (groups,) = per_axis(groups, 1, f"{what}: groups", 1)
        if weights.shape[1] % groups:
            raise ValueError(f"{what}: {weights.shape[1]} input channels do not divide into {groups} groups")
        by_phase = self._once and max(per_axis(stride, rank, f"{what}: stride", 1)) > 1
        self._filter_form = weights.layout.dense, weights.shape, groups, by_phase
        self._filter = f = Filter(
            what, rank, _as_convolution(weights.array, *self._filter_form), bias, stride=stride, dilation=dilation,
            groups=groups, layout=layout, out_layout=out_layout, algorithm=algorithm, accuracy=accuracy,
            activation=activation, scale=scale, dtype=dtype, zero_point=zero_point, out_scale=out_scale,
            out_zero_point=out_zero_point, strided=self._once,
        )  # fmt: skip
        f.filter_layout_given = True  # of the caller's filter, which is another: errors suggest none
        if not self._once:
            f.copy_arrays()
        if isinstance(padding, str):
            raise ValueError(f"{what}: padding {padding!r}: expected numbers")
        self._padding = pad_pairs(padding, f.kernel, f.kernel, f.stride, f.dilation, f"{what}: padding", -MAX_SIZE)
        self._output_padding = per_axis(output_padding, rank, f"{what}: output_padding", 0)
        for extra, s, d in zip(self._output_padding, f.stride, f.dilation):
            if extra >= max(s, d):
                raise ValueError(f"{what}: output_padding {extra} is not below stride {s} or dilation {d}")
        check_threads(threads)
        self._threads = f.threads = threads
        # Filter and bias by instruction set, taps and packing.
        self._packed: dict[tuple, tuple[np.ndarray, np.ndarray | None]] = {}
        self._bound: dict = {}  # by shapes and strides of a call's arrays
        self._by_layout: dict = {}
        self._routes: dict = {}  # likewise, shared by calls with other filters

    @classmethod
    def once(cls, w, bias=None, what="", **attributes) -> _ConvTranspose:
        """A transposed convolution over the caller's filter, not copied: for one call.

        What does not depend on the weights is cached for calls with others.

        Parameters
        ----------
        w, bias : array_like or Tensor
            As of the class. The memory of `w` must stay as it is until the call is done.
        what : str
            The name in errors; that of the function by default.
        **attributes
            The keywords of the class.

        Raises
        ------
        TypeError, ValueError
            Types, shapes, layouts or attributes do not fit.
        """
        key = None
        if bias is None and attributes.get("activation") is None and attributes.get("scale") is None:
            key = call_key((cls, what), (w,), attributes)
        cached = None if key is None else plans.get(key)
        if cached is not None:
            return cached.over(w)
        self = object.__new__(cls)
        self._once, self._what = True, what
        self.__init__(w, bias, **attributes)  # type: ignore[misc]
        if key is not None:
            plans.put(key, self.emptied())
        return self

    @property
    def padding(self) -> tuple[tuple[int, int], ...]:
        """As (before, after) pairs by axis."""
        return self._padding

    @property
    def output_padding(self) -> tuple[int, ...]:
        """Pixels more at the end of the output, by axis."""
        return self._output_padding

    def over(self, w: np.ndarray, bias: np.ndarray | None = None) -> _ConvTranspose:
        """The same over another filter, not copied.

        Parameters
        ----------
        w : ndarray
            Of the layout, shape and type of the filter that was given.
        bias : ndarray, optional
            Of a convolution without one.
        """
        return self._with_weights(_as_convolution(w, *self._filter_form), bias)

    def repeatable(self, x: np.ndarray, out: np.ndarray) -> Repeated:
        """Calls on arrays like these over other filters: a function of (x, w, bias, out), none of which it checks.

        Parameters
        ----------
        x, out : ndarray
            Of the shapes, strides and types of those that will be given.
        """
        form = strides_key(x, out), self._filter.shape_of(x, None)

        def computed(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, out: np.ndarray) -> None:
            op = self.over(w, bias)
            f = op._filter
            key = *form, check_threads(self._threads), cost_table.generation, registry.isa()
            route, depends_on_values = self._routes.get(key, (None, True))
            if route is None or watchers or (depends_on_values and not f.is_ordinary):
                op(x, out)
                return
            with at_most(self._threads):
                packed = [route.pack(part, step, f) for part, step in route.steps]
            route.run(x, packed, out, f.epilogue, None)

        return computed

    def out_size(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """Spatial size of the output, in pixels by axis.

        Parameters
        ----------
        size : tuple of int
            Spatial size of the input.

        Raises
        ------
        ValueError
            Such an input has no output.
        """
        f = self._filter
        least = in_sizes(size, f.kernel, f.stride, self._padding, f.dilation)
        out = tuple(n + extra for n, extra in zip(least, self._output_padding))
        if any(n < 1 for n in out) or not all(size):
            raise ValueError(f"{f.what}: an input of {size} padded by {self._padding} has no output")
        return out

    def _task(self, shape: tuple[int, ...]) -> TransposedTask:
        """The problem of an input of logical `shape`."""
        f = self._filter
        if len(shape) != self.rank + 2 or shape[1] != f.ic:
            raise ValueError(f"{f.what}: x has shape {shape}, expected {f.ic} channels and {self.rank} spatial axes")
        size, out = shape[2:], self.out_size(shape[2:])
        allowed = []
        for phase in self._phases(size):
            w = filter_taps(f.w, [a.taps or (0,) for a in phase])
            whole = all(len(a.taps) == k for a, k in zip(phase, f.kernel))
            allowed.append(f.allowed(f.w if whole else w, tuple(a.padding for a in phase)))
        return TransposedTask(
            shape[0], f.ic, f.oc, size, out, f.kernel, f.stride, self._padding, f.dilation, f.groups, f.layout,
            f.out_layout, tuple(allowed), check_threads(self._threads), f.algorithm, self._once, f.epilogue is not None,
            f.types,
        )  # fmt: skip

    def __call__(self, x, out: np.ndarray | Tensor | None = None, add: np.ndarray | Tensor | None = None,
                 workspace: np.ndarray | None = None, *, shape=None) -> Any:  # fmt: skip
        """Convolve an input.

        Parameters
        ----------
        x : array_like of the filter's type (of uint8 or int8 with a filter of int8), torch tensor, or Tensor
            Input; its axes are the physical axes of this object's layout, or all of them but the batch's. A `Tensor`
            must be in that layout; a tensor of torch brings its memory format if the object was given no layout.
        out : ndarray, torch tensor or Tensor, optional
            Where to write; must not overlap `x`, nor `add` unless it is `add`.
        add : array_like, torch tensor or Tensor, optional
            Like the result; added before the activation, unless that says where.
        workspace : ndarray, optional
            Contiguous, writeable, of at least the bytes that `workspace` asks for; overlaps no other argument. It is
            used in place of new memory.
        shape : sequence of int, optional
            The logical shape of `x`, where blocks of other dimensions than the channels are padded. By default all of
            it; a `Tensor` has its own.

        Returns
        -------
        ndarray, torch tensor or Tensor, as `x`
            The physical array of the result, in `out_layout`: `out`, or a new one.

        Raises
        ------
        TypeError, ValueError
            Before anything is written: types, shapes, layouts, `out` or `workspace` do not fit.
        """
        f = self._filter
        if is_torch(x):
            return self._torch(x, out, add, workspace, shape)
        if type(x) is np.ndarray and self._lacks_batch(x):
            return self._unbatched(x, out, add, workspace, shape)
        source = f.input_argument(x, shape)
        if source.shape[1] != f.ic:
            raise ValueError(f"{f.what}: x has shape {source.shape}, expected {f.ic} channels")
        y_shape = (source.shape[0], f.oc, *self.out_size(source.shape[2:]))
        to = None if out is None else target(out, f.out_layout, y_shape, 0, f.what)
        y = self._run(source.array, to, add, workspace, source.shape, y_shape)
        if out is not None and (isinstance(out, Tensor) or not isinstance(x, Tensor)):
            return out
        return Tensor(y, f.out_layout, y_shape) if isinstance(x, Tensor) else y

    def _run(self, x: np.ndarray, out: np.ndarray | None, add, workspace, shape, y_shape) -> np.ndarray:
        """A call between arrays, the tensors in them of these logical shapes."""
        f = self._filter
        physical = f.out_layout.physical_shape(y_shape)
        if out is None:
            out = empty(physical, f.dst_dtype, f.what, x)
        else:
            check_out(out, physical, f.dst_dtype, (x, f.w, f.bias), f.what)
        epilogue, copied = f.epilogue, False
        if add is not None or f.uses_residual or f.operands:
            epilogue, add, copied = bind_epilogue(f, add, out, y_shape)
        if not out.size:
            return out
        route, packed = self._bind(x, out, shape)
        if workspace is not None:
            needed = route.needs(add is not None, epilogue)
            check_workspace(f.what, workspace, needed, (x, out, add), epilogue)
        if copied:
            out[...] = add
            add = out
        info = partial(call_info, f.what, route.task, route.task.threads)
        watched(info, route.run, x, packed, out, epilogue, add, workspace)
        return out

    def _bind(self, x: np.ndarray, out: np.ndarray, shape) -> tuple[TransposedRoute, list]:
        """The route of arrays like these, and its packed filters and biases."""
        threads = check_threads(self._threads)
        key = strides_key(x, out), shape, threads, cost_table.generation, registry.isa()
        bound = self._bound.get(key)
        if bound is None:
            route = self._route_of(key, x, out, shape)
            bound = route, [self._pack(route, part, step) for part, step in route.steps]
            if len(self._bound) >= MAX_BOUND:
                self._bound.clear()
            self._bound[key] = bound
        return bound

    def _route_of(self, key: tuple, x: np.ndarray, out: np.ndarray, shape) -> TransposedRoute:
        """The route of arrays like these; shared by calls with many filters unless their values change it."""
        route, depends_on_values = self._routes.get(key, (None, True))
        if route is not None and (not depends_on_values or self._filter.is_ordinary):
            return route
        route = best_transposed(self._task(shape), Arrays(x.strides, out.strides))
        if self._once:
            depends_on_values = self._depends_on_values(shape)
            if not depends_on_values or self._filter.is_ordinary:
                if len(self._routes) >= MAX_BOUND:
                    self._routes.clear()
                self._routes[key] = route, depends_on_values
        return route

    def _depends_on_values(self, shape: tuple[int, ...]) -> bool:
        """Whether the values of the filter may change what is done with an input of logical `shape`."""
        return any(
            any(self._filter.values_matter([len(a.taps) for a in phase], tuple(a.padding for a in phase)))
            for phase in self._phases(shape[2:])
        )

    def _phases(self, size: tuple[int, ...]) -> list[tuple[Phase, ...]]:
        f = self._filter
        return all_phases(size, f.kernel, f.stride, f.dilation, self._padding, self.out_size(size))

    def _pack(self, route: TransposedRoute, part, step) -> tuple[np.ndarray, np.ndarray | None] | None:
        key = registry.isa(), part.taps, part.bias, step.packing
        packed = self._packed.get(key)
        if packed is None:
            with at_most(self._threads):
                info = partial(packing_info, self._filter, step.packing)
                packed = watched(info, route.pack, part, step, self._filter)
            if packed is not None:
                self._packed[key] = packed
        return packed

    def workspace(self, shape, *, add: bool = False) -> int:
        """Bytes of `workspace` for calls on contiguous inputs.

        Parameters
        ----------
        shape : sequence of int, array or Tensor
            The logical shape, (N, C, spatial axes), or an input of it.
        add : bool
            Whether the calls have an `add`.

        Raises
        ------
        TypeError, ValueError
            The shape does not fit the filter.
        """
        route = self._route(self._task(input_shape(self._filter, shape)))
        residual, epilogue = workspace_operands(self._filter, route.native, add)
        return route.needs(residual is not None, epilogue)

    def _route(self, task: TransposedTask) -> TransposedRoute:
        """Of contiguous arrays."""
        x = contiguous_strides(task.src, task.x_shape, task.types.src.itemsize)
        y = contiguous_strides(task.dst, task.y_shape, task.types.dst.itemsize)
        return best_transposed(task, Arrays(x, y))

    def plan(self, shape) -> Plan:
        """What a call on a contiguous input would do: the candidates and what they cost.

        Parameters
        ----------
        shape : sequence of int, array or Tensor
            The logical shape, (N, C, spatial axes), or an input of it.

        Raises
        ------
        TypeError, ValueError
            The shape does not fit the filter.
        """
        f = self._filter
        task = self._task(input_shape(f, shape))

        def more_facts(ranked: Sequence[Choice], verbose: bool) -> Iterator[str]:
            images = images_at_a_time(task)
            if images != task.n:
                yield f"{images} of {task.n} images at a time, which the last cache holds"
            name = ranked[0].candidate.name
            what = "joined phases" if name.startswith("joined") else "a phase"
            for phase in task.tasks_of(name):
                best, kernel = choices(phase)[0], sizes_text(phase.problem.kernel)
                about, cost = best.candidate.words, f"{best.seconds * 1e6:.1f} us, {best.source}"
                words = ", ".join(filter(None, (about.algorithm, about.tile, about.path, cost)))
                yield f"{phase.problem}: {best.candidate.name}, {cost}" if verbose else f"{what} of {kernel}: {words}"

        return plan_of(task, task.threads, f.types.peak, more_facts, f.what, f.activation, call=self)


def _as_convolution(w: np.ndarray, layout: Layout, shape: tuple[int, ...], groups: int, by_phase: bool) -> np.ndarray:
    """A filter, logically (O/groups, I, *k), as that of a convolution, (O, I/groups, *k): of one group a view.

    `by_phase`: phases read some of its taps each, so outputs are innermost in memory.
    """
    rank = len(shape)
    by_phase = by_phase and prod(shape[2:]) > 1
    if groups == 1 and layout.is_plain and (not by_phase or layout.factors[-1].dim == 0):
        dims = [f.dim for f in layout.factors]
        return w.transpose([dims.index(dim) for dim in range(rank)])
    if by_phase and groups == 1:
        taps = "cde"[: rank - 2]
        by_taps = reorder(w, layout, Layout(f"{taps}ba"), shape=shape)
        return by_taps.transpose(rank - 1, rank - 2, *range(rank - 2))
    order = Layout("bacde"[:rank])
    if layout != order:
        w = reorder(w, layout, order, shape=shape)
    grouped = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
    return grouped.reshape(groups * w.shape[1], w.shape[0] // groups, *w.shape[2:])


def out_shape(op: _ConvTranspose, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Logical shape of the result for an input of logical `shape`."""
    return op._task(shape).y_shape


def task_of(op: _ConvTranspose, shape: tuple[int, ...]) -> TransposedTask:
    """The problem of an input of logical `shape`."""
    return op._task(shape)


_FILTER = """\
w : array_like of float32, float64, float16, bfloat16 (of ml_dtypes) or int8, or Tensor
    Filter; its axes are those of `filter_layout`. A `Tensor` brings its layout and shape.
"""
_PADDING = """\
padding, output_padding : int or pair of int
    The output has ``(size - 1)*stride - 2*padding + dilation*(kernel - 1) + output_padding + 1`` pixels along each
    axis. `padding` may also be a pair of (before, after) pairs; where it is negative there are pixels more, which no
    input reaches.
"""
_FILTER_LAYOUT = """\
filter_layout : str or Layout, optional
    "IOHW" by default, which is torch's. The logical order is that of any filter: outputs (of a group), inputs, kernel;
    so ``abcd`` is OIHW.
"""
_FILTER_SHAPE = """\
filter_shape : sequence of int, optional
    The logical shape of `w`, (O/groups, I, kernel height, kernel width), where its blocks are padded.
"""
_ZERO_POINT = """\
zero_point : int, optional
    Of `x`, with a filter of int8; there is no padding: what is multiplied is ``x - zero_point``.
"""


@with_parameters(
    conv2d, w=_FILTER, padding=_PADDING, filter_layout=_FILTER_LAYOUT, filter_shape=_FILTER_SHAPE,
    zero_point=_ZERO_POINT, padding_mode="",
)  # fmt: skip
@takes_torch
def conv_transpose2d(
    x, w, bias=None, *, stride=1, padding=0, output_padding=0, groups=1, dilation=1, layout=None, shape=None,
    filter_layout=None, filter_shape=None, out_layout=None, algorithm=AUTO, accuracy="standard", activation=None,
    scale=None, dtype=None, zero_point=0, out_scale=1.0, out_zero_point=0, add=None, out=None, threads=None,
) -> Any:  # fmt: skip
    """Two-dimensional transposed convolution, as in torch, in the layout that the data has.

    Parameters
    ----------
    {PARAMETERS}

    Returns
    -------
    ndarray of the type of `w` or `dtype`, torch tensor, or Tensor
        The physical array of the result: `out`, or a new one; a `Tensor` if `x` is one, or a tensor of torch.

    Raises
    ------
    TypeError, ValueError
        Before anything is written: dtype, shapes, layouts, `out` or `algorithm` do not fit.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> x = np.array([[[[1, 2]]]], np.float32)                       # N C H W
    >>> w = np.array([[[[1, 10]]]], np.float32)                      # I O H W
    >>> lk.conv_transpose2d(x, w, stride=(1, 2)).tolist()
    [[[[1.0, 10.0, 2.0, 20.0]]]]
    """
    op = _for_one_call(
        ConvTranspose2d, x, w, bias, stride=stride, padding=padding, output_padding=output_padding, groups=groups,
        dilation=dilation, layout=layout, filter_layout=filter_layout, filter_shape=filter_shape,
        out_layout=out_layout, algorithm=algorithm, accuracy=accuracy, activation=activation, scale=scale, dtype=dtype,
        zero_point=zero_point, out_scale=out_scale, out_zero_point=out_zero_point, threads=threads,
    )  # fmt: skip
    return op(x, out, add, shape=shape)


@like(conv_transpose2d, 1)
@takes_torch
def conv_transpose1d(x, w, bias=None, *, shape=None, add=None, out=None, **attributes) -> Any:
    return _for_one_call(ConvTranspose1d, x, w, bias, **attributes)(x, out, add, shape=shape)


@like(conv_transpose2d, 3)
@takes_torch
def conv_transpose3d(x, w, bias=None, *, shape=None, add=None, out=None, **attributes) -> Any:
    return _for_one_call(ConvTranspose3d, x, w, bias, **attributes)(x, out, add, shape=shape)


@documented_by(conv_transpose1d, "transposed convolution")
class ConvTranspose1d(_ConvTranspose):
    rank = 1


@documented_by(conv_transpose2d, "transposed convolution")
class ConvTranspose2d(_ConvTranspose):
    rank = 2


@documented_by(conv_transpose3d, "transposed convolution")
class ConvTranspose3d(_ConvTranspose):
    rank = 3


CLASSES = {1: ConvTranspose1d, 2: ConvTranspose2d, 3: ConvTranspose3d}  # by the number of spatial axes


def _for_one_call(cls, x, w, bias, layout=None, dtype=None, **attributes) -> _ConvTranspose:
    return cls.once(w, bias, layout=layout_for(x, layout), dtype=dtype_for(dtype, x, w), **attributes)


def _plan(cls, x, w, bias=None, add=None, out=None, shape=None, **attributes) -> Plan:
    op = _for_one_call(cls, x, w, bias, **attributes)
    return op.plan(op._filter.input_argument(x, shape).shape)


for _rank, _operation in {1: conv_transpose1d, 2: conv_transpose2d, 3: conv_transpose3d}.items():
    planner(_operation)(partial(_plan, CLASSES[_rank]))
