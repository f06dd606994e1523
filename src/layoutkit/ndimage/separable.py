"""Filters of one axis after another: in which types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from .._core.nests.axes import is_contiguous
from .._core.nests.moves.convert import TYPES
from ..choosing.threads import check_threads
from ..choosing.watching import CallInfo, watched
from ..memory.arrays import empty, overlap
from . import windows as w
from .arguments import by_parts, output_for
from .fixed import SMALL, fixed_of, pairs_of
from .passes import DTYPES, ELEMENTS, FOLDED, grouped, one_pass, prepared
from .running import decided
from .windows import Windows

EXACT_IN_F32 = {"bool", "uint8", "int8", "uint16", "int16", "float16", "float32"}
CAST_TO = FOLDED | {"uint64": "s64"}  # there is no wrapping around in float64


def folded(
    x: np.ndarray, y: np.ndarray, passes: Sequence[Windows], cval: float, threads: int | None, what: str
) -> None:
    """Write to y the least or largest of windows."""
    if x.dtype.name == "float16":
        x = x.astype(np.float32)
    if any(p.mode == "constant" for p in passes) and not representable(cval, x.dtype):
        x = x.astype(np.float64)
    own = x.dtype.name
    element = FOLDED[own]
    plain = x.dtype if own != "bool" else np.dtype(np.uint8)
    to = target(y, x, plain)
    run("fold", x.view(plain), to, sorted(passes, key=lambda p: p.axis), (element,) * 3, cval, threads, what)
    give(to, y)


def sums(
    x: np.ndarray, output: Any, passes: Sequence[Windows], cval: Any, threads: int | None, what: str
) -> np.ndarray:
    """Weighted sums, or means, of windows along one axis after another, complex ones too; a copy if there are none."""
    y = output_for(output, x, what, x.dtype.kind == "c")
    if passes:
        by_parts(lambda a, b, c: summed(a, b, passes, c, threads, what), x, y, cval, what)
    else:
        y[...] = x
    return y


def summed(
    x: np.ndarray, y: np.ndarray, passes: Sequence[Windows], cval: float, threads: int | None, what: str
) -> None:
    """Write to y weighted sums, or means, of windows along one axis after another."""
    source, result = x.dtype, y.dtype.newbyteorder("=")
    if result.name == "uint64" and len(passes) > 1:  # what is between is cast to it by numpy
        for p in passes[:-1]:
            between = empty(y.shape, result, what, used_with=x)
            summed(x, between, [p], cval, threads, what)
            x = between
        passes, source = passes[-1:], x.dtype
    if source.name in ("float16", "int64", "uint64"):
        x = x.astype(np.float32 if source.kind == "f" else np.float64)
    wholes = made_of_integers(source, result, passes, cval)
    if wholes:
        own = ELEMENTS[source.name]
        to, alone = target(y, x, source), not ascending(passes)
        run("weigh", x, to, wholes, (own, own, own), cval, threads, what, alone)
        give(to, y)
        return
    element = np.dtype("float32") if result.name == "float16" else result
    if result.name in ("int64", "uint64"):
        element = np.dtype(np.float64)
    means = passes[0].kind == w.PLAIN
    exact = representable(cval, source) or all(p.mode != "constant" for p in passes)
    between, passes, alone = computed_in(source, result, passes, means and exact, commute(passes, cval))
    if any(p.mode == "constant" for p in passes) and not representable(cval, x.dtype):
        x = x.astype(between)
    types = (ELEMENTS[x.dtype.name], "f64" if between == np.float64 else "f32", ELEMENTS[element.name])
    plain = element if element.name != "bool" else np.dtype(np.uint8)
    to = target(y, x, plain)
    source_view = x.view(np.uint8) if x.dtype.name == "bool" else x
    run("weigh", source_view, to, passes, types, cval, threads, what, alone)
    give(to, y)


def in_f32(source: np.dtype, result: np.dtype) -> bool:
    """Whether sums are made in float32."""
    return source.name in EXACT_IN_F32 and result.name in ("float32", "float16")


def ascending(passes: Sequence[Windows]) -> bool:
    """Whether each axis comes after the one before."""
    return all(a.axis < b.axis for a, b in pairwise(passes))


def made_of_integers(source: np.dtype, result: np.dtype, passes: Sequence[Windows], cval: float) -> list[Windows]:
    """The windows with their ends, if small integers are summed as such; else none."""
    if source != result or source.name not in SMALL:
        return []
    if any(p.mode == "constant" for p in passes) and not representable(cval, source):
        return []
    if passes[0].kind == w.PLAIN:
        short = all(p.size <= SMALL[source.name] for p in passes)
        return [p.ending(w.WHOLE) for p in passes] if short else []
    found = []
    for p in passes:
        assert p.weight is not None
        fixed = (pairs_of(p.weight, source) if p.kind == w.SUMS else None) or fixed_of(p.kind, p.weight, source)
        if fixed is None:
            return []
        found.append(replace(p, end=w.CAST, to=TYPES[ELEMENTS[source.name]], fixed=fixed))
    return found


def computed_in(source: np.dtype, result: np.dtype, passes: Sequence[Windows], whole: bool, commutes: bool):
    """The type of sums, the windows with their ends, and whether each axis takes a pass of its own."""
    is_float = result.kind == "f"
    alone = not ascending(passes)
    if is_float:
        if alone and commutes:
            passes, alone = sorted(passes, key=lambda p: p.axis), False
        return np.dtype(np.float32 if in_f32(source, result) else np.float64), passes, alone
    if not whole or source.kind == "f" or source.itemsize == 8 or not fits(source, result):
        return np.dtype(np.float64), [p.ending(w.CAST, TYPES[CAST_TO[result.name]]) for p in passes], alone
    most = max(p.size for p in passes) * max(abs(limit) for limit in limits(source))
    between = np.float32 if {source.name, result.name} <= EXACT_IN_F32 and most < 2**22 else np.float64
    return np.dtype(between), [p.ending(w.WHOLE) for p in passes], alone


def commute(passes: Sequence[Windows], cval: complex) -> bool:
    """Whether sums along the axes are the same in any order: what is outside stays what it is."""
    return cval == 0 or all(p.mode != "constant" for p in passes)


def limits(dtype: np.dtype) -> tuple[int, int]:
    """The least and the largest integer of a type."""
    if dtype.kind == "b":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def fits(source: np.dtype, result: np.dtype) -> bool:
    """Whether all integers of one type are of the other."""
    (low, high), (least, most) = limits(source), limits(result)
    return least <= low and high <= most


def representable(cval: float, dtype: np.dtype) -> bool:
    """Whether arrays of this type can hold a constant."""
    if dtype.kind == "f":
        return dtype.itemsize == 8 or not cval == cval or float(dtype.type(cval)) == cval
    low, high = limits(dtype)
    return cval == cval and low <= cval <= high and int(cval) == cval


def target(y: np.ndarray, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`y` itself if it can be written row by row, else a new array."""
    same = y.dtype == dtype or (y.dtype.name == "bool" and dtype == np.uint8)
    if same and is_contiguous(y.shape, y.strides, y.itemsize) and y.flags.aligned and not overlap(x, y):
        return y.view(dtype)
    return empty(y.shape, dtype, "ndimage", used_with=x)


