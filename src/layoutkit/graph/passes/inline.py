"""Branches whose condition is known become part of the graph around them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import Graph, Node, fresh
from ..operators import Known
from ..operators.control import branch_of


def inlined(graph: Graph, known: Mapping[str, Known]) -> Graph:
    """The graph without those `If`s; the same object if it has none."""
    if not any(_is_known(node, known) for node in graph.nodes):
        return graph
    nodes: list[Node] = []
    constants = dict(graph.constants)
    taken = {*graph.inputs, *constants, *(name for node in graph.nodes for name in node.outputs)}
    for node in graph.nodes:
        if _is_known(node, known):
            nodes += _opened(node, known, constants, taken)
        else:
            nodes.append(node)
    return Graph(nodes, graph.inputs, graph.outputs, constants)


def _is_known(node: Node, known: Mapping[str, Known]) -> bool:
    return node.op == "If" and known[node.inputs[0]].value is not None


def _opened(node: Node, known: Mapping[str, Known], constants: dict[str, np.ndarray], taken: set[str]) -> list[Node]:
    """The nodes of the branch that is taken, their tensors renamed."""
    body = branch_of(node, [known[name] for name in node.inputs])
    names = {"": "", **dict(zip(node.attributes["captured"], node.inputs[1:]))}
    made = [name for each in body.nodes for name in each.outputs if name]
    results = {inner: outer for inner, outer in zip(body.outputs, node.outputs) if inner in made and outer}
    for inner in (*body.constants, *made):
        names[inner] = results.get(inner) or fresh(f"{node.outputs[0]}.{inner}", taken)
        taken.add(names[inner])
    constants.update((names[name], value) for name, value in body.constants.items())
    nodes = [each.with_(inputs=tuple(names[name] for name in each.inputs),
                        outputs=tuple(names[name] for name in each.outputs)) for each in body.nodes]  # fmt: skip
    for inner, outer in zip(body.outputs, node.outputs):
        if outer and names[inner] != outer:
            nodes.append(Node("Identity", (names[inner],), (outer,)))
    return nodes
