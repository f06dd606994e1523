"""Arrays of random strides, alignment and neighbours: canaries all around, or pages that cannot be touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from oracle import reference
from oracle.guard import guarded

CANARY = 0xA5
MARGIN = 192  # bytes of canaries on either side
GAPS = (0, 0, 0, 0, 1, 2, 3, 16)  # elements between neighbours beyond those inside
WILD = (0, 7, 2**62, -(2**62), 2**63 - 1, -(2**63))  # strides of axes of one index: they mean nothing


class Room(NamedTuple):
    """Memory and an array inside it."""

    memory: np.ndarray  # all bytes that can be written
    array: np.ndarray
    keeper: object  # of the memory

    def untouched(self) -> bool:
        """Whether what the array does not see holds canaries still; overwrites the array with them."""
        self.array.view(_plain(self.array.dtype))[...] = np.full(self.array.itemsize, CANARY, np.uint8).view(
            _plain(self.array.dtype)
        )[0]
        return bool((self.memory == CANARY).all())


def _plain(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"V{dtype.itemsize}") if dtype.itemsize not in (1, 2, 4, 8) else np.dtype(f"u{dtype.itemsize}")


def bits(array: np.ndarray) -> np.ndarray:
    """`array` as numbers that compare bit for bit."""
    return array.view(_plain(array.dtype)) if array.itemsize != 16 else array.view("V16")


def buffer(rng: np.random.Generator, size: int) -> tuple[np.ndarray, object]:
    """`size` bytes full of canaries, from a whole page on or up to the end of one; and what keeps them."""
    match rng.integers(4):
        case 0 | 1:
            memory = np.empty(size + 64, np.uint8)
            memory = memory[-memory.ctypes.data % 64 :][:size]
            memory[...] = CANARY
            return memory, memory
        case end:
            found = guarded(np.full(size, CANARY, np.uint8), "low" if end == 2 else "high")
            return found.array, found


def any_strides(rng: np.random.Generator, shape: Sequence[int], width: int, shared: bool) -> tuple[int, ...]:
    """Byte strides: axes in any order, gaps, either direction; if `shared`, elements may lie in one place too."""
    strides, extent = [0] * len(shape), width
    order = rng.permutation(len(shape)) if rng.integers(3) == 0 else range(len(shape) - 1, -1, -1)
    bytes_between = int(rng.integers(1, 2 * width)) if rng.integers(8) == 0 else 0  # alignment of 1 byte
    for axis in order:
        stride = extent + width * int(rng.choice(GAPS)) + bytes_between * int(rng.integers(2))
        if shared and rng.integers(6) == 0:
            stride = int(rng.choice((0, width, 2 * width)))
        strides[axis] = -stride if rng.integers(6) == 0 else stride
        extent = max(extent, stride * max(1, shape[axis]))
        if shape[axis] == 1 and rng.integers(6) == 0:
            strides[axis] = WILD[rng.integers(len(WILD))]
    return tuple(strides)


def room(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype, shared: bool = False) -> Room:
    """An array of `shape`, contiguous or of any strides, that begins anywhere."""
    if rng.integers(5) < 2:
        inner = [dtype.itemsize, *(max(1, n) for n in shape[:0:-1])][: len(shape)]
        strides = tuple(np.cumprod(inner, dtype=np.int64)[::-1].tolist())
    else:
        strides = any_strides(rng, shape, dtype.itemsize, shared)
    steps = [(n - 1) * s for n, s in zip(shape, strides) if n]
    before = -sum(s for s in steps if s < 0)
    span = before + sum(s for s in steps if s > 0) + dtype.itemsize
    memory, keeper = buffer(rng, span)
    inside = memory
    if keeper is memory:  # canaries may surround it, and it may begin anywhere
        lead = MARGIN + int(rng.choice((0, 0, 16, 4, 1, rng.integers(64))))
        memory = np.full(lead + span + MARGIN, CANARY, np.uint8)
        inside = memory[lead : lead + span]
    if 0 in shape:
        return Room(memory, np.ndarray(shape, dtype, inside, 0), keeper)
    return Room(memory, np.ndarray(shape, dtype, inside, before, strides), keeper)


def held(rng: np.random.Generator, values: np.ndarray, shared: bool = False) -> Room:
    """`values` in a room; where elements share a place, the last one written counts: read `.array` again."""
    found = room(rng, values.shape, values.dtype, shared)
    bits(found.array)[...] = bits(np.ascontiguousarray(values))
    return found


def beside(array: np.ndarray, logical: np.ndarray, layout, out, what: str) -> str | None:
    """What is wrong with a result beside its numbers, `logical`: its pads, or what lies around `out`."""
    if not np.array_equal(array, reference.to_physical(logical, layout), equal_nan=True):
        return f"pads are not zero: {what}"
    if out is not None and (array is not out.array or not out.untouched()):
        return f"written outside out: {what}"
    return None
