"""The layouts of a graph at the least total cost, found exactly by variable elimination.

A variable is the layout that some tensors share. A factor is a cost that depends on a few variables: the time of a
convolution between two layouts, or of reordering a tensor from the layout it is computed in to those it is read in,
once each. Eliminating a variable adds the factors that depend on it and minimises over its values; the result depends
on one variable less, and is a factor of variables that are eliminated later (bucket elimination). `elimination.py`
chooses an order that keeps the tables small.

Where the tables would still get too large, the factors of a variable are divided into groups with small tables, and
each group is minimised by itself (mini-buckets). The sum of these minima is never more than the minimum of the sum, so
the result is a lower bound. An assignment is read back as in the exact case, then improved one variable at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from .elimination import order_of

MAX_TABLE = 1 << 22  # entries of one table; beyond, the search is not exact
MAX_TABLES = 1 << 27  # entries of all tables together: about two seconds
SMALL_TABLE = 1 << 11  # entries of one mini-bucket's table, at least
SMALL_TABLES = 1 << 22  # entries of all mini-buckets' tables together
MAX_ROUNDS = 16  # of improving an assignment that is not exact
ROUNDING = 1e-9  # of a sum, relative


class Factor(NamedTuple):
    """Seconds by the values of some variables: an axis each."""

    variables: tuple[int, ...]
    seconds: np.ndarray


Order = tuple[list[int], bool]  # of the variables; whether it is exact


class Assigned(NamedTuple):
    """A value for every variable, the cost, and a lower bound of all costs: equal to the cost where it is exact."""

    values: tuple[int, ...]
    seconds: float
    bound: float


def solve(sizes: Sequence[int], factors: Sequence[Factor], order: Order | None = None) -> Assigned:
    """The assignment of least cost: exact unless a table would have more than `MAX_TABLE` entries, or all of them
    together more than `MAX_TABLES`; then a good one, and a bound, which may still prove that it is the best. `order`:
    what `order_for` says of factors of the same variables."""
    eliminating, exact = order or order_for(sizes, factors)
    most = MAX_TABLE if exact else max(SMALL_TABLE, SMALL_TABLES // len(sizes))
    eliminated, bound = _eliminated(eliminating, sizes, factors, most)
    values = [0] * len(sizes)
    for at, known in reversed(eliminated):
        values[at] = _best(at, values, known, sizes[at]) if isinstance(known, list) else int(_at(known, values))
    if not exact:
        _improve(values, sizes, factors)
    best = assigned(values, factors, bound)
    return best._replace(bound=best.seconds) if exact else best


def order_for(sizes: Sequence[int], factors: Sequence[Factor]) -> Order:
    """The order in which variables are eliminated, and whether the tables stay small."""
    return order_of(sizes, [f.variables for f in factors], MAX_TABLE, MAX_TABLES)


def assigned(values: Sequence[int], factors: Sequence[Factor], bound: float) -> Assigned:
    """An assignment with its cost and bound, made equal where they differ by rounding only."""
    seconds = cost(values, factors)
    return Assigned(tuple(values), seconds, seconds if bound >= seconds * (1 - ROUNDING) else bound)


def _eliminated(
    order: Sequence[int], sizes: Sequence[int], factors: Sequence[Factor], most: int
) -> tuple[list[tuple[int, Factor | list[Factor]]], float]:
    """The eliminated variables, each with a table of its best values, or with its factors if that table is too large;
    and the least total cost, or a lower bound of it."""
    rank = {v: i for i, v in enumerate(order)}
    buckets: list[list[Factor]] = [[] for _ in sizes]
    eliminated: list[tuple[int, Factor | list[Factor]]] = []
    left = [0.0]

    def put(f: Factor) -> None:
        least = float(f.seconds.min())
        left.append(least)
        if f.variables:
            rest = f.seconds - least if isfinite(least) else f.seconds  # a common offset is summed apart, for precision
            buckets[min(f.variables, key=rank.__getitem__)].append(Factor(f.variables, rest))

    for f in factors:
        put(f)
    for at in order:
        mine, buckets[at] = buckets[at], []
        totals = [_total(at, group, sizes) for group in _groups(mine, sizes, most)]
        for f in totals:
            put(Factor(f.variables[1:], f.seconds.min(0)))
        if len(totals) == 1:
            best = totals[0].seconds.argmin(0).astype(np.min_scalar_type(sizes[at]))
            eliminated.append((at, Factor(totals[0].variables[1:], best)))
        else:
            eliminated.append((at, mine))
    return eliminated, sum(left)


def _groups(factors: Sequence[Factor], sizes: Sequence[int], most: int) -> list[list[Factor]]:
    """Factors in groups (mini-buckets) whose tables have at most so many entries."""
    groups: list[list[Factor]] = []
    known: set[int] = set()
    entries = 1
    for f in sorted(factors, key=lambda f: sorted(f.variables)):
        new = [v for v in f.variables if v not in known]
        grown = entries
        for v in new:
            grown *= sizes[v]
        if not groups or grown > most:
            groups.append([])
            known, new, grown = set(), list(f.variables), f.seconds.size
        groups[-1].append(f)
        known.update(new)
        entries = grown
    return groups


def _total(at: int, factors: Sequence[Factor], sizes: Sequence[int]) -> Factor:
    """The sum of factors that depend on a variable, with this variable first."""
    known = (at, *sorted({v for f in factors for v in f.variables} - {at}))
    axis = {v: i for i, v in enumerate(known)}
    total = np.zeros([sizes[v] for v in known])
    for f in factors:
        axes = [axis[v] for v in f.variables]
        shape = [1] * len(known)
        for i, n in zip(axes, f.seconds.shape):
            shape[i] = n
        total += f.seconds.transpose(sorted(range(len(axes)), key=axes.__getitem__)).reshape(shape)
    return Factor(known, total)


def _best(at: int, values: Sequence[int], factors: Sequence[Factor], size: int) -> int:
    """The value of a variable that costs the least, given those of the others."""
    total = np.zeros(size)
    for f in factors:
        total += f.seconds[tuple(slice(None) if v == at else values[v] for v in f.variables)]
    return int(total.argmin())


def _improve(values: list[int], sizes: Sequence[int], factors: Sequence[Factor]) -> None:
    """Coordinate descent: give each variable its best value, given the others, while that changes anything."""
    of: list[list[Factor]] = [[] for _ in sizes]
    for f in factors:
        for v in f.variables:
            of[v].append(f)
    for _ in range(MAX_ROUNDS):
        before = list(values)
        for at, n in enumerate(sizes):
            values[at] = _best(at, values, of[at], n)
        if values == before:
            break


def cost(values: Sequence[int], factors: Sequence[Factor]) -> float:
    """Seconds of an assignment."""
    return float(sum(_at(f, values) for f in factors))


def _at(f: Factor, values: Sequence[int]) -> Any:
    return f.seconds[tuple([values[v] for v in f.variables])]


def moved(seconds: np.ndarray, readers: int) -> np.ndarray:
    """The table of a tensor that is computed in one layout and read in `readers` others, from the seconds of a reorder
    between each two. Readers of the same layout share a reorder."""
    return np.einsum("m...t,mt->m...", _reordered(len(seconds), readers), seconds)


@lru_cache(16)
def _reordered(n: int, readers: int) -> np.ndarray:
    """By the layout that a tensor is computed in and those of its readers, which others it is reordered to."""
    needed = np.zeros((n,) * (readers + 2))
    for source, *read in itertools.product(range(n), repeat=readers + 1):
        needed[(source, *read)][list(set(read) - {source})] = 1
    return needed
