"""Slabs: parts of the destination that are one run of memory, made in scratch, pads and all, and streamed whole.

What fits where pieces are ragged: a pixel of 100 channels from blocks of 16 is six runs and a short one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from .loops import Loop
from .pieces import Side

LEAST, MOST = 2 << 10, 128 << 10  # bytes of a slab; the latter is LK_SLAB of kernels.h


class Slabs(NamedTuple):
    """`loops` over slabs of `bytes`, each of which is a reorder of `shape`."""

    loops: tuple[Loop, ...]
    shape: tuple[int, ...]
    bytes: int


def slabs(
    shape: Sequence[int], full: Sequence[int], src: Sequence[Side], dst: Sequence[Side], width: int
) -> Slabs | None:
    """The largest slabs of a destination of logical sizes `full`, pads included; None where it has none."""
    if any(digit.stride < 0 for side in dst for digit in side.digits):
        return None  # a slab would begin before the place of its first element
    inner, loops = list(shape), []
    for dim in sorted(range(len(shape)), key=lambda d: abs(dst[d].digits[0].stride), reverse=True):
        if len(src[dim].digits) > 1 or len(dst[dim].digits) > 1:
            return None
        step = Loop(shape[dim], src[dim].digits[0].stride, dst[dim].digits[0].stride)
        inner[dim] = 1
        if step.n > 1:
            loops.append(step)
        size = width * prod(f for d, f in enumerate(full) if inner[d] != 1 or shape[d] == 1 != full[d])
        if size < LEAST:
            return None
        if size <= MOST and step.n > 1 and size == step.dst:
            return Slabs(tuple(loops), tuple(inner), size)
    return None
