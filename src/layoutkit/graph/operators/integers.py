"""Products of integers that stand for numbers, and the integers that stand for a tensor."""

from __future__ import annotations

import numpy as np

from ..._core.nests.pointwise.dynamic import DynamicQuantisation
from ...choosing.threads import check_threads
from ...convolutions import conv
from .base import Follows, by_kernel, operator, required, result, same_shape

PIECE = 1 << 14  # numbers that are quantised at a time, in the first cache


def to_integers(x: np.ndarray, scale, zero, to: np.dtype) -> np.ndarray:
    """Integers of at most 16 bits for numbers of float32, by one scale: rounded, the zero point added, clipped."""
    limits, y = np.iinfo(to), np.empty(x.shape, to)
    flat, out, kept = np.ascontiguousarray(x).reshape(-1), y.reshape(-1), np.empty(PIECE, np.float32)
    for at in range(0, flat.size, PIECE):
        some = flat[at : at + PIECE]
        piece = np.divide(some, scale, out=kept[: some.size])
        np.rint(piece, out=piece)
        piece += np.float32(zero)
        np.clip(piece, limits.min, limits.max, out=piece)
        out[at : at + PIECE] = piece
    return y


def to_numbers(q: np.ndarray, scale, zero) -> np.ndarray:
    """What integers of at most 16 bits stand for in float32, by one scale."""
    y = np.empty(q.shape, np.float32)
    flat, out = np.ascontiguousarray(q).reshape(-1), y.reshape(-1)
    for at in range(0, flat.size, PIECE):
        piece = np.subtract(flat[at : at + PIECE], np.float32(zero), out=out[at : at + PIECE], dtype=np.float32)
        piece *= scale
    return y


def products(a: np.ndarray, b: np.ndarray, a_zero, b_zero, threads: int | None) -> np.ndarray:
    """Products of matrices of integers less their zero points, in int32: as a 1x1 convolution if the right one is a
    single matrix of int8, else in float64, where they are exact."""
    whole = b.ndim == 2 and a.ndim > 1 and a.size and b.size and np.size(a_zero) == 1
    if whole and b.dtype == np.uint8 and np.all(b_zero == 128):
        b, b_zero = (b ^ np.uint8(128)).view(np.int8), 0
    if whole and b.dtype == np.int8 and not np.any(b_zero):
        rows = np.ascontiguousarray(a).reshape(1, 1, -1, a.shape[-1])
        zero = int(np.asarray(a_zero).reshape(-1)[0])
        y = conv.conv2d(rows, np.ascontiguousarray(b)[None, None], layout="NHWC", filter_layout="HWIO",
                        dtype=(str(a.dtype), "int32"), zero_point=zero, threads=threads)  # fmt: skip
        return y.reshape(*a.shape[:-1], b.shape[-1])
    left = a.astype(np.float64) - _rows(np.asarray(a_zero, np.float64), a.ndim)
    sums = np.matmul(left, b.astype(np.float64) - np.asarray(b_zero, np.float64))
    return np.asarray(sums).astype(np.int64).astype(np.int32)


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
    sums = products(a, b, a_zero, b_zero, attributes.get("threads"))
    scale = _rows(a_scale, a.ndim) * b_scale / y_scale
    sums = sums.astype(scale.dtype) * scale
    limits = np.iinfo(y_zero.dtype)
    with np.errstate(all="ignore"):
        y = np.clip(np.rint(sums) + y_zero, limits.min, limits.max)
        return [np.asarray(np.nan_to_num(y)).astype(y_zero.dtype)]


@operator("Table", kind=Follows.FOLLOWS, shape=same_shape, follow=by_kernel, elementwise=True)
def _table(inputs, attributes):
    """What `passes/tables.py` makes of operators on a tensor of bytes, here on the numbers that they stand for."""
    x, y = attributes["x"], attributes["y"]
    q = to_integers(inputs[0], np.float32(x.scale), x.zero_point, np.dtype(x.dtype))
    return [to_numbers(attributes["table"][q.view(np.uint8)], np.float32(y.scale), y.zero_point)]


def _dynamic_shape(node, inputs):
    return [(np.uint8, required(inputs[0]).shape), (np.float32, ()), (np.uint8, ())]


@operator("DynamicQuantizeLinear", shape=_dynamic_shape, into=True)
def _dynamic(inputs, attributes, out=None):
    """Over the range of the tensor, which 0 is made a part of."""
    x = np.asarray(inputs[0], np.float32, order="C")
    arrays = x, result(out, x.shape, np.uint8), result(out, (), np.float32, 1), result(out, (), np.uint8, 2)
    DynamicQuantisation(*arrays, check_threads(attributes.get("threads")))(*arrays)
    return list(arrays[1:])
