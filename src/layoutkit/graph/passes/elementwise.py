"""Chains of elementwise operators become one operator, which goes through memory once."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import Graph, Node
from ..operators import Known
from ..operators.kernels.elementwise import MOST_INPUTS, MOST_STEPS, chain_of, is_elementwise, running_input, steps_of
from .fold import is_step, rebuilt


def chains(graph: Graph, known: dict[str, Known]) -> Graph:
    """An elementwise operator that is the only reader of another, whose result is like its own, follows it in an
    `Elementwise`: the other operands are its further inputs."""
    users = graph.users()
    makers: dict[str, Node] = {}
    for node in graph.nodes:
        if is_elementwise(node, known):
            for at, name in enumerate(node.inputs):
                before = makers.get(name)
                if before is not None and is_step(name, users, graph, known) and _follow(before, node, at, known):
                    makers.pop(name)
                    node = _joined(before, node, at, known)
                    break
        makers[node.outputs[0]] = node
    return rebuilt(graph, list(makers.values()))


def _follow(before: Node, node: Node, at: int, known: Mapping[str, Known]) -> bool:
    """Whether a node can be done to the result of another, its input `at`, in the same step."""
    if known[before.outputs[0]].shape != known[node.outputs[0]].shape or not is_elementwise(before, known):
        return False
    done, then = chain_of(before, known), steps_of(node, known, at)
    if done is None or then is None or len(before.inputs) + len(node.inputs) - 1 > MOST_INPUTS:
        return False
    return len(done.steps) + len(then) <= MOST_STEPS


def _joined(before: Node, node: Node, at: int, known: Mapping[str, Known]) -> Node:
    inputs, links = before.inputs, before.attributes.get("links")
    if links is None:
        first = running_input(before, known)
        assert first is not None
        links = (_link(before, first),)
        inputs = (inputs[first], *_others(before, first))
    attributes = {"links": (*links, _link(node, at))}
    return Node("Elementwise", (*inputs, *_others(node, at)), node.outputs, attributes, node.name)


def _link(node: Node, at: int) -> tuple:
    return node.op, node.attributes, at, len(node.inputs)


def _others(node: Node, at: int) -> list[str]:
    return [name for i, name in enumerate(node.inputs) if i != at]
