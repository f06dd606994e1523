"""Operators whose inputs say where elements come from or go to."""

from __future__ import annotations

from math import prod

import numpy as np

from ..._core.nests.element_types import REDUCED, REDUCTIONS
from ..._core.nests.moves.elements import Elements
from ..._core.nests.moves.slices import Slices
from ...choosing.threads import check_threads
from ...memory.arrays import empty
from .base import Attributes, normal, operator, required, result, same_shape

PIECE = 1 << 22  # elements that are written at a time
UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _in_order(*arrays: np.ndarray) -> list[np.ndarray]:
    """In C order; the second one, of indices, in int64."""
    return [np.asarray(x, np.int64 if i == 1 else None, order="C") for i, x in enumerate(arrays)]


def _whole(x: np.ndarray) -> np.ndarray:
    """Elements that are only moved, as unsigned integers if there are some of their size, else as several of them."""
    if x.itemsize in (1, 2, 4, 8):
        return x.view(f"u{x.itemsize}")
    return x.reshape(*x.shape, 1).view(np.uint64)


def gathering(x: np.ndarray, at: np.ndarray, y: np.ndarray, attributes: Attributes) -> Elements | Slices:
    """What gathers, for arrays (x, at, y) like these."""
    op, threads = attributes["op"], check_threads(attributes.get("threads"))
    if op == "GatherND":
        batch, depth = attributes.get("batch_dims", 0), at.shape[-1]
        batches, count = prod(at.shape[:batch]), prod(at.shape[batch:-1])
        return Slices(x, at, None, y, x.shape[batch : batch + depth], batches, count, False, "none", threads)
    axis = normal(attributes.get("axis", 0), x.ndim, op)
    if op == "GatherElements":
        return Elements(x, at, None, y, axis, "none", threads)
    return Slices(x, at, None, y, x.shape[axis : axis + 1], prod(x.shape[:axis]), at.size, True, "none", threads)


def _gathered(x: np.ndarray, at: np.ndarray, y: np.ndarray, attributes: Attributes) -> np.ndarray:
    """`y`, to which elements or slices of x are written."""
    axis = normal(attributes.get("axis", 0), x.ndim, attributes["op"])  # before elements of 16 bytes become two
    arrays = _whole(x), at, _whole(y)
    gathering(*arrays, {**attributes, "axis": axis})(*arrays)
    return y


def scattering(
    x: np.ndarray, at: np.ndarray, updates: np.ndarray, y: np.ndarray, attributes: Attributes
) -> Elements | Slices:
    """What scatters, for arrays (x, at, updates, y) like these."""
    reduction = attributes.get("reduction", "none")
    if attributes["op"] == "ScatterND":
        return Slices(x, at, updates, y, x.shape[: at.shape[-1]], 1, prod(at.shape[:-1]), False, reduction, 1)
    axis = normal(attributes.get("axis", 0), x.ndim, attributes["op"])
    return Elements(x, at, updates, y, axis, reduction, check_threads(attributes.get("threads")))


def moved(x: np.ndarray, reduction: str) -> np.ndarray:
    """An array as scatters take it."""
    return _whole(x) if reduction == "none" else x


def _scattered(x, at, updates, y, attributes):
    """`y`, which becomes x with updates written to elements or slices of it."""
    x, updates, into = (moved(a, _reduction(attributes)) for a in (x, updates, y))
    scattering(x, at, updates, into, attributes)(x, at, updates, into)
    return y


def _gather_shape(node, inputs):
    x, at = required(inputs[0]), required(inputs[1])
    axis = normal(node.attributes.get("axis", 0), len(x.shape), "Gather")
    return [(x.dtype, (*x.shape[:axis], *at.shape, *x.shape[axis + 1 :]))]


@operator("Gather", shape=_gather_shape, into=True)
def _gather(inputs, attributes, out=None):
    x, at = _in_order(*inputs)
    axis = normal(attributes.get("axis", 0), x.ndim, "Gather")
    return [_gathered(x, at, result(out, (*x.shape[:axis], *at.shape, *x.shape[axis + 1 :]), x.dtype), attributes)]


@operator("Compress", open=True)
def _compress(inputs, attributes):
    """Where a condition holds, which may be shorter than the axis."""
    x, at, axis = inputs[0], np.flatnonzero(inputs[1]), attributes.get("axis")
    x, axis = (x.reshape(-1), 0) if axis is None else (x, normal(axis, x.ndim, "Compress"))
    y = empty((*x.shape[:axis], at.size, *x.shape[axis + 1 :]), x.dtype, "Compress")
    return _gather([x, at], {**attributes, "axis": axis}, [y])


def _elements_shape(node, inputs):
    x, at = required(inputs[0]), required(inputs[1])
    axis = normal(node.attributes.get("axis", 0), len(x.shape), node.op)
    if len(at.shape) != len(x.shape) or any(m > n for i, (n, m) in enumerate(zip(x.shape, at.shape)) if i != axis):
        raise ValueError(f"indices of shape {at.shape} into {x.shape}")
    if node.op == "GatherElements":
        return [(x.dtype, at.shape)]
    if required(inputs[2]).shape != at.shape:
        raise ValueError(f"updates of shape {required(inputs[2]).shape} at indices of shape {at.shape}")
    return [(x.dtype, x.shape)]


