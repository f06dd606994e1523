"""Transposed convolution by phases: each is a convolution of stride 1 that writes every s-th output.

    y[n, o, q] = bias[o] + sum over i, k with stride*p + dilation*k - before == q of x[n, i, p] * w[i, o, k]

Along an axis the outputs q = stride*m + r of one phase r read the taps k = k0 + step*j whose dilation*k leaves the
remainder of r + before, and tap j reads p = m + first - spacing*j: a convolution with the taps in reverse, `spacing` as
its dilation, and as its padding what makes the indices meet (less than none where inputs are left out). The phases of
all axes together write disjoint strided views of the output.

For integers each phase subtracts the zero point of the input from the sums over its own taps; a tap that reads the
padding, whose value is that zero point, then adds nothing, as it should.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from ..choosing.best import choices
from ..choosing.cache import plans
from ..choosing.problem import Candidate, Description, Problem
from ..formats.layout import Layout
from .algorithms import AUTO
from .algorithms.base import NATIVE
from .descriptions import describe_operation, describe_path, on_threads
from .geometry import channels_innermost
from .images_route import ImagesRoute, images_at_a_time
from .joined import ORDERS, joined_tasks, name_of, problems_of
from .joined_route import JoinedRoute, joined_candidates
from .phases_route import PhasesRoute
from .problem import ConvProblem, Pairs, pads_text, sizes_text
from .route import Arrays, move_seconds
from .task import ConvTask
from .types import F32, ConvTypes


class Phase(NamedTuple):
    """Every `stride`-th output along one axis, from `start` on: its taps, dilation and padding as a convolution."""

    start: int
    taps: tuple[int, ...]
    dilation: int
    padding: tuple[int, int]


def phases(size: int, kernel: int, stride: int, dilation: int, before: int, out: int) -> list[Phase]:
    """The phases of one axis that have any output."""
    step = stride // gcd(stride, dilation)
    spacing = dilation * step // stride
    result = []
    for r in range(min(stride, out)):
        count = -(-(out - r) // stride)
        taps = [k for k in range(kernel) if (r + before - dilation * k) % stride == 0]
        if not taps:  # a single tap, which is outside the input
            result.append(Phase(r, (), 1, (count, -size)))
            continue
        first = (r + before - dilation * taps[0]) // stride
        lead = spacing * (len(taps) - 1) - first
        result.append(Phase(r, tuple(reversed(taps)), spacing, (lead, count - size - lead + spacing * (len(taps) - 1))))
    return result


class SubConvolution(NamedTuple):
    """A convolution of stride 1: a phase, or a step of one."""

    problem: ConvProblem
    taps: tuple[tuple[int, ...], ...] | None  # of the filter, along each axis; None: one tap of zeros
    outputs: tuple[slice, ...]  # of the physical array
    inputs: tuple[slice, ...] = ()
    bias: bool = True
    accumulates: bool = False  # whether it is added to the outputs
    last: bool = True  # whether the epilogue follows

    def filter(self, w: np.ndarray) -> np.ndarray:
        """Its part of a filter (O, I/G, *k), a view."""
        if self.taps is None:
            return np.zeros((*w.shape[:2], *self.problem.kernel), w.dtype)
        return filter_taps(w, self.taps)


def filter_taps(w: np.ndarray, taps: Sequence[tuple[int, ...]]) -> np.ndarray:
    """The part of a filter (O, I/G, *k) with these taps of each axis, which are equidistant: a view."""
    index = [slice(None), slice(None)]
    for along in taps:
        step = along[1] - along[0] if len(along) > 1 else 1
        stop = along[-1] + (1 if step > 0 else -1)
        index.append(slice(along[0], stop if stop >= 0 else None, step))
    return w[tuple(index)]


@dataclass(frozen=True)
class TransposedTask(Problem):
    """A transposed convolution of exact shape between exact layouts, on so many threads.

    A candidate computes all phases, each by itself or joined, and costs as much as its convolutions. `once`: as for
    `ConvTask`.
    """

    n: int
    ic: int
    oc: int
    size: tuple[int, ...]
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Pairs
    dilation: tuple[int, ...]
    groups: int
    src: Layout
    dst: Layout
    allowed: tuple[tuple[str, bool], ...]  # of each phase, accuracy and `zeros`: what the values of its taps allow
    threads: int
    algorithm: str = AUTO
    once: bool = False
    epilogue: bool = False  # whether one follows
    types: ConvTypes = F32

    @property
    def key(self) -> str:
        """The title of its plans; the cost table has its convolutions only."""
        x = sizes_text
        return (
            f"conv_transpose n{self.n} c{self.ic} {x(self.size)} o{self.oc} {x(self.out)} k{x(self.kernel)} "
            f"s{x(self.stride)} p{pads_text(self.padding)} d{x(self.dilation)} g{self.groups} {self.src}>{self.dst} "
            f"{self.types.name} t{self.threads}"
        )

    @property
    def words(self) -> str:
        """In words."""
        attributes = self.x_shape, self.types, self.src, self.dst, self.oc, self.kernel, self.stride, self.padding
        what = f"conv_transpose{len(self.kernel)}d"
        return f"{describe_operation(what, *attributes, self.dilation, self.groups)}, {on_threads(self.threads)}"

    @property
    def work(self) -> int:
        """Multiplications and additions."""
        return sum(part.problem.flops for part in self.convolutions) if prod(self.y_shape) and prod(self.x_shape) else 0

    @property
    def x_shape(self) -> tuple[int, ...]:
        """Logical shape of the input."""
        return self.n, self.ic, *self.size

    @property
    def y_shape(self) -> tuple[int, ...]:
        """Logical shape of the output."""
        return self.n, self.oc, *self.out

    @property
    def native(self) -> tuple[Layout, Layout]:
        """Layouts of input and output between which phases run: channels innermost, so that their outputs are strided
        views; with a single phase any."""
        if self.single and all(f.dim == 1 or not f.size for layout in (self.src, self.dst) for f in layout.factors):
            return self.src, self.dst
        src, dst = (
            layout if channels_innermost(layout) else Layout(NATIVE["channels"][layout.rank])
            for layout in (self.src, self.dst)
        )
        return src, dst

    @property
    def single(self) -> bool:
        """Whether there is one phase."""
        return all(s == 1 or n == 1 for s, n in zip(self.stride, self.out))

    @property
    def inner(self) -> ConvTypes:
        """The types of its convolutions: wide where phases are summed tap by tap, so that results are rounded once."""
        return self.types.wide if any(zeros for _, zeros in self.allowed) else self.types

    @property
    def convolutions(self) -> tuple[SubConvolution, ...]:
        """The steps of all phases, in the order in which they run."""
        return plans.of(_convolutions, self)

    def tasks(self) -> list[ConvTask]:
        """The convolutions of its phases as problems of their own."""
        return [
            ConvTask(p.problem, self.threads, AUTO if p.inputs else self.algorithm, self.once)
            for p in self.convolutions
        ]

    def tasks_of(self, candidate: str) -> list[ConvTask]:
        """The convolutions of a candidate as problems of their own."""
        joined = (joined_tasks(self, order) for order in ORDERS if candidate == name_of(self, order))
        return next(joined, None) or self.tasks()

    def measured_parts(self) -> list[Problem]:
        """The convolutions are measured, each for itself."""
        tasks = [*self.tasks(), *(task for order in ORDERS for task in joined_tasks(self, order))]
        return [part for task in tasks for part in task.measured_parts()]

    @property
    def depends_on_others(self) -> bool:
        """Yes: on the decisions about its convolutions."""
        return True

    @property
    def rests_on(self) -> list[Problem]:
        """Its convolutions, and what moves results of joined phases."""
        return [*self.tasks(), *(problem for order in ORDERS for problem in problems_of(self, order))]

    def features(self) -> tuple[float, ...]:
        """It has none: the model knows its phases."""
        raise ValueError("a transposed convolution is as its phases are")

    def candidates(self) -> Iterator[Candidate]:
        """The best route for each phase, and for phases that are joined."""
        src, dst = self.native
        x_bytes, y_bytes = (dtype.itemsize * prod(shape) for dtype, shape in (
            (self.types.src, self.x_shape), (self.types.dst, self.y_shape)))  # fmt: skip
        moved = (src != self.src) * x_bytes + (dst != self.dst) * y_bytes
        seconds = sum(choices(task)[0].seconds for task in self.tasks())
        via = "" if (src, dst) == (self.src, self.dst) else f" via {src}>{dst}"
        yield Candidate(
            f"phases{via}",
            seconds + move_seconds(2 * moved) / self.threads,
            partial(PhasesRoute, self),
            describe=self._describe,
        )
        yield from joined_candidates(self)

    def _describe(self) -> Description:
        """A convolution for each phase of the stride; those of the most saving say why."""
        described = [choices(task)[0].candidate.words for task in self.tasks()]
        most = max(described, key=lambda words: words.saving)
        (src, dst), in_place = self.native, self.native == (self.src, self.dst)
        if len(described) == 1 and in_place:
            return most
        name = f"{len(described)} convolutions, of phases of the stride"
        return most._replace(algorithm=name, tile="", path=describe_path(self.src, src, dst, self.dst))

    def prepare(self):
        """Not measured: its convolutions are."""
        raise NotImplementedError


def _convolutions(task: TransposedTask) -> tuple[SubConvolution, ...]:
    result: list[SubConvolution] = []
    src, dst = task.native
    combined = all_phases(task.size, task.kernel, task.stride, task.dilation, task.padding, task.out)
    for phase, (accuracy, zeros) in zip(combined, task.allowed):
        taps = tuple(a.taps or (0,) for a in phase)
        p = ConvProblem(
            task.n, task.ic, task.oc, task.size, tuple(map(len, taps)), (1,) * len(task.size),
            tuple(a.padding for a in phase), tuple(a.dilation for a in phase), task.groups, src, dst, accuracy,
            types=task.inner,
        )  # fmt: skip
        outputs = [range(a.start, n, s) for a, n, s in zip(phase, task.out, task.stride)]
        one_step = [SubConvolution(p, taps, _spatial(dst, outputs))]
        result += _tap_by_tap(p, taps, outputs, task.epilogue) if zeros else one_step
    return tuple(result)


def all_phases(size, kernel, stride, dilation, padding, out) -> list[tuple[Phase, ...]]:
    """The phases of all axes together, as `TransposedTask.allowed` counts them."""
    before = (a for a, _ in padding)
    return list(itertools.product(*(phases(*axis) for axis in zip(size, kernel, stride, dilation, before, out))))


def _tap_by_tap(p: ConvProblem, taps, phase: list[range], epilogue: bool) -> Iterator[SubConvolution]:
    """A phase whose filter has an Inf or NaN, one tap at a time: such a weight times a zero of the padding is NaN."""
    one = (1,) * len(taps)

    def part(taps, inputs, outputs, outside: bool, **flags) -> SubConvolution:
        size = tuple(map(len, inputs))
        pads = tuple((len(a), -n) if outside else (0, 0) for a, n in zip(outputs, size))
        problem = replace(p, size=size, kernel=one, dilation=one, padding=pads)
        return SubConvolution(problem, taps, _spatial(p.dst, outputs), _spatial(p.src, inputs), **flags)

    whole = [range(n) for n in p.size]
    yield part(None, whole, phase, True, last=False)
    for tap in itertools.product(*map(range, p.kernel)):
        at = [k * d - before for k, d, (before, _) in zip(tap, p.dilation, p.padding)]
        inside = [range(max(0, -k), min(len(a), n - k)) for k, a, n in zip(at, phase, p.size)]
        if all(inside):
            inputs = [range(a.start + k, a.stop + k) for k, a in zip(at, inside)]
            outputs = [a[i.start : i.stop] for a, i in zip(phase, inside)]
            one_tap = tuple((t[k],) for t, k in zip(taps, tap))
            yield part(one_tap, inputs, outputs, False, bias=False, accumulates=True, last=False)
    if epilogue:
        yield part(None, whole, phase, True, bias=False, accumulates=True)


def _spatial(layout: Layout, ranges) -> tuple[slice, ...]:
    """Slices of a physical array that select these ranges of its spatial axes."""
    at = {dim + 2: slice(r.start, r.stop, r.step) for dim, r in enumerate(ranges)}
    return tuple(at.get(factor.dim, slice(None)) for factor in layout.factors)


TransposedRoute = PhasesRoute | JoinedRoute | ImagesRoute


def best_transposed(task: TransposedTask, arrays: Arrays) -> TransposedRoute:
    """The route that a call takes."""
    images = images_at_a_time(task)
    if images == task.n:
        return plans.of(choices(task)[0].candidate.build, arrays)
    return plans.of(_by_images, task, choices(replace(task, n=images))[0].candidate.build, arrays)


def _by_images(task: TransposedTask, build: Callable[..., Any], arrays: Arrays) -> ImagesRoute:
    return ImagesRoute(task, build(arrays))
