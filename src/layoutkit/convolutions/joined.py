"""Transposed convolution with the phases of the stride joined: they are output channels of one convolution.

y[n, o, q] = bias[o] + sum over i, j of x[n, i, m - j] * w[i, o, p + stride*j]   where q + before == stride*m + p

All phases p that have as many taps read the same pixels of the input: they are output channels (g, p, o) of a single
convolution of stride 1 with the taps j in reverse, z[n, (g, p, o), m]. A phase alone has o columns, and few of them
leave most of a register tile empty.

Then z is interleaved: its rows m, of an output for each phase, follow one another in y. The first row and the last may
be cut, so along each axis up to three pieces move. Nothing moves where z lies as y does: with one axis, channels
innermost and whole rows the convolution writes y itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..choosing.cache import plans
from ..choosing.problem import Problem
from ..formats.layout import Layout
from ..memory.arrays import contiguous_strides, placeholder
from ..reorders.problem import ReorderProblem, useful_threads
from .problem import ACCURACIES, ConvProblem
from .task import ConvTask

if TYPE_CHECKING:
    from .phases import TransposedTask

MAX_CHANNELS = 16  # of a group's output: with more a phase fills register tiles by itself
MAX_JOINED = 64  # channels of a group's phases
ORDERS = "last", "pixels"  # of z: what is innermost, channels or pixels


class Rows(NamedTuple):
    """Rows of outputs along one axis that are moved together: a piece."""

    first: int
    rows: int
    phase: int  # the first of its phases, in those that are joined
    phases: int
    output: int  # the first


class JoinedAxis(NamedTuple):
    """Phases of one axis that have as many taps, as a convolution of stride 1."""

    phases: range
    taps: int
    rows: int
    inputs: range  # that are read
    padding: tuple[int, int]
    dilation: int
    pieces: tuple[Rows, ...]


def joined_axis(size: int, kernel: int, stride: int, dilation: int, before: int, out: int) -> list[JoinedAxis]:
    """The joined phases of one axis; none if they cannot be joined."""
    if (dilation > 1 and stride > 1) or kernel < stride:
        return []
    whole, more = divmod(kernel, stride)
    axes = []
    for phases, taps in ((range(more), whole + 1), (range(more, stride), whole)):
        rows, pieces = _rows(phases, stride, before, out)
        reach = dilation * (taps - 1)
        if not phases or not pieces:
            continue
        first, last = rows[0] - reach, rows[-1]
        inputs = range(max(0, first), min(size, last + 1))
        if not inputs:
            return []
        padding = inputs.start - first, last + 1 - inputs.stop
        axes.append(JoinedAxis(phases, taps, len(rows), inputs, padding, dilation if stride == 1 else 1, pieces))
    return axes


def _rows(phases: range, stride: int, before: int, out: int) -> tuple[range, tuple[Rows, ...]]:
    """The rows that have outputs of these phases, and their pieces: the first and the last may be cut."""
    if not phases:
        return range(0), ()
    found: list[tuple[int, int, int, int]] = []  # first row, rows, phases from, to
    first, last = before // stride, (before + out - 1) // stride
    cuts = dict.fromkeys((range(first, first + 1), range(first + 1, last), range(max(first + 1, last), last + 1)))
    for rows in filter(None, cuts):
        begin = max(phases.start, before - stride * rows[0])
        end = min(phases.stop, before + out - stride * rows[-1])
        if begin >= end:
            continue
        if found and found[-1][2:] == (begin, end):
            found[-1] = (found[-1][0], found[-1][1] + len(rows), begin, end)
        else:
            found.append((rows[0], len(rows), begin, end))
    if not found:
        return range(0), ()
    start = found[0][0]
    return range(start, found[-1][0] + found[-1][1]), tuple(
        Rows(row - start, count, begin - phases.start, end - begin, stride * row + begin - before)
        for row, count, begin, end in found
    )


class Joined(NamedTuple):
    """Phases that are joined along all axes."""

    problem: ConvProblem
    axes: tuple[JoinedAxis, ...]
    order: str  # of z, of the letters of `letters_of`

    @property
    def bias(self) -> bool:
        """As of `SubConvolution`: it begins with the bias."""
        return True

    @property
    def rank(self) -> int:
        """Spatial axes."""
        return len(self.axes)

    @property
    def taps(self) -> tuple:
        """What part of a filter it reads."""
        return "joined", *((a.phases, a.taps) for a in self.axes)

    def channels(self) -> np.ndarray:
        """The output channel of the transposed convolution that each of its own is."""
        p, phases = self.problem, prod(len(a.phases) for a in self.axes)
        each = p.oc // p.groups // phases
        channels = np.arange(p.groups * each).reshape(p.groups, 1, each)
        return np.ascontiguousarray(np.broadcast_to(channels, (p.groups, phases, each))).ravel()

    def filter(self, w: np.ndarray, stride: Sequence[int]) -> np.ndarray:
        """Its part of a filter (O, I/G, *k), as (G*phases*O/G, I/G, *taps)."""
        p, rank, split = self.problem, self.rank, []
        for axis, (a, s) in enumerate(zip(self.axes, stride), 2):
            taps = [phase + s * j for phase in a.phases for j in reversed(range(a.taps))]
            w = w.take(taps, axis)
            split += [len(a.phases), a.taps]
        w = w.reshape(p.groups, w.shape[0] // p.groups, w.shape[1], *split)
        phases, taps_of = range(3, 3 + 2 * rank, 2), range(4, 4 + 2 * rank, 2)
        w = w.transpose(0, *phases, 1, 2, *taps_of)
        return np.ascontiguousarray(w).reshape(p.oc, w.shape[2 + rank], *p.kernel)

    def inputs(self, src: Layout) -> tuple[slice, ...]:
        """Slices of a physical array of the input that select what it reads."""
        at = {dim: slice(a.inputs.start, a.inputs.stop) for dim, a in enumerate(self.axes, 2)}
        return tuple(at.get(factor.dim, slice(None)) for factor in src.factors)

    def sizes(self) -> dict[str, int]:
        """Of z, by letter."""
        p, letters = self.problem, letters_of(self.rank)
        each = p.oc // p.groups // prod(len(a.phases) for a in self.axes)
        rows, phases = (a.rows for a in self.axes), (len(a.phases) for a in self.axes)
        return dict(zip(letters, (p.n, p.groups, each, *rows, *phases)))

    def strides(self, z: np.ndarray) -> dict[str, int]:
        """Of an array of its results, by letter."""
        sizes, by_dim = self.sizes(), dict(zip((f.dim for f in self.problem.dst.factors), z.strides))
        letters, rank = letters_of(self.rank), self.rank
        phases, step, strides = letters[3 + rank :], by_dim[1], {"n": by_dim[0]}
        for letter in reversed("g" + phases + "o"):
            strides[letter] = step
            step *= sizes[letter]
        return strides | {letter: by_dim[2 + i] for i, letter in enumerate(letters[3 : 3 + rank])}

    def strides_in(self, y: np.ndarray, dst: Layout, stride: Sequence[int]) -> dict[str, int]:
        """Of the transposed convolution's result, by letter."""
        # an axis of one element may have any stride, whose multiples may not fit
        own = (0 if n == 1 else s for n, s in zip(y.shape, y.strides))
        by_dim, letters, rank = dict(zip((f.dim for f in dst.factors), own)), letters_of(self.rank), self.rank
        strides = {"n": by_dim[0], "g": by_dim[1] * self.sizes()["o"], "o": by_dim[1]}
        for i, s in enumerate(stride):
            strides[letters[3 + i]], strides[letters[3 + rank + i]] = s * by_dim[2 + i], by_dim[2 + i]
        return strides

    def pieces(self) -> Iterator[tuple[Rows, ...]]:
        """What moves from z to y, by axis."""
        return product(*(a.pieces for a in self.axes))

    def is_whole(self) -> bool:
        """Whether all its results are moved, in one piece."""
        return all(len(a.pieces) == 1 and a.pieces[0].phases == len(a.phases) for a in self.axes)

    def writes(self, y: np.ndarray, dst: Layout, stride: Sequence[int]) -> tuple[int, ...] | None:
        """The strides by which it can write its results into `y` itself; None if it cannot."""
        if not self.is_whole():
            return None
        sizes, strides = self.sizes(), self.strides_in(y, dst, stride)
        letters, rank = letters_of(self.rank), self.rank
        channels, step = [c for c in "g" + letters[3 + rank :] + "o" if sizes[c] > 1], None
        for letter in reversed(channels):
            if step is not None and strides[letter] != step:
                return None
            step = strides[letter] * sizes[letter]
        innermost = strides[channels[-1]] if channels else y.itemsize
        by_dim = [strides["n"], innermost, *(strides[c] for c in letters[3 : 3 + rank])]
        return tuple(by_dim[f.dim] for f in self.problem.dst.factors)


