"""One piece of memory for all buffers of a program."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple, Protocol

import numpy as np

from .steps import Place

ALIGNMENT = 4096
Buffers = Mapping[Place, tuple[tuple[int, ...], np.dtype]]
Bytes = tuple[int, int]  # [begin, end)


class Accesses(Protocol):
    """Of a step: what it reads and writes, and whether what it writes may be views of what it reads."""

    @property
    def reads(self) -> tuple[Place, ...]: ...

    @property
    def writes(self) -> tuple[Place, ...]: ...

    @property
    def views(self) -> bool: ...


class Arena(NamedTuple):
    """Bytes in all, and where each buffer begins."""

    nbytes: int
    offsets: dict[Place, int]


def placed(steps: Sequence[Accesses], buffers: Buffers, wholes: Mapping[Place, Place], kept: Iterable[Place]) -> Arena:
    """Buffers in an arena: one after another, each where it fits lowest beside those that are alive at the same time.

    Of some orders the one that takes the least: the largest first, those that are large for long, or those that live
    long. `wholes` says of which buffers others are parts; `kept` are read after the last step.
    """
    alive = lifetimes(steps, wholes, kept)
    sizes = {p: -(-prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT for p, (shape, dtype) in buffers.items()}
    steps_of = {place: alive[place][1] - alive[place][0] + 1 for place in sizes}
    orders: list[Callable[[Place], tuple[int, ...]]] = [
        lambda p: (-sizes[p],), lambda p: (-sizes[p] * steps_of[p],), lambda p: (-steps_of[p], -sizes[p]),
    ]  # fmt: skip
    most, best = _most_alive(alive, sizes, len(steps) + 1), None
    for order in orders:
        found = _in_order(sorted(sizes, key=order), alive, sizes, len(steps) + 1)
        if best is None or found.nbytes < best.nbytes:
            best = found
        if best.nbytes == most:
            break
    assert best is not None
    return best


def _in_order(
    places: Sequence[Place], alive: Mapping[Place, tuple[int, int]], sizes: Mapping[Place, int], steps: int
) -> Arena:
    """Buffers in this order, each where it fits lowest."""
    taken = _Taken(steps)
    offsets: dict[Place, int] = {}
    for place in places:
        first, last = alive[place]
        offsets[place] = at = taken.lowest(first, last, sizes[place])
        taken.add(first, last, at, at + sizes[place])
    return Arena(max((offsets[p] + sizes[p] for p in sizes), default=0), offsets)


def _most_alive(alive: Mapping[Place, tuple[int, int]], sizes: Mapping[Place, int], steps: int) -> int:
    """The most bytes that are alive at a time: no arena takes less."""
    change = [0] * (steps + 1)
    for place, size in sizes.items():
        change[alive[place][0]] += size
        change[alive[place][1] + 1] -= size
    return max(itertools.accumulate(change))


def lifetimes(
    steps: Sequence[Accesses], wholes: Mapping[Place, Place], kept: Iterable[Place]
) -> dict[Place, tuple[int, int]]:
    """By buffer, the first and the last step at which it is in use, itself or through parts or views of it.

    Backwards over the steps: what a view is read for, all that it may be a view of is needed for.
    """
    last: dict[Place, int] = dict.fromkeys(kept, len(steps))
    first: dict[Place, int] = {}
    for i, step in zip(range(len(steps) - 1, -1, -1), reversed(steps)):
        until = max((last.setdefault(place, i) for place in step.writes), default=i) if step.views else i
        for place in step.reads:
            last[place] = max(last.get(place, i), until)
        for place in (*step.reads, *step.writes):
            last.setdefault(place, i)
            first[place] = i
    found: dict[Place, tuple[int, int]] = {}
    for place, begin in first.items():
        whole = wholes.get(place, place)
        known = found.get(whole, (begin, last[place]))
        found[whole] = min(begin, known[0]), max(last[place], known[1])
    return found


class _Taken:
    """Which bytes are in use at which steps.

    A binary tree of ranges of steps (node i has the halves 2i and 2i + 1, the leaves are single steps), so that a
    buffer concerns O(log steps) nodes whatever its lifetime, and a look-up as many.
    """

    def __init__(self, steps: int) -> None:
        self._leaves = 1 << steps.bit_length()
        self._all: dict[int, list[Bytes]] = {}  # by node, in use during all of its steps
        self._any: dict[int, list[Bytes]] = {}  # by node, in use during any of them

    def add(self, first: int, last: int, begin: int, end: int) -> None:
        """Bytes [begin, end) are in use from step `first` to `last`."""
        if begin == end:
            return
        covers, around = self._nodes(first, last)
        for node in covers:
            _join(self._all.setdefault(node, []), begin, end)
        for node in {*covers, *around}:
            _join(self._any.setdefault(node, []), begin, end)

    def lowest(self, first: int, last: int, size: int) -> int:
        """The lowest place of so many bytes that are free from step `first` to `last`."""
        covers, around = self._nodes(first, last)
        occupied = [each for node in covers for each in self._any.get(node, ())]
        occupied += [each for node in around for each in self._all.get(node, ())]
        at = 0
        for begin, end in sorted(occupied):
            if begin - at >= size:
                break
            at = max(at, end)
        return at

    def _nodes(self, first: int, last: int) -> tuple[list[int], set[int]]:
        """The nodes that are [first, last] together, and those that hold its first or its last step: what meets it is
        within the former or covers one of the latter."""
        low, high = first + self._leaves, last + self._leaves
        covers: list[int] = []
        around: set[int] = set()
        begin, end = low, high + 1
        while begin < end:
            if begin & 1:
                covers.append(begin)
                begin += 1
            if end & 1:
                end -= 1
                covers.append(end)
            begin, end = begin >> 1, end >> 1
        while low:
            around.update((low, high))
            low, high = low >> 1, high >> 1
        return covers, around


def _join(ranges: list[Bytes], begin: int, end: int) -> None:
    """Add a range of bytes to ascending ones that do not touch."""
    i = bisect_left(ranges, begin, key=lambda each: each[1])
    j = bisect_right(ranges, end, key=lambda each: each[0])
    if i < j:
        begin, end = min(begin, ranges[i][0]), max(end, ranges[j - 1][1])
    ranges[i:j] = [(begin, end)]
