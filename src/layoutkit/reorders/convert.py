"""Reorders that convert numbers to another type, scale them, saturate them, or add them to the destination.

`layoutkit.reorder` documents the meaning, and the tests have a reference in `oracle/reference.py`. Here arguments
become the parameters of lk_convert (convert.h), and layouts become the nests of `conversions.py`.
"""

from __future__ import annotations

import sys
from math import isfinite, prod
from operator import index
from typing import Any, NamedTuple

import numpy as np

from .._core.nests.moves.convert import ELEMENT_BYTES, Converter, ConverterBase, PackingConverter
from .._core.nests.moves.reorder import Program
from .._core.runtime import registry
from ..choosing.cache import plans
from ..choosing.machine import last_level_cache
from ..formats.layout import Layout
from ..memory import spans
from ..memory.arrays import bfloat16
from ..memory.pad_value import pad_element
from ..memory.pool import pool
from ..memory.spans import Span
from . import pairs, reach
from .box import Box
from .conversions import Widths, nests
from .nests import fill_nests
from .pairs import BYTES, NOT_PACKED, PAIRS, Packed
from .pieces import Digit, Side
from .program import Transfer


class Range(NamedTuple):
    """The least and the greatest number of a type of integers."""

    min: int
    max: int


NUMBERS = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int32": "s32", "int8": "s8",
           "uint8": "u8", "int16": "s16", "uint16": "u16", "uint32": "u32", "int64": "s64", "bool": "bool",
           "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "int4": "s4", "uint4": "u4"}  # fmt: skip
OF_ML_DTYPES = {"bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"}
WIDE = {"f64", "s32", "u32", "s64"}  # types that f32 does not hold exactly
LIMITS: dict[str, Range] = {
    **{kind: Range(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for kind, bits in
       (("s32", 32), ("s8", 8), ("s16", 16), ("s64", 64), ("s4", 4))},
    **{kind: Range(0, 2**bits - 1) for kind, bits in (("u8", 8), ("u16", 16), ("u32", 32), ("u4", 4))},
}  # fmt: skip
MAX_CHECKED_SCALES = 1024  # for whether a product may replace the quotient: 20 us each
INTEGERS = set(LIMITS)  # without bool, which is an integer only as a source


class Types(NamedTuple):
    """The types of source and destination, as the kernels name them, and the dtype of the array that is written."""

    src: str
    dst: str
    dtype: np.dtype
    wide: bool = False  # whether a zero point is out of the range of its type
    packed: Packed = NOT_PACKED

    @property
    def real(self) -> type:
        """The float type of the arithmetic."""
        return np.float64 if self.wide or WIDE & {self.src, self.dst} else np.float32

    @property
    def widths(self) -> tuple[float, float]:
        """Bytes of an element of source and destination, in arrays."""
        return tuple(0.5 if p else ELEMENT_BYTES[t] for t, p in zip(self[:2], self.packed))  # type: ignore[return-value]

    def __str__(self) -> str:
        return " to ".join(t + "x2" * p for t, p in zip(self[:2], self.packed))

    @property
    def words(self) -> str:
        """Their names in numpy."""
        names = {element: name for name, element in NUMBERS.items()}
        return " to ".join(names[t] + "x2" * p for t, p in zip(self[:2], self.packed))


class Parameters(NamedTuple):
    """Scales, zero points, offsets, alpha and beta, as lk_convert in convert.h takes them."""

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


class ParameterAxes(NamedTuple):
    """The dimensions along which parameters vary: along `dims[k]` there are `counts[k]` values, each for `blocks[k]`
    indices."""

    dims: tuple[int, ...]
    blocks: tuple[int, ...]
    counts: tuple[int, ...]

    def side(self, dim: int) -> Side:
        """The map from an index of `dim` to the offset of its parameters."""
        if dim not in self.dims:
            return Side((Digit(1, 0),))
        k = self.dims.index(dim)
        stride, block = prod(self.counts[k + 1 :]), self.blocks[k]
        return Side((Digit(1, stride),) if block == 1 else (Digit(block, stride), Digit(1, 0)))


SINGLE_VALUE = ParameterAxes((), (), ())


class Numbers(NamedTuple):
    """The arguments of `reorder` that change numbers, as given."""

    dtype: Any = None
    scale: Any = None
    zero_point: Any = None
    offset: Any = None
    out_scale: Any = None
    out_zero_point: Any = None
    axis: Any = 1
    block_size: Any = 1
    alpha: Any = 1
    beta: Any = 0

    def parameters(self) -> tuple:
        """The parameters that may be arrays along an axis."""
        return self[1:6]

    def change(self, dtype: np.dtype) -> bool:
        """Whether arrays of this dtype are converted, not only moved; ValueError if alpha or beta is not finite."""
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not isinstance(value, (int, float, np.number)) or not isfinite(value):
                value_text = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)
                raise ValueError(f"reorder: {name} must be a finite number, got {value_text}")
        if all(p is None for p in self.parameters()) and self.alpha == 1 and self.beta == 0:
            return self.dtype is not None and not is_dtype(self.dtype, dtype)
        return True


