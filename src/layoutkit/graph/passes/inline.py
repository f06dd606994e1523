"""Branches of an `If` whose condition is constant become part of the graph around it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import Graph, Node, fresh
from ..operators import Known
from ..operators.control import branch_of


def inlined(graph: Graph, known: Mapping[str, Known]) -> Graph:
    """The graph without such `If`s; the same object if it has none."""
    if not any(_is_constant_if(node, known) for node in graph.nodes):
        return graph
    nodes: list[Node] = []
    constants = dict(graph.constants)
    names = {*graph.inputs, *constants, *(name for node in graph.nodes for name in node.outputs)}
    for node in graph.nodes:
        if _is_constant_if(node, known):
            nodes += _nodes_of_branch(node, known, constants, names)
        else:
            nodes.append(node)
    return Graph(nodes, graph.inputs, graph.outputs, constants)


def _is_constant_if(node: Node, known: Mapping[str, Known]) -> bool:
    return node.op == "If" and known[node.inputs[0]].value is not None


def _nodes_of_branch(
    node: Node, known: Mapping[str, Known], constants: dict[str, np.ndarray], used_names: set[str]
) -> list[Node]:
    """The nodes of the branch that its condition selects, with tensors renamed to those of the graph around it."""
    body = branch_of(node, [known[name] for name in node.inputs])
    names = {"": "", **dict(zip(node.attributes["captured"], node.inputs[1:]))}
    computed = [name for inside in body.nodes for name in inside.outputs if name]
    results = {inner: outer for inner, outer in zip(body.outputs, node.outputs) if inner in computed and outer}
    for inner in (*body.constants, *computed):
        names[inner] = results.get(inner) or fresh(f"{node.outputs[0]}.{inner}", used_names)
        used_names.add(names[inner])
    constants.update((names[name], value) for name, value in body.constants.items())
    nodes = [inside.with_(inputs=tuple(names[name] for name in inside.inputs),
                          outputs=tuple(names[name] for name in inside.outputs)) for inside in body.nodes]  # fmt: skip
    for inner, outer in zip(body.outputs, node.outputs):
        if outer and names[inner] != outer:
            nodes.append(Node("Identity", (names[inner],), (outer,)))
    return nodes
