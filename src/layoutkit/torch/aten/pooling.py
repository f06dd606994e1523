"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .base import Builder, Result, Value, require, translates

aten = torch.ops.aten


def _each(values: Sequence[int] | int, rank: int) -> tuple[int, ...]:
    """One number for each axis."""
    values = (values,) if isinstance(values, int) else tuple(values)
    return values * rank if len(values) == 1 else values


def _max_pool(rank: int, with_positions: bool):
    def translate(
        b: Builder,
        y: Result,
        x: Value,
        kernel: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        dilation: Sequence[int] = (1,),
        ceil_mode: bool = False,
    ):
        require(x.rank == rank + 2, f"a pooling of {x.rank} axes")
        kernel = _each(kernel, rank)
        found = b.add(
            "MaxPool", [x], y.shape, y.dtype, kernel_shape=kernel, strides=_each(stride or kernel, rank),
            pads=_each(padding, rank) * 2, dilations=_each(dilation, rank), ceil_mode=int(ceil_mode),
        )  # fmt: skip
        return (found, None) if with_positions else found

    return translate


translates(aten.max_pool1d.default)(_max_pool(1, False))
translates(aten.max_pool2d_with_indices.default)(_max_pool(2, True))
translates(aten.max_pool3d_with_indices.default)(_max_pool(3, True))


def _avg_pool(rank: int):
    def translate(
        b: Builder,
        y: Result,
        x: Value,
        kernel: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        require(x.rank == rank + 2 and divisor_override is None, "a pooling without batch, or with a divisor")
        kernel = _each(kernel, rank)
        return b.add(
            "AveragePool", [x], y.shape, y.dtype, kernel_shape=kernel, strides=_each(stride or kernel, rank),
            pads=_each(padding, rank) * 2, ceil_mode=int(ceil_mode), count_include_pad=int(count_include_pad),
        )  # fmt: skip

    return translate


translates(aten.avg_pool1d.default)(_avg_pool(1))
translates(aten.avg_pool2d.default)(_avg_pool(2))
translates(aten.avg_pool3d.default)(_avg_pool(3))


def _adaptive(op: str):
    def translate(b: Builder, y: Result, x: Value, size: Sequence[int]) -> Value:
        sizes = tuple(zip(x.shape[-len(size) :], size))
        require(x.rank == len(size) + 2 and all(m and n % m == 0 for n, m in sizes), f"{x.shape} pooled to {size}")
        if set(size) == {1} and op == "AveragePool":
            return b.add("GlobalAveragePool", [x], y.shape, y.dtype)
        kernel = tuple(n // m for n, m in sizes)
        return b.add(op, [x], y.shape, y.dtype, kernel_shape=kernel, strides=kernel)

    return translate


translates(
    aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default, aten.adaptive_avg_pool1d.default,
    aten.adaptive_avg_pool2d.default, aten.adaptive_avg_pool3d.default,
)(_adaptive("AveragePool"))  # fmt: skip
