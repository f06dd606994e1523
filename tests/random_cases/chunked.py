"""Random operations on arrays past memory: any chunks in, any chunks out, from memory or by regions; the bits of the
operation in memory."""

from __future__ import annotations

from math import prod
from typing import Any

import dask
import dask.array as da
import numpy as np
from oracle import reference

import layoutkit as lk
import layoutkit.dask as lazy
from layoutkit.convolutions import order

from .convolutions import a_window, channels
from .layouts import activation_layout, any_layout, fitting
from .numbers import any_types
from .reproducible import numbers, same

LONGEST = {1: 60, 2: 20, 3: 8}
WORK = 300_000  # multiplications of a convolution
MAX_CHUNKS = 400
MODES = ("zeros", "zeros", "zeros", "reflect", "circular", "edge")
ACTIVATIONS = (None, None, "relu", ("clip", -0.5, 0.7), "gelu", [("mul", 0.5), "tanh"])


class Elsewhere:
    """An array that can only be read by regions, as files are."""

    def __init__(self, array: np.ndarray, grain: tuple[int, ...] | None) -> None:
        self.array, self.shape, self.dtype, self.chunks = array, array.shape, array.dtype, grain

    def __getitem__(self, region: tuple[slice, ...]) -> np.ndarray:
        assert all(s.step in (None, 1) and 0 <= s.start <= s.stop <= n for s, n in zip(region, self.shape)), region
        return self.array[region].copy()