@operator("GatherElements", shape=_elements_shape, into=True)
def _gather_elements(inputs, attributes, out=None):
    x, at = _in_order(*inputs)
    return [_gathered(x, at, result(out, at.shape, x.dtype), attributes)]


def _reduction(attributes):
    """How updates are written."""
    reduction = attributes.get("reduction", "none")
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction {reduction!r}: expected {', '.join(REDUCTIONS)}")
    return reduction


def _reduced_narrow(x, at, updates, reduction, y):
    """Updates of a type that the nests do not reduce, at indices of numpy."""
    np.copyto(y, x)
    UFUNCS[reduction].at(y, at, updates)
    return [y]


def in_nests(dtype: np.dtype, reduction: str) -> bool:
    """Whether the nests write updates of a type."""
    return reduction == "none" or dtype.name in REDUCED


def spread(x: np.ndarray, at: np.ndarray, y: np.ndarray) -> None:
    """Write elements to those of `y`, in C order, whose indices `at` has; some at a time, for signals in between."""
    if x.size != at.size:
        raise ValueError(f"{at.size} indices for {x.size} elements")
    x, at, flat = _whole(x).reshape(-1), at.reshape(-1), _whole(y).reshape(-1)
    for begin in range(0, x.size, PIECE):
        some, places = (np.ascontiguousarray(a[begin : begin + PIECE]) for a in (x, at))
        arrays = flat, places.astype(np.int64, copy=False), some, flat
        Elements(*arrays, 0, "none", 1)(*arrays)


@operator("ScatterElements", "Scatter", shape=_elements_shape, into=True)
def _scatter_elements(inputs, attributes, out=None):
    x, at, updates = _in_order(*inputs)
    y, reduction = result(out, x.shape, x.dtype), _reduction(attributes)
    if not in_nests(x.dtype, reduction):
        grid = list(np.ogrid[tuple(slice(n) for n in at.shape)])
        grid[normal(attributes.get("axis", 0), x.ndim, "ScatterElements")] = at
        return _reduced_narrow(x, tuple(grid), updates, reduction, y)
    return [_scattered(x, at, updates, y, attributes)]


def _nd_shape(node, inputs):
    x, at, batch = required(inputs[0]), required(inputs[1]), node.attributes.get("batch_dims", 0)
    if not at.shape or at.shape[-1] > len(x.shape) - batch or not 0 <= batch < len(at.shape):
        raise ValueError(f"indices of shape {at.shape} into {x.shape}, {batch} batch dimensions")
    if x.shape[:batch] != at.shape[:batch]:
        raise ValueError(f"batch dimensions {x.shape[:batch]} and {at.shape[:batch]}")
    shape = (*at.shape[:-1], *x.shape[batch + at.shape[-1] :])
    if node.op == "GatherND":
        return [(x.dtype, shape)]
    if required(inputs[2]).shape != shape:
        raise ValueError(f"updates of shape {required(inputs[2]).shape}, expected {shape}")
    return [(x.dtype, x.shape)]


@operator("GatherND", shape=_nd_shape, into=True)
def _gather_nd(inputs, attributes, out=None):
    x, at = _in_order(*inputs)
    batch, depth = attributes.get("batch_dims", 0), at.shape[-1]
    return [_gathered(x, at, result(out, (*at.shape[:-1], *x.shape[batch + depth :]), x.dtype), attributes)]


@operator("ScatterND", shape=_nd_shape, into=True)
def _scatter_nd(inputs, attributes, out=None):
    x, at, updates = _in_order(*inputs)
    y, reduction = result(out, x.shape, x.dtype), _reduction(attributes)
    if not in_nests(x.dtype, reduction):
        return _reduced_narrow(x, tuple(np.moveaxis(at, -1, 0)), updates, reduction, y)
    return [_scattered(x, at, updates, y, attributes)]


@operator("ReverseSequence", shape=same_shape, into=True)
def _reverse_sequence(inputs, attributes, out=None):
    x, lengths = _in_order(*inputs)
    batch, time = (normal(attributes.get(k, d), x.ndim, "ReverseSequence")
                   for k, d in (("batch_axis", 1), ("time_axis", 0)))  # fmt: skip
    n = x.shape[time]
    if batch == time or lengths.shape != (x.shape[batch],) or (lengths > n).any() or (lengths < 0).any():
        raise ValueError(f"lengths of shape {lengths.shape} along axis {time}, batch axis {batch}, of {x.shape}")
    y = result(out, x.shape, x.dtype)
    if {batch, time} != {0, 1}:
        moved = np.moveaxis(x, (batch, time), (0, 1))
        (rows,) = _reverse_sequence([moved, lengths], {**attributes, "batch_axis": 0, "time_axis": 1})
        np.copyto(y, np.moveaxis(rows, (0, 1), (batch, time)))
        return [y]
    steps, lengths = np.arange(n), lengths[:, None]
    at = np.where(steps < lengths, lengths - 1 - steps, steps)  # by sequence and step in time, the one to take
    sequences = np.arange(x.shape[batch])[:, None]
    at = sequences * n + at if batch == 0 else (at * x.shape[batch] + sequences).T.copy()
    x = x.reshape(at.size, *x.shape[2:])
    return [_gathered(x, at, y, {"op": "Gather", "threads": attributes.get("threads")})]
