"""From a graph and the shapes of its inputs to a plan: fold the graph, then assign layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ir import Graph, Node
from ..operators import OPERATORS, Follows, Known
from ..operators.base import by_kernel
from ..operators.kernels import is_convolution, kernel_of
from ..operators.layouts import NAMES, PLAIN, fits, layouts_of
from ..operators.moves import channels_moved
from ..passes.elementwise import chains
from ..passes.fold import folded
from ..passes.inline import inlined
from ..passes.narrow import keep_narrow
from ..shapes import infer
from .assign import Assigned, Factor, assigned, cost, moved, solve
from .costs import STEP_SECONDS, Costs, convolution_kinds, relabelled_kinds
from .siblings import merged

FEW_READERS = 3  # of a tensor: up to so many share one table
FORBIDDEN_SECONDS = 1e6  # more than any network takes
Variables = list[tuple[int | None, int | None]]


class Decided(NamedTuple):
    """What costs decide about a graph."""

    merged: list[bool]  # by family of siblings, whether they are one
    kinds: list[tuple[int, int]]  # by node, those of the layouts of its inputs and of its outputs


class LayoutPlan(NamedTuple):
    """A graph with its layouts. Of layouts that were decided before there are no `assigned`, variables and factors."""

    graph: Graph
    known: dict[str, Known]
    decided: Decided
    assigned: Assigned | None = None
    variables: Sequence[tuple[int | None, int | None]] = ()  # by node, those of its inputs and of its outputs
    sizes: Sequence[int] = ()
    factors: Sequence[Factor] = ()

    @property
    def kinds(self) -> list[tuple[int, int]]:
        """By node, the kinds of the layouts of its inputs and of its outputs."""
        return self.decided.kinds

    def uniform(self) -> dict[str, float]:
        """By name of a layout, the seconds if all nodes that can ran in it."""
        seconds = {}
        for kind, name in enumerate(NAMES):
            values = solve(self.sizes, [*self.factors, *_fixed_layouts(kind, self.sizes)]).values
            seconds[name] = cost(values, self.factors)
        return seconds

    def forget_values(self) -> None:
        """Drop the values of constants: steps hold those that they need."""
        self.graph.constants.update((name, _like(value)) for name, value in self.graph.constants.items())
        self.known.update((name, _forgotten(k)) for name, k in self.known.items())

    def seconds(self, kinds: Sequence[int]) -> float:
        """The seconds if nodes had these kinds of layouts."""
        fixed = [_fixed_layout(v, k) for pair, k in zip(self.variables, kinds) for v in set(pair) if v is not None]
        return cost(solve(self.sizes, [*self.factors, *fixed]).values, self.factors)


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
    known = infer(graph, shapes)
    while (larger := inlined(graph, known)) is not graph:
        graph, known = larger, infer(larger, shapes)
    only = [graph]
    del graph, larger  # so that passes free filters that they replace
    return folded(only.pop(), known), known


def with_layouts(graph: Graph, known: dict[str, Known], costs: Costs, layouts: str | None = None) -> LayoutPlan:
    """A graph that `simplified` made with the layouts of least cost; see `choose_layouts`."""
    graph, merges = _prepared(graph, known, costs)
    variables, sizes, factors = _problem(graph, known, costs)
    chosen = _assigned(sizes, factors, None if layouts is None else NAMES.index(layouts))
    kinds = [tuple(PLAIN if v is None else chosen.values[v] for v in pair) for pair in variables]
    decided = Decided(merges, [(a, b) for a, b in kinds])
    return LayoutPlan(graph, known, decided, chosen, variables, sizes, factors)


def with_decided(graph: Graph, known: dict[str, Known], costs: Costs, decided: Decided) -> LayoutPlan:
    """A graph that `simplified` made with layouts that were decided before; ValueError if they do not fit."""
    graph, _ = _prepared(graph, known, costs, decided.merged)
    if len(decided.kinds) != len(graph.nodes):
        raise ValueError(f"layouts of {len(decided.kinds)} operators, there are {len(graph.nodes)}")
    for node, kinds in zip(graph.nodes, decided.kinds):
        if kinds not in _pairs_of(node, known):
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


def _is_relabelled(node: Node, known: Mapping[str, Known]) -> bool:
    return node.op == "Transpose" and bool(channels_moved(node, len(known[node.inputs[0]].shape)))


def _pairs_of(node: Node, known: Mapping[str, Known]) -> list[tuple[int, int]]:
    """The kinds of layouts of inputs and outputs that a node can have."""
    if _is_relabelled(node, known):
        return relabelled_kinds(node, known[node.inputs[0]])
    if is_convolution(node, known):
        return convolution_kinds(known[node.inputs[0]])
    return [(kind, kind) for kind in kinds_of(node, known)]


def _assigned(sizes: Sequence[int], factors: Sequence[Factor], kind: int | None) -> Assigned:
    """The layouts of least cost, or, with `kind`, that one wherever possible; and a lower bound of the cost."""
    best = solve(sizes, factors)
    if kind is None and best.bound == best.seconds:
        return best
    kinds = range(len(NAMES)) if kind is None else [kind]
    others = [solve(sizes, [*factors, *_fixed_layouts(k, sizes)]).values for k in kinds]
    if kind is None:
        others.append(best.values)
    return min((assigned(v, factors, best.bound) for v in others), key=lambda each: each.seconds)


def _fixed_layouts(kind: int, sizes: Sequence[int]) -> list[Factor]:
    """Factors that force every layout to one kind where that is possible."""
    return [_fixed_layout(v, kind) for v, n in enumerate(sizes) if n == len(NAMES)]


def _fixed_layout(variable: int, kind: int) -> Factor:
    return Factor((variable,), np.array([0.0 if i == kind else FORBIDDEN_SECONDS for i in range(len(NAMES))]))


def _problem(graph: Graph, known: Mapping[str, Known], costs: Costs) -> tuple[Variables, list[int], list[Factor]]:
    """By node, the variables of its inputs and outputs, None where the layout must be the model's; the number of values
    of each variable; and the factors."""
    variables: Variables = []
    factors: list[Factor] = []
    count, fixed = 0, STEP_SECONDS * len(graph.nodes)
    makers: dict[str, int | None] = {}
    readers: dict[str, dict[int | None, None]] = {}  # each once, in order
    for node in graph.nodes:
        pair: tuple[int | None, int | None] = (None, None)
        relabelled = _is_relabelled(node, known)
        if is_convolution(node, known) or relabelled:
            pair = (count, count + 1)
            seconds = costs.relabelled(node, known) if relabelled else costs.convolution(node, known)
            factors.append(Factor(pair, seconds))
            count += 2
        else:
            kinds = kinds_of(node, known)
            ran = [kernel_of(node, known, kind) is not None for kind in range(len(NAMES))]
            each = costs.other(node, known, ran)
            if kinds != {PLAIN}:
                pair = (count, count)
                factors.append(Factor((count,), np.array([s if k in kinds else np.inf for k, s in enumerate(each)])))
                count += 1
            else:
                fixed += each[PLAIN]
        variables.append(pair)
        makers.update((name, pair[1]) for name in node.outputs if name)
        for i, name in enumerate(node.inputs):
            if name and name not in graph.constants:
                readers.setdefault(name, {})[pair[1] if node.op == "Conv" and i == 3 else pair[0]] = None
    for name in graph.outputs:
        readers.setdefault(name, {})[None] = None
    factors.append(Factor((), np.array(fixed)))  # a constant cost
    sizes = [len(NAMES)] * count
    for name, of_name in readers.items():
        if layouts_of(len(known[name].shape)) and name not in graph.constants:
            others = [r for r in of_name if r != makers.get(name)]
            if len(others) > FEW_READERS:
                factors += _of_many(makers.get(name), others, costs.moves(known[name]), sizes)
            elif others:
                factors += _of_few(makers.get(name), others, costs.moves(known[name]))
    return variables, sizes, factors


def _of_few(maker: int | None, readers: list[int | None], seconds: np.ndarray) -> list[Factor]:
    """The reorders of a tensor from the layout that it is computed in to those that it is read in, as one table."""
    at: list[Any] = [PLAIN if v is None else slice(None) for v in (maker, *readers)]
    variables = tuple(v for v in (maker, *readers) if v is not None)
    return [Factor(variables, moved(seconds, len(readers))[tuple(at)])] if variables else []


def _of_many(maker: int | None, readers: list[int | None], seconds: np.ndarray, sizes: list[int]) -> list[Factor]:
    """The same for many readers: a binary variable for each layout says whether there is a copy of the tensor in it,
    which costs a reorder; the layout of a reader requires its copy."""
    copies = tuple(range(len(sizes), len(sizes) + len(NAMES)))
    sizes += [2] * len(copies)
    factors = []
    for kind, v in enumerate(copies):
        moving = np.stack([np.zeros(len(NAMES)), seconds[:, kind]], 1)
        factors.append(Factor((v,), moving[PLAIN]) if maker is None else Factor((maker, v), moving))
    for r in readers:
        factors.append(Factor(copies, _NEEDS[PLAIN]) if r is None else Factor((r, *copies), _NEEDS))
    return factors


def _needs() -> np.ndarray:
    """By the layout of a reader, and by layout whether there is a copy in it: infinite without the copy that the reader
    requires."""
    n = len(NAMES)
    seconds = np.zeros((n, *[2] * n))
    for kind in range(n):
        seconds[kind].swapaxes(0, kind)[0] = np.inf
    return seconds


_NEEDS = _needs()


def kinds_of(node: Node, known: Mapping[str, Known]) -> set[int]:
    """The layouts that a node can run in whose inputs and outputs share one."""
    of = OPERATORS[node.op]
    y = known[node.outputs[0]]
    layouts = layouts_of(len(y.shape))
    inputs = [known[name] for name in node.present_inputs()]
    shapes = [x.shape for x in inputs]
    if of.kind is Follows.SOURCE or not layouts or of.follow is None or node.attributes.get("indices"):
        return {PLAIN}
    kinds = {PLAIN}
    for kind, layout in enumerate(layouts):
        if of.follow is by_kernel:
            suits = kernel_of(node, known, kind) is not None
        elif of.elementwise:
            suits = all(fits(x.shape, layout, y.shape) or x.value is not None for x in inputs)
            suits = suits and any(x.shape == y.shape and x.value is None for x in inputs)
        else:
            suits = all(len(x.shape) == len(y.shape) and x.value is None for x in inputs)
            suits = suits and of.follow({**node.attributes, "op": node.op}, layout, shapes) is not None
        if suits:
            kinds.add(kind)
    return kinds
