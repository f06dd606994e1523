"""Reorders that convert: the numbers of a tensor in another type, scaled, saturated, added to the destination.

`layoutkit.reorder` documents the meaning, and `reference.convert` computes it. Here arguments become the parameters
that lk_convert of kernels.h takes, and layouts become the nests of `conversions.py`.
"""

from __future__ import annotations

import sys
from math import isfinite, prod
from operator import index
from typing import Any, NamedTuple

import numpy as np

from .._core import registry
from .._core.convert import Converter
from .._core.reorder import Program
from ..choosing.cache import plans
from ..choosing.machine import last_level_cache
from ..formats.layout import Layout
from ..memory import spans
from ..memory.arrays import bfloat16
from ..memory.pad_value import pad_element
from ..memory.spans import Span
from . import reach
from .box import Box
from .conversions import Widths, nests
from .nests import fill_nests
from .pieces import Digit, Side
from .program import Transfer

NUMBERS = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int32": "s32", "int8": "s8",
           "uint8": "u8"}  # fmt: skip
WIDE = {"f64", "s32"}  # not exact in f32
LIMITS: dict[str, np.iinfo] = {"s32": np.iinfo(np.int32), "s8": np.iinfo(np.int8), "u8": np.iinfo(np.uint8)}
INTEGERS = set(LIMITS)


class Types(NamedTuple):
    """The types of source and destination, as the kernels name them, and the dtype of the array that is written."""

    src: str
    dst: str
    dtype: np.dtype

    @property
    def real(self) -> type:
        """The float type of the arithmetic."""
        return np.float64 if WIDE & {self.src, self.dst} else np.float32


class Parameters(NamedTuple):
    """Scales, zero points, offsets, alpha and beta, as lk_convert in kernels.h takes them."""

    sub: np.ndarray | None
    mul: np.ndarray | None
    inv: np.ndarray | None
    off: np.ndarray | None
    add: np.ndarray | None
    high: np.ndarray | None
    low: np.ndarray | None
    divide: bool
    alpha: float
    beta: float

    @property
    def per_channel(self) -> bool:
        """Whether any of them has one value for each channel."""
        return any(p is not None and p.size > 1 for p in self[:7])


def types(held: np.dtype, asked: Any, what: str) -> Types:
    """The types of a conversion from arrays of dtype `held` to `asked`: a dtype, None, or (source, result)."""
    src, dst = asked if isinstance(asked, tuple) and len(asked) == 2 else (None, asked)
    src_type, _ = (_number(held, what), held) if src is None else _named(src, what)
    if src is not None and (_named(src, what)[1] != held and not (src_type == "bf16" and held == np.uint16)):
        raise TypeError(f"{what}: the array is of dtype {held}, dtype= says {src}")
    dst_type, dtype = (src_type, held) if dst is None else _named(dst, what)
    return Types(src_type, dst_type, dtype)


def is_dtype(asked: Any, held: np.dtype) -> bool:
    """Whether what the caller gave as dtype= is `held`."""
    try:
        return not isinstance(asked, tuple) and np.dtype(asked) == held
    except TypeError:
        return False


def _named(dtype: Any, what: str) -> tuple[str, np.dtype]:
    if isinstance(dtype, str) and dtype == "bfloat16":
        return "bf16", bfloat16() or np.dtype(np.uint16)
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{what}: dtype {dtype!r} is none") from None
    return _number(found, what), found


def _number(dtype: np.dtype, what: str) -> str:
    if dtype.name not in NUMBERS or not dtype.isnative:
        hint = '; bfloat16 bits in uint16 are said by dtype=("bfloat16", result)' if dtype == np.uint16 else ""
        raise TypeError(f"{what}: converts {', '.join(NUMBERS)} of this machine's byte order, got {dtype}{hint}")
    return NUMBERS[dtype.name]


