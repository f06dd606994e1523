"""Windows of any form in any number of dimensions: which axes are lines and points, and in which types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from .._core.nests.axes import is_contiguous, merged
from .._core.nests.filters.neighbourhood import Neighbourhood
from .._core.nests.moves.convert import TYPES
from ..choosing import repeats
from ..choosing.threads import check_threads
from ..choosing.watching import CallInfo, watched
from . import windows as w
from .arguments import before_of, one_each
from .passes import DTYPES, FOLDED, REALS, streams
from .separable import give, representable, target


@dataclass(frozen=True)
class Footprint:
    """The elements of a window that count, on all axes of an array."""

    places: np.ndarray  # by element, its place along each axis
    shape: tuple[int, ...]
    before: tuple[int, ...]

    def moved(self, order: Sequence[int]) -> Footprint:
        """The same with its axes in another order."""
        shape, before = (tuple(of[i] for i in order) for of in (self.shape, self.before))
        return Footprint(self.places[:, order], shape, before)

    @property
    def count(self) -> int:
        """How many elements count."""
        return len(self.places)


def footprint_of(
    mask: np.ndarray, axes: Sequence[int], ndim: int, origin: Any, what: str, name: str = "footprint"
) -> Footprint:
    """The nonzero elements of an array that has the filtered axes, in order; those of all axes if it has so many."""
    origins = one_each(origin, len(axes), f"{what}: origin")
    if mask.ndim != len(axes):
        raise RuntimeError(f"{what}: {name}.ndim ({mask.ndim}) must match len(axes) ({len(axes)})")
    if mask.size == 0:
        raise RuntimeError(f"{what}: {name} of shape {mask.shape} is empty")
    shape, before = [1] * ndim, [0] * ndim
    for size, axis, o in zip(mask.shape, axes, origins):
        shape[axis], before[axis] = size, before_of(size, o, what)
    order = np.argsort(np.array(axes, np.int64))  # of elements, as in an array with all axes
    found = np.argwhere(mask.transpose(order))
    places = np.zeros((len(found), ndim), np.int64)
    places[:, sorted(axes)] = found
    return Footprint(places, tuple(shape), tuple(before))


def ordered(
    kind: str, x: np.ndarray, y: np.ndarray, footprint: Footprint, mode: str, cval: float, fields: dict[str, Any],
    threads: int | None, what: str,
) -> None:  # fmt: skip
    """Write to y the least, largest, or one of a rank, of the elements of windows."""
    if x.dtype.name == "float16":
        x = x.astype(np.float32)
    if x.dtype.kind != "f":
        cval = float(np.trunc(cval))  # as scipy casts it
        if fields.get("weight") is None and not representable(cval, x.dtype):
            cval = wrapped(cval, x.dtype)
    added = fields.get("weight")
    if added is not None or (mode == "constant" and not representable(cval, x.dtype)):
        x = x.astype(np.float64)
    x = plain(x)
    to = target(y, x, x.dtype)
    run(kind, x, to, footprint, (FOLDED[x.dtype.name],) * 3, mode, cval, fields, threads, what)
    give(to, y)


def wrapped(cval: float, dtype: np.dtype) -> float:
    """A constant that an integer type does not hold, as C casts it to one of 32 or 64 bits, and this to the type."""
    bits = 64 if dtype.itemsize == 8 or dtype == np.uint32 else 32
    least = -(1 << (bits - 1))
    whole = int(cval) if least <= cval <= -least - 1 else least
    return float(np.array(whole, np.int64).astype(np.uint8 if dtype.kind == "b" else dtype).astype(dtype))


def plain(x: np.ndarray) -> np.ndarray:
    """Truth values as bytes."""
    return x.view(np.uint8) if x.dtype.name == "bool" else x


def run(
    kind: str, x: np.ndarray, y: np.ndarray, footprint: Footprint, types: tuple[str, str, str], mode: str, cval: float,
    fields: dict[str, Any], threads: int | None, what: str,
) -> None:  # fmt: skip
    """Filter x into y, which do not overlap; y is contiguous."""
    most = check_threads(threads)
    if x.size == 0:
        return

    def info() -> CallInfo:
        size = "x".join(map(str, y.shape))
        return CallInfo(what, f"{what} {size} {types[0]} {types[2]} n{footprint.count} t{most}", kind, most)

    watched(info, _run, kind, x, y, footprint, types, mode, cval, fields, most)


def in_bands(where: np.ndarray, fields: dict[str, Any]) -> tuple[np.ndarray, dict[str, Any]]:
    """The places of the windows of a band of lines, each once, and the weights and the parts of LK_WEIGH_BAND_EACH."""
    moved = np.concatenate([where + [0, 0, r, 0] for r in range(w.BAND_ROWS)])
    numbers = np.ravel_multi_index(tuple(moved.T), tuple(moved.max(0) + 1))
    _, first, at = np.unique(numbers, return_index=True, return_inverse=True)
    rows = np.repeat(np.arange(w.BAND_ROWS), len(where))
    is_part, weight = (np.zeros((len(first), w.BAND_ROWS), t) for t in (np.int32, fields["weight"].dtype))
    is_part[at, rows], weight[at, rows] = 1, np.tile(fields["weight"], w.BAND_ROWS)
    parts = is_part @ (1 << np.arange(w.BAND_ROWS, dtype=np.int32))
    return moved[first], fields | dict(kind=w.BAND_EACH, weight=weight, parts=parts, terms=len(where))


def _run(
    kind: str, x: np.ndarray, y: np.ndarray, footprint: Footprint, types: tuple[str, str, str], mode: str, cval: float,
    fields: dict[str, Any], threads: int,
) -> None:  # fmt: skip
    if x.ndim == 0:
        x, y = x.reshape(1), y.reshape(1)
        footprint = Footprint(np.zeros((footprint.count, 1), np.int64), (1,), (0,))
    shape, places = footprint.shape, footprint.places
    windowed = [i for i, n in enumerate(shape) if n > 1]
    points = windowed[-1] if windowed else x.ndim - 1
    if not (is_contiguous(x.shape[points:], x.strides[points:], x.itemsize) and x.flags.aligned):
        x = repeats.contiguous(x)
    earlier = [i for i in windowed if i < points]
    line = earlier[-1] if earlier else points - 1  # -1: there is only one
    plane = earlier[-2] if len(earlier) > 1 else -1
    leading = earlier[:-2]
    others = [i for i in range(points) if i not in (line, plane, *leading)]

    def axis(i: int) -> tuple[int, int, int]:
        return x.shape[i], x.strides[i], y.strides[i]

    def source(i: int) -> np.ndarray:
        return w.positions(x.shape[i], shape[i], footprint.before[i], mode)

    def windows(i: int) -> tuple[int, int, int, np.ndarray, int, int]:
        if i < 0:
            return 1, 0, 0, np.zeros(1, np.int64), 1, 0
        return *axis(i), source(i), shape[i], footprint.before[i]

    if kind == "rank" and fields.get("network") is None and not fields.get("slides"):  # the first column
        places = places[places[:, points] == 0]
    stacks, stack = np.unique(places[:, leading], axis=0, return_inverse=True) if leading else (
        np.zeros((1, 0), np.int64), np.zeros(len(places), np.int64))  # fmt: skip
    none = np.zeros(len(places), np.int64)
    where = np.stack([stack.reshape(-1), *(places[:, i] if i >= 0 else none for i in (plane, line, points))], 1)
    if kind == "weigh" and types[1] in REALS and line >= 0 and shape[line] > 1:
        where, fields = in_bands(where, fields)
    unit = prod(x.shape[points + 1 :])
    length = (x.shape[points] + shape[points] - 1) * unit
    if kind == "weigh":
        constant = np.full(length, cval if mode == "constant" else 0, DTYPES[TYPES[types[1]]])
    else:
        constant = np.full(length, cval if mode == "constant" else 0, x.dtype)
    nest = Neighbourhood(
        (x, y), kind, types, merged(axis(i) for i in others), [(*axis(i), source(i)) for i in leading],
        windows(plane), windows(line), windows(points), np.ascontiguousarray(where, np.int64),
        np.ascontiguousarray(stacks, np.int64), unit, constant, fields, threads,
        kind != "rank" and streams(x, y, x.shape[points] * unit),  # medians took up to a quarter longer past the caches
    )  # fmt: skip
    repeats.run(nest, x, y)
