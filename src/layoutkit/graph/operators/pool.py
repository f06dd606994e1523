"""Pooling, in any layout whose spatial dimensions are not blocked."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np

from ..._core.nests.element_types import COMPARED
from ..._core.nests.reductions.places import PoolingPlaces
from ...choosing.threads import check_threads
from .base import Follows, Unsupported, as_reals, mean, operator, physical_axes, required, result
from .windows import window


def _follow_spatial(attributes, layout, shapes):
    """`axes`: those of height, width, .. in the layout."""
    at = physical_axes(layout)[2:]
    return None if None in at else {**attributes, "at": at}


def _taps(attributes, x):
    """By tap of the window, the outputs that it contributes to, as slices, and the part of `x` that it reads."""
    at, w = _axes(attributes, x)
    for tap in itertools.product(*map(range, w.kernel)):
        to, of = [slice(None)] * x.ndim, [slice(None)] * x.ndim
        for a, t, s, d, (before, _), n, m in zip(at, tap, w.stride, w.dilation, w.pads, w.size, w.out):
            begin = t * d - before  # of output 0
            first = max(0, -(begin // s)) if begin < 0 else 0
            last = min(m - 1, (n - 1 - begin) // s)
            if last < first:
                break
            to[a], of[a] = slice(first, last + 1), slice(begin + first * s, begin + last * s + 1, s)
        else:
            yield tuple(to), x[tuple(of)]


def _axes(attributes, x):
    """The spatial axes of `x`, and the window over them."""
    at = attributes.get("at") or list(range(2, x.ndim))
    return at, window(attributes, [x.shape[a] for a in at])


def _empty(attributes, x, value):
    at, w = _axes(attributes, x)
    shape = list(x.shape)
    for a, n in zip(at, w.out):
        shape[a] = n
    return np.full(shape, value, x.dtype)


def counts(attributes, size):
    """By spatial axis and output, how many taps a mean divides by: those inside the input, or also those in the
    padding."""
    w = window(attributes, size)
    pads = w.pads if attributes.get("count_include_pad") else [(0, 0)] * len(size)
    return [
        [sum(-low <= i * s - before + t * d < n + high for t in range(k)) for i in range(m)]
        for k, s, d, (before, _), (low, high), n, m in zip(w.kernel, w.stride, w.dilation, w.pads, pads, w.size, w.out)
    ]


def _pool_shape(node, inputs):
    x = required(inputs[0])
    shape = (*x.shape[:2], *window(node.attributes, x.shape[2:]).out)
    return [(x.dtype, shape), (np.int64, shape)]


@operator("MaxPool", kind=Follows.FIXED, follow=_follow_spatial, shape=_pool_shape, into=True)
def _max_pool(inputs, attributes, out=None):
    """NaN is larger than all numbers."""
    x = inputs[0]
    least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    if attributes.get("indices"):
        return _with_indices(x, least, attributes, out)
    real = _compared(x)
    y = _empty(attributes, real, least)
    for to, part in _taps(attributes, real):
        np.maximum(y[to], part, out=y[to])
    return [y.astype(x.dtype, copy=False)]


def _compared(x):
    """Numbers that the loops compare: those of two bytes, but integers, as float32."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x


def _with_indices(x, least, attributes, out):
    """The maxima, and the index of each in the flattened input, in the model's layout."""
    if attributes.get("at"):
        raise Unsupported("MaxPool: indices are of the model's layout")
    if x.ndim > 5:
        raise Unsupported(f"MaxPool: indices of {x.ndim - 2} spatial axes; 1, 2 or 3 are supported")
    of = window(attributes, x.shape[2:])
    shape = (*x.shape[:2], *of.out)
    y, places = result(out, shape, x.dtype), result(out, shape, np.int64, 1)
    ones, by_column = (1,) * (5 - x.ndim), bool(attributes.get("storage_order"))
    windows = [(1, 1, 1, 0)] * len(ones) + [
        (k, s, d, before) for k, s, d, (before, _) in zip(of.kernel, of.stride, of.dilation, of.pads)
    ]
    real = np.ascontiguousarray(_compared(x))
    if real.dtype.name not in COMPARED:
        raise Unsupported(f"MaxPool: indices for {x.dtype}")
    maxima = y if real.dtype == x.dtype else np.empty(y.shape, real.dtype)
    arrays = [a.reshape(prod(a.shape[:2]), *ones, *a.shape[2:]) for a in (real, maxima, places)]
    PoolingPlaces(*arrays, windows, by_column, least, check_threads(attributes.get("threads")))(*arrays)
    return [maxima if maxima is y else maxima.astype(x.dtype), places]


@operator("AveragePool", kind=Follows.FIXED, follow=_follow_spatial, shape=_pool_shape)
def _average_pool(inputs, attributes):
    x = as_reals(inputs[0])
    y = _empty(attributes, x, 0)
    for to, part in _taps(attributes, x):
        y[to] += part
    at, w = _axes(attributes, x)
    for a, c in zip(at, counts(attributes, w.size)):
        y /= np.maximum(np.array(c, x.dtype), 1).reshape(-1, *[1] * (x.ndim - 1 - a))
    return [y.astype(inputs[0].dtype, copy=False)]


@operator("LpPool", kind=Follows.FIXED, follow=_follow_spatial, shape=_pool_shape)
def _lp_pool(inputs, attributes):
    x, p = as_reals(inputs[0]), attributes.get("p", 2)
    if not p > 0:
        raise ValueError(f"p {p}: expected a positive number")
    y = _empty(attributes, x, 0)
    for to, part in _taps(attributes, x):
        y[to] += np.abs(part) ** p
    return [(y ** (1 / p)).astype(inputs[0].dtype)]


def _global_pool_shape(node, inputs):
    x = required(inputs[0])
    return [(x.dtype, (*x.shape[:2], *[1] * (len(x.shape) - 2)))]


@operator("GlobalAveragePool", kind=Follows.FIXED, follow=_follow_spatial, shape=_global_pool_shape)
def _global_average_pool(inputs, attributes):
    x = inputs[0]
    return [mean(as_reals(x), tuple(attributes.get("at") or range(2, x.ndim))).astype(x.dtype, copy=False)]


@operator("GlobalMaxPool", kind=Follows.FIXED, follow=_follow_spatial, shape=_global_pool_shape)
def _global_max_pool(inputs, attributes):
    x = inputs[0]
    axes = tuple(attributes.get("at") or range(2, x.ndim))
    if x.size == 0 and all(x.shape[i] for i in range(x.ndim) if i not in axes):
        raise ValueError(f"GlobalMaxPool: no pixels in an input of shape {x.shape}")
    return [
        _compared(x).max(axes, keepdims=True).astype(x.dtype, copy=False)
        if x.size
        else np.empty([1 if i in axes else n for i, n in enumerate(x.shape)], x.dtype)
    ]
