"""Policies that need no measuring, to compare the choice with.

A *policy* is one algorithm wherever it can run; elsewhere the one that can run on most of the problems (of several the
fastest), and so on. It has the time of the algorithm's best candidate for each problem. All policies are compared by
the geometric mean over the same problems, including those with a single candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .report import geomean


class Policy(NamedTuple):
    """An algorithm, its fallback, on how many problems it can run, and each problem's time relative to the choice."""

    algorithm: str
    fallback: str | None  # None if it runs everywhere
    problems: int
    ratios: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Geometric mean of `ratios`."""
        return geomean(self.ratios)

    def __str__(self) -> str:
        return f"always {self.algorithm}" + (f", else {self.fallback}" if self.fallback else "")


def policies(results: Sequence[dict]) -> list[Policy]:
    """The policies for the problems of `results` (as --json writes them), fastest first.

    Examples
    --------
    >>> a = {"seconds": 1.0, "candidates": {"winograd x": {"min": 1.0}, "direct x": {"min": 2.0}}}
    >>> b = {"seconds": 3.0, "candidates": {"direct x": {"min": 3.0}, "direct y": {"min": 6.0}}}
    >>> [(str(p), p.ratios) for p in policies([a, b])]
    [('always winograd, else direct', (1.0, 1.0)), ('always direct', (2.0, 1.0))]
    """
    times = [_times(r) for r in results]
    ratios_of: dict[str, list[float]] = {}
    for by_algorithm in times:
        for algorithm, ratio in by_algorithm.items():
            ratios_of.setdefault(algorithm, []).append(ratio)
    order = sorted(ratios_of, key=lambda name: (-len(ratios_of[name]), geomean(ratios_of[name])))
    result = []
    for name, own in ratios_of.items():
        fallbacks = [other for other in order if other != name]
        ratios = tuple(next(t[a] for a in (name, *fallbacks) if a in t) for t in times)
        result.append(Policy(name, None if len(own) == len(times) else fallbacks[0], len(own), ratios))
    return sorted(result, key=lambda policy: policy.mean)


def _times(result: dict) -> dict[str, float]:
    """The least time of each algorithm relative to the choice."""
    fastest: dict[str, float] = {}
    for candidate, cost in result["candidates"].items():
        algorithm = candidate.partition(" ")[0]
        fastest[algorithm] = min(fastest.get(algorithm, float("inf")), cost["min"] / result["seconds"])
    return fastest
