"""Windows along up to three axes in one pass over the arrays: which are done together, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from .._core.nests.axes import is_contiguous, merged
from .._core.nests.filters.separable import Separable
from .._core.nests.moves.convert import TYPES
from ..choosing import repeats
from ..choosing.machine import last_level_cache
from ..memory.arrays import empty
from .windows import Windows

ELEMENTS = {  # of images, as kernels call them
    "bool": "u8", "uint8": "u8", "int8": "s8", "uint16": "u16", "int16": "s16", "uint32": "u32", "int32": "s32",
    "float32": "f32", "float64": "f64",
}  # fmt: skip
DTYPES = {TYPES[e]: np.dtype(d) for d, e in ELEMENTS.items() if d != "bool"}
FOLDED = ELEMENTS | {"uint64": "u64", "int64": "s64"}
REALS = {"f32", "f64"}
SHORT_ROW = 48  # elements of rows up to which a transposed copy takes less time
STREAMED = 4096  # bytes of rows up to which stores past the caches took up to twice as long as plain ones
CACHE_PARTS = 8  # of the last cache, one of which planes of a thread may take
LONG_UNIT = 512  # elements behind the last axis with a window, from which on they are rows of their own


def grouped(shape: Sequence[int], passes: Sequence[Windows], alone: bool) -> list[list[Windows]]:
    """Windows that are done in one pass: of the last axes three, or two if rows are of what is behind them.

    Running windows are those of lines or points: of planes all rows of a window are read.
    """
    if alone:
        return [[p] for p in passes]
    groups: list[list[Windows]] = []
    passes = list(passes)
    if is_short(shape, passes[-1].axis):
        groups.append([passes.pop()])
    while passes:
        most = 3 if is_points(shape, passes[-1].axis) else 2
        if len(passes) >= most and passes[-most].running:
            most -= 1
        groups.append(passes[-most:])
        passes = passes[:-most]
    return groups[::-1]


def is_short(shape: Sequence[int], axis: int) -> bool:
    """Whether there are many rows of few elements."""
    row = prod(shape[axis:])
    return row <= SHORT_ROW and prod(shape[:axis]) >= 16 * row


def is_points(shape: Sequence[int], axis: int) -> bool:
    """Whether a row has several places of the axis, the last one with a window."""
    return prod(shape[axis + 1 :]) < LONG_UNIT


def prepared(x: np.ndarray, group: Sequence[Windows]) -> np.ndarray:
    """`x`, or a copy of it where the elements of its rows do not follow one another."""
    last = group[-1].axis
    first = last if is_points(x.shape, group[-1].axis) else min(last + 1, x.ndim - 1)
    if is_contiguous(x.shape[first:], x.strides[first:], x.itemsize) and x.flags.aligned:
        return x
    return repeats.contiguous(x)


def one_pass(
    kind: str,
    x: np.ndarray,
    y: np.ndarray,
    group: Sequence[Windows],
    types: tuple[str, str, str],
    cval: float,
    threads: int,
) -> None:
    """Filter along up to three axes."""
    nest = _transposed if len(group) == 1 and is_short(x.shape, group[0].axis) else _nest
    repeats.run(nest(kind, x, y, group, types, cval, threads), x, y)


def _transposed(
    kind: str, x: np.ndarray, y: np.ndarray, group: Sequence[Windows], types: tuple[str, str, str], cval: float,
    threads: int,
) -> repeats.Nest:  # fmt: skip
    """A nest for short rows: on a copy with their axis in front."""
    axis = group[0].axis
    shape = np.moveaxis(x, axis, 0).shape
    arrays = np.empty(shape, x.dtype), np.empty(shape, y.dtype)
    rows = _nest(kind, *arrays, [replace(group[0], axis=0)], types, cval, threads)

    def run(x: np.ndarray, y: np.ndarray) -> None:
        first = np.array(np.moveaxis(x, axis, 0), order="C")
        result = empty(shape, y.dtype, "ndimage", used_with=first)
        rows(first, result)
        y[...] = np.moveaxis(result, 0, axis)

    return run


def _nest(
    kind: str, x: np.ndarray, y: np.ndarray, group: Sequence[Windows], types: tuple[str, str, str], cval: float,
    threads: int,
) -> repeats.Nest:  # fmt: skip
    last = group[-1].axis
    points = is_points(x.shape, group[-1].axis)
    unit = prod(x.shape[last + 1 :])
    count = unit * (x.shape[last] if points else 1)
    filtered = [p.axis for p in group]
    behind = last + 1 if not points else last
    axes = [
        (n, xs, ys)
        for i, (n, xs, ys) in enumerate(zip(x.shape, x.strides, y.strides))
        if i < behind and i not in filtered
    ]
    group, across = list(group), len(group) - points  # those whose windows are of several rows
    for i, p in enumerate(group[:across]):
        if types[1] in REALS and not p.running:
            group[i] = p.banded(mirrored=i == across - 1)  # rows of planes are far apart, and read once
        else:
            group[i] = p.across_rows()
    if points:
        group[-1] = group[-1].along_row(unit, types[1])
    windows: list[Windows | None] = [p.on(x, y) for p in group]
    windows += [] if points else [None]
    windows[:0] = [None] * (3 - len(windows))

    def constant(item: int, element: int, length: int) -> np.ndarray:
        return np.full(length, cval, DTYPES.get(element, x.dtype))

    caches = streams(x, y, count), last_level_cache() // CACHE_PARTS
    return Separable((x, y), kind, types, merged(axes), windows, count, unit, constant, threads, *caches)


def streams(x: np.ndarray, y: np.ndarray, count: int) -> bool:
    """Whether rows of so many elements are stored past the caches, which do not hold all with what it is made of."""
    return x.nbytes + y.nbytes > last_level_cache() and count * y.itemsize >= STREAMED
