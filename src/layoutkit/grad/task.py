"""The gradient of a filter as a problem that is chosen for: its candidates, and what they build."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np

from .._core.runtime import registry
from .._core.runtime.arrays import address
from .._core.runtime.registry import Kernel
from ..choosing.best import choices
from ..choosing.cache import plans
from ..choosing.keys import THREADS
from ..choosing.model import reads
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
        p, reasons, any_native = self.problem, [], False
        for a in ALGORITHMS:
            if self.algorithm not in (AUTO, a.name):
                continue
            natives = self._natives(a)
            if isinstance(natives, str):
                reasons.append(natives)
                continue
            for native, kernel in product(natives, rows_of(a.family, natives[0].types.rows, registry.isa())):
                any_native = True
                via = "" if (native.src, native.dst) == (p.src, p.dst) else f" via {native.src}>{native.dst}"
                tile = "{mr} x {nr} channels" if kernel.mr else "vectors of {lanes} channels"
                wide = "" if native.types == p.types else f" as {native.types.name}"
                yield Candidate(
                    f"{a.name} {kernel.name}{via}{wide}",
                    self._seconds(a, native, kernel),
                    partial(self._build, a, native, kernel),
                    describe=partial(describe_candidate, a.name, a.saving, tile, kernel, p, native),
                )
        if not any_native:
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

    def decided(self, choices: Sequence[Choice]) -> None:
        """Warn where all ways are slow, once."""
        warn_if_slow(self, choices)

    def prepare(self) -> Callable[[WeightRoute], Callable[[], object]]:
        """Allocate contiguous arrays; returns a function from a route to a call on them."""
        p = self.problem
        x = ones(p.src.physical_shape(p.src_shape), p.types.elements[0])
        y = ones(p.dst.physical_shape(p.dst_shape), p.types.elements[3])
        return lambda route: partial(route, x, y)


reads(NAME, f"{NAME}{KEY.removeprefix('conv')} {THREADS}")(WeightTask.parse)


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
    """

    def __init__(
        self, p: ConvProblem, native: ConvProblem, a: Algorithm, kernel: Kernel, threads: int, arrays: Arrays
    ) -> None:
        self._p, self._native, self._threads = p, native, useful_threads(p, threads)
        sides = (p.src, native.src, p.src_shape, 0), (p.dst, native.dst, p.dst_shape, 3)
        self._moves: list[tuple | None] = []
        strides = []
        item = native.types.sum.itemsize
        self._pads = native.padding[len(native.padding) - a.folds :]  # along folded axes
        for (caller_layout, layout_read, shape, at), array_strides in zip(sides, arrays):
            elements = p.types.elements[at], native.types.elements[at]
            if self._pads and not at:
                self._moves.append((caller_layout, layout_read, shape, elements, self._pads))
                strides.append(contiguous_strides(layout_read, _padded(shape, self._pads), item))
            elif (
                caller_layout == layout_read
                and elements[0] == elements[1]
                and a.takes_strides(layout_read, shape, array_strides, item)
            ):
                self._moves.append(None)
                strides.append(array_strides)
            else:
                self._moves.append((caller_layout, layout_read, shape, elements, ()))
                strides.append(contiguous_strides(layout_read, shape, item))
        self._sums, self.layout = a.build(native, kernel, self._threads, Arrays(*strides))
        self.shape = p.groups, p.oc // p.groups, p.ic // p.groups, *p.kernel
        self._folded = None
        if a.folds:
            kept, folded = p.kernel[: -a.folds], p.kernel[-a.folds :]
            self._folded = *self.shape[:2], p.ic * prod(folded), *kept, *[1] * a.folds
        footprint = self._sums.footprint()
        for parts, (_, layout_read, shape, _), steps, name in zip(
            (footprint.source, footprint.destination), sides, strides, ("input", "gradient of the output")
        ):
            if self._pads and name == "input":
                shape = _padded(shape, self._pads)
            array = spans.of_array(layout_read.physical_shape(shape), steps, item)
            spans.check(span_of(parts), array, f"{self}: {name}")
        self._sums_bytes = self._sums.slabs * self._sums.slab_bytes
        self._room_bytes = self._threads * self._sums.thread_bytes
        read = prod(self.layout.physical_shape(self._folded or self.shape)) * item
        spans.check(Span(0, read), Span(0, self._sums.slab_bytes), f"{self}: sums")
        self._held = self.layout
        if self._folded:  # taps outside of channels
            spatial = "def"[: len(p.kernel)]
            self.layout = Layout(f"ab{spatial}c")

        sizes = [0 if move is None else self._moved_bytes(move) for move in self._moves]
        rows = prod(self._held.physical_shape(self._folded)) * item if self._folded else 0
        self._places = [0]
        for nbytes in (*sizes, self._sums_bytes, self._room_bytes, rows):
            self._places.append(self._places[-1] + -(-nbytes // LINE) * LINE)
        self.needs = self._places[-1] + LINE

    def __str__(self) -> str:
        return f"{NAME}{str(self._native).removeprefix('conv')}"

    def __call__(self, x: np.ndarray, y: np.ndarray, workspace: np.ndarray | None = None) -> np.ndarray:
        """The sums of arrays of the strides that this was built for, in `layout`, of the type of the sums.

        They are part of the `workspace`, which is of bytes.
        """
        if workspace is None:
            workspace = empty((self.needs,), np.dtype(np.uint8), NAME)
        workspace = workspace[-address(workspace) % LINE :]
        parts = [workspace[a:b] for a, b in pairwise(self._places)]
        x, y = (self._moved(array, move, part) for array, move, part in zip((x, y), self._moves, parts))
        sums = parts[2]
        self._sums(x, y, sums, parts[3])
        sums_read = sums[: self._sums.slab_bytes].view(self._native.types.sum)
        physical = self._held.physical_shape(self._folded or self.shape)
        sums_read = sums_read[: prod(physical)].reshape(physical)
        if not self._folded:
            return sums_read
        layout = Layout("ab" + "def"[: len(self.shape) - 3] + "c")
        rows = parts[4].view(sums_read.dtype)[: prod(self._folded)].reshape(layout.physical_shape(self._folded))
        reorder(sums_read, self._held, layout, shape=self._folded, out=rows, threads=self._threads)
        return rows.reshape(self.layout.physical_shape(self.shape))

    def _moved_bytes(self, move: tuple) -> int:
        _, layout_read, shape, elements, pads = move
        return prod(layout_read.physical_shape(_padded(shape, pads))) * dtype_of(elements[1]).itemsize

    def _moved(self, array: np.ndarray, move: tuple | None, part: np.ndarray) -> np.ndarray:
        if move is None:
            return array
        caller_layout, layout_read, shape, elements, pads = move
        dtype = conversion_of(elements)
        out = part[: self._moved_bytes(move)].view(dtype_of(elements[1]) if dtype else array.dtype)
        inside = out = out.reshape(layout_read.physical_shape(_padded(shape, pads)))
        if any(map(any, pads)):
            out[...] = 0
            axes = zip(pads, shape[len(shape) - len(pads) :])
            place: list[Any] = [slice(before, before + n) for (before, _), n in axes]
            inside = out[(..., *place, slice(None))]  # channels last
        reorder(array, caller_layout, layout_read, shape=shape, out=inside, dtype=dtype, threads=self._threads)
        return out


def _padded(shape: tuple[int, ...], pads: Pairs) -> tuple[int, ...]:
    """A shape with padding along its last axes."""
    kept = len(shape) - len(pads)
    return *shape[:kept], *(n + sum(pair) for n, pair in zip(shape[kept:], pads))


def best_sums(task: WeightTask, arrays: Arrays) -> WeightRoute:
    """What a call runs."""
    check_strides(task.problem, arrays)
    return plans.of(_built, choices(task)[0].candidate.build, arrays)


def _built(build: Callable[[Arrays], WeightRoute], arrays: Arrays) -> WeightRoute:
    return build(arrays)
