"""The model: the expected time of a candidate that was not measured here.

Every candidate comes with an estimate by counting: operations, bytes, tiles. The model corrects it by how far such
estimates were off for the same candidate on the nearest problems that were measured,

    log correction = sum of w log(measured / estimate) / sum of w        w = exp(-distance / REACH_OCTAVES)

over the `NEAREST_PROBLEMS` of each table, distances being sums over the logarithmic features. The mean of a problem's
candidates is averaged apart, over the problems, so that a moment when the machine was slow does not count against those
that were measured then. The mean of candidates that differ in the kernel only enters with weight `KERNELS_WEIGHT`, and
into that the mean of all with `PRIOR_WEIGHT`: they decide for candidates that were never measured nearby. Costs of this
machine weigh `OWN_WEIGHT` times those that come with the package, which were measured on another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from math import exp, log
from pathlib import Path

import numpy as np

from .._core.runtime import registry
from . import keys, machine_profile, packaged, shipped
from .costfile import Cost
from .problem import Problem
from .table import cost_table

REACH_OCTAVES = 2.5
PRIOR_WEIGHT, KERNELS_WEIGHT, OWN_WEIGHT = 0.01, 5.0, 4.0
NEAREST_PROBLEMS = 32
OFF_RATIO = 1e4  # an estimate that is off by more belongs to another problem: the pair is ignored
MAX_PROBLEMS = 2048  # considered of a table and operation: more add little, and the search takes longer

_parsers: dict[str, Callable[[str], Problem]] = {}


def parses(operation: str, pattern: str = ".*"):
    """Register the function that parses keys that begin with `operation`.

    Tables, which may come from anywhere, may hold keys that match `pattern`; what they describe must be bounded.
    """

    def register(function: Callable[[str], Problem]):
        keys.grammar(operation, pattern)
        _parsers[operation] = function
        return function

    return register


@lru_cache(16 * MAX_PROBLEMS)
def problem_of(key: str, isa: str) -> tuple[Problem, Sequence[float]] | None:
    """The problem of a table's key, and its features; None if there is none."""
    parse = _parsers.get(keys.operation(key))
    if parse is None or keys.why_invalid(key):
        return None
    try:
        problem = parse(key)
        return problem, problem.features()
    except (ArithmeticError, ValueError):  # a key of another version, or an invalid one
        return None


def log_errors(key: str, costs: Mapping[str, Cost], isa: str) -> dict[str, float]:
    """log(measured / estimate) by candidate, of those that have an estimate which is not off by `OFF_RATIO`."""
    parsed = problem_of(key, isa)
    try:
        estimate = parsed[0].estimates() if parsed else None
        estimates = {name: estimate(name) for name in costs} if estimate else {}
    except (ArithmeticError, ValueError):  # an invalid key, in a table written by hand
        return {}
    ratios = {name: costs[name].min / seconds for name, seconds in estimates.items() if seconds}
    return {name: log(ratio) for name, ratio in ratios.items() if 1 / OFF_RATIO < ratio < OFF_RATIO}


@lru_cache(4096)
def _own_log_errors(
    key: str, isa: str, scale: machine_profile.MachineProfile, path: Path, generation: int
) -> dict[str, float]:
    with machine_profile.scaled(scale):
        return log_errors(key, cost_table.costs(key), isa)


