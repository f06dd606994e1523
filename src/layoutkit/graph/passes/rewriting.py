"""What passes share: a graph as they read it, the tensors that they add, and the graph that they return."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir import Graph, Node, fresh
from ..operators import Known

Knowledge = dict[str, Known]


class Rewriting:
    """A graph that a pass rewrites.

    Attributes
    ----------
    known : dict
        What is known of each tensor; a pass adds the tensors that it makes.
    makers, users : dict
        By tensor, the node that computes it, and those that read it.
    ends : set
        The outputs of the graph.
    constants : dict
        All constants, with those that the pass adds.
    """

    def __init__(self, graph: Graph, known: Knowledge) -> None:
        self._graph, self.known, self.ends = graph, known, graph.ends
        self.makers, self.users = graph.makers(), graph.users()
        self.constants: dict[str, np.ndarray] = dict(graph.constants)

    def maker(self, name: str, *ops: str) -> Node | None:
        """The node that computes a tensor, if it is one of these operators."""
        node = self.makers.get(name)
        return node if node is not None and node.op in ops else None

    def is_internal(self, name: str) -> bool:
        """Whether a tensor has one reader, is no output of the graph, and is not stored in a narrow type: then the node
        that computes it and its reader can become one."""
        return len(self.users.get(name, ())) == 1 and name not in self.ends and self.known[name].stored is None

    def number(self, name: str) -> float | None:
        """The value of a constant of one element."""
        value = self.known[name].value if name else None
        return float(value.reshape(())) if value is not None and value.size == 1 else None

    def constant(self, owner: str, role: str, value: np.ndarray) -> str:
        """Add a constant, named after the tensor whose node reads it, and what it is to that node."""
        name = fresh(f"{owner}.{role}", self.known)
        self.constants[name], self.known[name] = value, Known(value.dtype, value.shape, value)
        return name

    def tensor(self, owner: str, role: str, dtype: np.dtype, shape: tuple[int, ...]) -> str:
        """Add a tensor that a new node computes; named as `constant` names."""
        name = fresh(f"{owner}.{role}", self.known)
        self.known[name] = Known(dtype, shape)
        return name

    def is_contiguous(self, name: str) -> bool:
        """Whether a float32 tensor is contiguous in memory: neither part of a larger array nor a constant."""
        joined = any(user.op == "Concat" for user in self.users.get(name, ()))
        split = self.maker(name, "Split") is not None
        return not joined and not split and self.known[name].value is None and self.known[name].dtype == np.float32

    def graph(self, nodes: list[Node]) -> Graph:
        """A graph of those of these nodes that its outputs need; the others may read tensors that no node computes."""
        outputs = self._graph.outputs
        makers = {name: node for node in nodes for name in node.outputs if name}
        todo, needed, read = [makers[name] for name in outputs if name in makers], set[int](), set(outputs)
        while todo:
            node = todo.pop()
            if id(node) not in needed:
                needed.add(id(node))
                read.update(node.inputs)
                todo += [makers[name] for name in node.inputs if name in makers]
        constants = {name: value for name, value in self.constants.items() if name in read}
        return Graph([node for node in nodes if id(node) in needed], self._graph.inputs, outputs, constants)

    def replaced(self, replacement: Callable[[Node], Node]) -> Graph:
        """The graph with each node replaced. A replacement may compute the result of a later node, if each node up to
        that one is the only reader of the one before: these nodes are left out."""
        nodes: dict[str, Node] = {}  # by first output
        dropped: set[str] = set()  # tensors that are not computed any more
        for node in self._graph.nodes:
            if node.outputs[0] in nodes or not dropped.isdisjoint(node.inputs):
                dropped.update(name for name in node.outputs if name not in nodes)
                continue
            new = replacement(node)
            nodes[new.outputs[0]] = new
            self.makers.update({name: new for name in new.outputs if name not in node.outputs})
            dropped.update(name for name in node.outputs if name not in new.outputs)
        return self.graph(list(nodes.values()))