def give(result: np.ndarray, y: np.ndarray) -> None:
    """Copy a result to where it was asked for, as C casts."""
    if y.dtype.name == "uint64" and result.dtype.kind == "f":  # negative numbers by way of s64
        with np.errstate(invalid="ignore"):
            large = np.where(result < 2.0**64, result, 0).astype(np.uint64)
            y[...] = np.where(result < 2.0**63, result.astype(np.int64).view(np.uint64), large)
        return
    if not (result.__array_interface__["data"][0] == y.__array_interface__["data"][0] and result.size):
        with np.errstate(invalid="ignore"):
            np.copyto(
                y, result.view(y.dtype) if y.dtype.name == "bool" and result.itemsize == 1 else result, casting="unsafe"
            )


def run(
    kind: str, x: np.ndarray, y: np.ndarray, passes: Sequence[Windows], types: tuple[str, str, str], cval: float,
    threads: int | None, what: str, alone: bool = False,
) -> None:  # fmt: skip
    """Filter x into y, which do not overlap."""
    most = check_threads(threads)
    if x.size == 0:
        return
    groups = grouped(x.shape, [decided(p, kind, x.shape, types[1]) for p in passes], alone)
    read, exact = types[0], representable(cval, y.dtype) or all(p.mode != "constant" for p in passes)
    for i, group in enumerate(groups):
        last = i == len(groups) - 1
        kept = types[2] if last or exact else types[1]
        into = y if last else empty(y.shape, DTYPES[TYPES[kept]] if kept != types[2] else y.dtype, what, used_with=x)
        step = (read, types[1], kept)
        call = (kind, prepared(x, group), into, group, step, cval, most)
        watched(
            lambda: CallInfo(what, f"{what} {'x'.join(map(str, y.shape))} {types[0]} {types[2]} t{most}", kind, most),
            one_pass,
            *call,
        )
        x, read = into, kept
