"""Graphs in two parts: shapes of the second depend on numbers that the first computes.

The second part is planned once these are known, for each such shape or number anew. Where it only moves and compares
some elements, as what follows the suppression of boxes, it is not planned but run operator by operator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..ir import Graph, Node, TensorType
from ..operators import run
from ..shapes import infer
from .execute import Step

if TYPE_CHECKING:
    from ..model import Model

Arrays = Mapping[str, np.ndarray]
Modelled = Callable[[Graph, list[str]], "Model"]  # of a graph, and inputs on whose values shapes depend
# Worth a plan wherever they are: they multiply, or have networks of their own.
PLANNED = {"Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN", "Einsum", "Attention", "Loop", "Scan", "If"}


class Cut(NamedTuple):
    """A graph in two, and the node between them that runs by itself, if it is not enough to know a tensor."""

    first: Graph
    node: Node | None
    tensor: str
    behind: list[Node]
    reads: list[str]  # tensors that cross, which are not constant
    constants: dict[str, np.ndarray]
    outputs: tuple[str, ...]


def cut(graph: Graph, tensor: str, node: Node | None) -> Cut:
    """Cut a graph where a tensor is made on whose values shapes depend, or before and after a node.

    The second part is all nodes that read `tensor`, or results of `node`, and what follows from them.
    """
    later = {name for name in node.outputs if name} if node is not None else set()
    behind: list[Node] = []
    for each in graph.nodes:
        if each is not node and (not later.isdisjoint(each.inputs) or (node is None and tensor in each.inputs)):
            behind.append(each)
            later.update(name for name in each.outputs if name)
    moved = {id(each) for each in behind}
    before = [each for each in graph.nodes if id(each) not in moved and each is not node]
    read = {name for each in behind for name in each.present_inputs()} | set(graph.outputs)
    read |= set(node.present_inputs()) if node is not None else set()
    made = [name for each in before for name in each.outputs if name in read]
    crossing = [*made, *(name for name in graph.inputs if name in read)]
    constants = {name: value for name, value in graph.constants.items() if name in read}
    first = Graph(before, graph.inputs, (), graph.constants).needed(made)
    return Cut(first, node, tensor, behind, crossing, constants, graph.outputs)


class Staged:
    """What runs a graph that was cut, as a `Program` does one that was not."""

    def __init__(self, parts: Cut, modelled: Modelled, attributes: Mapping[str, object]) -> None:
        self.parts, self._modelled, self._attributes = parts, modelled, dict(attributes)
        self.first = modelled(parts.first, []) if parts.first.outputs else None
        self._seconds: dict[tuple, Model] = {}
        self._light = not any(each.op in PLANNED for each in parts.behind)
        self.steps: list[Step] = []  # of the last run that was timed

    def run(self, inputs: Arrays, times: list[float] | None = None) -> dict[str, np.ndarray]:
        """The outputs, new arrays; `times` gets the seconds of every step."""
        steps: list[Step] = []
        values = {name: inputs[name] for name in self.parts.reads if name in inputs}
        if self.first is not None:
            program, given = self.first.planned({name: inputs[name] for name in self.first.graph.inputs})
            values |= program.run(given, times)
            steps += program.steps
        parts, start = self.parts, time.perf_counter()
        new: set[str] = set()  # results that share their memory with nothing
        if parts.node is not None:
            held = {**parts.constants, **values}
            attributes = {**parts.node.attributes, **self._attributes}
            results = run(parts.node, [held[name] if name else None for name in parts.node.inputs], attributes)
            made = {name: np.asarray(value) for name, value in zip(parts.node.outputs, results) if name}
            given_arrays = [x for x in held.values() if isinstance(x, np.ndarray)]
            if len(made) == 1:
                new = {name for name, y in made.items() if not any(np.may_share_memory(x, y) for x in given_arrays)}
            values |= made
            steps.append(_step(parts.node, "by itself"))
        if times is not None and parts.node is not None:
            times.append(time.perf_counter() - start)
        found = self._rest(values, new, times, steps)
        if times is not None:
            self.steps = steps
        return found

    def _rest(
        self, values: dict[str, np.ndarray], new: set[str], times: list[float] | None, steps: list[Step]
    ) -> dict[str, np.ndarray]:
        parts, start = self.parts, time.perf_counter()
        if self._light:
            known = infer(Graph(parts.behind, {}, parts.outputs, {**parts.constants, **values}), {})
            if times is not None and parts.behind:
                times.append(time.perf_counter() - start)
                steps.append(_step(parts.behind[-1], f"{len(parts.behind)} operators one by one"))
            return {name: values[name] if name in new else np.array(known[name].value) for name in parts.outputs}
        types = {name: TensorType(value.dtype, (name,) * value.ndim) for name, value in values.items()}
        key = tuple((name, of.dtype, len(of.shape)) for name, of in types.items())
        second = self._seconds.get(key)
        if second is None:
            graph = Graph(parts.behind, types, parts.outputs, parts.constants)
            second = self._seconds[key] = self._modelled(graph, [parts.tensor] if parts.node is None else [])
        program, given = second.planned(values)
        found = program.run(given, times)
        steps += program.steps
        return found

    def explain(self, inputs: Arrays) -> str:
        """How the first part runs, and what waits for it."""
        lines = []
        if self.first is not None:
            lines.append(self.first.explain({name: inputs[name].shape for name in self.first.graph.inputs}))
        of = f"results of {self.parts.node}" if self.parts.node is not None else f"values of {self.parts.tensor!r}"
        how = "run one by one" if self._light else "planned"
        lines.append(f"{len(self.parts.behind)} operators more: {how} when the {of} are known")
        return "\n".join(lines)


def _step(node: Node, how: str) -> Step:
    """For `profile`."""
    return Step(f"{node.name or node.outputs[0]}, {how}", node.op, lambda slots: None, (), ())


def is_small(arrays: Arrays, names: list[str], most: int) -> bool:
    """Whether inputs are lists of few numbers, as shapes and limits are."""
    return all(arrays[name].ndim <= 1 and prod(arrays[name].shape) <= most for name in names)
