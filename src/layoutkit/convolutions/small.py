"""Convolutions of little work whose filter comes with each call: an operation, and where it reads the filter's numbers.

Packing, of the algorithms that take any filter, only moves numbers. So a filter that holds its own indices, packed,
says which number belongs where.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._core.nests.operation import Operation
from . import conv, transposed
from .transposed_operation import operation as transposed_operation

SMALL_FLOPS = 1 << 19  # some ten microseconds
SMALL_FILTER = 1 << 13  # numbers: they are packed one after another


class Fill(NamedTuple):
    """Of a packed array, or a part of one, the places of numbers that are no pads.

    Attributes
    ----------
    packed : ndarray
        Contiguous.
    places, sources : ndarray of int32
        Elements of it, and the elements of the filter or bias that belong there, in C order.
    tensor : {1, 2}
        The filter or the bias.
    """

    packed: np.ndarray
    places: np.ndarray
    sources: np.ndarray
    tensor: int


def small_convolution(
    rank: int, is_transposed: bool, x: np.ndarray, shape: tuple[int, ...], y: np.ndarray, w_shape: tuple[int, ...],
    has_bias: bool, **attributes: Any,
) -> tuple[Operation, list[Fill]] | None:  # fmt: skip
    """A convolution on arrays like `x` and `y` by one thread, and what is to be put where before it runs.

    Parameters
    ----------
    rank : {1, 2, 3}
    is_transposed : bool
    x : ndarray
    shape : tuple of int
        The logical shape of `x`.
    y : ndarray
    w_shape : tuple of int
        Of the filter: (O, I/groups, ..), of transposed ones (I, O/groups, ..).
    has_bias : bool
    **attributes
        Of `Conv2d` or `ConvTranspose2d`.

    Returns
    -------
    (Operation, list of Fill), or None if it runs in Python in part, or packing does more than moving numbers
        The filter must be finite.
    """
    count, outputs = int(np.prod(w_shape)), w_shape[1] * attributes["groups"] if is_transposed else w_shape[0]
    if count > SMALL_FILTER or outputs > SMALL_FILTER:
        return None
    packed: list[list[tuple[np.ndarray, np.ndarray | None]]] = []
    operation: Any = None
    common = {"accuracy": "strict", "threads": 1, **attributes}
    mixed = np.random.default_rng(0).permutation(count).astype(x.dtype).reshape(w_shape) + x.dtype.type(1)
    indices = np.arange(1, count + 1, dtype=x.dtype).reshape(w_shape)
    biases = np.arange(1, outputs + 1, dtype=x.dtype) if has_bias else None
    for numbers in (mixed, indices):
        if is_transposed:
            turned = transposed.CLASSES[rank](numbers, biases, **common)
            operation = transposed_operation(turned, x, y, shape)
            packed.append(conv.packed_of(turned))
        else:
            op = conv.CLASSES[rank](numbers, biases, **common)
            operation = conv.bind(op, x, y, None)
            packed.append(conv.packed_of(op))
    if not isinstance(operation, Operation):
        return None
    fills = []
    for (w, b), (mixed_w, _) in zip(packed[1], packed[0]):
        fill = _fill(w, 1, count)
        if fill is None or not (mixed.ravel()[fill.sources] == mixed_w.ravel()[fill.places]).all():
            return None
        fills.append(fill)
        if has_bias and b is not None:
            fill = _fill(b, 2, outputs)
            if fill is None:
                return None
            fills.append(fill)
    return operation, fills


def _fill(packed: np.ndarray, tensor: int, count: int) -> Fill | None:
    """Of an array of indices, which begin at 1."""
    if not packed.flags.c_contiguous:
        return None
    flat = packed.ravel()
    places = flat.nonzero()[0].astype(np.int32)
    sources = flat[places].astype(np.int64) - 1
    if (sources + 1 != flat[places]).any() or (len(sources) and not 0 <= sources.min() <= sources.max() < count):
        return None
    return Fill(packed, places, sources.astype(np.int32), tensor)
