"""What exporters leave behind: operators that change nothing, several that are one, and other words for one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import Graph, Node, fresh, renamed
from ..operators import Known

NEUTRAL = {"Mul": (1.0, "either"), "Add": (0.0, "either"), "Sum": (0.0, "either"), "Div": (1.0, "second"),
           "Sub": (0.0, "second"), "Pow": (1.0, "second")}  # fmt: skip
MEANS = {"ReduceMean": "GlobalAveragePool", "ReduceMax": "GlobalMaxPool"}


def without_effect(graph: Graph, known: Mapping[str, Known]) -> Graph:
    """Removes arithmetic with 0 or 1, whole slices, empty pads, copies of once, and conversions there and back; outputs
    of the graph keep their names."""
    names: dict[str, str] = {}
    nodes: list[Node] = []
    makers: dict[str, Node] = {}
    for node in graph.nodes:
        node = _joined(renamed(node, names), makers, known)
        same = _unchanged(node, makers, known)
        if (
            same is not None
            and node.outputs[0] not in graph.ends
            and known[same].stored == known[node.outputs[0]].stored
        ):
            names[node.outputs[0]] = same
        else:
            nodes.append(node)
            makers.update((name, node) for name in node.outputs if name)
    return Graph(nodes, graph.inputs, (), graph.constants).needed(graph.outputs)


def _unchanged(node: Node, makers: Mapping[str, Node], known: Mapping[str, Known]) -> str | None:
    """The tensor that the only result of a node is equal to."""
    if not node.inputs or not node.inputs[0] or len(node.outputs) != 1:
        return None
    x, y = node.inputs[0], node.outputs[0]
    if node.op == "Cast":
        before = makers.get(x)
        source = before.inputs[0] if before is not None and before.op == "Cast" else None
        back = source is not None and known[source].dtype == known[y].dtype and _holds(known[x].dtype, known[y].dtype)
        return source if back else None
    if node.op in NEUTRAL and len(node.inputs) == 2:
        number, which = NEUTRAL[node.op]
        pairs = [node.inputs, node.inputs[::-1]] if which == "either" else [node.inputs]
        return next((a for a, b in pairs if _is_all(known[b].value, number) and _alike(a, y, known)), None)
    if not _alike(x, y, known):
        return None
    if node.op == "Transpose":
        return x if node.attributes.get("perm") == list(range(len(known[x].shape))) else None
    if node.op == "Slice":
        given = np.array(node.attributes.get("steps") or (1,))  # constants are attributes by now
        steps = known[node.inputs[4]].value if node.input(4) else given
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
    first, then = before.attributes.get("perm") or reverse, node.attributes.get("perm") or reverse
    return node.with_(inputs=before.inputs, attributes={"perm": [first[axis] for axis in then]})


def _alike(a: str, b: str, known: Mapping[str, Known]) -> bool:
    return known[a].shape == known[b].shape and known[a].dtype == known[b].dtype and known[a].value is None


def _is_all(value: np.ndarray | None, number: float) -> bool:
    return value is not None and value.size > 0 and bool((value == number).all())


def _holds(wide: np.dtype, narrow: np.dtype) -> bool:
    """Whether a type has every number of another."""
    if narrow.kind in "iu" and wide.kind == "f":
        return np.finfo(wide).nmant >= 8 * narrow.itemsize
    return bool(np.can_cast(narrow, wide, "safe"))


def means_as_pooling(graph: Graph, known: dict[str, Known]) -> Graph:
    """Means and maxima over all of space are poolings, which have kernels in every layout."""
    nodes, constants = [], dict(graph.constants)
    for node in graph.nodes:
        x = known[node.inputs[0]] if node.op in MEANS and len(node.inputs) == 1 else None
        axes = [axis % len(x.shape) for axis in node.attributes.get("axes") or ()] if x is not None and x.shape else []
        if x is None or x.dtype != np.float32 or len(x.shape) < 3 or sorted(axes) != list(range(2, len(x.shape))):
            nodes.append(node)
            continue
        y, pooled = node.outputs[0], node.outputs[0]
        if not node.attributes.get("keepdims", 1):
            pooled, shape = fresh(f"{y}.pooled", known), fresh(f"{y}.shape", known)
            known[pooled] = Known(x.dtype, (*x.shape[:2], *[1] * (len(x.shape) - 2)))
            constants[shape] = np.array(known[y].shape, np.int64)
            known[shape] = Known(constants[shape].dtype, constants[shape].shape, constants[shape])
        nodes.append(Node(MEANS[node.op], node.inputs, (pooled,), {}, node.name))
        if pooled != y:
            nodes.append(Node("Reshape", (pooled, shape), (y,), {"allowzero": 1}))
    return Graph(nodes, graph.inputs, (), constants).needed(graph.outputs)
