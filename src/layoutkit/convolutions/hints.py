"""Hints at the end of errors about inputs and filters that do not fit: swapped arguments, filters in another library's
order, missing axes of length one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..formats.layout import Layout
from .problem import MAX_SIZE, out_sizes, pad_pairs, per_axis

Shape = tuple[int, ...]

_FILTER_LAYOUTS = {
    1: ("OWI", "WIO"),
    2: ("OHWI", "HWIO"),
    3: ("ODHWI", "DHWIO"),
}  # orders of filters in other libraries


def fit(a: Any, x_shape: Shape, w_shape: Shape) -> bool:
    """Whether a filter of logical `w_shape` fits an input of logical `x_shape`, with the stride, padding, dilation and
    groups of `a`, in any of their forms."""
    size, kernel = x_shape[2:], w_shape[2:]
    if len(size) != len(kernel) or not all(w_shape):
        return False
    try:
        (groups,) = per_axis(a.groups, 1, "groups", 1)
        stride, dilation = (per_axis(v, len(size), "stride", 1) for v in (a.stride, a.dilation))
        pads = pad_pairs(a.padding, size, kernel, stride, dilation, least=-MAX_SIZE)
    except (TypeError, ValueError):
        return False
    outputs = out_sizes(size, kernel, stride, pads, dilation)
    return w_shape[1] * groups == x_shape[1] and not w_shape[0] % groups and min(outputs) > 0


def other_order(a: Any, x_shape: Shape, w_shape: Shape) -> str:
    """The order of axes in which a filter that was taken as O I .. would fit."""
    for tag in _FILTER_LAYOUTS[len(w_shape) - 2] if len(w_shape) == len(x_shape) else ():
        if fit(a, x_shape, Layout(tag).padded_shape(w_shape)):
            return f'; w would fit with filter_layout="{tag}"'
    return ""


def other_layout(a: Any, layout: Layout, x_shape: Shape, w_shape: Shape) -> str:
    """The order of axes, channels first or last, in which an input that was taken in `layout` would fit."""
    axes = "DHW"[5 - len(x_shape) :]
    physical = layout.physical_shape(x_shape)
    for tag in (f"N{axes}C", f"NC{axes}") if layout.is_plain else ():
        if layout != tag and fit(a, Layout(tag).padded_shape(physical), w_shape):
            return f'; x would fit with layout="{tag}"'
    return ""


def swapped(a: Any, layout: Layout, filter_layout: Layout, x_shape: Shape, w_shape: Shape) -> str:
    """Whether the arrays of these shapes, in such layouts, fit the other way round only."""

    def fits(x_shape: Shape, w_shape: Shape) -> bool:
        try:
            return fit(a, layout.padded_shape(x_shape), filter_layout.padded_shape(w_shape))
        except ValueError:
            return False

    return "; are x and w swapped?" if fits(w_shape, x_shape) and not fits(x_shape, w_shape) else ""


def lacks_channels(name: str, layout: Layout, shape: Shape, channels: int = 1) -> str:
    """How an array of spatial axes only gets the others of a plain layout; the filter takes so many `channels`."""
    if len(shape) != layout.rank - 2 or not layout.is_plain:
        return ""
    of = "an image" if name == "x" else "a filter"
    taken = f", and w takes {channels}" * (channels > 1)
    return f"; {of} of one channel is {expanded(name, layout, (0, 1))}{taken}"


def expanded(name: str, layout: Layout, missing: Sequence[int]) -> str:
    """How an array that lacks these dimensions of a plain layout gets them: ``x[None]``."""
    index = ["None" if factor.dim in missing else ":" for factor in layout.factors]
    while index[-1] == ":":
        index.pop()
    return f"{name}[{re.sub(r':(, :)+', '...', ', '.join(index), count=1)}]"