def parameters(
    t: Types, scale: Any, zero_point: Any, offset: Any, axis: Any, alpha: Any, beta: Any, shape: tuple[int, ...],
    what: str,
) -> Parameters:  # fmt: skip
    """The arguments, checked, as the parameters of lk_convert."""
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not isinstance(value, (int, float, np.number)) or not isfinite(value):
            raise ValueError(f"{what}: {name} must be a finite number, got {value!r}")
    mul: np.ndarray | None = None if scale is None else _values(scale, "scale", axis, shape, what).astype(t.real)
    if mul is not None and not (np.isfinite(mul).all() and mul.all()):
        raise ValueError(f"{what}: scale must be finite and not 0 as {np.dtype(t.real)}, got {scale!r}")
    shift: np.ndarray | None = None if offset is None else _values(offset, "offset", axis, shape, what).astype(t.real)
    if shift is not None and not np.isfinite(shift).all():
        raise ValueError(f"{what}: offset must be finite as {np.dtype(t.real)}, got {offset!r}")
    zero: np.ndarray | None = None
    if zero_point is not None:
        zero = _values(zero_point, "zero_point", axis, shape, what)
        integer = t.dst if t.dst in INTEGERS else t.src
        if integer not in INTEGERS:
            raise ValueError(f"{what}: zero_point is of integers, and neither type is one")
        limits = LIMITS[integer]
        if (zero.size and zero.dtype.kind not in "iu") or (zero < limits.min).any() or (zero > limits.max).any():
            raise ValueError(f"{what}: zero_point must be integers of {limits.min} to {limits.max}, got {zero_point!r}")
        zero = zero.astype(t.real)
    n = next((p.size for p in (mul, zero, shift) if p is not None and p.size != 1), 1)
    mul, zero, shift = _repeated(mul, n), _repeated(zero, n), _repeated(shift, n)
    inv: np.ndarray | None = None
    high, low = None, None
    divide, quantizes = False, t.dst in INTEGERS and t.src not in INTEGERS
    if mul is not None and quantizes:
        mantissa, exponent = np.frexp(mul)
        inverse = np.divide(1, mul).astype(t.real)
        if (np.abs(mantissa) == 0.5).all() and (np.abs(exponent) < 100).all():
            mul = inverse  # exact: the product is the quotient
        else:
            divide, inv = True, inverse if (np.abs(exponent) < 60).all() else None
            if inv is not None and t.real is np.float32 and _products_decide(mul):
                high, low = _in_two(mul)
    sub, add = (None, zero) if t.dst in INTEGERS else (zero, None)
    sub, off = (shift, None) if quantizes else (sub, shift)
    return Parameters(sub, mul, inv, off, add, high, low, divide, float(alpha), float(beta))


def _products_decide(scale: np.ndarray) -> bool:
    """Whether a quotient by `scale` within 2^-45 of the exact one rounds to the same integer of 8 bits as that rounded
    to float32.

    Both are on the same side of a half unless the exact quotient is that near to the middle between the half and the
    next float32: so the float32 next to scale * middle is tried, for all halves that tell integers of 8 bits apart.
    """
    halves = np.arange(257, dtype=np.float32) + np.float32(0.5)
    beside = np.concatenate([np.nextafter(halves, np.float32(0)), np.nextafter(halves, np.float32(np.inf))])
    middles = (np.concatenate([halves, halves]).astype(np.float64) + beside) / 2
    exact = np.abs(scale.astype(np.float64))[:, None] * middles  # 24 and 25 bits: no rounding
    return bool((np.abs(exact.astype(np.float32) - exact) > 2.0**-44 * exact).all())


