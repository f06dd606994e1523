"""Ranks of elements in windows: medians, percentiles."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ..memory.arrays import empty
from .arguments import array_of, axes_of, filters, mode_of, one_each, output_for, sizes_of, warned
from .extremes import fold_filter
from .neighbourhoods import Footprint, footprint_of, ordered

COLUMNS = {(3, 3), (5, 5), (9, 3)}  # elements in columns, and columns, of boxes whose medians kernels know

# By bytes of an element: from how many along one axis on a sorted window takes less time than a network.
SLIDING = {1: 200, 2: 110, 4: 64, 8: 45}


def exchanges(n: int) -> Iterator[tuple[int, int]]:
    """Comparisons that sort n numbers: Knuth's merge exchange (5.2.2 M)."""
    first = p = 1 << max(0, (n - 1).bit_length() - 1)
    while p:
        q, r, d = first, 0, p
        while True:
            yield from ((i, i + d) for i in range(n - d) if i & p == r)
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2


@lru_cache(64)
def network(n: int, rank: int) -> np.ndarray:
    """The comparisons among n numbers that one rank needs."""
    needed, kept = {rank}, []
    for low, high in reversed(list(exchanges(n))):
        if low in needed or high in needed:
            needed |= {low, high}
            kept.append((low, high))
    return np.array(kept[::-1], np.int32).reshape(-1, 2)


def _ranked(
    input: Any, rank: Any, size: Any, footprint: Any, output: Any, mode: Any, cval: Any, origin: Any, axes: Any,
    channel_axis: Any, threads: Any, what: str,
) -> Any:  # fmt: skip
    """`rank`: a number, or of how many elements it is which."""
    if size is not None and footprint is not None:
        warned(f"{what}: ignoring size because footprint is set")
    x = array_of(input, what)
    if x.dtype.kind == "c":
        raise TypeError(f"{what}: complex numbers have no order")
    found = axes_of(axes, x.ndim, channel_axis, what)
    if footprint is None:
        if size is None:
            raise RuntimeError(f"{what}: no footprint or filter size provided")
        mask = np.ones(sizes_of(size, len(found), what), bool)
    else:
        mask = np.asarray(footprint, bool)
    count = int(np.count_nonzero(mask))
    at = operator.index(rank(count) if callable(rank) else rank)
    at += count if at < 0 else 0
    if not 0 <= at < count:
        raise RuntimeError(f"{what}: rank {at} is not within a filter footprint of {count} elements")
    if at in (0, count - 1):
        return fold_filter(x, None, mask, None, output, mode, cval, origin, found, at > 0, threads, what)
    window = footprint_of(mask, found, x.ndim, origin, what)
    modes = {mode_of(m, what) for m in one_each(mode, len(found), f"{what}: mode")}
    if len(modes) > 1:
        raise RuntimeError(f"{what}: several modes are not supported")
    y = output_for(output, x, what)
    shape = [n for n in window.shape if n > 1]
    if mask.all() and len(shape) == 1 and count >= SLIDING[max(x.itemsize, 4 if x.dtype.kind == "f" else 1)]:
        _slid(x, y, window, modes.pop(), float(cval), at, threads, what)
        return y
    columns = mask.all() and at == count // 2 and (prod(shape[:-1]), shape[-1]) in COLUMNS
    fields = dict(rank=at, network=None if columns else network(count, at))
    ordered("rank", x, y, window, modes.pop(), float(cval), fields, threads, what)
    return y


def _slid(
    x: np.ndarray, y: np.ndarray, window: Footprint, mode: str, cval: float, rank: int, threads: Any, what: str
) -> None:
    """Write to y a rank in windows along one axis, which is made the last: there they stay sorted."""
    fields = dict(rank=rank, network=None, slides=True)
    axis = max(i for i, n in enumerate(window.shape) if n > 1)
    if prod(x.shape[axis + 1 :]) == 1:
        ordered("rank", x, y, window, mode, cval, fields, threads, what)
        return
    order = [i for i in range(x.ndim) if i != axis] + [axis]
    rows = np.ascontiguousarray(x.transpose(order))
    result = empty(rows.shape, y.dtype, what, used_with=rows)
    ordered("rank", rows, result, window.moved(order), mode, cval, fields, threads, what)
    y[...] = np.moveaxis(result, -1, axis)


@filters(
    rank="int|Which, from the least on; a negative one from the largest on.|RuntimeError: `rank` is not within a window"
)
def rank_filter(
    input, rank, size=None, footprint=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None,
    channel_axis=None, threads=None,
) -> Any:  # fmt: skip
    """The element of a rank in windows: as `scipy.ndimage.rank_filter`. NaN is larger than all numbers.

    PARAMETERS
    """
    return _ranked(
        input, rank, size, footprint, output, mode, cval, origin, axes, channel_axis, threads, "rank_filter"
    )  # fmt: skip


@filters
def median_filter(
    input, size=None, footprint=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None, channel_axis=None,
    threads=None,
) -> Any:  # fmt: skip
    """The median of windows: as `scipy.ndimage.median_filter`. NaN is larger than all numbers.

    PARAMETERS
    """
    return _ranked(
        input, lambda count: count // 2, size, footprint, output, mode, cval, origin, axes, channel_axis, threads,
        "median_filter",
    )  # fmt: skip


@filters(
    percentile="float|From 0 to 100; a negative one from 100 on.|RuntimeError: `percentile` is not from -100 to 100"
)
def percentile_filter(
    input, percentile, size=None, footprint=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None,
    channel_axis=None, threads=None,
) -> Any:  # fmt: skip
    """A percentile of windows: as `scipy.ndimage.percentile_filter`. NaN is larger than all numbers.

    PARAMETERS
    """
    share = percentile + 100.0 if percentile < 0 else percentile
    if not 0 <= share <= 100:
        raise RuntimeError(f"percentile_filter: invalid percentile {percentile}")

    def rank(count: int) -> int:
        return count - 1 if share == 100 else int(float(count) * share / 100.0)

    return _ranked(
        input, rank, size, footprint, output, mode, cval, origin, axes, channel_axis, threads, "percentile_filter"
    )  # fmt: skip
