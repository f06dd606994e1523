"""The shape and type of every tensor of a graph whose inputs have shapes, and the values of those that are constant.

Whatever depends on constants alone is computed here, once: weights that a model derives from others, and the arithmetic
on shapes that exporters leave behind. Sizes are checked before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from .ir import Graph, Node
from .operators import OPERATORS, DataDependent, Unsupported, control
from .operators.base import FAULTS, InputTypes, Known, applied, refusal, required

MAX_BYTES = 1 << 35  # of a tensor


def infer(graph: Graph, shapes: Mapping[str, tuple[int, ...]], max_bytes: int = MAX_BYTES) -> dict[str, Known]:
    """What is known of every tensor, by name, for inputs of these shapes.

    `max_bytes`: of a tensor of which only the shape is inferred; one computed from constants has at most `MAX_BYTES`.

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
        inputs = [tensors[name] if name else None for name in node.inputs]
        try:
            known = _of(node, inputs, max_bytes)
        except DataDependent as error:
            error.graph = graph
            raise
        except Unsupported:
            raise
        except FAULTS as error:
            raise refusal(node, inputs, error) from error
        for name, k in zip(node.outputs, known):
            if name:
                tensors[name] = k
    return tensors


control.hooks.infer = infer


def _checked(shape: Sequence[int], dtype: Any, what: str, max_bytes: int = MAX_BYTES) -> tuple[int, ...]:
    shape = tuple(int(n) for n in shape)
    if min(shape, default=0) < 0 or prod(shape) * np.dtype(dtype).itemsize > max_bytes:
        raise ValueError(f"{what}: a tensor of shape {shape} is impossible or too large")
    return shape


def _of(node: Node, inputs: InputTypes, max_bytes: int) -> list[Known]:
    shape = OPERATORS[node.op].shape
    if OPERATORS[node.op].of_shape and all(x is None or x.value is not None for x in inputs[1:]):
        first = np.broadcast_to(np.int8(0), required(inputs[0]).shape)
        (value,) = applied(node, [first, *(None if x is None else x.value for x in inputs[1:])])
        return [Known(value.dtype, value.shape, value)]
    if OPERATORS[node.op].open:
        unknown = [name for name, x in zip(node.inputs, inputs) if x is not None and x.value is None]
        if unknown:
            told = f"{node}: the shapes of its results depend on the values of {unknown[0]!r}"
            raise DataDependent(told, unknown[0], node)
        return _values(node, inputs)
    if shape is None:
        raise Unsupported(f"{node}: not supported on data that is not constant")
    depends = any(x is not None and x.value is None for x in inputs)
    most = max_bytes if depends else MAX_BYTES
    types = [(np.dtype(dtype), _checked(extents, dtype, str(node), most)) for dtype, extents in shape(node, inputs)]
    if any(node.outputs[len(types) :]):
        raise ValueError(f"{len(node.outputs)} outputs, expected at most {len(types)}")
    if depends:
        return [Known(*each) for each in types]
    return _values(node, inputs)


def _values(node: Node, inputs: InputTypes) -> list[Known]:
    """What a node computes of constants."""
    values = applied(node, [None if x is None else x.value for x in inputs])
    return [Known(v.dtype, v.shape, v) for v in map(np.asarray, values)]
