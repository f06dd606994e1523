"""Chains of elementwise operators become one operator, which goes through memory once."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import Graph, Node
from ..operators import Known
from ..operators.kernels.elementwise import MAX_INPUTS, MAX_STEPS, chain_of, is_elementwise, running_input, steps_of
from .rewriting import Rewriting


def chains(graph: Graph, known: dict[str, Known]) -> Graph:
    """An elementwise operator that is the only reader of another, whose result is like its own, follows it in an
    `Elementwise`: the other operands are its further inputs."""
    r = Rewriting(graph, known)
    nodes: dict[str, Node] = {}  # by first output
    for node in graph.nodes:
        if is_elementwise(node, known):
            for i, name in enumerate(node.inputs):
                before = nodes.get(name)
                if before is not None and r.is_internal(name) and _can_follow(before, node, i, known):
                    del nodes[name]
                    node = _joined(before, node, i, known)
                    break
        nodes[node.outputs[0]] = node
    return r.graph(list(nodes.values()))


def _can_follow(before: Node, node: Node, i: int, known: Mapping[str, Known]) -> bool:
    """Whether a node can be applied to the result of another, its input `i`, in the same step."""
    if known[before.outputs[0]].shape != known[node.outputs[0]].shape or not is_elementwise(before, known):
        return False
    chain, steps = chain_of(before, known), steps_of(node, known, i)
    if chain is None or steps is None or len(before.inputs) + len(node.inputs) - 1 > MAX_INPUTS:
        return False
    return len(chain.steps) + len(steps) <= MAX_STEPS


def _joined(before: Node, node: Node, i: int, known: Mapping[str, Known]) -> Node:
    """An `Elementwise` of both nodes."""
    inputs, links = before.inputs, before.attributes.get("links")
    if links is None:
        first = running_input(before, known)
        assert first is not None
        links = (_link(before, first),)
        inputs = (inputs[first], *_inputs_but(before, first))
    attributes = {"links": (*links, _link(node, i))}
    return Node("Elementwise", (*inputs, *_inputs_but(node, i)), node.outputs, attributes, node.name)


def _link(node: Node, i: int) -> tuple:
    """A node of a chain, as `links` of `operators/kernels/elementwise.py` reads it; input `i` is the running value."""
    return node.op, node.attributes, i, len(node.inputs)


def _inputs_but(node: Node, i: int) -> list[str]:
    return [name for k, name in enumerate(node.inputs) if k != i]