def types(array_dtype: np.dtype, requested: Any, what: str) -> Types:
    """The types of a conversion of arrays of dtype `array_dtype`; `requested`: a dtype, None, or (source, result)."""
    src, dst = requested if isinstance(requested, tuple) and len(requested) == 2 else (None, requested)
    if src is None and isinstance(dst, str) and dst == "bfloat16" and array_dtype == np.uint16:
        choice = '("bfloat16", "bfloat16") or ("uint16", "bfloat16")'
        raise TypeError(f"{what}: the array is of uint16: say whether it holds bits or numbers, dtype={choice}")
    packed = pairs.packed_of(requested)
    if packed.dst and src is None and array_dtype == np.uint8:
        choice = f'("uint8", "{dst}") or ("{dst}", "{dst}")'
        raise TypeError(f"{what}: the array is of uint8: say whether it holds numbers or packed pairs, dtype={choice}")
    if packed.src and array_dtype != np.uint8:
        raise TypeError(f"{what}: packed pairs, dtype= says {src}, are bytes in uint8; the array is of {array_dtype}")
    src_type, _ = (_number(array_dtype, what), array_dtype) if src is None else _named(src, what)
    if src is not None and (
        _named(src, what)[1] != array_dtype and not (src_type == "bf16" and array_dtype == np.uint16)
    ):
        raise TypeError(f"{what}: the array is of dtype {array_dtype}, dtype= says {src}")
    dst_type, dtype = (src_type, array_dtype) if dst is None else _named(dst, what)
    return Types(src_type, dst_type, dtype, packed=packed._replace(dst=packed.src) if dst is None else packed)


def is_dtype(requested: Any, dtype: np.dtype) -> bool:
    """Whether the argument dtype= of a call means `dtype`."""
    try:
        return not isinstance(requested, tuple) and np.dtype(requested) == dtype
    except TypeError:
        return False


def _named(dtype: Any, what: str) -> tuple[str, np.dtype]:
    if isinstance(dtype, str) and dtype == "bfloat16":
        return "bf16", bfloat16() or np.dtype(np.uint16)
    if isinstance(dtype, str) and dtype in PAIRS:
        return PAIRS[dtype], np.dtype(np.uint8)
    if isinstance(dtype, str) and dtype in OF_ML_DTYPES:
        bfloat16()  # numpy knows these names once ml_dtypes is imported
    try:
        element = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{what}: dtype {dtype!r} is none") from None
    return _number(element, what), element


def _number(dtype: np.dtype, what: str) -> str:
    if dtype.name not in NUMBERS or not dtype.isnative:
        raise TypeError(f"{what}: converts {', '.join(NUMBERS)} of this machine's byte order, got {dtype}")
    return NUMBERS[dtype.name]


