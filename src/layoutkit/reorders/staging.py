"""Staging: parts of the destination that are one run of memory are put together in a staging buffer, pads included,
and then streamed out whole.

It pays where source and destination blocks do not line up, so that direct stores would write short runs: a pixel of
100 channels, read from blocks of 16, is six runs of 16 and one of 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from .loops import Loop
from .pieces import Side

# Shorter runs are not worth a second copy; the largest buffer is LK_STAGING_BYTES of kernels.h.
MIN_STAGING_BYTES, MAX_STAGING_BYTES = 2 << 10, 128 << 10


class Staging(NamedTuple):
    """`loops` over the runs of `bytes` that go through a staging buffer, each of them a reorder of `shape`."""

    loops: tuple[Loop, ...]
    shape: tuple[int, ...]
    bytes: int


def staging_of(
    shape: Sequence[int], full: Sequence[int], src: Sequence[Side], dst: Sequence[Side], width: int
) -> Staging | None:
    """The longest runs of the destination that fit a staging buffer; None if there are none.

    `full`: the sizes of the destination with its pads. Outer dimensions become loops one by one, until the rest of the
    destination is one run that fits.
    """
    if any(digit.stride < 0 for side in dst for digit in side.digits):
        return None  # a run would begin before its first element
    inner, loops = list(shape), []
    for dim in sorted(range(len(shape)), key=lambda d: abs(dst[d].digits[0].stride), reverse=True):
        if len(src[dim].digits) > 1 or len(dst[dim].digits) > 1:
            return None  # blocked: no single stride steps through it
        step = Loop(shape[dim], src[dim].digits[0].stride, dst[dim].digits[0].stride)
        inner[dim] = 1
        if step.n > 1:
            loops.append(step)
        size = width * prod(f for d, f in enumerate(full) if inner[d] != 1 or shape[d] == 1 != full[d])
        if size < MIN_STAGING_BYTES:
            return None
        if size <= MAX_STAGING_BYTES and step.n > 1 and size == step.dst:
            return Staging(tuple(loops), tuple(inner), size)
    return None
