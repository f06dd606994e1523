"""From a graph and the shapes of its inputs to a plan: fold the graph, then assign layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..ir import Graph
from ..operators import Known
from ..operators.filters import forgotten
from ..operators.layouts import NAMES, PLAIN
from ..passes.elementwise import chains
from ..passes.fold import folded
from ..passes.inline import inlined
from ..passes.integer_filters import filters_as_integers
from ..passes.narrow import keep_narrow
from ..shapes import infer
from .assign import Assigned
from .costs import Costs
from .kinds import pairs_of
from .problem import LayoutProblem
from .siblings import merged


class Decided(NamedTuple):
    """What costs decide about a graph."""

    merged: list[bool]  # by family of siblings, whether they are one
    kinds: list[tuple[int, int]]  # by node, those of the layouts of its inputs and of its outputs


class LayoutPlan(NamedTuple):
    """A graph with its layouts. Of layouts that were decided before there is no `problem`, and no solution of it."""

    graph: Graph
    known: dict[str, Known]
    decided: Decided
    assigned: Assigned | None = None
    problem: LayoutProblem | None = None

    @property
    def kinds(self) -> list[tuple[int, int]]:
        """By node, the kinds of the layouts of its inputs and of its outputs."""
        return self.decided.kinds

    def forget_values(self) -> None:
        """Drop the values of constants: steps hold those that they need."""
        self.graph.constants.update((name, _like(value)) for name, value in self.graph.constants.items())
        self.known.update((name, _forgotten(k)) for name, k in self.known.items())
        self.graph.nodes[:] = map(forgotten, self.graph.nodes)


def _forgotten(of: Known) -> Known:
    return of if of.value is None else of._replace(value=_like(of.value))


def _like(value: np.ndarray) -> np.ndarray:
    return np.broadcast_to(value.dtype.type(0), value.shape)


def choose_layouts(
    graph: Graph, shapes: Mapping[str, tuple[int, ...]], costs: Costs, layouts: str | None = None
) -> LayoutPlan:
    """The graph with the layouts of least cost; with `layouts`, all nodes that can use that one do."""
    return with_layouts(*simplified(graph, shapes), costs, layouts)


def simplified(graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> tuple[Graph, dict[str, Known]]:
    """The graph for inputs of these shapes, folded, and what is known of its tensors."""
    graph = filters_as_integers(graph)
    known = infer(graph, shapes)
    while (larger := inlined(graph, known)) is not graph:
        graph = filters_as_integers(larger)
        known = infer(graph, shapes)
    only = [graph]
    del graph, larger  # so that passes free filters that they replace
    return folded(only.pop(), known), known


def with_layouts(graph: Graph, known: dict[str, Known], costs: Costs, layouts: str | None = None) -> LayoutPlan:
    """A graph that `simplified` made with the layouts of least cost; see `choose_layouts`."""
    graph, merges = _prepared(graph, known, costs)
    problem = LayoutProblem(graph, known, costs)
    chosen = problem.solved(None if layouts is None else NAMES.index(layouts))
    kinds = [tuple(PLAIN if v is None else chosen.values[v] for v in pair) for pair in problem.variables]
    decided = Decided(merges, [(a, b) for a, b in kinds])
    return LayoutPlan(graph, known, decided, chosen, problem)


def with_decided(graph: Graph, known: dict[str, Known], costs: Costs, decided: Decided) -> LayoutPlan:
    """A graph that `simplified` made with layouts that were decided before; ValueError if they do not fit."""
    graph, _ = _prepared(graph, known, costs, decided.merged)
    if len(decided.kinds) != len(graph.nodes):
        raise ValueError(f"layouts of {len(decided.kinds)} operators, there are {len(graph.nodes)}")
    for node, kinds in zip(graph.nodes, decided.kinds):
        if kinds not in pairs_of(node, known):
            raise ValueError(f"{node} cannot run in the layouts {kinds}")
    return LayoutPlan(graph, known, decided)


def _prepared(
    graph: Graph, known: dict[str, Known], costs: Costs, merges: Sequence[bool] | None = None
) -> tuple[Graph, list[bool]]:
    """The graph whose nodes are given layouts, and which siblings are one."""
    graph, merges = merged(graph, known, costs, merges)
    graph = chains(graph, known)
    known.update(
        (name, _forgotten(k)) for name, k in known.items() if name not in graph.constants
    )  # merged into others
    keep_narrow(graph, known, costs.dtype)
    return graph, merges