def parameters(
    t: Types, numbers: Numbers, shape: tuple[int, ...], what: str
) -> tuple[Types, Parameters, ParameterAxes | None]:
    """Check the arguments; returns the types, now with that of the arithmetic, the parameters of lk_convert, and the
    axes that these have."""
    names = Numbers._fields[1:6]
    arrays = any(map(np.ndim, numbers.parameters()))
    axes = parameter_axes(numbers.axis, numbers.block_size, shape, what) if arrays else None
    scale, zero_point, offset, out_scale, out_zero_point = (
        None if p is None else _values(p, name, numbers, axes, what) for name, p in zip(names, numbers.parameters())
    )
    two_sided = out_scale is not None or out_zero_point is not None
    to_integers, of_integers = t.dst in INTEGERS, t.src in {*INTEGERS, "bool"}
    before, after = (zero_point, out_zero_point) if two_sided or not to_integers else (None, zero_point)
    wide = _check_zero(before, t.src, "zero_point", what)
    wide |= _check_zero(after, t.dst, "out_zero_point" if two_sided else "zero_point", what)
    t = t._replace(wide=wide)
    scale, out_scale = _real(scale, "scale", t, True, what), _real(out_scale, "out_scale", t, True, what)
    offset = _real(offset, "offset", t, False, what)
    before, after = _real(before, "zero_point", t, False, what), _real(after, "zero_point", t, False, what)
    mul, divide = scale, to_integers and not of_integers and not two_sided
    sub, off = (offset, None) if divide else (before, offset)
    if out_scale is not None:
        with np.errstate(all="ignore"):
            mul, divide = (out_scale, True) if scale is None else (scale / out_scale, False)
            off = None if off is None else off / out_scale
        mul, off = _real(mul, "scale / out_scale", t, True, what), _real(off, "offset / out_scale", t, False, what)
    n = max((p.size for p in (mul, sub, off, after) if p is not None and p.size != 1), default=1)
    n = 0 if any(p is not None and p.size == 0 for p in (mul, sub, off, after)) else n
    mul, sub, off, after = (_broadcast(p, n) for p in (mul, sub, off, after))
    inv, high, low = None, None, None
    divide = divide and mul is not None
    if mul is not None and divide:
        mantissa, exponent = np.frexp(mul)
        inverse = np.divide(1, mul).astype(t.real)
        if (np.abs(mantissa) == 0.5).all() and (np.abs(exponent) < 100).all():
            mul, divide = inverse, False  # exact: the product is the quotient
        elif to_integers and not of_integers and off is None and t.dst != "s64" and (np.abs(exponent) < 60).all():
            inv = inverse
            if t.real is np.float32 and (t.dst in ("s8", "u8") or t.packed.dst) and _product_rounds_alike(mul):
                high, low = _split_inverse(mul)
    alpha, beta = float(numbers.alpha), float(numbers.beta)
    return t, Parameters(sub, mul, inv, off, after, high, low, divide, alpha, beta), axes


def _real(values: np.ndarray | None, name: str, t: Types, divides: bool, what: str) -> np.ndarray | None:
    """`values` in the type of the arithmetic; ValueError unless they are finite, and if `divides`, not 0."""
    if values is None:
        return None
    with np.errstate(all="ignore"):
        rounded: np.ndarray = values.astype(t.real)
    if not np.isfinite(rounded).all() or (divides and not rounded.all()):
        least = " and not 0" if divides else ""
        raise ValueError(f"{what}: {name} must be finite{least} as {np.dtype(t.real)}, got {values.tolist()}")
    return rounded


def _check_zero(values: Any, kind: str, name: str, what: str) -> bool:
    """Whether zero points are out of the range of the type `kind`; those of integers must be integers."""
    if values is None or not values.size or kind not in {*INTEGERS, "bool"}:
        return False
    s32, limits = LIMITS["s32"], LIMITS.get(kind, Range(0, 1))
    if values.dtype.kind not in "iu" or not s32.min <= int(values.min()) <= int(values.max()) <= s32.max:
        raise ValueError(f"{what}: {name} must be integers of {s32.min} to {s32.max}, got {values.tolist()}")
    return bool(values.min() < limits.min or values.max() > limits.max)


