"""Layouts over a graph, at the least total cost: exactly, by eliminating one variable after another.

A variable is the layout that some tensors have in common; a factor is a cost that depends on a few variables: what a
convolution takes between two layouts, what it takes to bring a tensor from the layout it is made in to those it is read
in, each once. Eliminating a variable sums the factors that know it and keeps the least over its values: what is left
knows one variable less. The order is the one that keeps the tables small (fewest neighbours first).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

MAX_TABLE = 1 << 22  # entries; beyond, the least is not sought exactly


class Factor(NamedTuple):
    """Seconds by the values of some variables: an axis each."""

    variables: tuple[int, ...]
    seconds: np.ndarray


class Assigned(NamedTuple):
    """A value for every variable, what it costs, and a cost below which nothing is: the same where it is exact."""

    values: tuple[int, ...]
    seconds: float
    bound: float


def solve(sizes: Sequence[int], factors: Sequence[Factor]) -> Assigned:
    """The values of the least total: exact unless a table would have more than `MAX_TABLE` entries; then some variables
    keep, one after another, the value that their own factors like best, and the bound is that of each factor alone."""
    tables = _Tables(sizes, factors)
    fixed, eliminated = {}, []
    todo = set(range(len(sizes)))
    while todo:
        at = min(todo, key=lambda v: (tables.entries[v], v))
        exact = tables.entries[at] <= MAX_TABLE
        if not exact:
            at = max(todo, key=lambda v: (len(tables.of[v]), -v))
        mine = tables.without(at)
        if exact:
            around = tuple(sorted({v for f in mine for v in f.variables} - {at}))
            total = _sum(mine, (*around, at), sizes)
            eliminated.append((at, around, total))
            tables.add(Factor(around, total.min(-1)))
        else:
            own = [f.seconds.min(tuple(i for i, u in enumerate(f.variables) if u != at)) for f in mine]
            fixed[at] = int(sum(own, np.zeros(sizes[at])).argmin())
            for f in mine:
                tables.add(_with(f, at, fixed[at]))
        todo.discard(at)
    values = dict(fixed)
    for at, around, total in reversed(eliminated):
        values[at] = int(total[tuple(values[v] for v in around)].argmin())
    chosen = tuple(values[v] for v in range(len(sizes)))
    seconds = cost(chosen, factors)
    return Assigned(chosen, seconds, float(sum(f.seconds.min() for f in factors)) if fixed else seconds)


class _Tables:
    """Factors by the variables that they know, and by variable the entries of the table that eliminating it makes."""

    def __init__(self, sizes: Sequence[int], factors: Sequence[Factor]) -> None:
        self.sizes, self.of = sizes, [dict[int, Factor]() for _ in sizes]
        self.entries, self._count = [1] * len(sizes), 0
        for f in factors:
            self.add(f)

    def add(self, f: Factor) -> None:
        self._count += 1
        for v in f.variables:
            self.of[v][self._count] = f
        self._counted(f.variables)

    def without(self, variable: int) -> list[Factor]:
        """Take the factors of a variable out."""
        found = self.of[variable]
        self.of[variable] = {}
        around = {v for f in found.values() for v in f.variables} - {variable}
        for v in around:
            self.of[v] = {k: f for k, f in self.of[v].items() if k not in found}
        self._counted(around)
        return list(found.values())

    def _counted(self, variables: Iterable[int]) -> None:
        for v in variables:
            self.entries[v] = prod(self.sizes[u] for u in {u for f in self.of[v].values() for u in f.variables})


def cost(values: Sequence[int], factors: Sequence[Factor]) -> float:
    """Seconds of an assignment."""
    return float(sum(f.seconds[tuple(values[v] for v in f.variables)] for f in factors))


def moved(seconds: np.ndarray, readers: int) -> np.ndarray:
    """The table of a tensor: made in one layout, read in `readers` others, by what a reorder between two takes. Several
    readers of one layout share it."""
    n = len(seconds)
    table = np.zeros((n,) * (readers + 1))
    for made, *read in itertools.product(range(n), repeat=readers + 1):
        table[(made, *read)] = sum(seconds[made, to] for to in set(read) - {made})
    return table


def _sum(factors: Sequence[Factor], order: tuple[int, ...], sizes: Sequence[int]) -> np.ndarray:
    total = np.zeros([sizes[v] for v in order])
    for f in factors:
        by = sorted(range(len(f.variables)), key=lambda i: order.index(f.variables[i]))
        shape = [sizes[v] if v in f.variables else 1 for v in order]
        total += f.seconds.transpose(by).reshape(shape)
    return total


def _with(f: Factor, variable: int, value: int) -> Factor:
    i = f.variables.index(variable)
    return Factor(f.variables[:i] + f.variables[i + 1 :], np.take(f.seconds, value, i))
