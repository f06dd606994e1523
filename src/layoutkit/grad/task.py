"""The gradient of a filter as a problem that is chosen for: its candidates, and what they build."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .._core.runtime import registry
from .._core.runtime.arrays import address
from .._core.runtime.registry import Kernel
from ..choosing.best import choices
from ..choosing.cache import plans
from ..choosing.keys import THREADS
from ..choosing.model import parses
from ..choosing.problem import Candidate, Choice, Problem
from ..convolutions.algorithms.base import CALL_SECONDS, rows_of
from ..convolutions.descriptions import describe_candidate, describe_conv
from ..convolutions.problem import ACCURACIES, KEY, ConvProblem, Pairs
from ..convolutions.route import Arrays, move_seconds, span_of, useful_threads
from ..convolutions.task import check_strides, contiguous, conv_features, warn_if_slow
from ..convolutions.types import conversion_of, dtype_of, ones
from ..formats.layout import Layout
from ..memory import spans
from ..memory.arrays import contiguous_strides, empty
from ..memory.spans import Span
from ..reorders.reorder import reorder
from .algorithms import ALGORITHMS, AUTO, Algorithm, channels_last

NAME = "conv_weight"
LINE = 64  # bytes that parts of the workspace are aligned to


@dataclass(frozen=True)
class WeightTask(Problem):
    """The gradient of the filter of a convolution, on so many threads: `problem.dst` is the layout of dy."""

    problem: ConvProblem
    threads: int
    algorithm: str = AUTO

    @property
    def key(self) -> str:
        """Its key in the cost table, the same whichever algorithm is asked for."""
        return f"{NAME}{str(self.problem).removeprefix('conv')} t{self.threads}"

    @classmethod
    def parse(cls, key: str) -> WeightTask:
        """The task of a key."""
        text, _, threads = key.rpartition(" t")
        return cls(ConvProblem.parse(f"conv{text.removeprefix(NAME)}"), int(threads))

    @property
    def words(self) -> str:
        """In words."""
        return f"the gradient of the filter of {describe_conv(self.problem, self.threads)}"

    @property
    def work(self) -> int:
        """Multiplications and additions."""
        return self.problem.flops

    def features(self) -> tuple[float, ...]:
        """Its place among others, for the model."""
        return conv_features(self.problem, self.threads)

    def candidates(self) -> Iterator[Candidate]:
        """The ways to sum it; ValueError if there is none."""
        p, reasons, supported = self.problem, [], False
        for a in ALGORITHMS:
            if self.algorithm not in (AUTO, a.name):
                continue
            natives = self._natives(a)
            if isinstance(natives, str):
                reasons.append(natives)
                continue
            for native, kernel in product(natives, rows_of(a.family, natives[0].types.rows, registry.isa())):
                supported = True
                via = "" if (native.src, native.dst) == (p.src, p.dst) else f" via {native.src}>{native.dst}"
                tile = "{mr} x {nr} channels" if kernel.mr else "vectors of {lanes} channels"
                wide = "" if native.types == p.types else f" as {native.types.name}"
                yield Candidate(
                    f"{a.name} {kernel.name}{via}{wide}",
                    self._seconds(a, native, kernel),
                    partial(self._build, a, native, kernel),
                    describe=partial(describe_candidate, a.name, a.saving, tile, kernel, p, native),
                )
        if not supported:
            why = "; ".join(dict.fromkeys(reasons))
            raise ValueError(f"{p}: algorithm {self.algorithm!r} cannot sum the gradient of its filter: {why}")

    def _natives(self, a: Algorithm) -> list[ConvProblem] | str:
        """The problem on layouts that an algorithm takes, its own and channels last; or why there are none."""
        p = self.problem.of_types(self.problem.types.wide)
        last = channels_last(p)
        sides = dict.fromkeys([(p.src, p.dst), (last, p.dst), (p.src, last), (last, last)])
        natives = [p.between(*side) for side in sides]
        taken = [native for native in natives if a.supports(native) is None]
        if not taken:
            return a.supports(natives[-1]) or ""
        if ACCURACIES.index(needed := a.accuracy(p)) > ACCURACIES.index(p.accuracy):
            return f"{a.name} is of accuracy {needed!r} here, {p.accuracy!r} was asked for"
        return taken

    def _seconds(self, a: Algorithm, native: ConvProblem, kernel: Kernel) -> float:
        p = self.problem
        narrow = native.types != p.types
        moved = bool(narrow or a.folds or native.src != p.src) * (p.src_bytes + native.src_bytes)
        moved += (narrow or native.dst != p.dst) * (p.dst_bytes + native.dst_bytes)
        threads = useful_threads(p, self.threads)
        return a.estimate(native, kernel, threads) + move_seconds(moved) / threads + CALL_SECONDS

    def _build(self, a: Algorithm, native: ConvProblem, kernel: Kernel, arrays: Arrays | None = None) -> WeightRoute:
        return WeightRoute(self.problem, native, a, kernel, self.threads, arrays or contiguous(self.problem))

    def on_ranked(self, choices: Sequence[Choice]) -> None:
        """Warn where all ways are slow, once."""
        warn_if_slow(self, choices)

    def prepare(self) -> Callable[[WeightRoute], Callable[[], object]]:
        """Allocate contiguous arrays; returns a function from a route to a call on them."""
        p = self.problem
        x = ones(p.src.physical_shape(p.src_shape), p.types.elements[0])
        y = ones(p.dst.physical_shape(p.dst_shape), p.types.elements[3])
        return lambda route: partial(route, x, y)


parses(NAME, f"{NAME}{KEY.removeprefix('conv')} {THREADS}")(WeightTask.parse)


class _Reorder(NamedTuple):
    """A reorder of x or dy to what the nest reads, with zeros around it along its last axes, which are `pads`."""

    src: Layout
    dst: Layout
    shape: tuple[int, ...]
    elements: tuple[str, str]
    pads: Pairs = ()

    @property
    def padded_shape(self) -> tuple[int, ...]:
        outer = len(self.shape) - len(self.pads)
        return *self.shape[:outer], *(n + sum(pair) for n, pair in zip(self.shape[outer:], self.pads))

    @property
    def nbytes(self) -> int:
        return prod(self.dst.physical_shape(self.padded_shape)) * dtype_of(self.elements[1]).itemsize

    def run(self, array: np.ndarray, memory: np.ndarray, threads: int) -> np.ndarray:
        """The reordered array, in `memory`."""
        dtype = conversion_of(self.elements)
        out = memory[: self.nbytes].view(dtype_of(self.elements[1]) if dtype else array.dtype)
        inside = out = out.reshape(self.dst.physical_shape(self.padded_shape))
        if any(map(any, self.pads)):
            out[...] = 0
            axes = zip(self.pads, self.shape[len(self.shape) - len(self.pads) :])
            place: list[Any] = [slice(before, before + n) for (before, _), n in axes]
            inside = out[(..., *place, slice(None))]  # channels last
        reorder(array, self.src, self.dst, shape=self.shape, out=inside, dtype=dtype, threads=threads)
        return out


class WeightRoute:
    """All that a call runs but for the last reorder: reorder x and dy if need be, sum.

    Attributes
    ----------
    layout : Layout
        Of the sums, whose logical shape is (groups, O/groups, I/groups, *kernel).
    shape : tuple of int
        That.
    needs : int
        Bytes of workspace.
    moves : list of reorders or None
        Of x and dy.
    sums : WeightSums
        The loop nest.
    """

    def __init__(
        self, p: ConvProblem, native: ConvProblem, a: Algorithm, kernel: Kernel, threads: int, arrays: Arrays
    ) -> None:
        self._native, self._threads = native, useful_threads(p, threads)
        width = native.types.sum.itemsize
        pads = native.padding[len(native.padding) - a.folds :]  # along folded axes
        elements = [(p.types.elements[i], native.types.elements[i]) for i in (0, 3)]
        x_move = _Reorder(p.src, native.src, p.src_shape, elements[0], pads)
        y_move = _Reorder(p.dst, native.dst, p.dst_shape, elements[1])
        self.moves: list[_Reorder | None] = []
        strides, spans_read = [], []
        for move, array_strides in zip((x_move, y_move), arrays):
            same = move.src == move.dst and move.elements[0] == move.elements[1] and not move.pads
            read = same and a.takes_strides(move.dst, move.shape, array_strides, width)
            self.moves.append(None if read else move)
            array_strides = array_strides if read else contiguous_strides(move.dst, move.padded_shape, width)
            strides.append(array_strides)
            spans_read.append(spans.of_array(move.dst.physical_shape(move.padded_shape), array_strides, width))
        self.sums, self._sums_layout = a.build(native, kernel, self._threads, Arrays(*strides))
        self.shape = p.groups, p.oc // p.groups, p.ic // p.groups, *p.kernel
        self.layout, self._sums_shape = self._sums_layout, self.shape
        if a.folds:  # taps that were summed as channels become taps again
            outer, folded = p.kernel[: -a.folds], p.kernel[-a.folds :]
            self._sums_shape = *self.shape[:2], p.ic * prod(folded), *outer, *[1] * a.folds
            self.layout = Layout("ab" + "def"[: len(p.kernel)] + "c")
        footprint = self.sums.footprint()
        spans.check(span_of(footprint.source), spans_read[0], f"{self}: input")
        spans.check(span_of(footprint.destination), spans_read[1], f"{self}: gradient of the output")
        self._sums_physical = self._sums_layout.physical_shape(self._sums_shape)
        sums_bytes = prod(self._sums_physical) * width
        spans.check(Span(0, sums_bytes), Span(0, self.sums.slab_bytes), f"{self}: sums")
        self._offsets = [0]  # in the workspace: of reordered x and dy, slabs, the threads' buffers, unfolded sums
        for nbytes in (
            *(0 if move is None else move.nbytes for move in self.moves),
            self.sums.slabs * self.sums.slab_bytes,
            self._threads * self.sums.thread_bytes,
            sums_bytes if a.folds else 0,
        ):
            self._offsets.append(self._offsets[-1] + -(-nbytes // LINE) * LINE)
        self.needs = self._offsets[-1] + LINE

    def __str__(self) -> str:
        return f"{NAME}{str(self._native).removeprefix('conv')}"

    def __call__(self, x: np.ndarray, y: np.ndarray, workspace: np.ndarray | None = None) -> np.ndarray:
        """The sums of arrays of the strides that this was built for, in `layout`, of the type of the sums.

        They are part of the `workspace`, which is of bytes.
        """
        if workspace is None:
            workspace = empty((self.needs,), np.dtype(np.uint8), NAME)
        workspace = workspace[-address(workspace) % LINE :]
        x_memory, y_memory, slabs, buffers, unfolded = (workspace[a:b] for a, b in pairwise(self._offsets))
        x, y = (
            array if move is None else move.run(array, memory, self._threads)
            for array, move, memory in zip((x, y), self.moves, (x_memory, y_memory))
        )
        self.sums(x, y, slabs, buffers)
        size = prod(self._sums_physical)
        sums = slabs[: self.sums.slab_bytes].view(self._native.types.sum)[:size].reshape(self._sums_physical)
        if self._sums_shape is self.shape:
            return sums
        out = unfolded.view(sums.dtype)[: prod(self._sums_shape)].reshape(self.layout.physical_shape(self._sums_shape))
        shape, threads = self._sums_shape, self._threads
        reorder(sums, self._sums_layout, self.layout, shape=shape, out=out, threads=threads)
        return out.reshape(self.layout.physical_shape(self.shape))


def best_sums(task: WeightTask, arrays: Arrays) -> WeightRoute:
    """The route that a call takes."""
    check_strides(task.problem, arrays)
    return plans.of(choices(task)[0].candidate.build, arrays)
