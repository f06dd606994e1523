"""Views of arrays as problems: layouts in the order of their strides, and strides that are no contiguous array's.

The axes of a view may be in any order, reversed, with gaps or repeated. Sorted by their strides most of them are those
of an array in another layout, for which costs are known: an array of shape (N, H, W, C) that is seen as NCHW moves as
NHWC does. Where there are gaps between elements, or some are repeated, the strides themselves are part of the problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..formats.layout import Axis, Layout
from ..memory.arrays import contiguous_strides
from .loops import LINE_BYTES

Strides = tuple[int, ...]


class Sorted(NamedTuple):
    """One side of a view: its layout, byte strides and axes, those of more than one element by falling strides."""

    layout: Layout
    strides: Strides
    axes: tuple[Axis, ...]

    @property
    def row(self) -> tuple[int, int]:
        """The dimension along which elements are closest, and their distance in bytes; (-1, 0): there is one only."""
        moving = [(axis.dim, stride) for axis, stride in zip(self.axes, self.strides) if axis.extent > 1]
        return moving[-1] if moving else (-1, 0)

    def is_contiguous(self, shape: Sequence[int], width: int) -> bool:
        """Whether the strides are those of a contiguous array, but for their directions."""
        expected = contiguous_strides(self.layout, shape, width)
        return all(axis.extent == 1 or abs(s) == t for axis, s, t in zip(self.axes, self.strides, expected))


def by_strides(layout: Layout, shape: Sequence[int], strides: Strides) -> Sorted:
    """An array of `layout` with the axes of more than one element in the order of their strides, unless blocks of a
    dimension would change places."""
    axes, factors = layout.axes(shape), layout.factors
    moving = [k for k, axis in enumerate(axes) if axis.extent > 1]
    order = list(range(len(axes)))
    for place, k in zip(moving, sorted(moving, key=lambda k: -abs(strides[k]))):
        order[place] = k
    blocks = sorted([k for k in order if factors[k].size], key=lambda k: factors[k].dim)
    if blocks != sorted(blocks, key=lambda k: (factors[k].dim, k)):
        order = list(range(len(axes)))
    elif order != sorted(order):
        layout = Layout.from_factors([factors[k] for k in order], None, layout.dims, layout.family is not None)
    return Sorted(layout, tuple(strides[k] for k in order), tuple(axes[k] for k in order))


def as_arrays(
    layouts: tuple[Layout, Layout], shape: tuple[int, ...], strides: tuple[Strides, Strides], width: int
) -> tuple[tuple[Layout, Layout], tuple[Strides, Strides] | None]:
    """The layouts of source and destination in the order of their byte strides, and these strides; None where they are
    those of contiguous arrays, in any direction but that of a row that is turned."""
    if all(contiguous_strides(of, shape, width) == by for of, by in zip(layouts, strides)):
        return layouts, None
    src, dst = (by_strides(of, shape, by) for of, by in zip(layouts, strides))
    (src_dim, src_step), (dst_dim, dst_step) = src.row, dst.row
    turned = src_dim == dst_dim and src_step == -dst_step != 0
    plain = not turned and src.is_contiguous(shape, width) and dst.is_contiguous(shape, width)
    return (src.layout, dst.layout), None if plain else (src.strides, dst.strides)


def extent_of(layout: Layout, shape: Sequence[int], strides: Strides, width: int) -> int:
    """Bytes of the lines that hold the elements of a view, roughly; those of repeated elements count once."""
    nbytes, step = width, LINE_BYTES
    for axis, stride in zip(layout.axes(shape), strides):
        if axis.extent > 1 and stride:
            nbytes *= axis.extent
            step = min(step, abs(stride))
    return nbytes * max(1, step // width)
