"""A reorder as a problem: between arrays of two layouts, contiguous or of exact strides, on so many threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np

from .._core.nests.moves.reorder import Program
from .._core.runtime import registry
from ..choosing.best import choices
from ..choosing.keys import LAYOUT, NUMBER, THREADS, numbers, parts, sizes
from ..choosing.machine_profile import scale
from ..choosing.model import parses
from ..choosing.problem import Candidate, Choice, Problem
from ..formats.layout import Layout
from ..formats.notation import key
from ..memory.arrays import contiguous_strides, empty
from ..memory.spans import of_array
from .box import Box
from .costs import INNER, LEAST_LINE_NS, MEMORY
from .estimate import counted_slabs, counted_tiles, counted_windows, inner_ns, level_of, repeated_bytes, seconds_of
from .features import reorder_features
from .loops import LINE_BYTES, SINGLE_STEP, Loop
from .nest import Blocking, Nest
from .nests import copy_nests, fill_nests
from .pieces import Side, pieces
from .program import Transfer, program, slab_nests, vector_bytes
from .slabs import Slab, slabs_of
from .variants import CACHED_VARIANTS, VARIANTS, Variant
from .views import Strides, as_arrays, by_strides, extent_of
from .windows import window_steps

SMALL_BYTES = 1 << 18  # below it a second thread costs more than it saves
TIE = 1000  # each variant is estimated 1 / TIE longer than the one before, so that ties keep their order
MEMORY_THREADS = 1.5  # the most that threads gain when memory is the limit
MAX_REGIONS = 64  # whose nests are counted; reorders of more are estimated as one nest of single elements
_STRIDES = f"(?:0|-?{NUMBER})(?:,(?:0|-?{NUMBER})){{0,30}}"
KEY = f"reorder ({sizes(15)}|) ({LAYOUT})>({LAYOUT})(?: by ({_STRIDES})>({_STRIDES}))? x(8|16|32|64|128)"
_KEY = f"{KEY}(?: ({THREADS}))?"


def useful_threads(nbytes: int, threads: int) -> int:
    """How many of `threads` a reorder that writes `nbytes` uses."""
    return threads if nbytes >= SMALL_BYTES else 1


def has_few_regions(shape: Sequence[int], src: Sequence[Side], dst: Sequence[Side]) -> bool:
    """Whether a reorder is cut into at most `MAX_REGIONS`."""
    try:
        return prod(len(pieces(0, n, sides, MAX_REGIONS)) for n, *sides in zip(shape, src, dst)) <= MAX_REGIONS
    except ValueError:
        return False


def in_words(shape: Sequence[int], element: str, src: Layout, dst: Layout, threads: int) -> str:
    """A reorder of a tensor of such elements in words."""
    return f"reorder of {tuple(shape)} {element} {src} -> {dst} on {threads} thread{'s' * (threads > 1)}"


@dataclass(frozen=True)
class ReorderProblem(Problem):
    """A tensor of logical `shape`, elements of `width` bytes, from one dense layout to another.

    `strides` of the axes of source and destination, in bytes; None: those of contiguous arrays.
    """

    src: Layout
    dst: Layout
    shape: tuple[int, ...]
    width: int
    threads: int
    strides: tuple[Strides, Strides] | None = None

    @classmethod
    def of(cls, t: Transfer, threads: int) -> ReorderProblem:
        """The problem of a transfer: as between whole arrays, whose layouts may be others."""
        (src, dst), strides = as_arrays((t.src, t.dst), t.box.shape, (t.src_strides, t.dst_strides), t.width)
        return cls(src, dst, t.box.shape, t.width, threads, strides)

    def __str__(self) -> str:
        extents = "x".join(map(str, self.shape))
        by = ">".join(",".join(map(str, side)) for side in self.strides or ())
        return f"reorder {extents} {key(self.src)}>{key(self.dst)}{f' by {by}' * bool(by)} x{8 * self.width}"

    @property
    def key(self) -> str:
        """Its key in the cost table."""
        return f"{self} t{self.threads}"

    @property
    def words(self) -> str:
        """In words."""
        return in_words(self.shape, f"of {self.width} bytes each", self.src, self.dst, self.threads)

    @property
    def work(self) -> int:
        """Bytes read and written, pads excluded."""
        return 2 * self.width * prod(self.shape)

    @property
    def footprint(self) -> int:
        """Bytes of source and destination, pads included."""
        return sum(self._extents)

    @property
    def _extents(self) -> tuple[int, int]:
        """Bytes of source and of destination, pads and what is between elements included."""
        read, written = (extent_of(layout, self.shape, by, self.width) for layout, by in self.transfer().sides)
        return read, written

    @classmethod
    def parse(cls, text: str) -> ReorderProblem:
        """The problem whose key `text` is, on one thread if it says none; ValueError if it is none."""
        extents, src, dst, read, written, bits, threads = parts(
            text, _KEY, "a reorder, such as 'reorder 1x64x56x56 NCHW>NHWC x32'"
        )
        shape = numbers(extents) if extents else ()
        strides = (_integers(read), _integers(written)) if read else None
        problem = cls(Layout(src), Layout(dst), shape, int(bits) // 8, int((threads or "t1")[1:]), strides)
        axes = len(problem.src.factors), len(problem.dst.factors)
        fits = not strides or axes == tuple(map(len, strides))
        if not (problem.src.rank == problem.dst.rank == len(shape) and fits):
            raise ValueError(f"not a reorder: {text!r}; its shape, layouts and strides do not fit together")
        return problem

    def features(self) -> tuple[float, ...]:
        """Its features, for the cost model."""
        return reorder_features(self.transfer(), self.threads)

    def candidates(self) -> Iterator[Candidate]:
        """The variants that may be the fastest at this level of memory: within the caches few of them, in memory all
        but windows."""
        t, level = self.transfer(), level_of(self.footprint)
        threads: float = self.threads
        if level == MEMORY:
            threads = min(threads, max(1.0, MEMORY_THREADS * scale().stream / scale().copy_all))
        counts = self.counts(level)
        for i, (name, variant) in enumerate(VARIANTS.items()):
            counted = counts(variant)
            if counted:
                seconds = seconds_of(level, *counted) * (1 + i / TIE) / threads
                build = partial(program, t, name, bytes(self.width))
                yield Candidate(name, seconds, build, describe=variant.words)

    def least_estimate(self) -> float:
        """Fewer seconds than any candidate is estimated at, whatever the layouts: what writing the elements takes."""
        by = scale()
        least = min(by.copy_l2, by.copy_l3, by.copy_memory, by.stream)
        lines = self.width * prod(self.shape) / LINE_BYTES
        return 1e-9 * lines * LEAST_LINE_NS[level_of(self.work)] * least / self.threads

    def evicts(self, name: str) -> bool:
        """Whether a variant writes past caches that could hold source and destination: it may be the fastest, but who
        reads the result next waits for memory."""
        return VARIANTS[name].stream and level_of(self.footprint) != MEMORY

    def read_next(self, ranked: Sequence[Choice]) -> tuple[Choice, ...]:
        """Those choices that leave the result in the caches, where it is read next; all if there is none."""
        return tuple(choice for choice in ranked if not self.evicts(choice.candidate.name)) or tuple(ranked)

    def counts(self, level: str) -> Callable[[Variant], tuple[str, Sequence[float]] | None]:
        """A function that returns how a variant moves elements, as a key of `COSTS` of this level, and the counts; None
        if the variant is no candidate."""
        t, full = self.transfer(), self.dst.full_shape(self.shape)
        sides = t.box.sides(t.src, t.src_strides, t.dst, t.dst_strides)
        windows = None if level == MEMORY else window_steps(self.shape, *sides, self.width)
        slabs = slabs_of(self.shape, full, *sides, self.width) if level == MEMORY else []
        vector, (read, written) = vector_bytes(registry.isa()), self._extents
        simple = has_few_regions(self.shape, *sides)

        tiles = VARIANTS["store allxall"]  # whose nests those of all other tiles are like

        @cache
        def nests(blocking: Blocking) -> tuple[list[Nest], set[int], float]:
            """The nests, in memory with those that fill pads; the dimensions whose pads the others write; and the bytes
            of lines that several nests write."""
            if not simple:
                every = Loop(prod(self.shape), self.width, self.width)
                return [Nest("gather", 8 * self.width, (), (SINGLE_STEP, every), 0, 0)], set(), 0
            of, padded = copy_nests(self.shape, *sides, self.width, vector, blocking)
            if level == MEMORY:
                of += fill_nests(self.shape, full, sides[1], self.width, padded)
            return of, padded, repeated_bytes(of)

        def inside(slab: Slab) -> float:
            """Nanoseconds of assembling a slab."""
            of, _ = slab_nests(slab, self.width, vector, VARIANTS["slabs"].blocking)
            if of[0].family != "windows":
                return inner_ns(*counted_tiles(of, vector, tiles))
            steps = window_steps(slab.shape, slab.source, slab.buffer, self.width)
            return inner_ns(*counted_windows(steps)) if steps else 0

        def count(variant: Variant) -> tuple[str, Sequence[float]] | None:
            b = variant.blocking
            if level != MEMORY and variant.name not in CACHED_VARIANTS:
                return None
            if variant.windows:
                return counted_windows(windows) if windows else None
            if variant.slabs:
                moved = self.width * prod(self.shape)
                return counted_slabs(slabs[0], moved, written, inside(slabs[0])) if slabs else None
            of, padded, repeated = nests(b if b.fused or b.scattered else tiles.blocking)
            families = {nest.family for nest in of if nest.fused}
            if (b.fused and not families) or (b.family and b.family not in families):  # as another variant does
                return None
            if families == {"runs"} and variant.name != "fused x1024":  # runs are the same in all fused variants
                return None
            more = (read + written) / 2
            if level == MEMORY and not variant.stream:  # what is written is read before
                more = (read + 2 * written) / 3
            if level == MEMORY:  # a line that several nests write in part is read and written again for each
                more += 2 * repeated
            if level == INNER:  # the pads that nests do not write with elements
                some = any(n < all_of for dim, (n, all_of) in enumerate(zip(self.shape, full)) if dim not in padded)
                more = self.width * (prod(full) - prod(self.shape)) * some
            return counted_tiles(of, vector, variant, more)

        return count

    def transfer(self) -> Transfer:
        """The transfer of whole arrays, which is what measuring times."""
        src, dst = self.strides or (contiguous_strides(x, self.shape, self.width) for x in (self.src, self.dst))
        return Transfer(self.src, self.dst, self.width, src, dst, Box.all_of(self.shape))

    def is_of(self, t: Transfer) -> bool:
        """Whether a transfer is exactly what measuring times."""
        read, written = (by_strides(layout, self.shape, strides).strides for layout, strides in t.sides)
        return t._replace(src=self.src, dst=self.dst, src_strides=read, dst_strides=written) == self.transfer()

    def prepare(self) -> Callable[[Any], Callable[[], object]]:
        """A function that turns a program into a call on arrays of these strides, which are allocated here."""
        dtype = np.dtype(f"V{self.width}" if self.width == 16 else f"u{self.width}")
        a, b = (_allocated(x.physical_shape(self.shape), strides, dtype) for x, strides in self.transfer().sides)
        return lambda run: partial(run, a, b, self.threads)


def _allocated(shape: tuple[int, ...], strides: Strides, dtype: np.dtype) -> np.ndarray:
    """An array of these byte strides in memory whose pages have all been touched, so that none is faulted in later."""
    span = of_array(shape, strides, dtype.itemsize)
    memory = empty((span.hi - span.lo,), np.dtype(np.uint8), "measure")
    memory[...] = 1
    return np.ndarray(shape, dtype, memory, -span.lo, strides)


def _integers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


parses("reorder", f"{KEY} {THREADS}")(ReorderProblem.parse)


def best_program(src: Layout, dst: Layout, shape: tuple[int, ...], width: int, src_strides, dst_strides) -> Program:
    """The program of a whole tensor by the best variant on one thread, for operations that reorder as a part of their
    work."""
    t = Transfer(src, dst, width, src_strides, dst_strides, Box.all_of(shape))
    problem = ReorderProblem.of(t, 1)
    return program(t, problem.read_next(choices(problem))[0].candidate.name, bytes(width))
