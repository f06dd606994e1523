"""Reorders of little that happen once: planning the best way would take longer than it could save."""

from __future__ import annotations

import numpy as np

from .._core.nests.moves.reorder import Program
from .._core.runtime import registry
from ..choosing.cache import plans
from ..formats.layout import Layout
from .box import Box
from .program import Transfer, program
from .reorder import reorder

__all__ = ["reorder_once"]

ONCE_BYTES = 1 << 20  # are moved in less time than variants take to be ranked
VARIANT = "store allxall"  # for all layouts, and among the fastest within the caches


def reorder_once(array: np.ndarray, src: Layout, dst: Layout, out: np.ndarray) -> None:
    """Move all of `array` in layout `src` into `out` in layout `dst`, pads being 0.

    As `reorder` does, but what is small is moved by one variant, which is not compared to others.

    Parameters
    ----------
    array : ndarray
        Any strides.
    src, dst : Layout
        Dense ones of the same dimensions; `src` without blocks.
    out : ndarray
        Of the physical shape of the result, any strides, in memory of its own.
    """
    if array.nbytes > ONCE_BYTES:
        reorder(array, src, dst, out=out, shape=array.shape)
    elif array.size:
        how = src, dst, array.itemsize, array.strides, out.strides, array.shape, registry.isa()
        plans.of(_program, *how)(array, out, 1)


def _program(
    src: Layout, dst: Layout, width: int, strides: tuple[int, ...], out_strides: tuple[int, ...],
    shape: tuple[int, ...], isa: str,
) -> Program:  # fmt: skip
    return program(Transfer(src, dst, width, strides, out_strides, Box.all_of(shape)), VARIANT, bytes(width))
