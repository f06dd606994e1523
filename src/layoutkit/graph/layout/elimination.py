"""The order in which variables are eliminated: always the one whose table is the smallest at that time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from math import prod


def order_of(
    sizes: Sequence[int], scopes: Iterable[Sequence[int]], most: int, most_of_all: int
) -> tuple[list[int], bool]:
    """All variables, and whether each has a table of at most `most` entries, and all together at most `most_of_all`.

    `scopes` are the variables of each factor. Eliminating a variable makes its neighbours neighbours of each other.
    Where tables get too large, the rest is ordered by the number of remaining neighbours.
    """
    neighbours: list[set[int]] = [set() for _ in sizes]
    for scope in scopes:
        for v in scope:
            neighbours[v].update(scope)
    for v, around in enumerate(neighbours):
        around.discard(v)
    widest = most.bit_length()  # neighbours of two values make a table that is too large

    def entries(v: int) -> int:
        """Entries of the table of a variable, or more than `most`."""
        around = neighbours[v]
        return most + 1 if len(around) >= widest else min(sizes[v] * prod([sizes[u] for u in around]), most + 1)

    now = [entries(v) for v in range(len(sizes))]
    heap = [(n, v) for v, n in enumerate(now)]
    heapify(heap)
    order: list[int] = []
    done, left = [False] * len(sizes), most_of_all
    while heap:
        n, v = heappop(heap)
        if done[v] or n != now[v]:  # it was pushed again
            continue
        left -= n
        if n > most or left < 0:
            break
        done[v] = True
        order.append(v)
        around = neighbours[v]
        for u in around:
            neighbours[u] |= around
            neighbours[u] -= {u, v}
        for u in around:
            if (n := entries(u)) != now[u]:
                now[u] = n
                heappush(heap, (n, u))
    exact = len(order) == len(sizes)
    return order if exact else order + _peeled(neighbours, done), exact


def _peeled(neighbours: Sequence[set[int]], done: Sequence[bool]) -> list[int]:
    """The remaining variables, always the one with the fewest remaining neighbours next."""
    done = list(done)
    left = [len(around) for around in neighbours]
    heap = [(n, v) for v, n in enumerate(left) if not done[v]]
    heapify(heap)
    order = []
    while heap:
        n, v = heappop(heap)
        if done[v] or n != left[v]:
            continue
        done[v] = True
        order.append(v)
        for u in neighbours[v]:
            if not done[u]:
                left[u] -= 1
                heappush(heap, (left[u], u))
    return order
