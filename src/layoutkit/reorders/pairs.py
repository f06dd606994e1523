"""Packed pairs: integers of 4 bits, two to a byte, as models store their weights.

Element k of a physical array is in byte ``k // 2``, in its lower half if k is even. The bytes are a contiguous array of
uint8: of one axis, or of the layout's axes with half as many elements along the last one, if its size is even. After
an odd number of elements the upper half of the last byte is written as 0 and not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm, prod
from typing import Any, NamedTuple

import numpy as np

from ..formats.families import check_names
from ..formats.layout import Layout
from ..memory.arguments import Argument, tensor_argument
from ..memory.arrays import as_array, contiguous_strides
from ..memory.tensor import Tensor
from .box import Box
from .pieces import Side
from .program import Transfer

PAIRS = {"int4x2": "s4", "uint4x2": "u4"}  # their names in dtype=, and their elements
BYTES = {"s4": "s8", "u4": "u8"}  # the types that they are unpacked to
SLICE_ELEMENTS = 1 << 18  # roughly how many are converted before they are packed: their bytes stay in L2


class Packed(NamedTuple):
    """Which sides of a conversion are packed pairs."""

    src: bool = False
    dst: bool = False


NOT_PACKED = Packed()


def packed_of(requested: Any) -> Packed:
    """Which sides the argument dtype= says are packed pairs."""
    src, dst = requested if isinstance(requested, tuple) and len(requested) == 2 else (None, requested)
    return Packed(*(isinstance(x, str) and x in PAIRS for x in (src, dst)))


def check_whole(packed: Packed, at: Any, what: str) -> None:
    """Raise if only a part of packed pairs would be written."""
    if packed.dst and at is not None:
        raise ValueError(f"{what}: at={at!r} writes a part of out, but packed pairs are written as a whole")


def packed_argument(
    value: Any, layout: str | Layout | None, shape: Sequence[int] | None, packed: Packed, what: str
) -> Argument:  # fmt: skip
    """As `tensor_argument`; no Tensor where it is converted from or to packed pairs."""
    if any(packed) and isinstance(value, Tensor):
        raise TypeError(f"{what} is a Tensor, whose array has a place for each element: expected an array where dtype= "
                        f"says packed pairs, {', '.join(PAIRS)}")  # fmt: skip
    if not packed.src:
        return tensor_argument(value, layout, shape, what)
    array = as_array(value, what)
    if layout is None:
        raise TypeError(f"{what} is an array: expected its layout too")
    layout = Layout(layout)
    return Argument(array, layout, _shape_of_pairs(array, layout, shape, what))


def check_source(
    array: np.ndarray, src: Layout, dst: Layout, shape: Sequence[int] | None, what: str
) -> tuple[int, ...]:
    """The logical shape of the packed pairs that `array` holds in `src`; raise if array and layouts do not fit
    together."""
    if src.rank != dst.rank:
        raise ValueError(f"{what}: layouts of {src.rank} and {dst.rank} dimensions")
    check_names(src, dst, what)
    return _shape_of_pairs(array, src, shape, what)


def _shape_of_pairs(array: np.ndarray, layout: Layout, shape: Sequence[int] | None, what: str) -> tuple[int, ...]:
    _check_dense(layout, what)
    if not array.flags.c_contiguous:
        raise ValueError(
            f"{what}: packed pairs must be a contiguous array, got shape {array.shape} of byte strides {array.strides}"
        )
    axes = layout.physical_shape((1,) * layout.rank)
    if shape is None:
        if array.ndim != len(axes) or not axes:
            raise ValueError(
                f"{what}: shape= must say how many elements packed pairs have: {layout} has {len(axes)} axes, "
                f"the array is of {array.shape}"
            )
        try:
            return layout.padded_shape((*array.shape[:-1], 2 * array.shape[-1]))
        except ValueError as e:
            raise ValueError(f"{what}: packed pairs, twice as many along the last axis: {e}") from None
    try:
        shape = layout.check_shape(shape)
    except ValueError as e:
        raise ValueError(f"{what}: {e}") from None
    physical = layout.physical_shape(shape)
    if array.shape not in shapes_of(physical):
        raise ValueError(
            f"{what}: shape {shape} in {layout} is {prod(physical)} elements, in packed pairs an array of "
            f"{_packed_shapes(physical)}; got {array.shape}"
        )
    return shape


def result_shape(out: Any, layout: Layout, shape: tuple[int, ...], what: str) -> tuple[int, ...]:
    """The shape of the array of packed pairs that is written: that of `out` if it is one of those that hold them."""
    _check_dense(layout, what)
    physical = layout.physical_shape(shape)
    shapes = shapes_of(physical)
    if out is None:
        return shapes[0]
    if out.shape not in shapes:
        raise ValueError(f"{what}: out must be packed pairs of {prod(physical)} elements, an array of "
                         f"{_packed_shapes(physical)} and dtype uint8; got {out.shape} and {out.dtype}")  # fmt: skip
    if not out.flags.c_contiguous:
        raise ValueError(f"{what}: out, of packed pairs, must be contiguous, got byte strides {out.strides}")
    return out.shape


def shapes_of(physical: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The shapes of arrays that hold the packed pairs of a physical shape: one axis, and half the last axis if that is
    even."""
    shapes: list[tuple[int, ...]] = [(-(-prod(physical) // 2),)]
    if physical and physical[-1] % 2 == 0:
        shapes.append((*physical[:-1], physical[-1] // 2))
    return shapes


def _packed_shapes(physical: tuple[int, ...]) -> str:
    return " or ".join(dict.fromkeys(map(str, shapes_of(physical))))


def _check_dense(layout: Layout, what: str) -> None:
    if not layout.is_dense:
        raise ValueError(f"{what}: packed pairs have no strides of their own, expected a dense layout, got {layout}")


def pad_bytes(value: Any, kind: str, what: str) -> bytes:
    """The byte of an element of `kind` that pads hold, before it is packed."""
    low, high = (-8, 7) if kind == "s4" else (0, 15)
    try:
        number = np.asarray(value)
        fits = number.ndim == 0 and number.dtype.kind in "biuf" and low <= number <= high and int(number) == number
    except (TypeError, ValueError, OverflowError):  # for example a ragged list
        fits = False
    if not fits:
        name = next(name for name, k in PAIRS.items() if k == kind)
        raise ValueError(f"{what}: pad_value={value!r} is not a value of {name}, an integer of {low} to {high}")
    return int(number).to_bytes(1, "little", signed=low < 0)


class Slices(NamedTuple):
    """Equal slices of a conversion to packed pairs: the transfer of the first one to bytes, their number, their strides
    in the source (bytes, or elements of packed pairs) and in the parameters, and the elements of each, with pads."""

    move: Transfer
    times: int
    src_step: int
    par_step: int
    elements: int


def slices_of(move: Transfer, parameter: Sequence[Side], parameter_blocks: Sequence[int]) -> list[Slices]:
    """A transfer to packed pairs, cut along the outermost axis of the destination: slices of equal size, and one with
    the rest, if there is any. `parameter`: the offsets of the parameters of each dimension; they have blocks of
    `parameter_blocks` indices."""
    box, dst = move.box, move.dst
    axes = dst.axes(box.shape)
    axis = next((a for a in axes if a.extent > 1), None)
    rows = count = 0
    if axis is not None and axis == axes[dst.digits(axis.dim)[0]]:  # a block has its size in each slice
        elements = prod(dst.physical_shape(box.shape)) // axis.extent  # of one index of the axis
        units = (a.unit for a in move.src.axes(box.src_shape) if a.dim == axis.dim)
        step = lcm(axis.unit, parameter_blocks[axis.dim], *units)  # a multiple of the blocks of all sides
        step *= 1 + step // axis.unit * elements % 2
        rows = step * max(1, SLICE_ELEMENTS // (step // axis.unit * elements or 1))
        count = box.shape[axis.dim] // rows
    if axis is None or count == 0 or (count == 1 and box.shape[axis.dim] == rows):
        return [_slices(move, box.shape, 1, 0, 0)]
    source, _ = box.sides(move.src, move.src_strides, dst, contiguous_strides(dst, box.shape, 1))
    steps = [side[axis.dim].offset(rows) - side[axis.dim].offset(0) for side in (source, parameter)]
    result = []
    for n, times in ((rows, count), (box.shape[axis.dim] % rows, 1)):
        if n:
            shape = tuple(n if dim == axis.dim else size for dim, size in enumerate(box.shape))
            result.append(_slices(move, shape, times, *steps))
    return result


def _slices(move: Transfer, shape: tuple[int, ...], times: int, src_step: int, par_step: int) -> Slices:
    box = Box(shape, move.box.src_shape, move.box.src_at, shape, (0,) * len(shape), True)
    move = move._replace(box=box, dst_strides=contiguous_strides(move.dst, shape, 1), width=1)
    return Slices(move, times, src_step, par_step, prod(move.dst.physical_shape(shape)))
