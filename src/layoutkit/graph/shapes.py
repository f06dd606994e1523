"""The shape and type of every tensor of a graph whose inputs have shapes, and the values of those that are constant.

What can be computed of constants is computed, once: weights that a model makes of others, and the arithmetic on shapes
that exporters leave behind. Sizes are checked before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from .ir import Graph, Node
from .operators import OPERATORS, Unsupported
from .operators.base import FAULTS, Given, Known, applied, refusal, there

MAX_BYTES = 1 << 35  # of a tensor


def infer(graph: Graph, shapes: Mapping[str, tuple[int, ...]], max_bytes: int = MAX_BYTES) -> dict[str, Known]:
    """By name, what is known of every tensor, for inputs of these shapes.

    `max_bytes`: of a tensor whose shape alone is wanted; what is computed of constants has at most `MAX_BYTES`.

    Raises
    ------
    Unsupported
        Operators that are not known, all of them named; a shape that depends on data.
    ValueError
        Shapes that do not fit together, or are too large.
    """
    unknown = sorted({node.op for node in graph.nodes} - OPERATORS.keys())
    if unknown:
        raise Unsupported(f"graph: operators that are not supported: {', '.join(unknown)}")
    tensors = {name: Known(value.dtype, value.shape, value) for name, value in graph.constants.items()}
    for name, of in graph.inputs.items():
        tensors[name] = Known(of.dtype, _checked(shapes[name], of.dtype, f"input {name!r}", max_bytes))
    for node in graph.nodes:
        given = [tensors[name] if name else None for name in node.inputs]
        try:
            known = _of(node, given, max_bytes)
        except Unsupported:
            raise
        except FAULTS as error:
            raise refusal(node, given, error) from error
        for name, k in zip(node.outputs, known):
            if name:
                tensors[name] = k
    return tensors


def _checked(shape: Sequence[int], dtype: Any, what: str, max_bytes: int = MAX_BYTES) -> tuple[int, ...]:
    shape = tuple(int(n) for n in shape)
    if min(shape, default=0) < 0 or prod(shape) * np.dtype(dtype).itemsize > max_bytes:
        raise ValueError(f"{what}: a tensor of shape {shape} is impossible or too large")
    return shape


def _of(node: Node, given: Given, max_bytes: int) -> list[Known]:
    shape = OPERATORS[node.op].shape
    if OPERATORS[node.op].of_shape and all(x is None or x.value is not None for x in given[1:]):
        first = np.broadcast_to(np.int8(0), there(given[0]).shape)
        (value,) = applied(node, [first, *(None if x is None else x.value for x in given[1:])])
        return [Known(value.dtype, value.shape, value)]
    if shape is None:
        raise Unsupported(f"{node}: not supported on data that is not constant")
    depends = any(x is not None and x.value is None for x in given)
    most = max_bytes if depends else MAX_BYTES
    told = [(np.dtype(dtype), _checked(extents, dtype, str(node), most)) for dtype, extents in shape(node, given)]
    if any(node.outputs[len(told) :]):
        raise ValueError(f"{len(node.outputs)} outputs, expected at most {len(told)}")
    if depends:
        return [Known(*each) for each in told]
    values = applied(node, [None if x is None else x.value for x in given])
    return [Known(v.dtype, v.shape, v) for v in map(np.asarray, values)]
