"""Transposed convolution by phases: each is a convolution of stride 1 that writes every s-th output.

    y[n, o, q] = bias[o] + sum over i, k with stride*p + dilation*k - before == q of x[n, i, p] * w[i, o, k]

Along an axis the outputs q = stride*m + r of one phase r read the taps k = k0 + step*j whose dilation*k leaves the
remainder of r + before, and tap j reads p = m + first - apart*j: a convolution with the taps in reverse, `apart` as its
dilation, and as its padding what makes the indices meet (less than none where inputs are left out). The phases of
all axes together write disjoint strided views of the output.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from ..choosing.table import cost_table
from ..choosing.threads import check_threads
from ..formats.layout import Layout
from ..memory.arguments import layout_for, target
from ..memory.arrays import check_out, empty
from ..memory.tensor import Tensor
from ..reorders.reorder import reorder
from .algorithms.base import NATIVE
from .conv import MAX_BOUND, NOTHING, residual
from .filter import Filter, in_order
from .geometry import channels_innermost
from .problem import ConvProblem, pad_pairs, per_axis
from .route import Arrays
from .task import ConvTask, best_route


class Phase(NamedTuple):
    """Every `stride`-th output along one axis, from `start` on: the taps it reads and its convolution."""

    start: int
    taps: tuple[int, ...]
    dilation: int
    padding: tuple[int, int]


def phases(size: int, kernel: int, stride: int, dilation: int, before: int, out: int) -> list[Phase]:
    """The phases of one axis that have any output."""
    step = stride // gcd(stride, dilation)
    apart = dilation * step // stride
    found = []
    for r in range(min(stride, out)):
        count = -(-(out - r) // stride)
        taps = [k for k in range(kernel) if (r + before - dilation * k) % stride == 0]
        if not taps:  # one tap that lies outside of the input
            found.append(Phase(r, (), 1, (count, -size)))
            continue
        first = (r + before - dilation * taps[0]) // stride
        lead = apart * (len(taps) - 1) - first
        found.append(Phase(r, tuple(reversed(taps)), apart, (lead, count - size - lead + apart * (len(taps) - 1))))
    return found


class _ConvTranspose:
    """A transposed convolution with its filter packed once; see `conv_transpose2d` for the parameters."""

    rank: int
    _packed: dict[tuple, tuple[np.ndarray, np.ndarray | None]]

    def __init__(self, w, bias=None, *, stride=1, padding=0, output_padding=0, groups=1, dilation=1, layout=None,
                 filter_layout=None, filter_shape=None, out_layout=None, algorithm="auto", accuracy="standard",
                 activation=None, scale=None, threads=None):  # fmt: skip
        rank, what = self.rank, f"conv_transpose{self.rank}d"
        if filter_layout is None and not isinstance(w, Tensor):
            filter_layout = "IO" + "DHW"[3 - rank :]
        w = in_order(w, filter_layout, filter_shape, Layout("bacde"[: rank + 2]), what)
        (groups,) = per_axis(groups, 1, f"{what}: groups", 1)
        if w.shape[0] % groups:
            raise ValueError(f"{what}: {w.shape[0]} input channels do not divide into {groups} groups")
        grouped = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
        w = grouped.reshape(groups * w.shape[1], w.shape[0] // groups, *w.shape[2:])
        self._filter = f = Filter(
            what, rank, w, bias, stride=stride, dilation=dilation, groups=groups, layout=layout,
            out_layout=out_layout, algorithm=algorithm, accuracy=accuracy, activation=activation, scale=scale,
        )  # fmt: skip
        f.w, f.bias = f.w.copy(), None if f.bias is None else f.bias.copy()
        if isinstance(padding, str):
            raise ValueError(f"{what}: padding {padding!r}: expected numbers")
        self._padding = pad_pairs(padding, f.kernel, f.kernel, f.stride, f.dilation)
        self._output_padding = per_axis(output_padding, rank, f"{what}: output_padding", 0)
        for extra, s, d in zip(self._output_padding, f.stride, f.dilation):
            if extra >= max(s, d):
                raise ValueError(f"{what}: output_padding {extra} is not below stride {s} or dilation {d}")
        check_threads(threads)
        self._threads = threads
        self._packed = {}  # (phases' taps, packing) -> filter and bias
        self._bound = {}  # what the arrays look like -> phases to run

    def out_size(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """Spatial size of the output for an input of spatial `size`."""
        f = self._filter
        out = tuple(
            (n - 1) * s - a - b + d * (k - 1) + extra + 1
            for n, s, (a, b), d, k, extra in zip(
                size, f.stride, self._padding, f.dilation, f.kernel, self._output_padding
            )
        )
        if any(n < 1 for n in out) or not all(size):
            raise ValueError(f"{f.what}: an input of {size} padded by {self._padding} has no output")
        return out

    def __call__(
        self, x, out: np.ndarray | Tensor | None = None, add: np.ndarray | Tensor | None = None, *, shape=None
    ) -> Any:
        """Convolve `x`, a float32 array in this object's layout; returns `out` or a new array.

        `x` may be a `Tensor` in this layout; then the result is one. `shape` is the logical shape of `x` where other
        dimensions than the channels are padded by blocks (a `Tensor` has its own).
        """
        f = self._filter
        held = f.take(x, shape)
        if held.shape[1] != f.ic:
            raise ValueError(f"{f.what}: x has shape {held.shape}, expected {f.ic} channels")
        y_shape = (held.shape[0], f.oc, *self.out_size(held.shape[2:]))
        to = None if out is None else target(out, f.out_layout, y_shape, 0, f.what)
        y = self._run(held.array, to, add, held.shape, y_shape)
        if out is not None and (isinstance(out, Tensor) or not isinstance(x, Tensor)):
            return out
        return Tensor(y, f.out_layout, y_shape) if isinstance(x, Tensor) else y

    def _run(self, x: np.ndarray, out: np.ndarray | None, add, shape, y_shape) -> np.ndarray:
        """A call between arrays, the tensors in them of these logical shapes."""
        f = self._filter
        physical = f.out_layout.physical_shape(y_shape)
        if out is None:
            out = empty(physical, f.types.dst, f.what, x)
        else:
            check_out(out, physical, f.types.dst, (x, f.w, f.bias), f.what)
        if add is not None:
            add, copied = residual(f, add, out, y_shape)
            if copied:
                out[...] = add
                add = out
        if not out.size:
            return out
        src, dst = (self._native(layout) for layout in (f.layout, f.out_layout))
        if src != f.layout:
            x = reorder(x, f.layout, src, shape=shape, threads=self._threads)
        if dst == f.out_layout:
            self._phases(x, out, add, shape, y_shape[2:], src, dst)
            return out
        y = empty(dst.physical_shape(y_shape), f.types.dst, f.what)
        if add is not None:
            reorder(add, f.out_layout, dst, out=y, shape=y_shape, threads=self._threads)
        self._phases(x, y, None if add is None else y, shape, y_shape[2:], src, dst)
        return reorder(y, dst, f.out_layout, out=out, shape=y_shape, threads=self._threads)

    def _native(self, layout: Layout) -> Layout:
        """What the phases work on: pixels of their own, so that each phase can write its own."""
        return layout if channels_innermost(layout) else Layout(NATIVE["channels"][layout.rank])

    def _phases(self, x, y, add, shape, out, src: Layout, dst: Layout) -> None:
        f, threads = self._filter, check_threads(self._threads)
        key = (x.shape, x.strides, y.shape, y.strides, cost_table.generation, threads)
        bound = self._bound.get(key)
        if bound is None:
            bound = list(self._bind(x, y, shape, out, src, dst, threads))
            key = (*key[:4], cost_table.generation, threads)  # measuring changes it
            if len(self._bound) >= MAX_BOUND:
                self._bound.clear()
            self._bound[key] = bound
        for step in bound:
            part = y[step.outputs]
            onto = part if step.onto else None if add is None else add[step.outputs]
            finish = (f.finish if step.finishes else None) or (None if onto is None else NOTHING)
            step.run(x[step.inputs], step.w, step.bias, part, finish, onto)

    def _bind(self, x, y, shape, out, src: Layout, dst: Layout, threads: int) -> Iterator[_Step]:
        """What to run for each phase."""
        f = self._filter
        axes = [
            phases(*axis) for axis in zip(shape[2:], f.kernel, f.stride, f.dilation, (a for a, _ in self._padding), out)
        ]
        for phase in itertools.product(*axes):
            taps, pads = tuple(a.taps for a in phase), tuple(a.padding for a in phase)
            w = f.w[np.ix_(range(f.oc), range(f.w.shape[1]), *(t or (0,) for t in taps))]
            accuracy, zeros = f.allowed(w, pads)
            p = ConvProblem(
                shape[0], f.ic, f.oc, shape[2:], w.shape[2:], (1,) * self.rank, pads,
                tuple(a.dilation for a in phase), f.groups, src, dst, accuracy,
            )  # fmt: skip
            every = [range(a.start, n, s) for a, n, s in zip(phase, out, f.stride)]
            if zeros:
                yield from self._tap_by_tap(p, w, every, x, y, threads)
                continue
            outputs = _spatial(dst, every)
            route = best_route(ConvTask(p, threads, f.algorithm), Arrays(x.strides, y[outputs].strides))
            packed = self._packed.get((taps, route.packing))
            if packed is None:
                packed = self._packed[taps, route.packing] = route.pack(w, f.bias)
            yield _Step(route.run, packed[0], packed[1], outputs)

    def _tap_by_tap(self, p: ConvProblem, w, every, x, y, threads: int) -> Iterator[_Step]:
        """A phase whose filter holds Inf or NaN, each tap by itself: times zeros around the input they would be NaN."""
        f, one = self._filter, (1,) * self.rank

        def step(w, bias, inputs, outputs, outside: bool, onto: bool, finishes: bool) -> _Step:
            size = tuple(map(len, inputs))
            pads = tuple((len(a), -n) if outside else (0, 0) for a, n in zip(outputs, size))
            part = replace(p, size=size, kernel=one, dilation=one, padding=pads)
            read, written = _spatial(p.src, inputs), _spatial(p.dst, outputs)
            route = best_route(ConvTask(part, threads), Arrays(x.strides, y[written].strides))
            packed, bias = route.pack(np.ascontiguousarray(w), bias)
            return _Step(route.run, packed, bias, written, read, onto, finishes)

        whole, nothing = [range(n) for n in p.size], np.zeros((*w.shape[:2], *one), f.types.dst)
        yield step(nothing, f.bias, whole, every, True, False, False)
        for tap in itertools.product(*map(range, w.shape[2:])):
            at = [k * d - before for k, d, (before, _) in zip(tap, p.dilation, p.padding)]
            inside = [range(max(0, -k), min(len(a), n - k)) for k, a, n in zip(at, every, p.size)]
            if all(inside):
                inputs = [range(a.start + k, a.stop + k) for k, a in zip(at, inside)]
                outputs = [a[i.start : i.stop] for a, i in zip(every, inside)]
                yield step(w[(..., *(slice(k, k + 1) for k in tap))], None, inputs, outputs, False, True, False)
        if f.finish:
            yield step(nothing, None, whole, every, True, True, True)


class _Step(NamedTuple):
    """A convolution that a phase is made of."""

    run: Callable[..., None]
    w: np.ndarray
    bias: np.ndarray | None
    outputs: tuple[slice, ...]  # of the physical array
    inputs: tuple[slice, ...] = ()
    onto: bool = False  # added to what the outputs hold
    finishes: bool = True  # what follows the sums follows it


def _spatial(layout: Layout, ranges) -> tuple[slice, ...]:
    """The elements of a physical array that these ranges of its spatial axes pick."""
    at = {dim + 2: slice(r.start, r.stop, r.step) for dim, r in enumerate(ranges)}
    return tuple(at.get(factor.dim, slice(None)) for factor in layout.factors)


class ConvTranspose1d(_ConvTranspose):
    __doc__ = str(_ConvTranspose.__doc__).replace("conv_transpose2d", "conv_transpose1d")
    rank = 1


class ConvTranspose2d(_ConvTranspose):
    __doc__ = _ConvTranspose.__doc__
    rank = 2


class ConvTranspose3d(_ConvTranspose):
    __doc__ = str(_ConvTranspose.__doc__).replace("conv_transpose2d", "conv_transpose3d")
    rank = 3


def conv_transpose2d(x, w, bias=None, *, shape=None, add=None, out=None, **attributes) -> Any:
    """Two-dimensional transposed convolution, as in torch, in the layout that the data has.

    Parameters
    ----------
    x, bias, layout, shape, out_layout, algorithm, accuracy, activation, scale, add, out, threads
        As of `conv2d`.
    w : array_like of float32, or Tensor
        Filter; its axes are those of `filter_layout`. A `Tensor` brings its layout and shape.
    stride, padding, output_padding, dilation : int or pair of int
        The output has ``(size - 1)*stride - 2*padding + dilation*(kernel - 1) + output_padding + 1`` pixels along each
        axis. `padding` may also be a pair of (before, after) pairs.
    groups : int
    filter_layout : str or Layout, optional
        "IOHW" by default, which is torch's. The logical order is that of any filter: outputs (of a group), inputs,
        kernel; so ``abcd`` is OIHW.
    filter_shape : sequence of int, optional
        The logical shape of `w`, (O/groups, I, kernel height, kernel width), where its blocks are padded.

    Returns
    -------
    ndarray of float32, or Tensor
        The physical array of the result: `out`, or a new one; a `Tensor` if `x` is one.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> x = np.array([[[[1, 2]]]], np.float32)                       # N C H W
    >>> w = np.array([[[[1, 10]]]], np.float32)                      # I O H W
    >>> lk.conv_transpose2d(x, w, stride=(1, 2)).tolist()
    [[[[1.0, 10.0, 2.0, 20.0]]]]
    """
    return _once(ConvTranspose2d, x, w, bias, add, out, shape, **attributes)


def conv_transpose1d(x, w, bias=None, *, shape=None, add=None, out=None, **attributes) -> Any:
    """One-dimensional transposed convolution: as `conv_transpose2d`, in layouts of N, C and W."""
    return _once(ConvTranspose1d, x, w, bias, add, out, shape, **attributes)


def conv_transpose3d(x, w, bias=None, *, shape=None, add=None, out=None, **attributes) -> Any:
    """Three-dimensional transposed convolution: as `conv_transpose2d`, in layouts of N, C, D, H and W."""
    return _once(ConvTranspose3d, x, w, bias, add, out, shape, **attributes)


def _once(cls, x, w, bias, add, out, shape, layout=None, **attributes) -> Any:
    return cls(w, bias, layout=layout_for(x, layout), **attributes)(x, out, add, shape=shape)