def _in_two(scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The inverse of `scale` as a sum of two float32 of one sign, neither 0."""
    inverse = 1 / scale.astype(np.float64)
    high = inverse.astype(np.float32)
    high = np.where(np.abs(high) > np.abs(inverse), np.nextafter(high, np.float32(0)), high)
    low = (inverse - high).astype(np.float32)
    return high, np.where(low == 0, high * np.float32(2.0**-60), low)


def _repeated(values: np.ndarray | None, n: int) -> np.ndarray | None:
    return None if values is None else np.ascontiguousarray(np.broadcast_to(values, n))


def _values(given: Any, name: str, axis: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    found = np.asarray(given)
    if found.dtype.kind not in "iuf" and found.dtype.name != "bfloat16":
        raise TypeError(f"{what}: {name} must be numbers, got {given!r}")
    if found.ndim == 0:
        return found.reshape(1)
    if found.shape != (shape[dimension(axis, len(shape), what)],):
        raise ValueError(
            f"{what}: {name} must be one number or {shape[axis]}, for dimension {axis} of {shape}; got {found.shape}"
        )
    return found


def dimension(axis: Any, rank: int, what: str) -> int:
    """`axis`, any integer that names one of `rank` dimensions, counted from 0."""
    try:
        found = index(axis)
    except TypeError:
        found = rank
    if not -rank <= found < rank:
        raise ValueError(f"{what}: axis must be one of {rank} dimensions, got {axis!r}")
    return found % rank


def token(value: Any) -> Any:
    """A hashable stand-in for an argument, equal for equal arguments only; TypeError where comparing takes long."""
    if value is None or type(value) is int or type(value) is str:
        return value
    if isinstance(value, np.ndarray) and value.nbytes < 1 << 16 and not value.dtype.hasobject:
        return value.dtype, value.shape, value.tobytes()
    return type(value), repr(value) if type(value) is float else value  # 0.0 == -0.0


def pad_bytes(value: Any, t: Types, what: str) -> bytes:
    """The bytes of the element that pads hold."""
    if t.dst == "bf16" and t.dtype == np.uint16:
        bits = int(pad_element(value, np.dtype(np.float32), what).view(np.uint32))
        return (min(bits + 0x7FFF + (bits >> 16 & 1), 0xFFFFFFFF) >> 16).to_bytes(2, sys.byteorder)
    return pad_element(value, t.dtype, what).tobytes()


def converter(move: Transfer, t: Types, pad: bytes, axis: int | None, summed: bool) -> Converter:
    """The converter of a transfer, whose `width` is that of the destination's elements.

    `axis`: the dimension of parameters per channel; `summed`: whether the result is added to the destination.
    """
    return plans.of(_converter, move, t, pad, axis, summed, registry.isa())


def conversion(
    src: Layout, dst: Layout, shape: tuple[int, ...], elements: tuple[str, str], src_strides, dst_strides
) -> Converter:
    """What converts a whole tensor from one element to another, for operations that do so as a part of their work."""
    dtype = np.dtype(f"u{_ELEMENT_BYTES[elements[1]]}")  # of as many bytes: the pads are zeros
    move = Transfer(src, dst, dtype.itemsize, src_strides, dst_strides, Box.all_of(shape))
    return converter(move, Types(*elements, dtype), bytes(dtype.itemsize), None, False)


def _converter(move: Transfer, t: Types, pad: bytes, axis: int | None, summed: bool, isa: str) -> Converter:
    box = move.box
    s, d = box.sides(move.src, move.src_strides, move.dst, move.dst_strides)
    widths = Widths(_ELEMENT_BYTES[t.src], _ELEMENT_BYTES[t.dst], summed)
    parameter = [Side((Digit(1, int(dim == axis)),)) for dim in range(move.src.rank)]
    moved = prod(box.shape) * (widths.src + widths.dst)
    stream = moved > last_level_cache() and not summed
    fills = fill_nests(box.shape, move.dst.full_shape(box.shape), d, widths.dst) if box.whole else []
    fill = Program(fills, widths.dst, pad, stream) if fills else None
    found = nests(box.shape, list(zip(s, d, parameter)), widths)
    what = f"{move}, {t.src} to {t.dst}"
    read, written, counted = reach.of_conversion(found, widths)
    written = written.joined(reach.of_nests(fills)[1])
    source = spans.of_array(move.src.physical_shape(box.src_shape), move.src_strides, widths.src)
    spans.check(read, source, f"{what}: source")
    destination = spans.of_array(move.dst.physical_shape(box.dst_shape), move.dst_strides, widths.dst)
    spans.check(written, destination, f"{what}: destination")
    spans.check(counted, Span(0, 1 if axis is None else box.shape[axis]), f"{what}: scales")
    return Converter(found, t[:2], f"f{8 * np.dtype(t.real).itemsize}", summed, fill, stream)


_ELEMENT_BYTES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "s32": 4, "s8": 1, "u8": 1}