class Neighbours:
    """The problems of one operation among `problems`, by their features: at most `MAX_PROBLEMS`, evenly drawn."""

    def __init__(self, problems: Sequence[str], what: str, isa: str) -> None:
        candidates = [key for key in problems if keys.operation(key) == what]
        candidates = candidates[:: -(-len(candidates) // MAX_PROBLEMS) or 1]
        parsed = [(key, problem[1]) for key in candidates if (problem := problem_of(key, isa))]
        self._keys = [key for key, _ in parsed]
        self._columns = np.array([features for _, features in parsed], float).T.copy()

    @classmethod
    def shipped(cls, table: shipped.Shipped, what: str, isa: str) -> Neighbours:
        """Those of a table that tells their features."""
        self = object.__new__(cls)
        try:
            self._keys, self._columns = table.by_features(what)
        except ValueError:
            return cls(list(table), what, isa)
        return self

    def nearest(self, features: Sequence[float]) -> list[tuple[str, float]]:
        """The keys of the nearest problems, and their distances."""
        if not self._keys:
            return []
        apart = self._columns - np.array(features, float)[:, np.newaxis]
        distances = np.abs(apart, out=apart).sum(axis=0)
        order = np.argsort(distances, kind="stable")[:NEAREST_PROBLEMS]
        return [(self._keys[i], float(distances[i])) for i in order]


@lru_cache(16)
def _packaged(operation: str, isa: str, file: Path | None) -> Neighbours:
    return Neighbours.shipped(packaged.read(file), operation, isa)


@lru_cache(16)
def _own(operation: str, isa: str, path: Path, generation: int) -> Neighbours:
    return Neighbours(cost_table.problems(), operation, isa)


# Neighbours, the logarithmic errors of a key's estimates by candidate, and the weight of the table.
Table = tuple[Neighbours, Callable[[str], Mapping[str, float]], float]


def corrections(problem: Problem, own: bool = True) -> Corrections:
    """The factors by which estimates are off, from both tables, or without `own` from the shipped one only."""
    isa, key = registry.isa(), problem.key
    try:
        features = None if keys.why_invalid(key) else problem.features()
    except (ArithmeticError, ValueError):
        features = None
    if features is None:
        return Corrections({}, 1.0)
    operation = keys.operation(key)
    file = packaged.file(isa)
    tables: list[Table] = [(_packaged(operation, isa, file), packaged.read(file).log_errors, 1.0)]
    if own:
        path, generation, scale = cost_table.path, cost_table.generation, packaged.this_machine()
        own_errors = partial(_own_log_errors, isa=isa, scale=scale, path=path, generation=generation)
        tables.append((_own(operation, isa, path, generation), own_errors, OWN_WEIGHT))
    return weigh(features, tables)


class Corrections(dict[str, float]):
    """Factors by candidate; by default those of its name without the kernel, else `common`. `basis`: their source, in
    words."""

    def __init__(
        self, factors: Mapping[str, float], common: float, basis: str = "", by_prefix: Mapping[str, float] | None = None
    ) -> None:
        super().__init__(factors)
        self.common, self.basis, self._by_prefix = common, basis, by_prefix or {}

    def __missing__(self, name: str) -> float:
        return self._by_prefix.get(without_kernel(name), self.common)


@lru_cache(4096)
def without_kernel(name: str) -> str:
    """The name of a candidate without that of its kernel, shared by candidates of several kernels or types."""
    return " ".join(word for word in name.split() if not word.endswith(_isas()))


@lru_cache(1)
def _isas() -> tuple[str, ...]:
    """The suffixes of the names of kernels."""
    return tuple(f"_{isa}" for isa in registry.isas())


def weigh(features: Sequence[float], tables: Sequence[Table]) -> Corrections:
    """Corrections from `tables`, for a problem of these features."""
    sums: dict[str, list[float]] = {}
    offsets = weights = 0.0  # of what all candidates of a problem have in common
    nearest = None
    for neighbours, errors, weight in tables:
        for near, distance in neighbours.nearest(features):
            found = errors(near)
            if not found:
                continue
            w = weight * exp(-distance / REACH_OCTAVES)
            nearest = min(nearest or (distance, near), (distance, near))
            offset = sum(found.values()) / len(found)
            offsets += w * offset
            weights += w
            for name, error in found.items():
                s = sums.get(name)
                if s is None:
                    sums[name] = [w * (error - offset), w]
                else:
                    s[0] += w * (error - offset)
                    s[1] += w
    by_prefix: dict[str, list[float]] = {}
    for name, (error_sum, weight) in sums.items():
        shared = by_prefix.setdefault(without_kernel(name), [0.0, 0.0])
        shared[0] += error_sum
        shared[1] += weight
    means = {name: s / (w + PRIOR_WEIGHT) for name, (s, w) in by_prefix.items()}
    own = {
        name: (s + KERNELS_WEIGHT * means[without_kernel(name)]) / (w + KERNELS_WEIGHT) for name, (s, w) in sums.items()
    }
    common = offsets / weights if weights else 0.0
    basis = f"nearest measured ({nearest[0]:.1f} away): {nearest[1]}" if nearest else ""
    factors, of_prefixes = ({name: exp(error + common) for name, error in of.items()} for of in (own, means))
    return Corrections(factors, exp(common), basis, of_prefixes)
