"""A layout drawn as a table, for people."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from . import notation

if TYPE_CHECKING:
    from .layout import Layout


def describe(layout: Layout, shape: Sequence[int]) -> str:
    """Each physical axis with its extent and stride on `shape`, and what the memory holds."""
    shape = layout.check_shape(shape)
    words = notation.words(layout)
    names = [str(layout)]
    if notation.has_tag(layout) and str(layout) != layout.tag:
        names.append(layout.tag)
    span, elements, pads = layout.required_span_size(shape), prod(shape), len(layout.pads(shape))
    rows = [("axis", "extent", "stride")]
    rows += zip(words, map(str, layout.physical_shape(shape)), map(str, layout.axis_strides(shape)))
    wide = [max(len(row[k]) for row in rows) for k in range(3)]
    distinct = layout.is_one_to_one(layout.full_shape(shape))
    unused = f"{span - elements - pads} unused" if distinct else "overlapping"
    lines = [
        f"{', '.join(names)}: {' '.join(words)}, outermost first",
        f"on {shape}: {span} elements of memory, {elements} of the tensor, {pads} pads, {unused}",
    ]
    lines += [f"{name:<{wide[0]}}  {extent:>{wide[1]}}  {stride:>{wide[2]}}" for name, extent, stride in rows]
    return "\n".join(lines)
