"""Checks of the arrays that callers pass in, and allocation of those that operations return."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .._core.runtime.arrays import address, aligned, can_hold_result, extents_overlap
from .._core.runtime.pool import LARGE_BYTES
from ..formats.families import check_names
from ..formats.layout import Layout
from . import dlpack
from .pool import HAS_MAPPINGS, pool
from .spans import overlaps_itself

MAX_BYTES = 2**63 - 1  # of an array
PAGE_BYTES = 4096
MIN_STAGGERED_BYTES = 1 << 15  # from this size on the allocator may place all arrays alike within their pages
# Arrays begin this far apart within their pages, modulo a page. A load waits for an earlier store to the same address
# within a page (4K aliasing), so an input and an output of the same strides must not begin alike: a depthwise 3x3
# convolution of 128 channels @28 is a third faster.
STAGGER_BYTES = 832
_stagger = 0  # of the last array, in STAGGER_BYTES


def as_array(value: Any, what: str) -> np.ndarray:
    """`value` as a numpy array of the same memory; TypeError and BufferError name `what`.

    Takes anything with DLPack, ``__array__``, ``__array_interface__`` or a buffer. bfloat16 and float8 of DLPack are
    those of `ml_dtypes` where that is installed, else unsigned integers.
    Of subclasses of numpy's array (memmap, ..) the plain array is taken. What would be lost is refused: masks, units,
    and labels of axes (of xarray and pandas).
    """
    if isinstance(value, np.ndarray):
        return value if type(value) is np.ndarray else _plain(value, what)
    if hasattr(value, "__dlpack__"):
        return dlpack.imported(value, what)
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        for attribute, plain in _LABELS.items():
            if hasattr(value, attribute):
                raise TypeError(f"{what}: expected a plain array, got {type(value).__name__}, whose labels would be "
                                f"lost; {_name(what)}.{plain} has none")  # fmt: skip
        return np.asarray(value)
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        hint = f"; numpy.asarray({_name(what)}, 'float32') makes one" if isinstance(value, (list, tuple)) else ""
        raise TypeError(f"{what}: expected an array, got {type(value).__name__}{hint}") from None


def as_out(out: Any, what: str) -> np.ndarray:
    """`out` as a plain numpy array of the same memory; TypeError if it is no numpy array."""
    if not isinstance(out, np.ndarray):
        kind = f"{type(out).__module__}.{type(out).__name__}".removeprefix("builtins.")
        hint = ", as the input is" if kind.startswith("torch.") else ""
        raise TypeError(f"{what}: out must be a numpy array or a Tensor{hint}, got {kind}")
    return out if type(out) is np.ndarray else _plain(out, f"{what}: out")


def _plain(array: np.ndarray, what: str) -> np.ndarray:
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(array, masked.MaskedArray):
        raise TypeError(f"{what}: expected a plain array, got {type(array).__name__}, whose mask would be lost; "
                        f"{_name(what)}.filled(0) has none")  # fmt: skip
    if hasattr(array, "unit") or hasattr(array, "units"):
        raise TypeError(f"{what}: expected a plain array, got {type(array).__name__}, whose unit would be lost")
    return array.view(np.ndarray)


_LABELS = {"coords": "values", "iloc": "to_numpy()"}  # attributes of arrays with labels, and their plain arrays


def _name(what: str) -> str:
    """The argument in "operation: argument"."""
    return what.rpartition(": ")[2]


def bfloat16() -> np.dtype | None:
    """The dtype of ml_dtypes, if that is installed."""
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        return None
    return np.dtype(bfloat16)


def check_movable(array: np.ndarray, what: str) -> None:
    """Raise unless the elements are plain bytes of a width that the kernels move."""
    if array.dtype.hasobject or array.dtype.itemsize not in (1, 2, 4, 8, 16):
        raise TypeError(f"{what}: dtype {array.dtype} has no elements of 1, 2, 4, 8 or 16 plain bytes")


def check_source(
    array: np.ndarray, src: Layout, dst: Layout, shape: Sequence[int] | None, what: str
) -> tuple[int, ...]:
    """The logical shape of what `array` holds in `src`; raise if array and layouts do not fit together."""
    if src.rank != dst.rank:
        raise ValueError(f"{what}: layouts of {src.rank} and {dst.rank} dimensions")
    check_names(src, dst, what)
    return shape_held(array, src, shape, what)


def shape_held(array: np.ndarray, layout: Layout, shape: Sequence[int] | None, what: str) -> tuple[int, ...]:
    """The logical shape of what `array` holds in `layout`: `shape`, or all of it; raise if they do not fit."""
    try:
        largest = layout.padded_shape(array.shape)
        shape = largest if shape is None else layout.check_shape(shape)
    except ValueError as e:
        raise ValueError(f"{what}: {e}") from None
    if shape != largest and layout.physical_shape(shape) != array.shape:
        raise ValueError(
            f"{what}: shape {shape} in {layout} is held by an array of {layout.physical_shape(shape)}, "
            f"got {array.shape}"
        )
    check_pitches(array, layout, what)
    return shape


def contiguous_strides(layout: Layout, shape: Sequence[int], width: int) -> tuple[int, ...]:
    """Byte strides of the contiguous physical array of a logical shape, elements of `width` bytes."""
    return tuple([width * s for s in layout.axis_strides(shape)])


def nbytes_of(shape: Sequence[int], dtype: np.dtype, what: str) -> int:
    """Bytes of an array; ValueError if no array can have so many."""
    size = prod(shape) * dtype.itemsize
    if size > MAX_BYTES:
        raise ValueError(f"{what}: an array of shape {tuple(shape)} and dtype {dtype} is too large")
    return size


def empty(shape: tuple[int, ...], dtype: np.dtype, what: str, used_with: np.ndarray | None = None) -> np.ndarray:
    """A new array aligned to 64 bytes; see `allocate`."""
    return allocate(shape, dtype, nbytes_of(shape, dtype, what), used_with)


def allocate(shape: tuple[int, ...], dtype: np.dtype, nbytes: int, used_with: np.ndarray | None = None) -> np.ndarray:
    """A new array of `nbytes` bytes, aligned to 64.

    Large ones come from the pool. Others are staggered: they begin at different offsets within their pages, and at
    another one than `used_with`, an array that the same loops read or write.
    """
    if nbytes >= LARGE_BYTES and HAS_MAPPINGS:
        try:
            return np.ndarray(shape, dtype, pool.take(nbytes))
        except MemoryError as error:
            raise MemoryError(f"{error}: an array of shape {shape} and dtype {dtype}") from None
    if nbytes < MIN_STAGGERED_BYTES:
        return aligned(shape, dtype, nbytes)
    if used_with is None:
        global _stagger
        _stagger = (_stagger + 1) % 4
        offset = STAGGER_BYTES * (_stagger + 1)
    else:
        offset = (address(used_with) + STAGGER_BYTES) // 64 * 64
    return aligned(shape, dtype, nbytes, offset, PAGE_BYTES)


def reshaped(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The same elements in another shape, in place; ValueError if that takes a copy."""
    shape = tuple(shape)
    view = array.reshape(shape)
    if view.size and not np.may_share_memory(view, array):
        raise ValueError(f"an array of shape {array.shape} and strides {array.strides} has no view of shape {shape}")
    return view


