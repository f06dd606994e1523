"""What choosing gained: the choice beside what a person could have decided once and for all, without measuring.

A *policy* is one algorithm wherever it can run; elsewhere the one that can run on most of the problems (of several the
one that takes the least time), and so on. It is given its best candidate for each problem, so what it loses is what the
algorithm alone decides. All policies are judged by the same problems: by the geometric mean over all of them, those too
that have one candidate only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .report import geomean


class Policy(NamedTuple):
    """An algorithm, what stands in for it, on how many problems it ran itself, each problem's time by the choice's."""

    algorithm: str
    otherwise: str | None  # None if it runs everywhere
    ran: int
    ratios: tuple[float, ...]

    @property
    def mean(self) -> float:
        """How many times as long as the choice, geometric mean."""
        return geomean(self.ratios)

    def __str__(self) -> str:
        return f"always {self.algorithm}" + (f", else {self.otherwise}" if self.otherwise else "")


def policies(results: Sequence[dict]) -> list[Policy]:
    """The policies for the problems of `results` (as --json writes them), those that lose the least first.

    Examples
    --------
    >>> one = {"seconds": 1.0, "candidates": {"winograd x": {"min": 1.0}, "direct x": {"min": 2.0}}}
    >>> other = {"seconds": 3.0, "candidates": {"direct x": {"min": 3.0}, "direct y": {"min": 6.0}}}
    >>> [(str(p), p.ratios) for p in policies([one, other])]
    [('always winograd, else direct', (1.0, 1.0)), ('always direct', (2.0, 1.0))]
    """
    times = [_times(r) for r in results]
    ran: dict[str, list[float]] = {}
    for each in times:
        for algorithm, ratio in each.items():
            ran.setdefault(algorithm, []).append(ratio)
    stand_ins = sorted(ran, key=lambda name: (-len(ran[name]), geomean(ran[name])))
    result = []
    for name in ran:
        others = [other for other in stand_ins if other != name]
        ratios = tuple(next(each[a] for a in (name, *others) if a in each) for each in times)
        everywhere = len(ran[name]) == len(times)
        result.append(Policy(name, None if everywhere else others[0], len(ran[name]), ratios))
    return sorted(result, key=lambda policy: policy.mean)


def _times(result: dict) -> dict[str, float]:
    """The least time of each algorithm by that of the choice."""
    fastest: dict[str, float] = {}
    for candidate, cost in result["candidates"].items():
        algorithm = candidate.partition(" ")[0]
        fastest[algorithm] = min(fastest.get(algorithm, float("inf")), cost["min"] / result["seconds"])
    return fastest
