"""One piece of memory for all buffers of a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple, Protocol

import numpy as np

from .kernels import Place

ALIGNMENT = 4096
Buffers = Mapping[Place, tuple[tuple[int, ...], np.dtype]]


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
    """Buffers in an arena: the largest first, each where it fits lowest beside those that are alive at the same time.

    `wholes` says of which buffers others are parts; `kept` are read after the last step.
    """
    first: dict[Place, int] = {}
    last: dict[Place, int] = {}
    held: dict[Place, set[Place]] = {}  # the buffers that what is in a place may lie in
    for i, step in enumerate(steps):
        for place in step.writes:
            held[place] = {wholes.get(place, place)}
            if step.views:
                held[place].update(*(held.get(p, {p}) for p in step.reads))
        for place in (*step.reads, *step.writes):
            for p in held.get(place, {place}):
                first.setdefault(p, i)
                last[p] = i
    for place in kept:
        for p in held.get(place, ()):
            last[p] = len(steps)
    sizes = {p: -(-prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT for p, (shape, dtype) in buffers.items()}
    taken: list[tuple[int, int, Place]] = []
    offsets: dict[Place, int] = {}
    for place in sorted(sizes, key=lambda p: -sizes[p]):
        at = 0
        for begin, end, other in sorted(taken):
            meets = first[other] <= last[place] and first[place] <= last[other]
            if meets and begin < at + sizes[place] and at < end:
                at = end
        offsets[place] = at
        taken.append((at, at + sizes[place], place))
    return Arena(max((end for _, end, _ in taken), default=0), offsets)