def letters_of(rank: int) -> str:
    """Of the axes that z and y are seen with: batch, group, channel of a group, rows, phases."""
    return "ngo" + "dhw"[3 - rank :] + "pqr"[3 - rank :]


def joined(task: TransposedTask, order: str) -> tuple[Joined, ...]:
    """The convolutions of all phases, as far as they can be joined, with channels ("last") or pixels innermost."""
    return plans.of(_joined, task, order)


def _joined(task: TransposedTask, order: str) -> tuple[Joined, ...]:
    sizes = task.n, task.ic, task.oc, *task.size, *task.out
    spatial_blocks = any(f.size and f.dim != 1 for f in task.src.factors)
    each, phases = task.oc // task.groups, prod(task.stride)
    if not all(sizes) or spatial_blocks or not task.dst.is_plain or any(zeros for _, zeros in task.allowed):
        return ()
    if phases == 1 or each > MAX_CHANNELS or each * phases > MAX_JOINED:
        return ()
    before = (a for a, _ in task.padding)
    axes = [joined_axis(*axis) for axis in zip(task.size, task.kernel, task.stride, task.dilation, before, task.out)]
    accuracy = min((accuracy for accuracy, _ in task.allowed), key=ACCURACIES.index)
    if task.groups > 1 and accuracy == ACCURACIES[0]:
        return ()  # the order of a sum in groups depends on how many outputs they have: see `by_channel`
    rank = len(task.size)
    letters = letters_of(rank)
    rows, channels = letters[3 : 3 + rank], "g" + letters[3 + rank :] + "o"
    z = Layout("a" + "cde"[:rank] + "b" if order == "last" else "abcde"[: rank + 2])
    result = []
    for along in product(*axes):
        p = ConvProblem(
            task.n, task.ic, task.oc * prod(len(a.phases) for a in along), tuple(len(a.inputs) for a in along),
            tuple(a.taps for a in along), (1,) * rank, tuple(a.padding for a in along),
            tuple(a.dilation for a in along), task.groups, task.src, z, accuracy, types=task.types,
        )  # fmt: skip
        result.append(Joined(p, along, "n" + (rows + channels if order == "last" else channels + rows)))
    return tuple(result)