def parameter_axes(axis: Any, block_size: Any, shape: tuple[int, ...], what: str) -> ParameterAxes:
    """The dimensions of `axis`, in blocks of `block_size`."""
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    dims = tuple(dimension(a, len(shape), what) for a in axes)
    if len(set(dims)) < len(dims):
        raise ValueError(f"{what}: axis names a dimension twice: {axis!r}")
    blocks = tuple(block_size) if isinstance(block_size, (tuple, list)) else (block_size,)
    if len(blocks) == 1 != len(dims) and blocks == (1,):
        blocks *= len(dims)
    if len(blocks) != len(dims) or not all(_is_count(b) for b in blocks):
        raise ValueError(
            f"{what}: block_size must be one integer above 0 for each axis of {axis!r}, got {block_size!r}"
        )
    blocks = tuple(map(index, blocks))
    return ParameterAxes(dims, blocks, tuple(-(-shape[d] // b) for d, b in zip(dims, blocks)))


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and 0 < int(value) < 1 << 62


def _product_rounds_alike(scale: np.ndarray) -> bool:
    """Whether any quotient by `scale` with a relative error of 2^-45 rounds to the same 8-bit integer as the quotient
    rounded to float32.

    They round alike unless the exact quotient is very near the middle between a half-integer and the next float32. So
    the float32 nearest to scale * middle is tried for all half-integers between 8-bit integers. For many scales this
    would take longer than the quotients.
    """
    if scale.size > MAX_CHECKED_SCALES:
        return False
    halves = np.arange(257, dtype=np.float32) + np.float32(0.5)
    neighbours = np.concatenate([np.nextafter(halves, np.float32(0)), np.nextafter(halves, np.float32(np.inf))])
    middles = (np.concatenate([halves, halves]).astype(np.float64) + neighbours) / 2
    exact = np.abs(scale.astype(np.float64))[:, None] * middles  # factors of 24 and 25 bits: exact in float64
    return bool((np.abs(exact.astype(np.float32) - exact) > 2.0**-44 * exact).all())


def _split_inverse(scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1 / scale as a sum of two float32 of the same sign, neither 0."""
    inverse = 1 / scale.astype(np.float64)
    high = inverse.astype(np.float32)
    high = np.where(np.abs(high) > np.abs(inverse), np.nextafter(high, np.float32(0)), high)
    low = (inverse - high).astype(np.float32)
    return high, np.where(low == 0, high * np.float32(2.0**-60), low)


def _broadcast(values: np.ndarray | None, n: int) -> np.ndarray | None:
    return None if values is None else np.ascontiguousarray(np.broadcast_to(values, n))


def _values(value: Any, name: str, numbers: Numbers, axes: ParameterAxes | None, what: str) -> np.ndarray:
    """A parameter as an array of one number, or with one axis per dimension of `axes`."""
    values = np.asarray(value)
    if values.dtype.name in OF_ML_DTYPES:
        values = values.astype(np.int8 if "int" in values.dtype.name else np.float32)
    if values.dtype.kind not in "iuf":
        raise TypeError(f"{what}: {name} must be numbers, got {value!r}")
    if values.ndim == 0 or axes is None:
        return values.reshape(1)
    if values.shape != axes.counts:
        counts = axes.counts[0] if len(axes.counts) == 1 else f"of shape {axes.counts}"
        blocks = "" if set(axes.blocks) <= {1} else f" in blocks of {numbers.block_size}"
        raise ValueError(
            f"{what}: {name} must be one number or {counts}, for axis {numbers.axis}{blocks}; got {values.shape}"
        )
    return np.ascontiguousarray(values).reshape(-1)


def dimension(axis: Any, rank: int, what: str) -> int:
    """`axis`, any integer that names one of `rank` dimensions, counted from 0."""
    try:
        number = index(axis)
    except TypeError:
        number = rank
    if not -rank <= number < rank:
        raise ValueError(f"{what}: axis must be one of {rank} dimensions, got {axis!r}")
    return number % rank


def pad_bytes(value: Any, t: Types, what: str) -> bytes:
    """The bytes of the element that pads hold; of packed pairs that of an element before it is packed."""
    if t.packed.dst:
        return pairs.pad_bytes(value, t.dst, what)
    if t.dst == "bf16" and t.dtype == np.uint16:
        bits = int(pad_element(value, np.dtype(np.float32), what).view(np.uint32))
        return (min(bits + 0x7FFF + (bits >> 16 & 1), 0xFFFFFFFF) >> 16).to_bytes(2, sys.byteorder)
    return pad_element(value, t.dtype, what).tobytes()


def converter(move: Transfer, t: Types, pad: bytes, axes: ParameterAxes | None, summed: bool) -> ConverterBase:
    """The converter of a transfer, whose `width` is that of the destination's elements. Strides of a side in packed
    pairs count elements, and its width is 1.

    `axes`: of its parameters; `summed`: whether the result is added to the destination.
    """
    make = _packing if t.packed.dst else _converter
    return plans.of(make, move, t, pad, axes or SINGLE_VALUE, summed, registry.isa())


def conversion(
    src: Layout, dst: Layout, shape: tuple[int, ...], elements: tuple[str, str], src_strides, dst_strides
) -> Converter:
    """A converter of a whole tensor from one element type to another, for operations that convert on the way."""
    dtype = np.dtype(f"u{ELEMENT_BYTES[elements[1]]}")  # of the same size, as the pads are zeros
    move = Transfer(src, dst, dtype.itemsize, src_strides, dst_strides, Box.all_of(shape))
    t, pad = Types(*elements, dtype), bytes(dtype.itemsize)
    return plans.of(_converter, move, t, pad, SINGLE_VALUE, False, registry.isa())


def _packing(move: Transfer, t: Types, pad: bytes, axes: ParameterAxes, summed: bool, isa: str) -> PackingConverter:
    rank = move.src.rank
    blocks = [axes.blocks[axes.dims.index(d)] if d in axes.dims else 1 for d in range(rank)]
    to_bytes = t._replace(dst=BYTES[t.dst], packed=t.packed._replace(dst=False))
    parts, at, par, elements = [], 0, 0, 0
    for part in pairs.slices_of(move, [axes.side(d) for d in range(rank)], blocks):
        last = part.times - 1
        uses = ((at, par), (at + last * part.src_step, par + last * part.par_step))
        run = plans.of(_converter, part.move, to_bytes, pad, axes, summed, isa, uses)
        parts.append((run, part.times, part.src_step, part.par_step, part.elements))
        at, par = at + part.times * part.src_step, par + part.times * part.par_step
        elements += part.times * part.elements
    available = Span(0, prod(move.dst.physical_shape(move.box.shape)))
    spans.check(Span(0, elements), available, f"{move}, {t}: destination")
    return PackingConverter(parts, t.dst == "s4", pool)


def _converter(
    move: Transfer, t: Types, pad: bytes, axes: ParameterAxes, summed: bool, isa: str,
    uses: tuple[tuple[int, int], ...] = ((0, 0),),
) -> Converter:  # fmt: skip
    """`uses`: the least and the greatest offsets in source and parameters that it will be called with."""
    box = move.box
    s, d = box.sides(move.src, move.src_strides, move.dst, move.dst_strides)
    widths = Widths(ELEMENT_BYTES[t.src], ELEMENT_BYTES[t.dst], summed, t.packed.src)
    parameter = [axes.side(dim) for dim in range(move.src.rank)]
    moved = prod(box.shape) * (widths.src + widths.dst)
    stream = moved > last_level_cache() and not summed
    fills = fill_nests(box.shape, move.dst.full_shape(box.shape), d, widths.dst) if box.whole else []
    fill = Program(fills, widths.dst, pad, stream) if fills else None
    loops = nests(box.shape, list(zip(s, d, parameter)), widths)
    what = f"{move}, {t}"
    read, written, counted = reach.of_conversion(loops, widths)
    written = written.joined(reach.of_nests(fills)[1])
    source = spans.of_array(move.src.physical_shape(box.src_shape), move.src_strides, widths.src)
    for at, par in uses:
        spans.check(read.at(at), source, f"{what}: source")
        spans.check(counted.at(par), Span(0, prod(axes.counts)), f"{what}: scales")
    destination = spans.of_array(move.dst.physical_shape(box.dst_shape), move.dst_strides, widths.dst)
    spans.check(written, destination, f"{what}: destination")
    kernel_types = BYTES[t.src] if t.packed.src else t.src, t.dst
    real = f"f{8 * np.dtype(t.real).itemsize}"
    return Converter(loops, kernel_types, real, summed, fill, stream, t.packed.src)
