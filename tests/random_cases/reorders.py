"""Random reorders: moves, conversions and boxes, bit for bit as the reference has them."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import ml_dtypes  # noqa: F401  (numpy knows the names of its types)
import numpy as np
from oracle import reference

import layoutkit as lk

from .deciding import any_instruction_set, instruction_set, let_one_decide
from .layouts import any_layout, fitting, with_strides_of
from .memory import CANARY, Room, bits, held, room

MOVED = ("u1", "i2", "f4", "f8", "c16", "bool", "V4", "f2", "u8", "M8[s]")
CONVERTED = (
    "float32", "float64", "float16", "int32", "int8", "uint8", "bfloat16", "int16", "uint16", "uint32", "int64", "bool",
    "float8_e4m3fn", "float8_e5m2", "int4", "uint4",
)  # fmt: skip
PAIRS = {"int4x2": "int4", "uint4x2": "uint4"}
PARAMETERS = ("scale", "offset", "zero_point", "out_scale", "out_zero_point")
SMALL = {1: 60, 2: 16, 3: 8, 4: 5, 5: 4, 6: 3, 7: 2, 8: 2}  # longest axis by rank, of most cases
LARGE = {1: 4000, 2: 150, 3: 40, 4: 18, 5: 9, 6: 6, 7: 4, 8: 3}  # of some
SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, 3e38, 127.5, -128.5, 255.5, 2.0**31)


class Drawn(NamedTuple):
    """What a case passes on as keywords, and what the reference makes of the logical tensor."""

    keywords: dict[str, Any]
    tensor: np.ndarray
    want: np.ndarray
    dtype: np.dtype


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, numbers: bool) -> np.ndarray:
    """Any bits where they only move; numbers, some of them special, where they are converted."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if not numbers:
        return rng.integers(0, 256, prod(shape) * dtype.itemsize, np.uint8).view(dtype).reshape(shape)
    if reference.is_integer(dtype):
        low, high = reference.limits_of(dtype)
        held = dtype if dtype.kind in "iu" else np.int8
        return rng.integers(low, high, shape, held, endpoint=True).astype(dtype)
    found = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4)
    with np.errstate(over="ignore"):
        return np.where(rng.random(shape) < 0.1, rng.choice(SPECIAL, shape), found).astype(dtype)