def joined_tasks(task: TransposedTask, order: str) -> list[ConvTask]:
    """The convolutions as problems of their own."""
    return [ConvTask(part.problem, task.threads, task.algorithm, task.once) for part in joined(task, order)]


def name_of(task: TransposedTask, order: str) -> str:
    """The name of a candidate."""
    parts = joined(task, order)
    return f"joined phases in {parts[0].problem.dst}" if parts else ""


def move_of(task: TransposedTask, part: Joined) -> ReorderProblem | None:
    """The reorder from z to y, as one of all that moves; None if nothing does."""
    y = placeholder(
        task.dst.physical_shape(task.y_shape), task.types.dst,
        contiguous_strides(task.dst, task.y_shape, task.types.dst.itemsize),
    )  # fmt: skip
    if part.writes(y, task.dst, task.stride) is not None:
        return None
    sizes, letters, rank = part.sizes(), letters_of(part.rank), part.rank
    of = {0: "n", 1: "go"} | {2 + i: letters[3 + i] + letters[3 + rank + i] for i in range(rank)}
    src, dst = (
        Layout("".join("abcdefghi"[letters.index(c)] for c in order))
        for order in (part.order, "".join(of[f.dim] for f in task.dst.factors))
    )
    shape, width = tuple(sizes[c] for c in letters), task.types.dst.itemsize
    return ReorderProblem(src, dst, shape, width, useful_threads(width * prod(shape), task.threads))


def problems_of(task: TransposedTask, order: str) -> list[Problem]:
    """All that is planned for its joined phases: their convolutions, and what moves their results."""
    moves = (move_of(task, part) for part in joined(task, order))
    return [*joined_tasks(task, order), *(move for move in moves if move is not None)]
