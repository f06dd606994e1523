"""Reorders in place: two dimensions of equal size are exchanged.

Pairs of square tiles are swapped through a buffer that stays in L2. Other permutations would have to follow cycles
through all of the memory, element by element, which is slower than a second array.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from math import isqrt, prod

import numpy as np

from ..formats.layout import Layout
from ..memory.arrays import strided
from .box import Box
from .loops import Loop, merge
from .nests import regions

BUFFER_BYTES = 1 << 18  # holds one tile


def reorder_in_place(
    array: np.ndarray, out: np.ndarray, src: Layout, dst: Layout, shape: tuple[int, ...], copy: Callable, what: str
) -> None:
    """Reorder `array` into `out`, which has the same memory. `copy` is the reorder between separate arrays.

    Raises
    ------
    ValueError
        The reorder is anything but an exchange of two dimensions of equal size in the same contiguous memory.
    """
    same = array.ctypes.data == out.ctypes.data and array.flags.c_contiguous and out.flags.c_contiguous
    loops = None
    if same and src.full_shape(shape) == shape == dst.full_shape(shape):
        boxes = regions(shape, *Box.all_of(shape).sides(src.dense, array.strides, dst.dense, out.strides))
        if len(boxes) == 1:
            loops = merge([Loop(n, s, d) for piece in boxes[0] for n, (s, d) in piece.loops])
    moving = [x for x in loops or () if x.src != x.dst]
    a, b = moving if len(moving) == 2 else (None, None)
    if loops is None or (moving and (a is None or b is None or a != Loop(b.n, b.dst, b.src))):
        raise ValueError(
            f"{what}: out overlaps an input: only two dimensions of equal size may change places within one memory; "
            f"give another out, or none"
        )
    if a is not None and b is not None:
        _exchange(array, a, b, [x for x in loops if x not in moving], copy)


def _exchange(array: np.ndarray, a: Loop, b: Loop, rest: list[Loop], copy: Callable) -> None:
    """Exchange the loops `a` and `b`; the loops inside both of them are rows that move as a whole."""
    outer = [x for x in rest if x.src > min(a.src, b.src)]
    inner = [x for x in rest if x.src < min(a.src, b.src)]
    order = [*outer, a, b, *inner]
    view = strided(array, [x.n for x in order], [x.src for x in order])
    tile = max(1, isqrt(BUFFER_BYTES // (array.itemsize * prod(x.n for x in inner))))
    rows = [(d, 0) for d in range(2, 2 + len(inner))]
    plain, transposed = Layout.from_factors([(0, 0), (1, 0), *rows]), Layout.from_factors([(1, 0), (0, 0), *rows])
    buffer = np.empty((min(tile, a.n), min(tile, a.n), *(x.n for x in inner)), array.dtype)
    for at in itertools.product(*(range(x.n) for x in outer)):
        for i, j in itertools.combinations_with_replacement(range(0, a.n, tile), 2):
            upper, lower = view[at][i : i + tile, j : j + tile], view[at][j : j + tile, i : i + tile]
            swapped = buffer[: upper.shape[0], : upper.shape[1]]
            copy(lower, plain, transposed, out=swapped)
            if i != j:
                copy(upper, plain, transposed, out=lower)
            upper[...] = swapped
