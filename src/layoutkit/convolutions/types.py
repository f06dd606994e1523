"""The element types of convolutions; others are refused here only."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .._core.runtime import registry
from ..memory.arrays import bfloat16, empty
from ..reorders.convert import NUMBERS
from ..reorders.reorder import reorder

_DTYPES = {element: name for name, element in NUMBERS.items()}
BITS = np.dtype(np.uint16)  # stores bfloat16 if ml_dtypes is not installed, or if the caller says so


@lru_cache
def dtype_of(element: str) -> np.dtype:
    """The dtype of an element that kernels.h names."""
    return bfloat16() or BITS if element == "bf16" else np.dtype(_DTYPES[element])


class ConvTypes(NamedTuple):
    """The types of a convolution; `name` is part of its key."""

    name: str
    elements: tuple[str, str, str, str]  # of source, filter, sums and destination, as kernels.h names them

    @property
    def src(self) -> np.dtype:
        """The dtype of the input."""
        return dtype_of(self.elements[0])

    @property
    def filter(self) -> np.dtype:
        """The dtype of the filter."""
        return dtype_of(self.elements[1])

    @property
    def sum(self) -> np.dtype:
        """The dtype of the sums and the bias."""
        return dtype_of(self.elements[2])

    @property
    def dst(self) -> np.dtype:
        """The dtype of the result and the residual."""
        return dtype_of(self.elements[3])

    @property
    def integers(self) -> bool:
        """Whether integers are summed."""
        return self.elements[2] == "s32"

    @property
    def real(self) -> np.dtype:
        """The dtype of the epilogue: float32 for integers."""
        return F32.sum if self.integers else self.sum

    @property
    def wide(self) -> ConvTypes:
        """The same with every number in the type of the sums, in which a convolution of narrow numbers may be computed;
        integers stay as they are."""
        return self if self.integers else TYPES[self.elements[2]]

    @property
    def narrow(self) -> bool:
        """Whether numbers are narrower than their sums."""
        return self.elements[0] != self.elements[2]

    @property
    def rows(self) -> str:
        """The types that rows which multiply are registered for."""
        return "u8s8" if self.integers else self.elements[0]

    @property
    def tiles(self) -> str:
        """The types that rows which transform and multiply tiles of Winograd are registered for."""
        return "s16" if self.integers else self.elements[0]

    def rows_or_wide(self, family: str) -> str:
        """The same, or the wide types if this machine has no such rows of a family."""
        return self.rows if registry.kernels(family, self.rows) else self.wide.rows

    @property
    def peak(self) -> str:
        """The row of the family "peak" that bounds the fastest register tile of these types."""
        tile = registry.best("gemm", self.rows_or_wide("gemm"))[0].tile
        assert tile is not None, "rows of the family gemm multiply"
        return tile.peak


# The table is LK_TYPES of kernels.h.
TYPES = {name: ConvTypes(name, elements) for name, elements in registry.TYPES.items()}
F32 = TYPES["f32"]
_INT8 = np.dtype(np.int8)


class ArrayTypes(NamedTuple):
    """The types of a convolution and of the caller's arrays, in which bfloat16 may be bits in uint16."""

    types: ConvTypes
    src: np.dtype
    dst: np.dtype


def types_of(w: np.ndarray, dtype: Any, what: str) -> ArrayTypes:
    """The types of a convolution with filter `w`; TypeError if there are none.

    `dtype` is that of the result, or a pair, those of input and result: the filter's by default, with a filter of int8
    uint8 and int32.
    """
    source, result = dtype if isinstance(dtype, tuple) and len(dtype) == 2 else (None, dtype)
    element = NUMBERS.get(w.dtype.name) if w.dtype.isnative else None
    src = None if source is None else _element(source)
    if src == "bf16" and w.dtype == BITS:
        element = src
    if src is None:
        src = "u8" if element == "s8" else element
    types_by_result = {t.elements[3]: t for t in TYPES.values() if t.elements[:2] == (src, element)}
    if not types_by_result and source is not None and any(t.elements[1] == element for t in TYPES.values()):
        raise TypeError(f"{what}: w is of dtype {w.dtype}, dtype= says {source!r} for x")
    if not types_by_result:
        known = [_DTYPES[e] for e in dict.fromkeys(t.elements[1] for t in TYPES.values())]
        hint = '; bfloat16 bits in uint16 are said by dtype=("bfloat16", result)' if w.dtype == BITS else ""
        hint = hint or "; w.astype('float32') converts"
        raise TypeError(f"{what}: w: expected dtype {', '.join(known[:-1])} or {known[-1]}, got {w.dtype}{hint}")
    result_element = ("s32" if element == "s8" else element) if result is None else _element(result)
    if result_element not in types_by_result:
        results = " or ".join(_DTYPES[e] for e in types_by_result)
        raise TypeError(
            f"{what}: dtype: the result of a filter of {_DTYPES[str(element)]} is {results}, not {result!r}"
        )
    types = types_by_result[result_element]
    bits = src == "bf16" and w.dtype == BITS
    return ArrayTypes(types, BITS if bits else types.src, BITS if bits and result_element == "bf16" else types.dst)


def dtype_for(dtype: Any, x: Any, w: Any) -> Any:
    """`dtype` as `types_of` takes it, with the type of the input `x` where the filter is int8."""
    if isinstance(dtype, tuple) or getattr(w, "dtype", None) != _INT8:
        return dtype
    name = str(getattr(x, "dtype", None))
    return (name, "int32" if dtype is None else dtype) if name in ("int8", "uint8") else dtype


def _element(dtype: Any) -> str:
    """The element that the caller means by a dtype or its name; its text if there is no such element."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        return "bf16"
    try:
        element = np.dtype(dtype)
    except TypeError:
        return repr(dtype)
    return NUMBERS.get(element.name, element.name)


def check_type(array: np.ndarray, expected: np.dtype, what: str) -> None:
    """Raise TypeError unless `array` is of the type that a convolution expects there."""
    if array.dtype != expected:
        name = what.rpartition(": ")[2]
        raise TypeError(
            f"{what}: expected dtype {expected}, got {array.dtype}; {name}.astype({str(expected)!r}) converts"
        )


def conversion_of(elements: tuple[str, str]) -> Any:
    """The argument dtype= of `reorder` that converts one element to another; None if they are equal."""
    if elements[0] == elements[1]:
        return None
    return tuple("bfloat16" if e == "bf16" else dtype_of(e) for e in elements)


def converted(array: np.ndarray, from_: str, to: str) -> np.ndarray:
    """The numbers of a contiguous array of one element as another."""
    dtype = None if from_ == to else conversion_of((from_, to))
    return array if dtype is None else reorder(array.reshape(-1), "a", "a", dtype=dtype).reshape(array.shape)


def ones(shape: tuple[int, ...], element: str) -> np.ndarray:
    """An array of ones, aligned as results are."""
    dtype = dtype_of(element)
    array = empty(shape, dtype, "ones")
    array[...] = 0x3F80 if element == "bf16" and dtype == BITS else 1
    return array
