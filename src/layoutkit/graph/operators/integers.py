"""Products of integers that stand for numbers, and the integers that stand for a tensor."""

from __future__ import annotations

import numpy as np

from .base import operator, required


def _product_shape(node, inputs):
    a, b, zero = (required(inputs[i]) for i in (0, 3, 7))
    probe = np.matmul(np.broadcast_to(np.int8(0), a.shape[-2:]), np.broadcast_to(np.int8(0), b.shape[-2:]))
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return [(zero.dtype, (*batch, *probe.shape))]


def _rows(values, rank):
    """A number, or numbers for each row of matrices."""
    return values[..., None] if values.ndim == 1 and values.size > 1 and rank > 1 else values


@operator("QLinearMatMul", shape=_product_shape)
def _product(inputs, attributes):
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs
    left = a.astype(np.float64) - _rows(a_zero.astype(np.float64), a.ndim)
    sums = np.matmul(left, b.astype(np.float64) - b_zero)  # exact: far below 2**53
    scale = _rows(a_scale, a.ndim) * b_scale / y_scale
    sums = sums.astype(scale.dtype) * scale
    limits = np.iinfo(y_zero.dtype)
    with np.errstate(all="ignore"):
        y = np.clip(np.rint(sums) + y_zero, limits.min, limits.max)
        return [np.asarray(np.nan_to_num(y)).astype(y_zero.dtype)]


def _dynamic_shape(node, inputs):
    return [(np.uint8, required(inputs[0]).shape), (np.float32, ()), (np.uint8, ())]


@operator("DynamicQuantizeLinear", shape=_dynamic_shape)
def _dynamic(inputs, attributes):
    """Over the range of the tensor, which 0 is made a part of."""
    x = inputs[0]
    low, high = np.minimum(x.min(initial=0), x.dtype.type(0)), np.maximum(x.max(initial=0), x.dtype.type(0))
    with np.errstate(all="ignore"):
        scale = np.float32((high - low) / x.dtype.type(255))
        zero = np.clip(np.rint(-low / scale), 0, 255) if scale > 0 else np.float32(0)
        zero = np.nan_to_num(zero)
        y = np.clip(np.rint(x / (scale if scale > 0 else np.float32(1))) + zero, 0, 255)
    return [np.nan_to_num(y).astype(np.uint8), np.asarray(scale), np.asarray(zero).astype(np.uint8)]