def some_chunks(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Any cuts of any axes, evenly or not."""
    found: list[tuple[int, ...]] = []
    for n in shape:
        most = min(n, MAX_CHUNKS // max(1, prod(map(len, found))))
        if n == 0 or most < 2 or rng.integers(3) == 0:
            found.append((n,))
        elif rng.integers(2):
            size = -(-n // int(rng.integers(1, most + 1)))
            found.append(tuple(min(size, n - at) for at in range(0, n, size)))
        else:
            cuts = sorted({int(c) for c in rng.integers(1, n, rng.integers(1, most)) if n > 1}) if n > 1 else []
            found.append(tuple(b - a for a, b in zip([0, *cuts], [*cuts, n])))
    return tuple(found)


def past_memory(rng: np.random.Generator, array: np.ndarray) -> Any:
    """The array as a dask array in any chunks, or as one that is read by regions."""
    if rng.integers(3):
        return da.from_array(array, some_chunks(rng, array.shape))
    grain = tuple(int(rng.integers(1, max(2, n + 1))) for n in array.shape)
    return Elsewhere(array, grain if rng.integers(2) else None)


def _out_chunks(rng: np.random.Generator, layout: lk.Layout, shape, units) -> Any:
    """Chunks of a result that are allowed: None, or any at multiples of `units`."""
    if rng.integers(2):
        return None
    found: list[Any] = [(f.size,) for f in layout.factors]
    for dim, unit in enumerate(units):
        axis, block = layout.digits(dim)[0], layout.block(dim)
        whole = layout.physical_shape(shape)[axis]
        step = unit // block * int(rng.integers(1, 6)) if unit else whole
        step = max(step, -(-whole // 6) // max(1, unit // block) * max(1, unit // block), 1)
        found[axis] = tuple(min(step, whole - at) for at in range(0, whole, step)) or (0,)
    return tuple(found)


def _differs(got: da.Array, want: np.ndarray) -> str:
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.shape} {got.dtype}, expected {want.shape} {want.dtype}"
    with dask.config.set(scheduler="synchronous"):
        found = got.compute()
    for at, block in zip(np.ndindex(got.numblocks), [b for b in got.blocks.ravel()][:3]):
        with dask.config.set(scheduler="synchronous"):
            if block.compute().shape != block.shape:
                return f"block {at} is not of its shape {block.shape}"
    return "" if same(found, want) else "other bits"


def convolution(rng: np.random.Generator) -> str | None:
    """A convolution of accuracy "reproducible" or "strict"."""
    rank = int(rng.choice((1, 2, 2, 3)))
    size, kernel, stride, dilation, padding = zip(*(a_window(rng, LONGEST[rank]) for _ in range(rank)))
    groups, ic, oc = channels(rng)
    ic = max(ic, groups)
    while prod(size) * oc * (ic // groups) * prod(kernel) > WORK and oc > groups:
        oc, ic = max(1, oc // groups // 2) * groups, max(1, ic // groups // 2) * groups
    mode = str(rng.choice(MODES))
    if mode != "zeros":
        padding = tuple((min(a, n - 1), min(b, n - 1)) for (a, b), n in zip(padding, size))
    elif rng.integers(4) == 0 and min(size) > 4:
        padding = tuple((-int(rng.integers(2)), b) for _, b in padding)
    out = [(n + sum(p) - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(size, padding, dilation, kernel, stride)]
    if min(out) < 1:
        return None
    x_shape, y_shape = (int(rng.integers(1, 4)), ic, *size), (0, oc, *out)
    y_shape = (x_shape[0], *y_shape[1:])
    types = any_types(rng)
    kind = str(rng.choice(("normal", "normal", "wild")))
    x = numbers(rng, types.src, kind, *x_shape)
    w = numbers(rng, types.src, "wild" if rng.integers(20) == 0 else "normal", oc, ic // groups, *kernel)
    bias = numbers(rng, types.sum, "normal", oc) if rng.integers(2) else None
    src = fitting(activation_layout(rng, rank + 2), x_shape)
    dst = fitting(src if rng.integers(2) else activation_layout(rng, rank + 2), y_shape)
    given: dict[str, Any] = dict(
        stride=stride, padding=padding, dilation=dilation, groups=groups, layout=src, out_layout=dst, shape=x_shape,
        padding_mode=mode, accuracy="reproducible", activation=ACTIVATIONS[rng.integers(len(ACTIVATIONS))],
        dtype=types.dst,
    )  # fmt: skip
    if rng.integers(6) == 0:
        given["activation"] = [("prelu", rng.random(oc).astype(types.sum)), ("add", 0.25)]
    if rng.integers(6) == 0:
        given["scale"] = rng.standard_normal(oc).astype(types.sum)
    held = reference.to_physical(x, src, pad_value=np.nan)
    more, chunked = {}, {}
    if rng.integers(4) == 0:
        more["add"] = reference.to_physical(numbers(rng, types.dst, kind, *y_shape), dst)
        chunked["add"] = past_memory(rng, more["add"])
    if rng.integers(8) == 0:
        tensor = reference.to_physical(numbers(rng, types.dst, "normal", *y_shape), dst)
        if tensor.ndim >= 3 and not (tensor.size in (1, oc) and max(tensor.shape) == tensor.size):
            more["activation"] = ["relu", ("mul", tensor)]
            chunked["activation"] = ["relu", ("mul", past_memory(rng, tensor))]
    per_in, per_out = ic // groups, oc // groups
    unit = dst.block(1)
    if groups > 1:
        whole = per_out * (src.block(1) // np.gcd(src.block(1), per_in))
        unit = 0 if 1 < per_in <= order.SMALL_GROUP_CHANNELS else np.lcm(whole, dst.block(1))
    units = [np.lcm(src.block(0), dst.block(0)), unit, *(dst.block(d) for d in range(2, rank + 2))]
    what = f"conv{rank}d {types.name} {x_shape} {w.shape} {given} {list(more)}"
    want = getattr(lk, f"conv{rank}d")(held, w, bias, **given | more)
    chunks = _out_chunks(rng, dst, y_shape, [int(u) for u in units])
    past = past_memory(rng, held)
    got = getattr(lazy, f"conv{rank}d")(past, w, bias, chunks=chunks, **given | chunked)
    wrong = _differs(got, want)
    return f"{wrong}: {what} in chunks {getattr(past, 'chunks', None)} out {got.chunks}" if wrong else None


def pooling(rng: np.random.Generator) -> str | None:
    """A pooling."""
    rank = int(rng.choice((1, 2, 2, 3)))
    size, kernel, stride, dilation, padding = zip(*(a_window(rng, LONGEST[rank]) for _ in range(rank)))
    x_shape = (int(rng.integers(1, 4)), int(rng.choice((1, 2, 3, 8, 17, 32))), *size)
    layout = fitting(activation_layout(rng, rank + 2), x_shape)
    dtype = np.dtype(rng.choice(("float32", "float64", "float16")))
    x = reference.to_physical(numbers(rng, dtype, "normal", *x_shape), layout)
    given: dict[str, Any] = dict(stride=stride, padding=padding, dilation=dilation, layout=layout, shape=x_shape,
                                 ceil_mode=bool(rng.integers(2)))  # fmt: skip
    what = str(rng.choice(("max", "avg"))) + f"_pool{rank}d"
    if what.startswith("avg"):
        given["count_include_pad"] = bool(rng.integers(2))
    want = getattr(lk, what)(x, kernel, **given)
    past = past_memory(rng, x)
    got = getattr(lazy, what)(past, kernel, **given)
    wrong = _differs(got, want)
    return f"{wrong}: {what} {dtype} {x_shape} {kernel} {given} in chunks {past.chunks}" if wrong else None


def reorder(rng: np.random.Generator) -> str | None:
    """A reorder, of a region or of all, that may convert."""
    rank = int(rng.integers(1, 6))
    shape = tuple(int(n) for n in rng.integers(1, {1: 200, 2: 40, 3: 16, 4: 9, 5: 6}[rank], rank))
    src, dst = (fitting(any_layout(rng, rank), shape) for _ in range(2))
    dtype = np.dtype(rng.choice(("float32", "uint8", "int16", "float64", "float16")))
    x = reference.to_physical(rng.integers(0, 100, shape).astype(dtype), src)
    given: dict[str, Any] = dict(shape=shape, pad_value=int(rng.integers(2)) * 7)
    box = [(0, n) for n in shape]
    if rng.integers(3) == 0:
        box = [
            tuple(sorted((int(a), int(b)))) for a, b in zip(rng.integers(0, shape), rng.integers(1, np.add(shape, 1)))
        ]
        if any(a == b for a, b in box):
            return None
        given["region"] = box
    out = [b - a for a, b in box]
    fixed = []
    if rng.integers(3) == 0:
        given |= dict(dtype=str(rng.choice(("float32", "int8", "float64"))), scale=0.5)
        if rng.integers(2):
            axis = int(rng.integers(rank))
            given |= dict(axis=axis, scale=rng.random(out[axis]) + 0.5)
            fixed = [axis]
    want = lk.reorder(x, src, dst, **given)
    past = past_memory(rng, x)
    units = [0 if d in fixed else dst.block(d) for d in range(rank)]
    got = lazy.reorder(past, src, dst, chunks=_out_chunks(rng, dst, out, units), **given)
    wrong = _differs(got, want)
    return f"{wrong}: reorder {dtype} {src} {dst} {given} in chunks {past.chunks} out {got.chunks}" if wrong else None


def case(seed: int, index: int) -> str | None:
    """One operation; None or what differs."""
    rng = np.random.default_rng((seed, 7, index))
    return (convolution, convolution, pooling, reorder)[index % 4](rng)