def has_pitches(array: np.ndarray, layout: Layout) -> bool:
    """Whether the strides of a physical array are the explicit ones of its layout."""
    axes = zip(array.shape, array.strides, layout.pitches)
    return all(n <= 1 or p is None or stride == p * array.itemsize for n, stride, p in axes)


def check_pitches(array: np.ndarray, layout: Layout, what: str) -> None:
    """Raise unless a physical array has the explicit strides of its layout."""
    if not layout.is_dense and not has_pitches(array, layout):
        raise ValueError(
            f"{what}: the array has byte strides {array.strides}, items of {array.itemsize}; its layout is {layout}"
        )


def lay_out(memory: np.ndarray, layout: Layout, shape: Sequence[int]) -> np.ndarray:
    """The physical array of `layout` over the memory of `memory`, from its first element on; not checked."""
    steps = [s * memory.itemsize for s in layout.axis_strides(shape)]
    axes = layout.physical_shape(shape)
    return strided(memory, axes, steps)


def strided(array: np.ndarray, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """`as_strided` of numpy, which does not know all types of ml_dtypes: as plain bytes of that width."""
    plain = array.view(f"V{array.itemsize}")
    view = np.lib.stride_tricks.as_strided(plain, shape, strides, writeable=array.flags.writeable)
    return view.view(array.dtype)


def placeholder(shape: Sequence[int], dtype: np.dtype, strides: Sequence[int]) -> np.ndarray:
    """An array of this shape and these strides that must not be read or written."""
    return np.lib.stride_tricks.as_strided(np.broadcast_to(dtype.type(0), shape), shape, strides)


def new(layout: Layout, shape: Sequence[int], dtype: np.dtype, what: str) -> np.ndarray:
    """A new physical array of `layout`, with its explicit strides if it has any."""
    physical = layout.physical_shape(shape)
    if layout.is_dense:
        return empty(physical, dtype, what)
    if overlaps_itself(physical, layout.axis_strides(shape), 1):
        raise ValueError(f"{what}: elements of {layout} overlap one another on shape {tuple(shape)}")
    return lay_out(empty((layout.required_span_size(shape),), dtype, what), layout, shape)


def check_out(out: object, shape: tuple[int, ...], dtype: np.dtype, sources: Sequence, what: str) -> np.ndarray:
    """`out` if it can take the result: right shape and dtype, writeable, no overlap of elements or with `sources`."""
    if type(out) is not np.ndarray:
        out = as_out(out, what)
    if not can_hold_result(out, shape, dtype):
        _check_out(out, shape, dtype, what)
    for source in sources:
        if source is not None and overlap(out, source):
            raise ValueError(f"{what}: out overlaps an input")
    return out


def _check_out(out: np.ndarray, shape: tuple[int, ...], dtype: np.dtype, what: str) -> None:
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(f"{what}: out must have shape {shape} and dtype {dtype}, got {out.shape} and {out.dtype}")
    if not out.flags.writeable:
        raise ValueError(f"{what}: out is read-only")
    if not out.flags.c_contiguous and overlaps_itself(out.shape, out.strides, out.itemsize):
        raise ValueError(f"{what}: elements of out overlap one another (strides {out.strides})")


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays share memory; True also where it would take too long to find out."""
    if not extents_overlap(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=10_000)  # type: ignore[arg-type]  # numpy's stub knows -1 and 0 only
    except np.exceptions.TooHardError:
        return True
