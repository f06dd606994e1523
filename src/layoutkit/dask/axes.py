"""An axis of an operation over windows, cut into tiles: which inputs the outputs of a tile read.

    output o reads inputs  o * stride - before + (0 .. reach - 1)

What lies outside the input is padding, or, with another mode than zeros, repeats a part of the input. A tile reads its
window and no more; the padding that is left to it is what its window reaches over the edges.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from ..convolutions.receptive import ReceptiveField, of_window

Range = tuple[int, int]


class Run(NamedTuple):
    """Neighbouring indices of a window and where their values come from.

    Attributes
    ----------
    at : int
        The first index, as the operation counts them: below 0 before the input.
    length : int
    source : int
        The index of the input that `at` is.
    step : int
        1; -1 where indices of the input descend, 0 where one is repeated.
    """

    at: int
    length: int
    source: int
    step: int = 1


class Window(NamedTuple):
    """What some outputs read along an axis.

    Attributes
    ----------
    outputs : Range
        Those that are computed: the ones asked for, and neighbours where those read nothing but padding.
    inputs : Range
        As the operation counts them: with modes other than zeros they may lie outside the input.
    pads : Range
        The padding by zeros that is left, before and after; negative where outputs read less than `inputs`.
    over : bool
        Whether the last output reaches over the end of the padding (ceil_mode of pooling).
    """

    outputs: Range
    inputs: Range
    pads: Range
    over: bool = False


class Cuttable(Protocol):
    """An axis that can be cut into tiles: a `WindowAxis`, or a spatial axis of a network."""

    @property
    def size(self) -> int:
        """Of the input."""
        ...

    @property
    def out(self) -> int:
        """Of the result."""
        ...

    def window(self, start: int, stop: int) -> Window:
        """The window of outputs from `start` to `stop`, at least one."""
        ...

    def cuts(self, inputs: Iterable[int], unit: int = 1) -> list[int]:
        """Where to cut outputs so that tiles are near chunks of the input; `inputs`: where chunks end."""
        ...


class WindowAxis(NamedTuple):
    """An axis of an input of `size`, on which `out` outputs are computed.

    Attributes
    ----------
    before, after : int
        Padding; negative numbers crop the input.
    reach : int
        Indices from the first to the last that an output reads.
    mode : str
        Of the padding, see `conv2d`.
    unit : int
        Outputs are computed from multiples of it on.
    """

    size: int
    out: int
    stride: int = 1
    before: int = 0
    after: int = 0
    reach: int = 1
    mode: str = "zeros"
    unit: int = 1

    @property
    def field(self) -> ReceptiveField:
        """Which indices an output reads, those of the padding too."""
        return of_window(self.stride, self.reach, self.before)

    def reads(self, start: int, stop: int) -> Range:
        """The indices that outputs from `start` to `stop` read, those of the padding too."""
        return self.field.inputs(start, stop)

    def window(self, start: int, stop: int) -> Window:
        """The window of outputs from `start` to `stop`, at least one."""
        first, end = self.reads(start, stop)
        if self.mode != "zeros":
            return Window((start, stop), (first, end), (0, 0))
        if end <= 0:
            more = min(self.out - stop, -end // self.stride + 1)
            stop, end = stop + more, end + more * self.stride
        if first >= self.size:
            pitch = self.unit * self.stride
            more = min(start // self.unit, (first - self.size) // pitch + 1)
            start, first = start - more * self.unit, first - more * pitch
        low, high = max(0, first), min(self.size, end)
        if low >= high:  # no output near here reads anything but padding
            over = self.reads(0, self.out)[1] > self.size + self.after
            return Window((0, self.out), (0, self.size), (self.before, self.after), over)
        over = end > self.size + max(0, self.after)
        last = self.after if over else end - high
        return Window((start, stop), (low, high), (low - first, last), over)

    def runs(self, start: int, stop: int) -> list[Run]:
        """The indices from `start` to `stop`, by where their values come from."""
        if self.mode == "zeros":
            return [Run(start, stop - start, start)]
        low, high = max(0, -self.before), self.size - max(0, -self.after)  # what is left of the input
        result, at = [], start
        while at < stop:
            if low <= at < high:
                run = Run(at, min(stop, high) - at, at)
            elif self.mode == "edge":
                count = (min(stop, low) if at < low else stop) - at
                run = Run(at, count, low if at < low else high - 1, 0)
            elif self.mode == "circular":
                source = low + (at - low) % (high - low)
                run = Run(at, min(stop - at, high - source, (low - at) if at < low else stop - at), source)
            elif at < low:
                run = Run(at, min(stop, low) - at, 2 * low - at, -1)
            else:
                run = Run(at, stop - at, 2 * (high - 1) - at, -1)
            result.append(run)
            at += run.length
        return result

    def cuts(self, inputs: Iterable[int], unit: int = 1) -> list[int]:
        """Where to cut outputs so that tiles are near chunks of the input; `inputs`: where chunks end.

        Cuts are at multiples of `unit`. Chunks without outputs of their own have no tile.
        """
        middle = (self.reach - 1) // 2
        cuts = {0, self.out}
        for end in inputs:
            cut = -(-(end + self.before - middle) // self.stride)
            if 0 < (cut := -(-cut // unit) * unit) < self.out:
                cuts.add(cut)
        return sorted(cuts)


def ranges(cuts: Sequence[int]) -> list[Range]:
    """The ranges between cuts; of an empty axis one that is empty."""
    return list(pairwise(cuts)) if len(cuts) > 1 else [(0, 0)]


class ChunkSlice(NamedTuple):
    """A part of a chunk along an axis: `length` indices from `at` on are ``chunk[take]``."""

    chunk: int
    at: int
    length: int
    take: slice
    whole: bool  # all of the chunk, in order
    repeats: bool  # one index, repeated


def parts(runs: Sequence[Run], ends: Sequence[int]) -> list[ChunkSlice]:
    """Runs of an axis that is chunked so that chunks end at `ends`."""
    slices = []
    for at, length, source, step in runs:
        while length > 0:
            chunk = bisect_right(ends, source)
            begin = ends[chunk - 1] if chunk else 0
            local, size = source - begin, ends[chunk] - begin
            if step == 0:
                count, take = length, slice(local, local + 1)
            elif step > 0:
                count = min(length, size - local)
                take = slice(local, local + count)
            else:
                count = min(length, local + 1)
                take = slice(local, local - count if local >= count else None, -1)
            slices.append(ChunkSlice(chunk, at, count, take, step == 1 and count == size, step == 0))
            at, length, source = at + count, length - count, source + step * count
    return slices
