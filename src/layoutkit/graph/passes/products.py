"""What stands around products of matrices becomes part of them: scales, biases, and all that only moves elements; and
attention, ``softmax(scale * q @ k.T + mask) @ v``, becomes one operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..ir import Graph, Node
from ..operators import Known
from ..operators.kernels import F32, is_matmul
from ..operators.views import RESHAPES, View, contiguous, through

Knowledge = dict[str, Known]
PRODUCTS = "Gemm", "MatMul"


class Around:
    """A graph, and who makes and reads its tensors."""

    def __init__(self, graph: Graph, known: Knowledge) -> None:
        self.known, self.ends = known, graph.ends
        self.users, self.makers = graph.users(), graph.makers()

    def is_step(self, name: str) -> bool:
        """Whether a tensor has one reader, is no output of the graph, and is not stored in a narrow type."""
        return len(self.users.get(name, ())) == 1 and name not in self.ends and self.known[name].stored is None

    def scaled(self, node: Node) -> tuple[str, float] | None:
        """The tensor that a node multiplies by a number, and the number."""
        if node.op not in ("Mul", "Div") or len(node.inputs) != 2:
            return None
        for x, other in (node.inputs, node.inputs[::-1])[: 1 if node.op == "Div" else 2]:
            value = self.known[other].value
            if value is None or value.size != 1 or self.known[x].value is not None:
                continue
            if self.known[x].shape != self.known[node.outputs[0]].shape or self.known[x].dtype != F32:
                continue
            number = float(value.reshape(()))
            if node.op == "Div":
                number = 1 / number if number else np.inf
            return (x, number) if np.isfinite(number) else None
        return None

    def may_be_read_by_strides(self, name: str) -> bool:
        """Whether a tensor is contiguous in memory: neither part of a larger array nor a constant."""
        maker = self.makers.get(name)
        joined = any(user.op == "Concat" for user in self.users.get(name, ()))
        apart = maker is not None and maker.op == "Split"
        return not joined and not apart and self.known[name].value is None and self.known[name].dtype == F32


class Source(NamedTuple):
    """The tensor that an operand is a view of, but for a factor."""

    name: str
    view: View
    scale: float = 1.0


def source_of(name: str, around: Around) -> Source:
    """The tensor farthest up that an operand is a view of."""
    known = around.known
    best, at, scale = Source(name, contiguous(known[name].shape)), name, 1.0
    path: list[tuple[Node, str]] = []
    while at in around.makers:
        node = around.makers[at]
        scaling = around.scaled(node)
        if scaling is not None:
            at, scale = scaling[0], scale * scaling[1]
        elif node.inputs and node.inputs[0] and known[at].dtype == F32:
            path.append((node, at))
            at = node.inputs[0]
        else:
            break
        view: View | None = contiguous(known[at].shape)
        for step, result in reversed(path):
            view = None if view is None else through(step, result, view, known)
        if view is None or view.shape != known[name].shape:
            break
        if around.may_be_read_by_strides(at):
            best = Source(at, view, scale)
    return best


def result_of(name: str, around: Around) -> Source:
    """The tensor farthest down that a result is written to by strides."""
    known, path = around.known, []
    best, at = Source(name, contiguous(known[name].shape)), name
    while around.is_step(at):
        node = around.users[at][0]
        if node.op not in (*RESHAPES, "Transpose") or node.inputs[0] != at:
            break
        path.append(node)
        at = node.outputs[0]
        view: View | None = contiguous(known[at].shape)
        for step in reversed(path):
            if view is not None and step.op == "Transpose":
                order = step.attributes.get("perm") or range(len(view.shape))[::-1]
                view = view.transposed([list(order).index(i) for i in range(len(order))])
            elif view is not None:
                view = view.reshaped(known[step.inputs[0]].shape)
        if view is None:
            break
        if around.may_be_read_by_strides(at) and known[at].stored is None:
            best = Source(at, view)
    return best


def attention(graph: Graph, known: Knowledge) -> Graph:
    """Softmax between two products becomes one operator, whatever transposes and scales its operands."""
    around = Around(graph, known)
    return _replaced(graph, lambda node: (_attention(node, around) if node.op == "MatMul" else None) or node)


def _attention(node: Node, around: Around) -> Node | None:
    known, makers = around.known, around.makers
    softmax = makers.get(node.inputs[0])
    if len(node.inputs) > 2 or softmax is None or softmax.op != "Softmax" or not around.is_step(softmax.outputs[0]):
        return None
    shape = known[softmax.outputs[0]].shape
    if len(shape) < 2 or softmax.attributes.get("axis", -1) % len(shape) != len(shape) - 1:
        return None
    found = _scores(softmax.inputs[0], around)
    if found is None:
        return None
    product, scale, mask = found
    q, k, v = (source_of(name, around) for name in (*product.inputs[:2], node.inputs[1]))
    if any(known[x.name].value is not None or known[x.name].dtype != F32 or len(x.view.shape) < 2 for x in (q, k, v)):
        return None
    if v.scale != 1:
        return None
    rank = len(k.view.shape)
    k = k._replace(view=k.view.transposed([*range(rank - 2), rank - 1, rank - 2]))
    y = result_of(node.outputs[0], around)
    attributes = {"views": (q.view, k.view, v.view), "into": y.view, "scale": scale * q.scale * k.scale}
    inputs = (q.name, k.name, v.name, *((mask,) if mask else ()))
    return Node("TiledAttention", inputs, (y.name,), attributes, node.name)


def _scores(name: str, around: Around) -> tuple[Node, float, str] | None:
    """The product that scores are of, their scale, and their mask or ""."""
    known, mask, scale = around.known, "", 1.0
    while around.is_step(name) and name in around.makers:
        node = around.makers[name]
        scaling = around.scaled(node)
        if node.op == "MatMul" and len(node.inputs) == 2 and is_matmul(node, known) and "views" not in node.attributes:
            return node, scale * node.attributes.get("alpha", 1.0), mask
        if scaling is not None:
            name, scale = scaling[0], scale * scaling[1]
        elif node.op == "Add" and len(node.inputs) == 2 and not mask and scale == 1:
            found = [x for x in node.inputs if known[x].shape == known[name].shape and known[x].value is None]
            makers = [x for x in found if (m := around.makers.get(x)) is not None and m.op in ("MatMul", "Mul", "Div")]
            if not makers:
                return None
            mask = next((x for x in node.inputs if x != makers[0]), "")
            if not mask or known[mask].dtype != F32 or known[mask].stored is not None:
                return None
            if known[mask].value is None and not around.may_be_read_by_strides(mask):
                return None
            name = makers[0]
        else:
            return None
    return None


def views_into_products(graph: Graph, known: Knowledge) -> Graph:
    """Scales of products and of their operands, and what only moves elements before and after them."""
    around = Around(graph, known)

    def replaced(node: Node) -> Node:
        takes = node.op in PRODUCTS and is_matmul(node, known) and not {"views", "integers"} & set(node.attributes)
        return _with_views(node, around) if takes else node

    return _replaced(graph, replaced)


def _with_views(node: Node, around: Around) -> Node:
    known, attributes, inputs = around.known, dict(node.attributes), list(node.inputs)
    if any(len(known[name].shape) < 2 for name in (*inputs[:2], node.outputs[0])):
        return node
    views: list[View | None] = [None, None]
    for i, name in enumerate(inputs[:2]):
        if known[name].value is None:
            found = source_of(name, around)
            moved = found.view != contiguous(known[found.name].shape)
            if found.name != name and (moved or found.view.shape == known[found.name].shape):
                inputs[i], views[i] = found.name, found.view if moved else None
                attributes["alpha"] = attributes.get("alpha", 1.0) * found.scale
    if any(views):
        attributes["views"] = tuple(views)
    if node.op == "MatMul" and known[node.inputs[1]].value is None:
        y = result_of(node.outputs[0], around)
        if y.name != node.outputs[0]:
            attributes["into"] = y.view
            return node.with_(inputs=tuple(inputs), outputs=(y.name,), attributes=attributes)
    return node.with_(inputs=tuple(inputs), attributes=attributes)


def scales_and_biases_into_products(graph: Graph, known: Knowledge) -> Graph:
    """A number that only multiplies a product, and constants for its columns that are added to it."""
    around = Around(graph, known)
    makers: dict[str, Node] = {}
    for node in graph.nodes:
        scaling = around.scaled(node)
        x = scaling[0] if scaling is not None else _biased(node, known)
        before = makers.get(x) if x else None
        plain = before is not None and before.op in PRODUCTS and not {"activation", "integers"} & set(before.attributes)
        if before is not None and plain and len(before.inputs) == 2 and around.is_step(x) and is_matmul(before, known):
            del makers[x]
            if scaling is not None:
                alpha = before.attributes.get("alpha", 1.0) * scaling[1]
                node = before.with_(outputs=node.outputs, attributes={**before.attributes, "alpha": alpha})
            else:
                bias = next(name for name in node.inputs if name != x)
                attributes = {**before.attributes, "beta": 1.0}
                node = before.with_(inputs=(*before.inputs, bias), outputs=node.outputs, attributes=attributes)
        makers[node.outputs[0]] = node
    return _rebuilt(graph, list(makers.values()))


def _biased(node: Node, known: Knowledge) -> str:
    """The tensor that a node adds a constant for each column to, or ""."""
    if node.op != "Add" or len(node.inputs) != 2 or not known[node.outputs[0]].shape:
        return ""
    y = known[node.outputs[0]]
    for x, other in (node.inputs, node.inputs[::-1]):
        c = known[other]
        if c.value is not None and c.dtype == F32 and known[x].shape == y.shape and known[x].value is None:
            if c.value.size in (1, y.shape[-1]) and (c.value.size == 1 or c.shape[-1] == y.shape[-1]):
                return x
    return ""


def _replaced(graph: Graph, replacement: Callable[[Node], Node]) -> Graph:
    """With other nodes; one may make what the last of several nodes made, each of which read the one before only."""
    made: dict[str, Node] = {}
    gone: set[str] = set()
    for node in graph.nodes:
        if node.outputs[0] in made or not gone.isdisjoint(node.inputs):
            gone.update(name for name in node.outputs if name not in made)
            continue
        new = replacement(node)
        made[new.outputs[0]] = new
        gone.update(name for name in node.outputs if name not in new.outputs)
    return _rebuilt(graph, list(made.values()))


def _rebuilt(graph: Graph, nodes: list[Node]) -> Graph:
    """A graph of those of these nodes that its outputs need: others may read what is not made any more."""
    makers = {name: node for node in nodes for name in node.outputs if name}
    todo, needed = [makers[name] for name in graph.outputs if name in makers], set[int]()
    while todo:
        node = todo.pop()
        if id(node) not in needed:
            needed.add(id(node))
            todo += [makers[name] for name in node.present_inputs() if name in makers]
    left = [node for node in nodes if id(node) in needed]
    return Graph(left, graph.inputs, (), graph.constants).needed(graph.outputs)
