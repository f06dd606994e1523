"""Chains of elementwise operators become one operator, which goes through memory once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import Graph, Node
from ..operators import Known, StoredType
from ..operators.kernels.base import F32
from ..operators.kernels.elementwise import (
    BOOL,
    MAX_AXES,
    MAX_INPUTS,
    MAX_STEPS,
    chain_of,
    is_elementwise,
    running_input,
    steps_of,
)
from .rewriting import Rewriting

MOST_OF_ROUNDING = 4  # steps, between two operators


def choices_as_sums(graph: Graph, known: dict[str, Known]) -> Graph:
    """Where(c, x, y) of two tensors as Where(c, x, -0) + Where(c, -0, y), which kernels run: nothing changes by adding
    -0."""
    r = Rewriting(graph, known)
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op != "Where" or not _chooses_between_tensors(node, known):
            nodes.append(node)
            continue
        (condition, *branches), (y,) = node.inputs, node.outputs
        zero = r.constant(y, "zero", np.float32(-0.0).reshape(1))
        parts = []
        for i, x in enumerate(branches):
            shape = np.broadcast_shapes(known[condition].shape, known[x].shape)
            parts.append(r.tensor(y, f"branch.{i}", known[x].dtype, shape))
            inputs = (condition, x, zero) if i == 0 else (condition, zero, x)
            nodes.append(Node("Where", inputs, (parts[i],), {}, f"{node.name} branch {i}"))
        nodes.append(Node("Add", tuple(parts), (y,), {}, node.name))
    return r.graph(nodes)


def _chooses_between_tensors(node: Node, known: Mapping[str, Known]) -> bool:
    """Whether both branches are float32 tensors that are computed, and the condition is as well."""
    tensors = [known[name] for name in node.inputs]
    if any(x.value is not None or x.stored is not None for x in (*tensors, known[node.outputs[0]])):
        return False
    return [x.dtype for x in tensors] == [BOOL, F32, F32] and len(known[node.outputs[0]].shape) <= MAX_AXES


def chains(graph: Graph, known: dict[str, Known]) -> Graph:
    """An elementwise operator that is the only reader of another, whose result is like its own, follows it in an
    `Elementwise`: the other operands are its further inputs."""
    r = Rewriting(graph, known)
    nodes: dict[str, Node] = {}  # by first output
    for node in graph.nodes:
        if is_elementwise(node, known):
            for i, name in enumerate(node.inputs):
                before = nodes.get(name)
                rounded = known[name].stored if name else None
                internal = r.is_internal(name) if rounded is None else _is_rounded_between(name, r)
                if before is not None and internal and _can_follow(before, node, i, known):
                    del nodes[name]
                    node = _joined(before, node, i, known, rounded)
                    break
        nodes[node.outputs[0]] = node
    return r.graph(list(nodes.values()))


def _is_rounded_between(name: str, r: Rewriting) -> bool:
    """Whether a tensor is of integers and has one reader."""
    stored = r.known[name].stored
    return stored is not None and stored.integers and len(r.users.get(name, ())) == 1 and name not in r.ends


def _can_follow(before: Node, node: Node, i: int, known: Mapping[str, Known]) -> bool:
    """Whether a node can be applied to the result of another, its input `i`, in the same step."""
    if known[before.outputs[0]].shape != known[node.outputs[0]].shape or not is_elementwise(before, known):
        return False
    chain, steps = chain_of(before, known), steps_of(node, known, i)
    if chain is None or steps is None or len(before.inputs) + len(node.inputs) - 1 > MAX_INPUTS:
        return False
    more = len(steps) + MOST_OF_ROUNDING * (known[before.outputs[0]].stored is not None)
    return len(chain.steps) + more <= MAX_STEPS


def _joined(before: Node, node: Node, i: int, known: Mapping[str, Known], rounded: StoredType | None) -> Node:
    """An `Elementwise` of both nodes, between which values may be rounded to integers."""
    inputs, links = before.inputs, before.attributes.get("links")
    if links is None:
        first = running_input(before, known)
        assert first is not None
        links = (_link(before, first),)
        inputs = (inputs[first], *_inputs_but(before, first))
    if rounded is not None:
        limits = np.iinfo(rounded.dtype)
        low, high = (float(limit - rounded.zero_point) for limit in (limits.min, limits.max))
        links = *links, ("Requantise", {"scale": rounded.scale, "low": low, "high": high}, 0, 1)
    attributes = {"links": (*links, _link(node, i))}
    return Node("Elementwise", (*inputs, *_inputs_but(node, i)), node.outputs, attributes, node.name)


def _link(node: Node, i: int) -> tuple:
    """A node of a chain, as `links` of `operators/kernels/elementwise.py` reads it; input `i` is the running value."""
    return node.op, node.attributes, i, len(node.inputs)


def _inputs_but(node: Node, i: int) -> list[str]:
    return [name for k, name in enumerate(node.inputs) if k != i]
