"""Pooling of arrays past memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import dask.array as da
import numpy as np

from ..choosing.threads import check_threads
from ..convolutions.algorithms.base import CHANNELS_LAST
from ..convolutions.problem import pad_pairs, per_axis
from ..formats.layout import Layout
from ..grad import pool as memory
from ..graph.operators.windows import out_size
from .axes import Range, Window, WindowAxis
from .chunking import DimCuts, cuts_of
from .lazy import lazily, placeholder, with_batch, without_batch
from .physical_windows import PhysicalWindow, physical_window
from .reads import Pieces, Reads, Result, Tile
from .reorders import reorder
from .shared_costs import SharedCosts
from .sources import source_of
from .task_graph import tiled
from .tile_compute import compute_tile, pads_of, strips_of


class Pooling:
    """Makes tiles of a pooling.

    Parameters
    ----------
    function : callable
        Of whole arrays: `max_pool2d`, ..
    layout : Layout
    shape : tuple of int
        Logical shape of the whole input.
    axes : tuple of WindowAxis
        Of images and the spatial dimensions.
    dtype : dtype
    ceil_mode : bool
        Of the whole.
    options : dict
        Keywords of the function.
    """

    def __init__(
        self, function, layout: Layout, shape, axes: tuple[WindowAxis, ...], dtype, ceil_mode: bool, options: dict
    ):
        self.function, self.what = function, function.__name__
        self.layout, self.shape, self.axes, self.dtype = layout, shape, axes, dtype
        self.ceil_mode, self.options = ceil_mode, options

    def __dask_tokenize__(self):
        return self.what, self.layout, self.shape, self.axes, str(self.dtype), self.ceil_mode, self.options

    def window(self, dim: int, outputs: Range) -> Range:
        """The input that a range of outputs reads along a dimension."""
        return outputs if dim == 1 else self.axes[max(0, dim - 1)].window(*outputs).inputs

    key_prefixes: tuple[str, ...] = ("reorder ",)
    shared_costs: SharedCosts | None = None
    nbytes = 0

    def scratch(self, outputs: Sequence[Range], gathers: bool) -> int:
        """See `reads.TileMaker`: of a strip the assembled input, and copies in another layout."""
        strip = list(outputs)
        if gathers:
            layout, itemsize = self.layout, self.dtype.itemsize
            strips = strips_of(outputs, layout, layout, self.axes, self.shape, outputs[1], itemsize)
            strip = strips[len(strips) // 2]
        box = physical_window(self.layout, self.shape, [self.window(dim, r) for dim, r in enumerate(strip)])
        moved = not memory.in_place(self.layout)
        result = prod(self.layout.physical_shape([b - a for a, b in strip]))
        return self.dtype.itemsize * ((gathers + moved) * prod(box.sizes) + moved * result)

    def __call__(self, tile: Tile, pieces: Sequence[Pieces]) -> np.ndarray:
        def compute(x: np.ndarray, box: PhysicalWindow, windows: Sequence[Window], outputs: Sequence[Range], out: Any):
            wholes = (w.over or w.outputs == (0, axis.out) for w, axis in zip(windows, self.axes))
            ceil_mode, pads = self.ceil_mode and any(wholes), pads_of(box, windows)
            if ceil_mode:
                pads = tuple(map(self._with_last_output, self.axes[1:], box.shape[2:], pads, outputs[2:]))
            return self.function(x, padding=pads, ceil_mode=ceil_mode, shape=box.shape, out=out, **self.options)

        channels = tile.outputs[1]
        return compute_tile(
            compute, pieces[0], self.layout, self.shape, self.layout, self.axes, tile.outputs, channels, self.dtype
        )

    @staticmethod
    def _with_last_output(axis: WindowAxis, size: int, pads: Range, outputs: Range) -> Range:
        """Padding with which ceil_mode gives all of some outputs: it drops a last one that reads nothing but padding,
        which may not be the last of the whole."""
        count = out_size(size, axis.reach, axis.stride, 1, pads, up=1)
        return pads if count == outputs[1] - outputs[0] else (pads[0], pads[1] + axis.stride)


_X = "Its axes are the physical axes of `layout`, or of a plain one all of them but the batch's."


def _lazy(model: Callable[..., Any], rank: int) -> Callable[..., da.Array]:
    what = model.__name__

    def pooling(x, kernel, *, chunks=None, threads=1, **attributes) -> da.Array:
        return _pool(model, rank, x, kernel, chunks, threads, **attributes)

    pooling.__name__ = pooling.__qualname__ = what
    return lazily(model, _X)(pooling)


def _pool(model, rank, x, kernel, chunks, threads, *, layout=None, shape=None, **attributes) -> da.Array:
    what = model.__name__
    mean = what.startswith("avg")
    src = Layout("NC" + "DHW"[3 - rank :] if layout is None else layout)
    x, single = with_batch(x, src, what)
    source = source_of(x, what, "x")
    shape = (1, *shape) if single and shape is not None else shape
    p = memory.checked(what, rank, mean, placeholder(source), kernel, layout=src, shape=shape, **attributes)
    layout, shape = p.layout, p.source.shape
    if any(layout.block(dim) > 1 for dim in range(2, rank + 2)):  # windows begin at any element
        last = CHANNELS_LAST[rank + 2]
        moved = reorder(x, layout, last, shape=shape, threads=threads)
        y = _pool(model, rank, moved, kernel, None, threads, layout=last, **attributes)
        y = reorder(y, last, layout, chunks=chunks, threads=threads)
        return without_batch(y, layout, single)
    kernel = per_axis(kernel, rank, what, 1)
    stride = kernel if attributes.get("stride") is None else per_axis(attributes["stride"], rank, what, 1)
    dilation = per_axis(attributes.get("dilation", 1), rank, what, 1)
    pads = pad_pairs(attributes.get("padding", 0), shape[2:], kernel, stride, dilation, what)
    batch, channels = WindowAxis(shape[0], shape[0]), WindowAxis(shape[1], shape[1])
    spatial = [
        WindowAxis(n, m, s, before, after, d * (k - 1) + 1)
        for n, m, s, (before, after), k, d in zip(shape[2:], p.shape[2:], stride, pads, kernel, dilation)
    ]
    options = dict(kernel=kernel, stride=stride, dilation=dilation, layout=layout, dtype=attributes.get("dtype"))
    options |= {name: attributes[name] for name in ("count_include_pad",) if name in attributes}
    options["threads"] = check_threads(1 if threads is None else threads)
    dtype = source.dtype
    ceil_mode = bool(attributes.get("ceil_mode", False))
    work = Pooling(model, layout, shape, (batch, *spatial), dtype, ceil_mode, options)
    dims = [DimCuts(axis, layout.block(dim)) for dim, axis in enumerate((batch, channels, *spatial))]
    cuts = cuts_of(source, layout, layout, dims, dtype, chunks, what)
    y = tiled(work, [Reads(source, layout, shape, work.window)], Result(layout, p.shape, dtype, cuts))
    return without_batch(y, layout, single)


max_pool1d, max_pool2d, max_pool3d = (_lazy(getattr(memory, f"max_pool{rank}d"), rank) for rank in (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = (_lazy(getattr(memory, f"avg_pool{rank}d"), rank) for rank in (1, 2, 3))
