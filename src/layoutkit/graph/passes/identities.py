"""What exporters leave behind: operators that change nothing, equal ones, and reductions that are poolings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..ir import Graph, Node, renamed
from ..operators import Known
from ..operators.base import normal
from .rewriting import Knowledge, Rewriting

# By operator, the operand that changes nothing, and which operand it may be.
NEUTRAL = {"Mul": (1.0, "either"), "Add": (0.0, "either"), "Sum": (0.0, "either"), "Div": (1.0, "second"),
           "Sub": (0.0, "second"), "Pow": (1.0, "second")}  # fmt: skip
COPIES = "Identity", "Dropout", "Cast", "Reshape", "Flatten", "Expand", "Squeeze", "Unsqueeze"  # of equal types, shapes
VARIADIC = "Sum", "Concat", "Max", "Min", "Mean"
POOLINGS = {"ReduceMean": "GlobalAveragePool", "ReduceMax": "GlobalMaxPool"}
REPEATED = "ReduceMean", "Sub", "Mul", "Pow", "Transpose", "Cast"  # by exporters, where a normalisation reads x again


def remove_identities(graph: Graph, known: Knowledge) -> Graph:
    """Removes nodes whose result is equal to a tensor that there is: copies, arithmetic with 0 or 1, slices of all,
    pads of none, conversions there and back; outputs of the graph keep their names."""
    r, nodes = Rewriting(graph, known), []
    names: dict[str, str] = {}  # of the tensors that replace others
    makers: dict[str, Node] = {}
    for node in graph.nodes:
        node = renamed(node, names)
        used = tuple(name for name in node.outputs if name in r.users or name in graph.ends)
        if node.op == "Dropout" and used == node.outputs[:1]:  # its mask is not used
            node = node.with_(outputs=used)
        node = _joined(node, makers, known)
        result = node.outputs[0]
        equal = _equal_tensor(node, makers, known)
        if equal is not None and result not in graph.ends and known[equal].stored == known[result].stored:
            names[result] = equal
        else:
            nodes.append(node)
            makers.update((name, node) for name in node.outputs if name)
    return r.graph(nodes)


def _equal_tensor(node: Node, makers: Mapping[str, Node], known: Mapping[str, Known]) -> str | None:
    """The tensor that the only result of a node is equal to."""
    if not node.inputs or not node.inputs[0] or len([name for name in node.outputs if name]) != 1:
        return None
    x, y = node.inputs[0], node.outputs[0]
    if known[x].shape == known[y].shape and known[x].dtype == known[y].dtype:
        if node.op in COPIES or (node.op in VARIADIC and len(node.inputs) == 1):
            return x
        if node.op == "Transpose" and node.attributes.get("perm") == list(range(len(known[x].shape))):
            return x
    if len(node.outputs) != 1:
        return None
    if node.op == "Cast":
        before = makers.get(x)
        source = before.inputs[0] if before is not None and before.op == "Cast" else None
        back = source is not None and known[source].dtype == known[y].dtype and _holds(known[x].dtype, known[y].dtype)
        return source if back else None
    if node.op in NEUTRAL and len(node.inputs) == 2:
        number, which = NEUTRAL[node.op]
        pairs = [node.inputs, node.inputs[::-1]] if which == "either" else [node.inputs]
        return next((a for a, b in pairs if _is_all(known[b].value, number) and _same_type(a, y, known)), None)
    if not _same_type(x, y, known):
        return None
    if node.op == "Slice":
        attribute = np.array(node.attributes.get("steps") or (1,))  # constants are attributes by now
        steps = known[node.inputs[4]].value if node.input(4) else attribute
        return x if _is_all(steps, 1.0) else None
    if node.op == "Pad":
        pads = known[node.inputs[1]].value if node.input(1) else np.array(node.attributes.get("pads", (1,)))
        return x if _is_all(pads, 0.0) else None
    return x if node.op == "Tile" and _is_all(known[node.inputs[1]].value, 1.0) else None


def _joined(node: Node, makers: Mapping[str, Node], known: Mapping[str, Known]) -> Node:
    """A transposition of a transposition, as one."""
    before = makers.get(node.input(0))
    if node.op != "Transpose" or before is None or before.op != "Transpose" or known[node.inputs[0]].stored is not None:
        return node
    reverse = list(range(len(known[node.outputs[0]].shape)))[::-1]
    first, second = before.attributes.get("perm") or reverse, node.attributes.get("perm") or reverse
    return node.with_(inputs=before.inputs, attributes={"perm": [first[axis] for axis in second]})


def _same_type(a: str, b: str, known: Mapping[str, Known]) -> bool:
    """Whether two tensors have the same shape and element type, and the first is no constant."""
    return known[a].shape == known[b].shape and known[a].dtype == known[b].dtype and known[a].value is None


def _is_all(value: np.ndarray | None, number: float) -> bool:
    """Whether each element of a constant is this number."""
    return value is not None and value.size > 0 and bool((value == number).all())


def _holds(wide: np.dtype, narrow: np.dtype) -> bool:
    """Whether a type has every number of another."""
    if narrow.kind in "iu" and wide.kind == "f":
        return np.finfo(wide).nmant >= 8 * narrow.itemsize
    return bool(np.can_cast(narrow, wide, "safe"))


def equal_nodes(graph: Graph, known: Knowledge) -> Graph:
    """Of nodes that compute the same from the same tensors, one is left."""
    names: dict[str, str] = {}  # of the tensors that replace others
    first: dict[Any, Node] = {}
    nodes = []
    for node in graph.nodes:
        node = renamed(node, names)
        if node.op not in REPEATED:
            nodes.append(node)
            continue
        attributes = dict(node.attributes)
        if node.op == "ReduceMean" and attributes.get("axes"):
            rank = len(known[node.inputs[0]].shape)
            attributes["axes"] = sorted(normal(axis, rank, node.op) for axis in attributes["axes"])
        key = node.op, node.inputs, len(node.outputs), _hashable(attributes)
        twin = first.setdefault(key, node)
        if twin is node or any(name in graph.ends or not other for name, other in zip(node.outputs, twin.outputs)):
            nodes.append(node)
        else:
            names.update(zip(node.outputs, twin.outputs))
    return Rewriting(graph, known).graph(nodes)


def _hashable(value: Any) -> Any:
    """The value of an attribute as a key of a dictionary."""
    if isinstance(value, Mapping):
        return tuple((k, _hashable(v)) for k, v in sorted(value.items()))
    if isinstance(value, np.ndarray):
        return value.tobytes(), value.shape, str(value.dtype)
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value


def means_as_pooling(graph: Graph, known: Knowledge) -> Graph:
    """Means and maxima over all of space are poolings, which have kernels in every layout."""
    r, nodes = Rewriting(graph, known), []
    for node in graph.nodes:
        x = known[node.inputs[0]] if node.op in POOLINGS and len(node.inputs) == 1 else None
        axes = [axis % len(x.shape) for axis in node.attributes.get("axes") or ()] if x is not None and x.shape else []
        over_space = x is not None and len(x.shape) >= 3 and sorted(axes) == list(range(2, len(x.shape)))
        if x is None or not over_space or x.dtype != np.float32 or 0 in x.shape:
            nodes.append(node)
            continue
        y = pooled = node.outputs[0]
        keeps_axes = node.attributes.get("keepdims", 1)
        if not keeps_axes:
            pooled = r.tensor(y, "pooled", x.dtype, (*x.shape[:2], *[1] * (len(x.shape) - 2)))
        nodes.append(Node(POOLINGS[node.op], node.inputs, (pooled,), {}, node.name))
        if not keeps_axes:
            shape = r.constant(y, "shape", np.array(known[y].shape, np.int64))
            nodes.append(Node("Reshape", (pooled, shape), (y,), {"allowzero": 1}))
    return r.graph(nodes)
