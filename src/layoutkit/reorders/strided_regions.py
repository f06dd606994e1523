"""Regions with steps (every second row, rows backwards): they become whole regions of strided views."""

from __future__ import annotations

from typing import Any

from ..formats.layout import Layout
from ..memory.arguments import tensor_argument
from ..memory.tensor import Tensor
from .binding import Call
from .box import bounds


def has_steps(region: Any) -> bool:
    """Whether a part of a region is a slice with a step."""
    return isinstance(region, tuple | list) and any(isinstance(p, slice) and p.step not in (None, 1) for p in region)


def without_steps(call: Call, reorder: Any) -> Call:
    """The same call on a view of the selected elements; blocked dimensions are unblocked first."""
    source = tensor_argument(call.array, call.src, call.shape, "reorder: array")
    layout = source.layout.dense
    what = f"reorder {source.layout} -> {call.dst}"
    slices = bounds(source.shape, call.region, what)
    array, shape, region = source.array, list(source.shape), list(call.region)
    if any(step != 1 and len(layout.digits(dim)) > 1 for dim, (_, _, step) in enumerate(slices)):
        plain = Layout.from_factors([(d, 0) for d in range(layout.rank)], None, layout.dims, layout.family is not None)
        spans = [(a, b) if step > 0 else (b + 1, a + 1) for a, b, step in slices]
        array = reorder(array, layout, plain, shape=source.shape, region=spans, threads=call.threads)
        shape, region, layout = list(array.shape), [None] * layout.rank, plain
        slices = [(0, b - a, step) if step > 0 else (a - b - 1, -1, step) for a, b, step in slices]
    view = [slice(None)] * array.ndim
    for dim, (start, stop, step) in enumerate(slices):
        if step != 1:
            view[layout.digits(dim)[0]] = slice(start, None if stop < 0 else stop, step)
            shape[dim], region[dim] = len(range(start, stop, step)), None
    array = array[tuple(view)]
    if isinstance(call.array, Tensor):
        return call._replace(array=Tensor(array, layout, shape), src=None, shape=None, region=region)
    return call._replace(array=array, src=layout, shape=tuple(shape), region=region)
