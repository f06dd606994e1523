"""ONNX's Attention becomes two products and a Softmax, which `products.attention` makes one operator of, together with
what moves its operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir import Graph, Node
from ..operators import Known
from ..operators.attention import Sizes, position_bias, score_scale, sizes_of
from .rewriting import Knowledge, Rewriting


def attentions_as_products(graph: Graph, known: Knowledge) -> Graph:
    """Where nothing but Y is read, scores are not capped, and which keys a query attends to is known and never none."""
    r, nodes = Rewriting(graph, known), []
    for node in graph.nodes:
        nodes += _Attention(node, r).nodes() if node.op == "Attention" and _suits(node, known) else [node]
    return r.graph(nodes)


def _sizes(node: Node, known: Mapping[str, Known]) -> Sizes:
    q, k, v = (known[name].shape for name in node.inputs[:3])
    return sizes_of(q, k, v, None, node.attributes)


def _suits(node: Node, known: Mapping[str, Known]) -> bool:
    computed = all(known[name].dtype == np.float32 and known[name].value is None for name in node.inputs[:3])
    if not computed or any(node.inputs[3:]) or any(node.outputs[1:]) or node.attributes.get("softcap", 0.0) > 0:
        return False
    sizes = _sizes(node, known)
    bias = position_bias(sizes, node.attributes)
    return sizes.keys > 0 and sizes.shared > 0 and (bias is None or not (bias == -np.inf).all(-1).any())


class _Attention:
    """The nodes that take an Attention's place: [batch, heads of keys, heads that share them, step, element]."""

    def __init__(self, node: Node, r: Rewriting) -> None:
        self.node, self.r, self.sizes = node, r, _sizes(node, r.known)
        self.added: list[Node] = []

    def nodes(self) -> list[Node]:
        """All, the last one computes what the node did."""
        s = self.sizes
        q = self._heads(self.node.inputs[0], s.shared, s.queries, s.depth)
        k = self._transposed(self._heads(self.node.inputs[1], 1, s.keys, s.depth), (0, 1, 2, 4, 3))
        v = self._heads(self.node.inputs[2], 1, s.keys, s.width)
        shape = (s.batch, s.kv_heads, s.shared, s.queries, s.keys)
        scores = self._new("MatMul", (q, k), shape)
        scores = self._new("Mul", (scores, self._constant(np.float32(score_scale(s, self.node.attributes)))), shape)
        bias = position_bias(s, self.node.attributes)
        if bias is not None:
            scores = self._new("Add", (scores, self._constant(bias)), shape)
        weights = self._new("Softmax", (scores,), shape, axis=-1)
        y = self._new("MatMul", (weights, v), (*shape[:4], s.width), self.node.name)
        if s.packed:
            y = self._transposed(y, (0, 3, 1, 2, 4))
        self.added.append(self._reshape(y, self.node.outputs[0]))
        return self.added

    def _heads(self, name: str, shared: int, steps: int, size: int) -> str:
        """An operand by heads."""
        s = self.sizes
        heads = (s.kv_heads, shared)
        shape = (s.batch, steps, *heads, size) if s.packed else (s.batch, *heads, steps, size)
        split = self.r.tensor(self.node.outputs[0], "heads", np.dtype(np.float32), shape)
        self.added.append(self._reshape(name, split))
        return self._transposed(split, (0, 2, 3, 1, 4)) if s.packed else split

    def _reshape(self, name: str, result: str) -> Node:
        shape = self._constant(np.array(self.r.known[result].shape, np.int64))
        return Node("Reshape", (name, shape), (result,), {"allowzero": 1})

    def _transposed(self, name: str, perm: Sequence[int]) -> str:
        shape = self.r.known[name].shape
        return self._new("Transpose", (name,), tuple(shape[i] for i in perm), perm=list(perm))

    def _new(self, op: str, inputs: tuple[str, ...], shape: tuple[int, ...], name: str = "", **attributes) -> str:
        result = self.r.tensor(self.node.outputs[0], op.lower(), np.dtype(np.float32), shape)
        self.added.append(Node(op, inputs, (result,), attributes, name))
        return result

    def _constant(self, value: np.ndarray | np.generic) -> str:
        return self.r.constant(self.node.outputs[0], "constant", np.asarray(value))
