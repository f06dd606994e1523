"""Layouts over a graph, at the least total cost: exactly, by eliminating one variable after another.

A variable is the layout that some tensors have in common; a factor is a cost that depends on a few variables: what a
convolution takes between two layouts, what it takes to bring a tensor from the layout it is made in to those it is read
in, each once. Eliminating a variable sums the factors that know it and keeps the least over its values: what is left
knows one variable less. The order is the one that keeps the tables small (fewest neighbours first).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
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
    left, fixed, eliminated = list(factors), {}, []
    todo, exact = set(range(len(sizes))), True
    while todo:
        at = min(todo, key=lambda v: (_entries(v, left, sizes), v))
        if _entries(at, left, sizes) > MAX_TABLE:
            exact = False
            at = max(todo, key=lambda v: sum(v in f.variables for f in left))
            own = sum((f.seconds.min(tuple(i for i, u in enumerate(f.variables) if u != at)) for f in left
                       if at in f.variables), np.zeros(sizes[at]))  # fmt: skip
            fixed[at] = int(own.argmin())
            left = [_with(f, at, fixed[at]) for f in left]
            todo.discard(at)
            continue
        mine = [f for f in left if at in f.variables]
        left = [f for f in left if at not in f.variables]
        around = sorted({v for f in mine for v in f.variables} - {at})
        total = _sum(mine, (*around, at), sizes)
        eliminated.append((at, tuple(around), total))
        left.append(Factor(tuple(around), total.min(-1)))
        todo.discard(at)
    values = dict(fixed)
    for at, around, total in reversed(eliminated):
        values[at] = int(total[tuple(values[v] for v in around)].argmin())
    chosen = tuple(values[v] for v in range(len(sizes)))
    seconds = cost(chosen, factors)
    return Assigned(chosen, seconds, seconds if exact else float(sum(f.seconds.min() for f in factors)))


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


def _entries(at: int, factors: Sequence[Factor], sizes: Sequence[int]) -> int:
    around = {v for f in factors if at in f.variables for v in f.variables}
    return int(np.prod([sizes[v] for v in around], dtype=float)) if around else 1


def _sum(factors: Sequence[Factor], order: tuple[int, ...], sizes: Sequence[int]) -> np.ndarray:
    total = np.zeros([sizes[v] for v in order])
    for f in factors:
        by = sorted(range(len(f.variables)), key=lambda i: order.index(f.variables[i]))
        shape = [sizes[v] if v in f.variables else 1 for v in order]
        total += f.seconds.transpose(by).reshape(shape)
    return total


def _with(f: Factor, variable: int, value: int) -> Factor:
    if variable not in f.variables:
        return f
    i = f.variables.index(variable)
    return Factor(f.variables[:i] + f.variables[i + 1 :], np.take(f.seconds, value, i))