def conversion(rng: np.random.Generator, tensor: np.ndarray, dtype: np.dtype) -> dict[str, Any]:
    """Scales, offsets and zero points of either side, for all or by index or block of some dimensions."""
    keywords: dict[str, Any] = {"dtype": dtype}
    axes = [int(d) for d in rng.permutation(tensor.ndim)[: 1 + int(rng.integers(4) == 0)]]
    blocks = [1 if rng.integers(3) else int(rng.integers(1, 2 + tensor.shape[d])) for d in axes]
    counts: list[Any] = [(), tuple(-(-tensor.shape[d] // b) for d, b in zip(axes, blocks))]
    for name, chance in (("scale", 2), ("out_scale", 5)):
        if rng.integers(chance) == 0:
            keywords[name] = rng.uniform(0.01, 4, counts[rng.integers(2)])
    if rng.integers(4) == 0:
        keywords["offset"] = rng.uniform(-9, 9, counts[rng.integers(2)])
    for name, chance in (("zero_point", 2), ("out_zero_point", 5)):
        if rng.integers(chance) == 0:
            most = int(rng.choice((8, 100, 100, 30_000, 2**31)))
            keywords[name] = rng.integers(-most, most, counts[rng.integers(2)])
    if len(keywords) > 1:
        keywords["axis"] = axes[0] if len(axes) == 1 else tuple(axes)
        keywords["block_size"] = blocks[0] if len(blocks) == 1 else tuple(blocks)
    return keywords


def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Drawn:
    """What becomes of a tensor of `shape`: it moves as it is, or its numbers are converted."""
    if rng.integers(4) or not shape:
        dtype = np.dtype(rng.choice(MOVED))
        tensor = values(rng, shape, dtype, False)
        return Drawn({}, tensor, tensor, dtype)
    tensor = values(rng, shape, np.dtype(rng.choice(CONVERTED)), True)
    dtype = np.dtype(rng.choice(CONVERTED))
    keywords = conversion(rng, tensor, dtype)
    return Drawn(keywords, tensor, reference.convert(tensor, **keywords), dtype)


def a_region(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """A box inside `shape`."""
    starts = [int(rng.integers(n + 1)) for n in shape]
    return tuple((a, int(rng.integers(a, n + 1))) for a, n in zip(starts, shape))


def inside_of(rng: np.random.Generator, dst: lk.Layout, want: np.ndarray) -> tuple[Room, tuple[int, ...], np.ndarray]:
    """A larger tensor in `dst`, full of canaries, a place in it, and what it holds once `want` was written there."""
    at = tuple(int(n) for n in rng.integers(0, 3, want.ndim))
    larger = dst.full_shape(tuple(a + n + int(rng.integers(3)) for a, n in zip(at, want.shape)))
    physical = dst.physical_shape(larger)
    out = room(rng, physical, want.dtype)
    before = np.full(prod(physical) * want.itemsize, CANARY, np.uint8).view(want.dtype).reshape(physical)
    tensor = reference.to_logical(before, dst, larger)
    tensor[tuple(slice(a, a + n) for a, n in zip(at, want.shape))] = want
    return out, at, reference.to_physical(tensor, dst)


def pad_of(rng: np.random.Generator, dtype: np.dtype) -> Any:
    """A value that `dtype` holds."""
    return 0 if dtype.kind in "VM" else bool(rng.integers(2)) if dtype.kind == "b" else int(rng.integers(100))


def packed(numbers: np.ndarray) -> np.ndarray:
    """Integers of 4 bits in packed pairs."""
    halves = numbers.reshape(-1).astype(np.int8).view(np.uint8) & 15
    halves = np.append(halves, np.zeros(halves.size % 2, np.uint8))
    return halves[::2] | halves[1::2] << 4


def case_of_pairs(rng: np.random.Generator, shape: tuple[int, ...], src: lk.Layout, dst: lk.Layout) -> str | None:
    """One reorder from or to packed pairs, or both."""
    names = [str(rng.choice((*PAIRS, *CONVERTED))) for _ in range(2)]
    if not set(names) & set(PAIRS):
        names[int(rng.integers(2))] = str(rng.choice(list(PAIRS)))
    a, b = (np.dtype(PAIRS.get(name, name)) for name in names)
    tensor = values(rng, shape, a, True)
    keywords = conversion(rng, tensor, b)
    want = reference.convert(tensor, **keywords)
    pad = int(rng.integers(2))
    keywords |= {"dtype": tuple(names), "threads": int(rng.integers(1, 3)), "pad_value": pad, "shape": shape}
    physical = reference.to_physical(tensor, src, pad_value=np.zeros((), a))
    given = packed(physical) if names[0] in PAIRS else physical
    ready = reference.to_physical(want, dst, pad_value=np.asarray(pad).astype(b))
    ready = packed(ready) if names[1] in PAIRS else ready
    out = room(rng, ready.shape, ready.dtype) if rng.integers(4) else None
    if out is not None and names[1] in PAIRS and not out.array.flags.c_contiguous:
        out = None
    isa = any_instruction_set(rng)
    what = f"{names} {shape} {src} -> {dst} {sorted(keywords)} {isa}"
    with instruction_set(isa):
        got = lk.reorder(given, src, dst, out=None if out is None else out.array, **keywords)
    if got.dtype != ready.dtype or got.shape != ready.shape:
        return f"{got.dtype} {got.shape} instead of {ready.dtype} {ready.shape}: {what}"
    if not _same(got, ready):
        return f"wrong values: {what}"
    return None if out is None or out.untouched() else f"written outside out: {what}"


def case(seed: int, index: int) -> str | None:
    """One reorder; None or what is wrong with it."""
    rng = np.random.default_rng((seed, 0, index))
    rank = int(rng.choice((0, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 6, 7, 8)))
    top = (LARGE if rng.integers(8) == 0 else SMALL).get(rank, 0)
    shape = tuple(int(n) for n in rng.integers(0 if rng.integers(20) == 0 else 1, top + 1, rank))
    src, dst = (fitting(any_layout(rng, rank), shape) for _ in range(2))
    if shape and rng.integers(12) == 0:
        return case_of_pairs(rng, shape, src.dense, dst.dense)
    drawn = draw(rng, shape)
    keywords, tensor, want = drawn.keywords, drawn.tensor, drawn.want
    pad = pad_of(rng, drawn.dtype)
    given = held(rng, reference.to_physical(tensor, src, pad_value=_any_pad(tensor)), shared=not keywords).array
    if not keywords:
        tensor = want = reference.to_logical(given, src, shape)
    keywords |= {"threads": int(rng.integers(1, 3)), "pad_value": pad, "shape": shape}
    if rng.integers(8) == 0 and all(np.ndim(keywords.get(k, 0)) == 0 for k in PARAMETERS):
        keywords["region"] = region = a_region(rng, shape)
        want = want[tuple(slice(a, b) for a, b in region)]
    if shape and rng.integers(8) == 0:
        out, keywords["at"], want_physical = inside_of(rng, dst, want)
    else:
        want_physical = reference.to_physical(want, dst, pad_value=np.asarray(pad).astype(drawn.dtype))
        out = room(rng, want_physical.shape, drawn.dtype) if rng.integers(4) else None
    src_given, dst_given = src, dst
    if rng.integers(8) == 0:
        src_given = with_strides_of(src, given) or src
    if out is not None and rng.integers(8) == 0:
        dst_given = with_strides_of(dst, out.array) or dst
        if rng.integers(2) and "at" not in keywords:
            out = None
    isa = any_instruction_set(rng)
    strides = given.strides, None if out is None else out.array.strides
    told = {
        k: v if np.ndim(v) == 0 or k in ("shape", "region", "axis", "block_size") else "per index"
        for k, v in keywords.items()
    }
    what = f"{tensor.dtype} {src_given} -> {dst_given} {told} strides {strides} {isa}"
    keywords["out"] = None if out is None else out.array
    with instruction_set(isa):
        if tensor.size and want.size:
            name = let_one_decide(rng, lk.plan(lk.reorder, given, src_given, dst_given, **keywords))
            what += f" {name}"
        got = lk.reorder(given, src_given, dst_given, **keywords)
    if got.dtype != drawn.dtype or got.shape != want_physical.shape:
        return f"{got.dtype} {got.shape} instead of {drawn.dtype} {want_physical.shape}: {what}"
    if not _same(got, want_physical):
        return f"wrong values: {what}"
    if out is not None and (got is not out.array or not out.untouched()):
        return f"written outside out: {what}"
    return None


def _any_pad(tensor: np.ndarray) -> Any:
    """What pads of a source hold must not matter."""
    return np.nan if tensor.dtype.kind in "fc" else np.zeros((), tensor.dtype)


def _same(got: np.ndarray, want: np.ndarray) -> bool:
    """Bit for bit, but for the payload of a NaN."""
    same = bits(got) == bits(want)
    if (got.dtype.kind == "f" or "float" in got.dtype.name) and not same.all():
        same |= np.isnan(got) & np.isnan(want)
    return bool(same.all())
