"""Scales, biases, and views before and after products of matrices become part of them; attention,
``softmax(scale * q @ k.T + mask) @ v``, becomes one operator."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..ir import Graph, Node
from ..operators.kernels import F32, is_matmul
from ..operators.views import RESHAPES, View, contiguous, through
from .rewriting import Knowledge, Rewriting

PRODUCTS = "Gemm", "MatMul"


def scaled_tensor(r: Rewriting, node: Node) -> tuple[str, float] | None:
    """The tensor that a node multiplies by a number, and the number."""
    if node.op not in ("Mul", "Div") or len(node.inputs) != 2:
        return None
    y = r.known[node.outputs[0]]
    for x, other in (node.inputs, node.inputs[::-1])[: 1 if node.op == "Div" else 2]:
        number = r.number(other)
        if number is None or r.known[x].value is not None or r.known[x].shape != y.shape or r.known[x].dtype != F32:
            continue
        if node.op == "Div":
            number = 1 / number if number else np.inf
        return (x, number) if np.isfinite(number) else None
    return None


class Source(NamedTuple):
    """A tensor, the view of it that an operand or result is, and the number that it is multiplied by."""

    name: str
    view: View
    scale: float = 1.0


def source_of(name: str, r: Rewriting) -> Source:
    """The tensor farthest up that an operand is a view of."""
    known = r.known
    best, source, scale = Source(name, contiguous(known[name].shape)), name, 1.0
    path: list[tuple[Node, str]] = []  # from `name` up, nodes that move elements, and their results
    while source in r.makers:
        node = r.makers[source]
        stored = known[source].stored
        if stored is not None and (not node.input(0) or known[node.input(0)].stored != stored):
            break  # the node rounds
        scaling = scaled_tensor(r, node)
        if scaling is not None:
            source, scale = scaling[0], scale * scaling[1]
        elif node.inputs and node.inputs[0] and known[source].dtype == F32:
            path.append((node, source))
            source = node.inputs[0]
        else:
            break
        view: View | None = contiguous(known[source].shape)
        for step, result in reversed(path):
            view = None if view is None else through(step, result, view, known)
        if view is None or view.shape != known[name].shape:
            break
        if r.is_contiguous(source):
            best = Source(source, view, scale)
    return best


def result_of(name: str, r: Rewriting) -> Source:
    """The tensor farthest down that a result is written to by strides."""
    known, path = r.known, []
    best, result = Source(name, contiguous(known[name].shape)), name
    while len(r.users.get(result, ())) == 1 and result not in r.ends:
        node = r.users[result][0]
        if node.op not in (*RESHAPES, "Transpose") or node.inputs[0] != result:
            break
        path.append(node)
        result = node.outputs[0]
        if known[result].stored != known[name].stored:
            break  # the node rounds, or what it moves is rounded
        view: View | None = contiguous(known[result].shape)
        for step in reversed(path):
            if view is not None and step.op == "Transpose":
                order = step.attributes.get("perm") or range(len(view.shape))[::-1]
                view = view.transposed([list(order).index(i) for i in range(len(order))])
            elif view is not None:
                view = view.reshaped(known[step.inputs[0]].shape)
        if view is None:
            break
        if r.is_contiguous(result):
            best = Source(result, view)
    return best


def attention(graph: Graph, known: Knowledge) -> Graph:
    """Softmax between two products becomes one operator, whatever transposes and scales its operands."""
    r = Rewriting(graph, known)
    return r.replaced(lambda node: (_attention(node, r) if node.op == "MatMul" else None) or node)


def _attention(node: Node, r: Rewriting) -> Node | None:
    known, softmax = r.known, r.maker(node.inputs[0], "Softmax")
    if len(node.inputs) > 2 or softmax is None or not r.is_internal(softmax.outputs[0]):
        return None
    shape = known[softmax.outputs[0]].shape
    if len(shape) < 2 or softmax.attributes.get("axis", -1) % len(shape) != len(shape) - 1:
        return None
    scores = _scores(softmax.inputs[0], r)
    if scores is None:
        return None
    product, scale, mask = scores
    q, k, v = (source_of(name, r) for name in (*product.inputs[:2], node.inputs[1]))
    if any(known[x.name].value is not None or known[x.name].dtype != F32 or len(x.view.shape) < 2 for x in (q, k, v)):
        return None
    if v.scale != 1:
        return None
    rank = len(k.view.shape)
    k = k._replace(view=k.view.transposed([*range(rank - 2), rank - 1, rank - 2]))
    y = result_of(node.outputs[0], r)
    attributes = {"views": (q.view, k.view, v.view), "into": y.view, "scale": scale * q.scale * k.scale}
    inputs = (q.name, k.name, v.name, *((mask,) if mask else ()))
    return Node("TiledAttention", inputs, (y.name,), attributes, node.name)


def _scores(name: str, r: Rewriting) -> tuple[Node, float, str] | None:
    """The product that the scores of attention come from, their scale, and their mask or ""."""
    known, mask, scale = r.known, "", 1.0
    while r.is_internal(name) and name in r.makers:
        node = r.makers[name]
        scaling = scaled_tensor(r, node)
        if node.op == "MatMul" and len(node.inputs) == 2 and is_matmul(node, known) and "views" not in node.attributes:
            return node, scale * node.attributes.get("alpha", 1.0), mask
        if scaling is not None:
            name, scale = scaling[0], scale * scaling[1]
        elif node.op == "Add" and len(node.inputs) == 2 and not mask and scale == 1:
            full = [x for x in node.inputs if known[x].shape == known[name].shape and known[x].value is None]
            unmasked = next((x for x in full if r.maker(x, "MatMul", "Mul", "Div") is not None), None)
            if unmasked is None:
                return None
            mask = next((x for x in node.inputs if x != unmasked), "")
            if not mask or known[mask].dtype != F32 or known[mask].stored is not None:
                return None
            if known[mask].value is None and not r.is_contiguous(mask):
                return None
            name = unmasked
        else:
            return None
    return None


def views_into_products(graph: Graph, known: Knowledge) -> Graph:
    """Products read and write views of tensors, instead of what Reshape, Transpose and the like make of these; numbers
    that operands are multiplied by become the product's."""
    r = Rewriting(graph, known)

    def with_views(node: Node) -> Node:
        takes_views = (
            node.op in PRODUCTS and is_matmul(node, known) and not {"views", "integers"} & set(node.attributes)
        )
        return _with_views(node, r) if takes_views else node

    return r.replaced(with_views)


