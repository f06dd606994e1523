"""Operators that move numbers, or only say how they are seen."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .base import Builder, Result, Value, require, translates

aten = torch.ops.aten


@translates(aten.view.default, aten._unsafe_view.default, aten.reshape.default)
def reshape(b: Builder, y: Result, x: Value, shape: Sequence[int]) -> Value:
    return b.reshaped(x, y.shape)


@translates(
    aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.flatten.using_ints,
    aten.unflatten.int,
)  # fmt: skip
def reshape_by_axes(b: Builder, y: Result, x: Value, *axes: int) -> Value:
    return b.reshaped(x, y.shape)


@translates(aten.permute.default)
def permute(b: Builder, y: Result, x: Value, axes: Sequence[int]) -> Value:
    return b.permuted(x, axes)


@translates(aten.transpose.int)
def transpose(b: Builder, y: Result, x: Value, first: int, second: int) -> Value:
    axes = list(range(x.rank))
    if x.rank:
        axes[first], axes[second] = axes[second], axes[first]
    return b.permuted(x, axes)


@translates(aten.t.default)
def t(b: Builder, y: Result, x: Value) -> Value:
    return b.permuted(x, range(x.rank)[::-1])


@translates(aten.expand.default)
def expand(b: Builder, y: Result, x: Value, shape: Sequence[int], implicit: bool = False) -> Value:
    return x if x.shape == y.shape else b.add("Expand", [x, b.ints(*y.shape)], y.shape, y.dtype)


@translates(aten.repeat.default)
def repeat(b: Builder, y: Result, x: Value, times: Sequence[int]) -> Value:
    x = b.reshaped(x, (*(1,) * (len(times) - x.rank), *x.shape))
    return b.add("Tile", [x, b.ints(*times)], y.shape, y.dtype)


@translates(aten.cat.default)
def cat(b: Builder, y: Result, tensors: Sequence[Value], axis: int = 0) -> Value:
    pieces = [b.cast(x, y.dtype) for x in tensors if x.shape != (0,) or len(y.shape) == 1]
    return b.add("Concat", pieces, y.shape, y.dtype, axis=axis % len(y.shape))


@translates(aten.stack.default)
def stack(b: Builder, y: Result, tensors: Sequence[Value], axis: int = 0) -> Value:
    axis %= len(y.shape)
    pieces = [b.reshaped(b.cast(x, y.dtype), (*x.shape[:axis], 1, *x.shape[axis:])) for x in tensors]
    return b.add("Concat", pieces, y.shape, y.dtype, axis=axis)


@translates(aten.split_with_sizes.default)
def split(b: Builder, y: Result, x: Value, sizes: Sequence[int], axis: int = 0) -> tuple[Value, ...]:
    axis %= x.rank
    shapes = [(*x.shape[:axis], n, *x.shape[axis + 1 :]) for n in sizes]
    return b.add_split("Split", [x, b.ints(*sizes)], shapes, x.dtype, axis=axis)


@translates(aten.split.Tensor)
def split_evenly(b: Builder, y: Result, x: Value, size: int, axis: int = 0) -> tuple[Value, ...]:
    n = x.shape[axis]
    require(size > 0 and n > 0, "pieces of nothing")
    return split(b, y, x, [min(size, n - i) for i in range(0, n, size)], axis)


@translates(aten.chunk.default)
def chunk(b: Builder, y: Result, x: Value, chunks: int, axis: int = 0) -> tuple[Value, ...]:
    return split_evenly(b, y, x, -(-x.shape[axis] // chunks), axis)


@translates(aten.unbind.int)
def unbind(b: Builder, y: Result, x: Value, axis: int = 0) -> tuple[Value, ...]:
    axis %= x.rank
    pieces = split(b, y, x, [1] * x.shape[axis], axis)
    return tuple(b.reshaped(piece, (*x.shape[:axis], *x.shape[axis + 1 :])) for piece in pieces)


@translates(aten.select.int)
def select(b: Builder, y: Result, x: Value, axis: int, index: int) -> Value:
    position = b.constant(torch.tensor(index % x.shape[axis]))
    return b.add("Gather", [x, position], y.shape, y.dtype, axis=axis % x.rank)


@translates(aten.slice.Tensor)
def slice_(
    b: Builder, y: Result, x: Value, axis: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:  # fmt: skip
    if x.shape == y.shape:
        return x
    limits = slice(start, end, step).indices(x.shape[axis])
    first, last = limits[:2]
    return b.add(
        "Slice", [x, b.ints(first), b.ints(max(first, last)), b.ints(axis % x.rank), b.ints(step)], y.shape, y.dtype
    )


@translates(aten.flip.default)
def flip(b: Builder, y: Result, x: Value, axes: Sequence[int]) -> Value:
    axes = [a % x.rank for a in axes]
    back = b.ints(*[-1] * len(axes))
    limits = b.ints(*[x.shape[a] - 1 for a in axes]), b.ints(*[-x.shape[a] - 1 for a in axes])
    return b.add("Slice", [x, *limits, b.ints(*axes), back], y.shape, y.dtype)


@translates(aten.index_select.default)
def index_select(b: Builder, y: Result, x: Value, axis: int, index: Value) -> Value:
    return b.add("Gather", [x, index], y.shape, y.dtype, axis=axis % x.rank)


@translates(aten.embedding.default)
def embedding(b: Builder, y: Result, weight: Value, index: Value, *rest: object) -> Value:
    return b.add("Gather", [weight, index], y.shape, y.dtype, axis=0)


@translates(aten.topk.default)
def topk(
    b: Builder, y: Result, x: Value, k: int, axis: int = -1, largest: bool = True, in_order: bool = True
) -> tuple[Value, ...]:  # fmt: skip
    require(x.rank > 0, "a number")
    values, positions = b.add_split(
        "TopK", [x, b.ints(k)], [y.shape] * 2, y.dtype, axis=axis, largest=int(largest), sorted=int(in_order)
    )  # fmt: skip
    return values, positions._replace(dtype=torch.int64)


def _pad(b: Builder, y: Result, x: Value, pads: Sequence[int], mode: str, value: float = 0) -> Value:
    """torch tells the pads of the last axis first."""
    before = [0] * (x.rank - len(pads) // 2) + list(pads[::2])[::-1]
    after = [0] * (x.rank - len(pads) // 2) + list(pads[1::2])[::-1]
    inputs = [x, b.ints(*before, *after)] + [b.number(value, y.dtype)] * (mode == "constant")
    return b.add("Pad", inputs, y.shape, y.dtype, mode=mode)


@translates(aten.constant_pad_nd.default)
def pad(b: Builder, y: Result, x: Value, pads: Sequence[int], value: float = 0) -> Value:
    return _pad(b, y, x, pads, "constant", value)


@translates(aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default)
def pad_by_reflection(b: Builder, y: Result, x: Value, pads: Sequence[int]) -> Value:
    return _pad(b, y, x, pads, "reflect")


@translates(aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default)
def pad_by_replication(b: Builder, y: Result, x: Value, pads: Sequence[int]) -> Value:
    return _pad(b, y, x, pads, "edge")


@translates(aten.pixel_shuffle.default)
def pixel_shuffle(b: Builder, y: Result, x: Value, factor: int) -> Value:
    require(x.rank == 4, f"pixels of {x.rank} axes")
    return b.add("DepthToSpace", [x], y.shape, y.dtype, blocksize=factor, mode="CRD")


@translates(aten.pixel_unshuffle.default)
def pixel_unshuffle(b: Builder, y: Result, x: Value, factor: int) -> Value:
    require(x.rank == 4, f"pixels of {x.rank} axes")
    n, c, h, w = x.shape
    parts = b.reshaped(x, (n, c, h // factor, factor, w // factor, factor))
    return b.reshaped(b.permuted(parts, (0, 1, 3, 5, 2, 4)), y.shape)


@translates(aten.channel_shuffle.default, aten.native_channel_shuffle.default)
def channel_shuffle(b: Builder, y: Result, x: Value, groups: int) -> Value:
    n, c, *size = x.shape
    parts = b.reshaped(x, (n, groups, c // groups, *size))
    return b.reshaped(b.permuted(parts, (0, 2, 1, *range(3, parts.rank))), y.shape)
