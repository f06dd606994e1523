"""Operators that look for elements, and those that write to places that indices say."""

from __future__ import annotations

from math import prod

import numpy as np

from ..._core.nests.element_types import COMPARED
from ..._core.nests.reductions.top import LISTED, TopOfRows
from ...choosing.threads import check_threads
from .base import constants, normal, operator, required


def scalar(node, inputs, i):
    """A constant input of one number; None if it is omitted."""
    values = constants(node, inputs, i)
    if values is not None and len(values) != 1:
        raise ValueError(f"input {i}: {len(values)} numbers, expected one")
    return None if values is None else values[0]


@operator("NonZero", open=True)
def _non_zero(inputs, attributes):
    return [np.array(np.nonzero(np.atleast_1d(inputs[0])), np.int64)]


@operator("Unique", open=True)
def _unique(inputs, attributes):
    """In ascending order, or in the order in which they come first."""
    x, axis = inputs[0], attributes.get("axis")
    axis = None if axis is None else normal(axis, x.ndim, "Unique")
    values, first, inverse, count = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    inverse = inverse.reshape(-1)
    if not attributes.get("sorted", 1):
        order = np.argsort(first, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        values = np.take(values, order, axis or 0)
        first, inverse, count = first[order], place[inverse], count[order]
    return [values, *(v.astype(np.int64, copy=False) for v in (first, inverse, count))]


def _top_shape(node, inputs):
    x, k = required(inputs[0]), int(scalar(node, inputs, 1))
    axis = normal(node.attributes.get("axis", -1), len(x.shape), "TopK")
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"the {k} largest of {x.shape[axis]}")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return [(x.dtype, shape), (np.int64, shape)]


WIDER = {"float16": "float32", "bfloat16": "float32", "bool": "uint8", "int16": "int32", "uint16": "int32",
         "uint32": "int64"}  # fmt: skip


@operator("TopK", shape=_top_shape)
def _top(inputs, attributes):
    """Sorted, NaN as the largest; of equal numbers, those that come first."""
    x, k = inputs[0], int(np.asarray(inputs[1]).reshape(-1)[0])
    axis = normal(attributes.get("axis", -1), x.ndim, "TopK")
    rows = np.moveaxis(x, axis, -1)
    keys = _in_same_order(np.ascontiguousarray(rows).reshape(prod(rows.shape[:-1]), rows.shape[-1]))
    values, places = _best(keys, k, attributes.get("largest", 1), check_threads(attributes.get("threads")))
    shape = *rows.shape[:-1], k
    places = places.reshape(shape)
    values = values.reshape(shape) if keys.dtype == x.dtype else np.take_along_axis(rows, places, -1)
    return [np.ascontiguousarray(np.moveaxis(y, -1, axis)) for y in (values, places)]


def _best(rows: np.ndarray, k: int, largest: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """The first k numbers of each row in order, and their places; a row is sorted if they are more than half of it."""
    if k > max(rows.shape[1] // 2, LISTED):
        places = _in_order(rows, largest)[:, :k].astype(np.int64, copy=False)
        return np.take_along_axis(rows, places, -1), places
    values, places = np.empty((len(rows), k), rows.dtype), np.empty((len(rows), k), np.int64)
    TopOfRows(rows, values, places, bool(largest), threads)(rows, values, places)
    return values, places


def _in_order(rows: np.ndarray, largest: int) -> np.ndarray:
    """The places of numbers, the largest or the smallest first; NaN is the largest."""
    if not largest:
        return np.argsort(rows, -1, kind="stable")
    return rows.shape[-1] - 1 - np.argsort(rows[..., ::-1], -1, kind="stable")[..., ::-1]


def _in_same_order(x: np.ndarray) -> np.ndarray:
    """Numbers of a type that the compiled loop compares, in the order of these."""
    name = x.dtype.name
    if name == "uint64":
        return (x ^ np.uint64(1 << 63)).view(np.int64)
    if name not in COMPARED and name not in WIDER:
        raise ValueError(f"TopK of {x.dtype}")
    return x.astype(WIDER.get(name, name), copy=False)


def _one_hot_shape(node, inputs):
    at, depth, values = required(inputs[0]), int(scalar(node, inputs, 1)), required(inputs[2])
    axis = normal(node.attributes.get("axis", -1), len(at.shape) + 1, "OneHot")
    if values.shape != (2,):
        raise ValueError(f"values of shape {values.shape}, expected (2,)")
    return [(values.dtype, (*at.shape[:axis], depth, *at.shape[axis:]))]


@operator("OneHot", shape=_one_hot_shape)
def _one_hot(inputs, attributes):
    at, depth, (off, on) = inputs[0], int(np.asarray(inputs[1]).reshape(-1)[0]), inputs[2]
    axis = normal(attributes.get("axis", -1), at.ndim + 1, "OneHot")
    at = np.expand_dims(np.where(at < 0, at + at.dtype.type(depth), at) if at.dtype.kind != "u" else at, axis)
    each = np.arange(depth).reshape(-1, *[1] * (at.ndim - 1 - axis))
    return [np.where(at == each, on, off).astype(inputs[2].dtype)]


def _written_shape(node, inputs):
    x, update = required(inputs[0]), required(inputs[1])
    axis = normal(node.attributes.get("axis", -2), len(x.shape), "TensorScatter")
    if (
        len(update.shape) != len(x.shape)
        or any(m != n for i, (n, m) in enumerate(zip(x.shape, update.shape)) if i != axis)
        or update.shape[axis] > x.shape[axis]
        or not axis
    ):
        raise ValueError(f"an update of shape {update.shape} along axis {axis} of {x.shape}")  # fmt: skip
    return [(x.dtype, x.shape)]


@operator("TensorScatter", shape=_written_shape)
def _tensor_scatter(inputs, attributes):
    """A copy with a piece along an axis overwritten, from an index on that each image has its own of."""
    x, update, begin = (*inputs, None)[:3]
    axis = normal(attributes.get("axis", -2), x.ndim, "TensorScatter")
    begin = np.zeros(x.shape[0], np.int64) if begin is None else begin
    mode, n, m = attributes.get("mode", "linear"), x.shape[axis], update.shape[axis]
    at = begin[:, None] + np.arange(m)
    if mode == "circular":
        at = at % max(n, 1)
    elif mode != "linear" or (at < 0).any() or (at >= n).any():
        raise ValueError(f"mode {mode!r}: {m} elements from {begin.tolist()} on of {n}")
    y = np.array(x)
    shape = [k if i in (0, axis) else 1 for i, k in enumerate(update.shape)]
    np.put_along_axis(y, np.broadcast_to(at.reshape(shape), update.shape), update, axis)
    return [y]
