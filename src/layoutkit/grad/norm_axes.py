"""Arrays as the nest of batch normalisation sees them: axes image, group, pixel, channel of the group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

import numpy as np

from ..formats.layout import Layout

SPATIAL = "cde"


def four_axes(layout: Layout, shape: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """The sizes of those axes for NCHW, NHWC, nChw16c and their siblings of other ranks and blocks.

    The better one first; none for other layouts, and where the last block has pads.
    """
    n, c, *size = shape
    spatial, pixels = SPATIAL[: len(size)], prod(size)
    try:
        tag = layout.tag
    except ValueError:  # it has none
        return []
    if tag == f"ab{spatial}":
        return [(n, c, pixels, 1)]
    if tag == f"a{spatial}b":
        return [(1, 1, n * pixels, c), (n, 1, pixels, c)]
    blocked = re.fullmatch(rf"aB{spatial}(\d+)b", tag)
    if blocked and c % int(blocked[1]) == 0:
        return [(n, c // int(blocked[1]), pixels, int(blocked[1]))]
    return []


def views(arrays: Sequence[np.ndarray], sizes: Sequence[tuple[int, int, int, int]]) -> list[np.ndarray] | None:
    """Views of arrays with the first of these axes that all of them have in memory, channels contiguous."""
    for axes in sizes:
        found = [a.reshape(axes) for a in arrays]
        shared = all(np.may_share_memory(view, a) for view, a in zip(found, arrays))
        if shared and (axes[3] == 1 or all(view.strides[3] == view.itemsize for view in found)):
            return found
    return None
