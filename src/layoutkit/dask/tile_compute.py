"""Tiles of convolutions and pooling, computed from the pieces of their windows.

A window, or that of all outputs but a few along the edges of the tile, is read in place if it is within one piece.
Other outputs are computed strip by strip: what a strip reads is assembled in a buffer that stays in the cache, so that
the window is never assembled as a whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np

from ..formats.layout import Layout
from ..memory.arrays import empty
from .axes import Range, Window, WindowAxis
from .physical_windows import PhysicalWindow, gathered, physical_window
from .reads import Pieces

STRIP_BYTES = 2 << 20  # of what strips read
MIN_INNER = 0.5  # of the outputs of a tile, for them to be computed apart from the others
MIN_ROWS = 4  # of a strip, in overlaps of windows: at most a fourth is read twice

# ``compute(x, box, windows, outputs, out)``: `outputs` by dimension, of `x`, the array of `box`; `windows` are those of
# batch and spatial dimensions. Into `out` unless that is None.
Compute = Callable[[np.ndarray, PhysicalWindow, Sequence[Window], Sequence[Range], np.ndarray | None], np.ndarray]


def compute_tile(
    compute: Compute, pieces: Pieces, src: Layout, shape: Sequence[int], dst: Layout, axes: Sequence[WindowAxis],
    outputs: Sequence[Range], channels: Range, dtype: np.dtype,
) -> np.ndarray:  # fmt: skip
    """A tile: `outputs` by dimension, of an input in `src` whose whole shape is `shape`.

    Parameters
    ----------
    compute : callable
    pieces : list of (tuple of int, ndarray)
        Of the input.
    axes : sequence of WindowAxis
        Of the batch and the spatial dimensions.
    channels : Range
        Of the input, that the tile reads.
    dtype : dtype
        Of the result.
    """

    def part(ranges: Sequence[Range], out: np.ndarray | None) -> np.ndarray:
        windows = [axis.window(*r) for axis, r in zip(axes, (ranges[0], *ranges[2:]))]
        n, *spatial = [w.inputs for w in windows]
        box = physical_window(src, shape, [n, channels, *spatial])
        computed = [windows[0].outputs, ranges[1], *(w.outputs for w in windows[1:])]
        if computed == list(ranges):
            return compute(gathered(pieces, box.ranges), box, windows, computed, out)
        y = compute(gathered(pieces, box.ranges), box, windows, computed, None)[_within(dst, computed, ranges)]
        if out is None:
            return y
        out[...] = y
        return out

    if len(pieces) == 1:
        return part(outputs, None)
    inner = _within_one_piece(pieces, src, dst, axes, outputs, channels)
    rest = [list(outputs)] if inner is None else list(_remaining_boxes(inner, outputs))
    strips = [strip for box in rest for strip in strips_of(box, src, dst, axes, shape, channels, pieces[0][1].itemsize)]
    if inner is None and len(strips) == 1:
        return part(outputs, None)
    tile = empty(dst.physical_shape([stop - start for start, stop in outputs]), dtype, "dask")
    for ranges in strips if inner is None else [inner, *strips]:
        part(ranges, tile[_within(dst, outputs, ranges)])
    return tile


def _within_one_piece(
    pieces: Pieces, src: Layout, dst: Layout, axes: Sequence[WindowAxis], outputs: Sequence[Range], channels: Range
) -> list[Range] | None:
    """The outputs of a tile that read only the largest piece; None where they are less than `MIN_INNER` of it, or where
    rows of contiguous pixels would be cut, as kernels are slow at short ones."""
    starts, array = max(pieces, key=lambda piece: piece[1].size)
    inner = list(outputs)
    for dim, output_range in enumerate(outputs):
        axis = axes[max(0, dim - 1)]
        k, block = src.digits(dim)[0], src.block(dim)
        low, high = starts[k] * block, (starts[k] + array.shape[k]) * block
        if dim == 1 or block * dst.block(dim) > 1:
            first, last = channels if dim == 1 else axis.window(*output_range).inputs
            if not low <= first <= last <= high:
                return None
            continue
        edges = axis.mode == "zeros"  # beyond them is padding, not part of any piece
        begin, end = axis.field.outputs(low, high)
        begin = begin if low > 0 or not edges else output_range[0]
        end = end if high < axis.size or not edges else output_range[1]
        inner[dim] = max(begin, output_range[0]), min(end, output_range[1])
    if any(n != f.size for n, f in zip(array.shape, src.factors) if f.size) or any(a >= b for a, b in inner):
        return None
    innermost = src.factors[-1].dim
    enough = prod(b - a for a, b in inner) >= MIN_INNER * prod(b - a for a, b in outputs)
    return inner if enough and (innermost == 1 or inner[innermost] == outputs[innermost]) else None


def _remaining_boxes(inner: Sequence[Range], outer: Sequence[Range]) -> Iterator[list[Range]]:
    """Boxes that together are `outer` without `inner`."""
    rest = list(outer)
    for dim, ((begin, end), (start, stop)) in enumerate(zip(inner, outer)):
        for side in ((start, begin), (end, stop)):
            if side[0] < side[1]:
                yield [*rest[:dim], side, *rest[dim + 1 :]]
        rest[dim] = begin, end


def strips_of(
    outputs: Sequence[Range], src: Layout, dst: Layout, axes: Sequence[WindowAxis], shape: Sequence[int],
    channels: Range, itemsize: int,
) -> list[list[Range]]:  # fmt: skip
    """The strips of a box of outputs."""
    windows = [axis.window(*r).inputs for axis, r in zip(axes, (outputs[0], *outputs[2:]))]
    box = physical_window(src, shape, [windows[0], channels, *windows[1:]])
    rows = rows_of_strips([b - a for a, b in outputs], src, dst, axes, prod(box.sizes) * itemsize)
    starts = itertools.product(*[range(start, stop, n) for (start, stop), n in zip(outputs, rows)])
    return [[(a, min(a + n, stop)) for a, n, (_, stop) in zip(first, rows, outputs)] for first in starts]


def rows_of_strips(
    shape: Sequence[int], src: Layout, dst: Layout, axes: Sequence[WindowAxis], nbytes: int
) -> list[int]:
    """The sizes of strips of a tile whose window has `nbytes`: a few images, or a few rows of the outermost spatial
    dimension."""
    rows = list(shape)
    for dim in (0, *range(2, len(shape))):
        if nbytes <= STRIP_BYTES:
            break
        if not (dst.block(dim) == src.block(dim) == 1 < shape[dim]):
            continue
        axis = axes[max(0, dim - 1)]
        least = -(-MIN_ROWS * max(0, axis.reach - axis.stride) // axis.stride)
        rows[dim] = min(shape[dim], max(1, least, STRIP_BYTES * shape[dim] // nbytes))
        nbytes = nbytes * rows[dim] // shape[dim]
        if rows[dim] > 1:
            break
    return rows


def _within(layout: Layout, outer: Sequence[Range], inner: Sequence[Range]) -> tuple[slice, ...]:
    """The slices of the array of `outer` that are the array of `inner`."""
    at = [slice(None)] * len(layout.factors)
    for dim, ((begin, _), (start, stop)) in enumerate(zip(outer, inner)):
        block = layout.block(dim)
        at[layout.digits(dim)[0]] = slice((start - begin) // block, -(-(stop - begin) // block))
    return tuple(at)


def pads_of(box: PhysicalWindow, windows: Sequence[Window]) -> tuple[Range, ...]:
    """The padding of spatial dimensions for the array of a box; negative where that has more than the window."""
    pads = []
    for dim, window in enumerate(windows[1:], 2):
        (low, high), (before, after) = window.inputs, window.pads
        excess = box.shape[dim] - box.skip[dim] - (high - low)
        pads.append((before - box.skip[dim], after - excess))
    return tuple(pads)
