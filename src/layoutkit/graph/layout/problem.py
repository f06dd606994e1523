"""The layouts of a graph as a problem: a variable for each layout that is to be chosen, and what the choice costs.

Reorders are many: of each tensor from each layout to each other, and the best layouts need hardly any of them. So a
reorder costs a lower bound at first. Those that a solution needs get their real costs, and it is solved again, until a
solution needs none without one. All others cost at least their bounds, so no assignment costs less than this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...choosing import progress
from ..ir import Graph
from ..operators import Known
from ..operators.kernels import is_convolution, kernel_of
from ..operators.layouts import NAMES, PLAIN, layouts_of
from .assign import Assigned, Factor, assigned, cost, moved, order_for, solve
from .costs import STEP_SECONDS, Costs
from .kinds import is_relabelled, kinds_of

FEW_READERS = 3  # of a tensor: up to so many share one table
FORBIDDEN_SECONDS = 1e6  # more than any network takes
MAX_ROUNDS = 12  # of solutions; then all reorders get their costs
EVERY_MOVE = [(i, j) for i in range(len(NAMES)) for j in range(len(NAMES)) if i != j]
Variables = list[tuple[int | None, int | None]]


class Moved(NamedTuple):
    """A tensor that may be reordered: the variables of the layout that it is made in and of those that it is read in
    (None: the model's), and the first of the binary variables of `_of_many`, if it has any."""

    of: Known
    maker: int | None
    readers: list[int | None]
    copies: int | None


class LayoutProblem:
    """The layouts of a graph.

    Attributes
    ----------
    variables : list
        By node, the variables of the layouts of its inputs and of its outputs; None where it must be the model's.
    """

    def __init__(self, graph: Graph, known: Mapping[str, Known], costs: Costs) -> None:
        self._costs = costs
        self.variables: Variables = []
        self._fixed: list[Factor] = []  # costs of nodes
        self._moved: list[Moved] = []
        self._sizes: list[int] = []  # by variable, the number of its values
        self._add_nodes(graph, known)
        self._order = order_for(self._sizes, self._factors())

    def solved(self, kind: int | None = None) -> Assigned:
        """The layouts of least cost, or, with `kind`, that one wherever possible; and a lower bound of the cost."""
        best = self._settled(())
        if kind is None and best.bound == best.seconds:
            return best
        kinds = range(len(NAMES)) if kind is None else [kind]
        others = [self._settled(self._all_of(k)).values for k in kinds]
        if kind is None:
            others.append(best.values)
        return min((assigned(v, self._factors(), best.bound) for v in others), key=lambda each: each.seconds)

    def uniform(self) -> dict[str, float]:
        """By name of a layout, the seconds if all nodes that can ran in it."""
        return {name: self._cost(self._all_of(kind)) for kind, name in enumerate(NAMES)}

    def seconds(self, kinds: Sequence[int]) -> float:
        """The seconds if nodes had these kinds of layouts."""
        return self._cost(
            [_fixed_layout(v, k) for pair, k in zip(self.variables, kinds) for v in {*pair} if v is not None]
        )

    def _cost(self, forced: Sequence[Factor]) -> float:
        """The least seconds, without those of `forced` themselves."""
        values = self._settled(forced).values
        return cost(values, self._factors())

    def _settled(self, forced: Sequence[Factor]) -> Assigned:
        """A solution all of whose reorders have their real costs."""
        rounds = 0
        while True:
            best = solve(self._sizes, [*self._factors(), *forced], self._order)
            exact = best.bound == best.seconds
            rounds += 1
            every = not exact or rounds > MAX_ROUNDS  # such solutions take long
            if not self._price(best.values, every):
                return best

    def _price(self, values: Sequence[int], every: bool) -> int:
        """Give the reorders that an assignment needs, or all, their real costs; returns how many had none."""
        price = self._costs.price
        return sum([price(m.of, EVERY_MOVE if every else self._needed(m, values)) for m in self._moved])

    def _needed(self, m: Moved, values: Sequence[int]) -> list[tuple[int, int]]:
        """The reorders of a tensor that an assignment needs."""
        made, *read = [PLAIN if v is None else values[v] for v in (m.maker, *m.readers)]
        return [(made, kind) for kind in {*read} - {made}]

    def _factors(self) -> list[Factor]:
        """The costs of nodes, and those of reorders as far as they are known."""
        factors = list(self._fixed)
        for m in self._moved:
            seconds = self._costs.moves(m.of)
            if m.copies is None:
                factors += _of_few(m.maker, m.readers, seconds)
            else:
                factors += _of_many(m.maker, m.readers, seconds, m.copies)
        return factors

    def _all_of(self, kind: int) -> list[Factor]:
        """Factors that force every layout to one kind where that is possible."""
        return [_fixed_layout(v, kind) for v, n in enumerate(self._sizes) if n == len(NAMES)]

    def _add_nodes(self, graph: Graph, known: Mapping[str, Known]) -> None:
        """The variables and costs of nodes, and the tensors between them."""
        count, fixed, costs = 0, STEP_SECONDS * len(graph.nodes), self._costs
        makers: dict[str, int | None] = {}
        readers: dict[str, dict[int | None, None]] = {}  # each once, in order
        for node in graph.nodes:
            progress.step(f"layouts of {node.op} {node.name}")
            pair: tuple[int | None, int | None] = (None, None)
            relabelled = is_relabelled(node, known)
            if is_convolution(node, known) or relabelled:
                pair = (count, count + 1)
                seconds = costs.relabelled(node, known) if relabelled else costs.convolution(node, known)
                self._fixed.append(Factor(pair, seconds))
                count += 2
            else:
                kinds = kinds_of(node, known)
                ran = [kernel_of(node, known, kind) is not None for kind in range(len(NAMES))]
                each = costs.other(node, known, ran)
                if kinds != {PLAIN}:
                    pair = (count, count)
                    by_kind = np.array([s if k in kinds else np.inf for k, s in enumerate(each)])
                    self._fixed.append(Factor((count,), by_kind))
                    count += 1
                else:
                    fixed += each[PLAIN]
            self.variables.append(pair)
            makers.update((name, pair[1]) for name in node.outputs if name)
            for i, name in enumerate(node.inputs):
                if name and name not in graph.constants:
                    readers.setdefault(name, {})[pair[1] if node.op == "Conv" and i == 3 else pair[0]] = None
        for name in graph.outputs:
            readers.setdefault(name, {})[None] = None
        self._fixed.append(Factor((), np.array(fixed)))  # a constant cost
        self._sizes += [len(NAMES)] * count
        for name, of_name in readers.items():
            if layouts_of(known[name]) and name not in graph.constants:
                others = [r for r in of_name if r != makers.get(name)]
                if others:
                    copies = len(self._sizes) if len(others) > FEW_READERS else None
                    self._sizes += [2] * len(NAMES) if copies is not None else []
                    self._moved.append(Moved(known[name], makers.get(name), others, copies))


def _fixed_layout(variable: int, kind: int) -> Factor:
    return Factor((variable,), np.array([0.0 if i == kind else FORBIDDEN_SECONDS for i in range(len(NAMES))]))


def _of_few(maker: int | None, readers: list[int | None], seconds: np.ndarray) -> list[Factor]:
    """The reorders of a tensor from the layout that it is computed in to those that it is read in, as one table."""
    at: list[Any] = [PLAIN if v is None else slice(None) for v in (maker, *readers)]
    variables = tuple(v for v in (maker, *readers) if v is not None)
    return [Factor(variables, moved(seconds, len(readers))[tuple(at)])] if variables else []


def _of_many(maker: int | None, readers: list[int | None], seconds: np.ndarray, first: int) -> list[Factor]:
    """The same for many readers: binary variables from `first` on, one for each layout, say whether there is a copy of
    the tensor in it, which costs a reorder; the layout of a reader requires its copy."""
    copies = tuple(range(first, first + len(NAMES)))
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
