"""Norms, softmax and sums."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import torch

from .base import Builder, Result, Value, require, translates

aten = torch.ops.aten


def _vector(b: Builder, value: Value | None, n: int, fill: float, dtype: torch.dtype) -> Value:
    """A vector of factors, or one of the same number."""
    return b.constant(torch.full((n,), fill, dtype=dtype)) if value is None else value


def _scaled(b: Builder, x: Value, scale: Value | None, bias: Value | None, dtype: torch.dtype) -> list[Value]:
    """The first inputs of a norm: x, and factors and summands of its channels."""
    n = x.shape[1]
    return [x, _vector(b, scale, n, 1, dtype), _vector(b, bias, n, 0, dtype)]


@translates(aten._native_batch_norm_legit_no_training.default)
def batch_norm(
    b: Builder, y: Result, x: Value, scale: Value | None, bias: Value | None, mean: Value, variance: Value,
    momentum: float, eps: float,
) -> tuple[Value | None, ...]:  # fmt: skip
    inputs = [*_scaled(b, x, scale, bias, y.dtype), mean, variance]
    return b.add("BatchNormalization", inputs, y.shape, y.dtype, epsilon=eps), None, None


@translates(aten._native_batch_norm_legit.no_stats)
def instance_norm(
    b: Builder,
    y: Result,
    x: Value,
    scale: Value | None,
    bias: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value | None, ...]:
    require(training and x.shape[0] == 1, "statistics of a batch")
    inputs = _scaled(b, x, scale, bias, y.dtype)
    return b.add("InstanceNormalization", inputs, y.shape, y.dtype, epsilon=eps), None, None


@translates(aten.native_batch_norm.default)
def native_batch_norm(
    b: Builder,
    y: Result,
    x: Value,
    scale: Value | None,
    bias: Value | None,
    mean: Value | None,
    variance: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value | None, ...]:
    if mean is None or variance is None or training:
        require(mean is None and variance is None, "statistics that are updated")
        return instance_norm(b, y, x, scale, bias, True, momentum, eps)
    return batch_norm(b, y, x, scale, bias, mean, variance, momentum, eps)


@translates(aten.instance_norm.default)
def instance_norm_by_image(
    b: Builder,
    y: Result,
    x: Value,
    scale: Value | None,
    bias: Value | None,
    mean: Value | None,
    variance: Value | None,
    from_input: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Value:
    require(from_input or mean is None, "an instance norm by running statistics")
    inputs = _scaled(b, x, scale, bias, y.dtype)
    return b.add("InstanceNormalization", inputs, y.shape, y.dtype, epsilon=eps)


@translates(aten.native_layer_norm.default)
def layer_norm(
    b: Builder, y: Result, x: Value, shape: Sequence[int], scale: Value | None, bias: Value | None, eps: float
) -> tuple[Value | None, ...]:  # fmt: skip
    if scale is None:
        scale = b.constant(torch.ones(tuple(shape), dtype=y.dtype))
    inputs = [x, scale] if bias is None else [x, scale, bias]
    return b.add("LayerNormalization", inputs, y.shape, y.dtype, axis=-len(shape), epsilon=eps), None, None


@translates(aten.rms_norm.default)
def rms_norm(
    b: Builder, y: Result, x: Value, shape: Sequence[int], scale: Value | None = None, eps: float | None = None
) -> Value:  # fmt: skip
    if scale is None:
        scale = b.constant(torch.ones(tuple(shape), dtype=y.dtype))
    eps = torch.finfo(y.dtype).eps if eps is None else eps
    return b.add("RMSNormalization", [x, scale], y.shape, y.dtype, axis=-len(shape), epsilon=eps)


@translates(aten.native_group_norm.default)
def group_norm(
    b: Builder, y: Result, x: Value, scale: Value | None, bias: Value | None, n: int, channels: int, size: int,
    groups: int, eps: float,
) -> tuple[Value | None, ...]:  # fmt: skip
    require(x.rank > 2, "a group norm without pixels")
    inputs = _scaled(b, x, scale, bias, y.dtype)
    found = b.add("GroupNormalization", inputs, y.shape, y.dtype, num_groups=groups, epsilon=eps)
    return found, None, None


@translates(aten._softmax.default, aten._safe_softmax.default)
def softmax(b: Builder, y: Result, x: Value, axis: int, to_float: bool | None = False, dtype: object = None) -> Value:
    require(x.rank > 0, "a number")
    return b.add("Softmax", [b.cast(x, y.dtype)], y.shape, y.dtype, axis=axis)


@translates(aten._log_softmax.default)
def log_softmax(b: Builder, y: Result, x: Value, axis: int, to_float: bool = False) -> Value:
    require(x.rank > 0, "a number")
    return b.add("LogSoftmax", [b.cast(x, y.dtype)], y.shape, y.dtype, axis=axis)


def _reduction(op: str):
    def translate(
        b: Builder,
        y: Result,
        x: Value,
        axes: Sequence[int] | int | None = None,
        keepdim: bool = False,
        dtype: object = None,
    ) -> Value:
        axes = range(x.rank) if axes is None or axes == [] else [axes] if isinstance(axes, int) else axes
        if not x.rank:
            return b.cast(x, y.dtype)
        inputs = [b.cast(x, y.dtype), b.ints(*(a % x.rank for a in axes))]
        return b.add(op, inputs, y.shape, y.dtype, keepdims=int(keepdim))

    return translate


translates(aten.mean.dim, aten.mean.default)(_reduction("ReduceMean"))
translates(aten.sum.dim_IntList, aten.sum.default)(_reduction("ReduceSum"))
translates(aten.amax.default)(_reduction("ReduceMax"))
translates(aten.amin.default)(_reduction("ReduceMin"))


@translates(aten.var.correction)
def variance(
    b: Builder,
    y: Result,
    x: Value,
    axes: Sequence[int] | None = None,
    correction: float | None = 1,
    keepdim: bool = False,
) -> Value:
    axes = [a % x.rank for a in (axes or range(x.rank))]
    ends, dtype, count = b.ints(*axes), y.dtype, prod(x.shape[a] for a in axes)
    kept = [1 if a in axes else n for a, n in enumerate(x.shape)]
    mean = b.add("ReduceMean", [x, ends], kept, dtype, keepdims=1)
    apart = b.add("Sub", [x, mean], x.shape, dtype)
    total = b.add(
        "ReduceSum", [b.add("Mul", [apart, apart], x.shape, dtype), ends], y.shape, dtype, keepdims=int(keepdim)
    )
    left = count - (1 if correction is None else correction)
    require(left > 0, "a variance of too few numbers")
    return b.add("Mul", [total, b.number(1 / left, dtype)], y.shape, dtype)


@translates(aten.argmax.default)
def argmax(b: Builder, y: Result, x: Value, axis: int | None = None, keepdim: bool = False) -> Value:
    require(axis is not None and x.rank > 0, "the position in all axes")
    return b.add("ArgMax", [x], y.shape, y.dtype, axis=axis, keepdims=int(keepdim))


@translates(aten.max.dim)
def largest(b: Builder, y: Result, x: Value, axis: int, keepdim: bool = False) -> tuple[Value, ...]:
    values = b.add("ReduceMax", [x, b.ints(axis % x.rank)], y.shape, y.dtype, keepdims=int(keepdim))
    return values, b.add("ArgMax", [x], y.shape, torch.int64, axis=axis, keepdims=int(keepdim))


@translates(aten.cumsum.default)
def cumsum(b: Builder, y: Result, x: Value, axis: int, dtype: object = None) -> Value:
    if not x.rank:
        return b.cast(x, y.dtype)
    return b.add("CumSum", [b.cast(x, y.dtype), b.constant(np.array(axis, np.int64))], y.shape, y.dtype)
