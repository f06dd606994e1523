"""Filters of Winograd that numpy and reorders pack: those that are expanded later, and those of integers."""

from __future__ import annotations

import numpy as np

from ..._core.runtime.registry import Kernel
from ...memory.arrays import empty
from ...reorders.reorder import reorder

TILE_SIDE = 6  # products of a tile of integers, along each axis
PACKED_AT_ONCE = 1 << 12  # weights of each tap, so that their products stay in the second cache


def pack_taps(w: np.ndarray, groups: int, panels: int, kernel: Kernel) -> np.ndarray:
    """Pieces (O, I/G, pieces, 3 or 1, 3) -> [G][panels][pieces][channels][taps][nr]."""
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:3], w.shape[3] * w.shape[4])
    packed = empty((groups, panels, *w.shape[3:1:-1], w.shape[4], kernel.nr), w.dtype, "filter")
    of_filters = -(-w.shape[1] // kernel.nr)
    packed[:, of_filters:] = 0  # panels of pads
    way = slice(None, None, -1 if w.strides[4] < 0 else 1)  # reversed taps are written backwards
    reorder(w[..., way], "abcde", f"aBdce{kernel.nr}b", out=packed[:, :of_filters, :, :, way], shape=w.shape)
    return packed


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
