"""Filters of Winograd that numpy and reorders pack: those that are expanded later, and those of integers."""

from __future__ import annotations

from itertools import product

import numpy as np

from ..._core.runtime.registry import Kernel
from ...memory.arrays import empty
from ...reorders.reorder import reorder
from ..winograd_pieces import Axis, piece_rows, slice_of

TILE_SIDE = 6  # products of a tile of integers, along each axis
PACKED_AT_ONCE = 1 << 12  # weights of each tap, so that their products stay in the second cache


def pack_taps(w: np.ndarray, high: Axis, wide: Axis, groups: int, panels: int, kernel: Kernel) -> np.ndarray:
    """Filter (O, I/G, depth, *kernel), cut into pieces -> [G][panels][depth * pieces][channels][taps][nr].

    Parameters
    ----------
    w : ndarray
    high, wide : Axis
        The pieces along the last two axes; zeros fill them up.
    groups, panels : int
    kernel : Kernel
    """
    rows, pieces = piece_rows(w), list(product(high.taps, wide.taps))
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    shape = groups, panels, w.shape[3], len(pieces), w.shape[2], rows, 3, kernel.nr
    packed = empty(shape, w.dtype, "filter")
    of_filters = -(-w.shape[1] // kernel.nr)
    packed[:, of_filters:] = 0  # panels of pads
    if any(len(a) * len(b) < 3 * rows for a, b in pieces):
        packed[:, :of_filters] = 0
    for at, (a, b) in enumerate(pieces):
        part, out = w[..., slice_of(a), slice_of(b)], packed[:, :of_filters, :, at, :, : len(a), : len(b)]
        down, along = (slice(None, None, -1 if step < 0 else 1) for step in part.strides[-2:])
        part, out = part[..., down, along], out[..., down, along, :]  # reversed taps are written backwards
        reorder(part, "abcdef", f"aBdcef{kernel.nr}b", out=out, shape=part.shape)
    return packed.reshape(*shape[:2], shape[2] * shape[3], shape[4], 3 * rows, kernel.nr)


def pack_integers(w: np.ndarray, groups: int, panels: int, kernel: Kernel) -> np.ndarray:
    """Filter (O, I/G, *k) of 3x3 -> [G][products][panels][depth][units][nr][kr] in s16, far from its limits."""
    outputs, ic, depth = w.shape[0] // groups, w.shape[1], w.shape[2] if w.ndim == 5 else 1
    shape = (groups, TILE_SIDE**2, panels, depth, -(-ic // kernel.kr), kernel.nr, kernel.kr)
    packed = empty(shape, np.dtype(np.int16), "filter")
    of_filters = -(-outputs // kernel.nr)
    packed[:, :, of_filters:] = 0  # panels of pads
    if not w.size:
        packed[...] = 0
        return packed
    by_tap = w.reshape(groups, outputs, ic, depth, 9)
    taps = reorder(by_tap, "abcde", f"aeBdC{kernel.nr}b{kernel.kr}c").reshape(groups, 3, 3, -1)
    for group, out in zip(taps, packed):
        products = out.reshape(TILE_SIDE, TILE_SIDE, -1)
        for at in range(0, group.shape[2], PACKED_AT_ONCE):
            some = group[:, :, at : at + PACKED_AT_ONCE].astype(np.int16)
            rows = integer_tile(some.swapaxes(0, 1), np.empty((TILE_SIDE, 3, some.shape[2]), np.int16))
            integer_tile(rows.swapaxes(0, 1), products[:, :, at : at + some.shape[2]])
    return packed


def integer_tile(taps: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Three taps -> six factors of F(4, 3) at the points 0, +-1, +-2, infinity, multiplied by 4, 6, 6, 24, 24, 1: see
    winograd.h. Along the first axis; the results are `out`."""
    a, b, c = taps
    out[0], out[5] = a, c
    even = a + c
    np.subtract(b, even, out=out[2])
    np.negative(even + b, out=out[1])
    even += 3 * c
    odd = 2 * b
    np.add(even, odd, out=out[3])
    np.subtract(even, odd, out=out[4])
    return out
