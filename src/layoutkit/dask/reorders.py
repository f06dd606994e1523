"""Reorders of arrays past memory."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import dask.array as da
import numpy as np

from ..choosing.threads import check_threads
from ..formats.layout import Layout
from ..memory.arrays import empty
from ..reorders import reorder as memory
from ..reorders.binding import Call, bind, bind_conversion
from ..reorders.box import bounds
from ..reorders.convert import Numbers
from ..reorders.strided_regions import has_steps
from .axes import Range, WindowAxis
from .chunking import DimCuts, cuts_of
from .lazy import in_memory, lazily, placeholder
from .physical_windows import gathered, physical_window
from .reads import Pieces, Reads, Result, Tile
from .shared_costs import SharedCosts
from .sources import source_of
from .task_graph import tiled

PARAMETERS = Numbers._fields[1:6]


class Reordering:
    """Makes tiles of a reorder.

    Parameters
    ----------
    src, dst : Layout
    shape : tuple of int
        Logical shape of the whole source.
    starts : tuple of int
        Where the region begins that the result has.
    dtype : dtype
        Of the result.
    options : dict
        Keywords of `reorder`; arrays among them are for the whole region.
    """

    what = "reorder"
    key_prefixes: tuple[str, ...] = ("reorder ",)
    shared_costs: SharedCosts | None = None

    def __init__(self, src: Layout, dst: Layout, shape, starts, dtype: np.dtype, options: dict[str, Any]) -> None:
        self.src, self.dst, self.shape, self.starts, self.dtype = src, dst, shape, starts, dtype
        self.options = options

    def __dask_tokenize__(self):
        return self.what, self.src, self.dst, self.shape, self.starts, str(self.dtype), self.options

    def window(self, dim: int, outputs: Range) -> Range:
        """The source of a range of the result along a dimension."""
        return self.starts[dim] + outputs[0], self.starts[dim] + outputs[1]

    @property
    def nbytes(self) -> int:
        """Of arrays among its parameters."""
        return sum(value.nbytes for value in self.options.values() if isinstance(value, np.ndarray))

    def scratch(self, outputs: Sequence[Range], gathers: bool) -> int:
        """See `reads.TileMaker`: none, as pieces are written to their places one by one."""
        return 0

    def __call__(self, tile: Tile, pieces: Sequence[Pieces]) -> np.ndarray:
        window = [self.window(dim, outputs) for dim, outputs in enumerate(tile.outputs)]
        box = physical_window(self.src, self.shape, window)
        logical_shape = [stop - start for start, stop in window]
        pads = tuple(logical_shape) != self.dst.full_shape(logical_shape)
        if len(pieces[0]) == 1 or pads or self._has_parameter_arrays or not self._whole_blocks(pieces[0]):
            region = [(skip, skip + stop - start) for skip, (start, stop) in zip(box.skip, window)]
            x = gathered(pieces[0], box.ranges)
            if region == [(0, n) for n in box.shape]:
                return memory.reorder(x, self.src, self.dst, shape=box.shape, **self.options)
            return memory.reorder(x, self.src, self.dst, shape=box.shape, region=region, **self.options)
        return self._of_pieces(window, pieces[0])

    @property
    def _has_parameter_arrays(self) -> bool:
        """Whether there are parameters for each index of a dimension, which is not cut then."""
        return any(np.ndim(self.options[name]) for name in PARAMETERS)

    def _whole_blocks(self, pieces: Pieces) -> bool:
        return all(n == f.size for _, array in pieces for n, f in zip(array.shape, self.src.factors) if f.size)

    def _of_pieces(self, window: Sequence[Range], pieces: Pieces) -> np.ndarray:
        """Reorder each piece into its place in the result, so that it is read once."""
        logical_shape = [stop - start for start, stop in window]
        result = empty(self.dst.physical_shape(logical_shape), self.dtype, self.what)
        for starts, array in pieces:
            at, region, shape = [], [], []
            for dim, (start, stop) in enumerate(window):
                axis, block = self.src.digits(dim)[0], self.src.block(dim)
                first, last = starts[axis] * block, min(self.shape[dim], (starts[axis] + array.shape[axis]) * block)
                low, high = max(first, start), min(last, stop)
                at.append(low - start)
                region.append((low - first, high - first))
                shape.append(last - first)
            memory.reorder(array, self.src, self.dst, shape=shape, region=region, out=result, at=at, **self.options)
        return result


_ALPHA = """\
alpha : float, optional
    ``alpha * result`` is written.
"""


@lazily(memory.reorder, "The physical array of the tensor in `src`.", alpha=_ALPHA, beta="", at="")
def reorder(array, src=None, dst=None, *, chunks=None, threads=1, **attributes) -> da.Array:
    what = "reorder"
    options = dict(attributes, threads=check_threads(1 if threads is None else threads))
    for name in PARAMETERS:
        options[name] = copy(in_memory(options.get(name), what, name))
    shape, region = options.pop("shape", None), options.pop("region", None)
    source = source_of(array, what, "array")
    numbers = Numbers(**{name: options[name] for name in Numbers._fields if name in options})
    names = numbers.dtype if isinstance(numbers.dtype, tuple) else (numbers.dtype,)
    if any(isinstance(name, str) and name.endswith("x2") for name in names):
        raise TypeError(f"{what}: dtype {numbers.dtype!r}: packed pairs are not for arrays past memory")
    if has_steps(region):
        raise ValueError(f"{what}: region {region} has steps: take them from the result, by its slices")
    call = Call(placeholder(source), src, dst, shape, None, numbers, region, None, options.get("pad_value", 0), 1)
    bound = bind_conversion(call) if numbers.change(source.dtype) else bind(call, None)
    src, dst = Layout(src), Layout(dst)
    if not dst.is_dense:
        raise ValueError(f"{what}: dst {dst} has explicit strides, which chunks have not")
    logical_shape = src.padded_shape(source.shape) if shape is None else src.check_shape(shape)
    box = bounds(logical_shape, region, what)
    starts, out = tuple(start for start, _, _ in box), tuple(stop - start for start, stop, _ in box)
    src, dst = src.dense, dst.dense
    work = Reordering(src, dst, logical_shape, starts, bound.dtype, options)
    fixed = np.atleast_1d(options.get("axis", 1)).tolist() if work._has_parameter_arrays else []
    axes = [WindowAxis(n, m, before=-start) for n, m, start in zip(logical_shape, out, starts)]
    dims = [DimCuts(axis, 0 if dim in fixed else dst.block(dim)) for dim, axis in enumerate(axes)]
    cuts = cuts_of(source, src, dst, dims, bound.dtype, chunks, what)
    return tiled(work, [Reads(source, src, logical_shape, work.window)], Result(dst, out, bound.dtype, cuts))
