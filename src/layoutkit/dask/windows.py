"""How a tile of a convolution or a pooling is made of the pieces of its window.

Where one piece holds the whole window it is read in place. Where there are several, the tile is made strip by strip:
what a strip reads is put together in a buffer that stays in the cache, so the window never exists as a whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from ..formats.layout import Layout
from ..memory.arrays import empty
from .axes import Axis, Range, Window
from .boxes import Box, box_of, gathered
from .tiles import Pieces

STRIP_BYTES = 4 << 20  # of what strips read
LEAST_ROWS = 4  # of a strip, in windows' overlaps: what is read twice is a fourth at most

# ``compute(x, box, windows, outputs, out)``: `outputs` by dimension, of `x`, the array of `box`; `windows` are those of
# batch and spatial dimensions. Into `out` unless that is None.
Compute = Callable[[np.ndarray, Box, Sequence[Window], Sequence[Range], np.ndarray | None], np.ndarray]


def made(
    compute: Compute, pieces: Pieces, src: Layout, shape: Sequence[int], dst: Layout, axes: Sequence[Axis],
    outputs: Sequence[Range], channels: Range, dtype: np.dtype,
) -> np.ndarray:  # fmt: skip
    """A tile: `outputs` by dimension, of an input in `src` whose whole shape is `shape`.

    Parameters
    ----------
    compute : callable
    pieces : list of (tuple of int, ndarray)
        Of the input.
    axes : sequence of Axis
        Of the batch and the spatial dimensions.
    channels : Range
        Of the input, that the tile reads.
    dtype : dtype
        Of the result.
    """

    def part(ranges: Sequence[Range], out: np.ndarray | None) -> np.ndarray:
        windows = [axis.window(*r) for axis, r in zip(axes, (ranges[0], *ranges[2:]))]
        n, *spatial = [w.inputs for w in windows]
        box = box_of(src, shape, [n, channels, *spatial])
        more = [windows[0].outputs, ranges[1], *(w.outputs for w in windows[1:])]
        if more == list(ranges):
            return compute(gathered(pieces, box.ranges), box, windows, more, out)
        y = compute(gathered(pieces, box.ranges), box, windows, more, None)[_within(dst, more, ranges)]
        if out is None:
            return y
        out[...] = y
        return out

    if len(pieces) == 1:
        return part(outputs, None)
    held = [stop - start for start, stop in outputs]
    nbytes = sum(array.nbytes for _, array in pieces)
    rows = rows_of_strips(held, src, dst, axes, nbytes)
    if rows == held:
        return part(outputs, None)
    whole = empty(dst.physical_shape(held), dtype, "dask")
    for first in itertools.product(*[range(start, stop, n) for (start, stop), n in zip(outputs, rows)]):
        strip = [(a, min(a + n, stop)) for a, n, (_, stop) in zip(first, rows, outputs)]
        part(strip, whole[_within(dst, outputs, strip)])
    return whole


def largest_strip(
    outputs: Sequence[Range], src: Layout, dst: Layout, axes: Sequence[Axis], shape: Sequence[int], channels: Range,
    itemsize: int,
) -> list[Range]:  # fmt: skip
    """The outputs of a strip of a tile, none of which reads more."""
    windows = [axis.window(*r).inputs for axis, r in zip(axes, (outputs[0], *outputs[2:]))]
    box = box_of(src, shape, [windows[0], channels, *windows[1:]])
    rows = rows_of_strips([b - a for a, b in outputs], src, dst, axes, prod(box.sizes) * itemsize)
    return [((a + b - n) // 2, (a + b - n) // 2 + n) for (a, b), n in zip(outputs, rows)]


def rows_of_strips(held: Sequence[int], src: Layout, dst: Layout, axes: Sequence[Axis], nbytes: int) -> list[int]:
    """How many outputs strips of a tile have in each dimension, whose window has `nbytes`: of a few images, or of a few
    rows of the outermost spatial dimension."""
    rows = list(held)
    for dim in (0, *range(2, len(held))):
        if nbytes <= STRIP_BYTES:
            break
        if not (dst.block(dim) == src.block(dim) == 1 < held[dim]):
            continue
        axis = axes[max(0, dim - 1)]
        least = -(-LEAST_ROWS * max(0, axis.reach - axis.stride) // axis.stride)
        rows[dim] = min(held[dim], max(1, least, STRIP_BYTES * held[dim] // nbytes))
        nbytes = nbytes * rows[dim] // held[dim]
        if rows[dim] > 1:
            break
    return rows


def _within(layout: Layout, outer: Sequence[Range], inner: Sequence[Range]) -> tuple[slice, ...]:
    """Where the array of some indices lies in that of more of them."""
    at = [slice(None)] * len(layout.factors)
    for dim, ((begin, _), (start, stop)) in enumerate(zip(outer, inner)):
        block = layout.block(dim)
        at[layout.digits(dim)[0]] = slice((start - begin) // block, -(-(stop - begin) // block))
    return tuple(at)


def pads_of(box: Box, windows: Sequence[Window]) -> tuple[Range, ...]:
    """The padding of spatial dimensions that is left to the array of a box; it crops what is there beside a window."""
    found = []
    for dim, window in enumerate(windows[1:], 2):
        (low, high), (before, after) = window.inputs, window.pads
        beyond = box.shape[dim] - box.skip[dim] - (high - low)
        found.append((before - box.skip[dim], after - beyond))
    return tuple(found)