def _with_views(node: Node, r: Rewriting) -> Node:
    known, attributes, inputs = r.known, dict(node.attributes), list(node.inputs)
    if any(len(known[name].shape) < 2 for name in (*inputs[:2], node.outputs[0])):
        return node
    views: list[View | None] = [None, None]
    for i, name in enumerate(inputs[:2]):
        if known[name].value is None:
            source = source_of(name, r)
            moved = source.view != contiguous(known[source.name].shape)
            if source.name != name and (moved or source.view.shape == known[source.name].shape):
                inputs[i], views[i] = source.name, source.view if moved else None
                attributes["alpha"] = attributes.get("alpha", 1.0) * source.scale
    if any(views):
        attributes["views"] = tuple(views)
    if node.op == "MatMul" and known[node.inputs[1]].value is None:
        y = result_of(node.outputs[0], r)
        if y.name != node.outputs[0]:
            attributes["into"] = y.view
            return node.with_(inputs=tuple(inputs), outputs=(y.name,), attributes=attributes)
    return node.with_(inputs=tuple(inputs), attributes=attributes)


def scales_and_biases_into_products(graph: Graph, known: Knowledge) -> Graph:
    """Products take the number that their result is multiplied by, and constants that are added to its columns."""
    r = Rewriting(graph, known)
    nodes: dict[str, Node] = {}  # by first output
    for node in graph.nodes:
        scaling = scaled_tensor(r, node)
        x = scaling[0] if scaling is not None else _biased(node, known)
        before = nodes.get(x) if x else None
        plain = before is not None and before.op in PRODUCTS and not {"activation", "integers"} & set(before.attributes)
        if before is not None and plain and len(before.inputs) == 2 and r.is_internal(x) and is_matmul(before, known):
            del nodes[x]
            if scaling is not None:
                alpha = before.attributes.get("alpha", 1.0) * scaling[1]
                node = before.with_(outputs=node.outputs, attributes={**before.attributes, "alpha": alpha})
            else:
                bias = next(name for name in node.inputs if name != x)
                attributes = {**before.attributes, "beta": 1.0}
                node = before.with_(inputs=(*before.inputs, bias), outputs=node.outputs, attributes=attributes)
        nodes[node.outputs[0]] = node
    return r.graph(list(nodes.values()))


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
