"""The measured cost table: what every candidate of a problem took on this machine.

A versioned JSON file per machine identity in the user's cache directory (``LAYOUTKIT_CACHE_DIR``), data
only. Writers lock, merge with what others wrote, and replace the file whole. A file that is damaged or of
another machine counts as empty and is said so once.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock
from platformdirs import user_cache_dir

from . import machine

VERSION = 1


class Cost(NamedTuple):
    """Seconds of one candidate: least, median, and how many timings they are taken from."""

    min: float
    median: float
    count: int

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Cost:
        s = sorted(seconds)
        return cls(s[0], s[len(s) // 2], len(s))

    def merge(self, other: Cost) -> Cost:
        """Both measurements as one: the least of all, the median of the larger."""
        larger = max(self, other, key=lambda c: c.count)
        return Cost(min(self.min, other.min), larger.median, self.count + other.count)


Costs = dict[str, dict[str, Cost]]  # problem -> candidate -> cost


def parse(text: str, identity: Mapping[str, object]) -> Costs:
    """The costs in a table's text; ValueError says why it is no table of this machine."""
    data = json.loads(text)
    if not isinstance(data, dict) or data.get("layoutkit") != VERSION:
        raise ValueError(f"not a layoutkit cost table of version {VERSION}")
    if data.get("machine") != identity:
        raise ValueError(f"measured on another machine or build: {data.get('machine')}")
    costs: Costs = {}
    problems = data.get("costs")
    if not isinstance(problems, dict):
        raise ValueError("costs: expected an object")
    for problem, candidates in problems.items():
        if not isinstance(candidates, dict):
            raise ValueError(f"costs of {problem!r}: expected an object")
        costs[problem] = {name: _cost(problem, name, c) for name, c in candidates.items()}
    return costs


def _cost(problem: str, name: str, fields: object) -> Cost:
    where = f"cost of {name!r} for {problem!r}"
    if not isinstance(fields, list) or len(fields) != 3:
        raise ValueError(f"{where}: expected [min, median, count], got {fields!r}")
    least, median, count = fields
    if type(count) is not int or count < 1:
        raise ValueError(f"{where}: count {count!r} is not a positive integer")
    for x in (least, median):
        if type(x) not in (int, float) or not math.isfinite(x) or x <= 0:
            raise ValueError(f"{where}: {x!r} is not a time in seconds")
    return Cost(float(least), float(median), count)


def dump(costs: Costs, identity: Mapping[str, object]) -> str:
    """The table's text, one line per problem."""
    lines = ",\n".join(
        f"  {json.dumps(problem)}: {json.dumps({k: list(c) for k, c in sorted(candidates.items())})}"
        for problem, candidates in sorted(costs.items())
    )
    return f'{{"layoutkit": {VERSION},\n "machine": {json.dumps(identity)},\n "costs": {{\n{lines}\n}}}}\n'


def merge(into: Costs, other: Costs) -> None:
    """Add the measurements of `other` to `into`."""
    for problem, candidates in other.items():
        mine = into.setdefault(problem, {})
        for name, cost in candidates.items():
            mine[name] = mine[name].merge(cost) if name in mine else cost


class CostTable:
    """The table of this machine: read on first use, written by `save`.

    Attributes
    ----------
    generation : int
        Changes whenever a decision could: what plans made from the table are cached under.
    """

    def __init__(self) -> None:
        self._saved: Costs | None = None
        self._new: Costs = {}
        self.generation = 0

    @property
    def path(self) -> Path:
        """Where the table lives: never the working directory unless the caller says so."""
        root = os.environ.get("LAYOUTKIT_CACHE_DIR") or user_cache_dir("layoutkit", appauthor=False)
        key = hashlib.sha256(json.dumps(machine.identity()).encode()).hexdigest()[:12]
        return Path(root) / f"costs-{key}.json"

    def load(self) -> None:
        """Read the file again; what was recorded since and not saved is kept."""
        self._saved = self._read()
        self.generation += 1

    def _read(self) -> Costs:
        try:
            return parse(self.path.read_text(encoding="utf-8"), machine.identity())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            warnings.warn(f"cost table {self.path} is not used: {error}", RuntimeWarning, stacklevel=2)
            return {}

    def costs(self, problem: str) -> dict[str, Cost]:
        """Measured candidates of a problem; empty where none was."""
        if self._saved is None:
            self.load()
        found = dict(self._saved.get(problem, {}))
        for name, cost in self._new.get(problem, {}).items():
            found[name] = found[name].merge(cost) if name in found else cost
        return found

    def record(self, problem: str, candidate: str, cost: Cost) -> None:
        """Remember a measurement; `save` makes it last."""
        merge(self._new, {problem: {candidate: cost}})
        self.generation += 1

    def save(self) -> Path:
        """Write what was recorded, merged with what other processes wrote; returns the path."""
        path = self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            costs = self._read()
            merge(costs, self._new)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as f:
                    f.write(dump(costs, machine.identity()))
                    f.flush()
                    os.fsync(f.fileno())
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
        self._saved, self._new = costs, {}
        self.generation += 1
        return path


cost_table = CostTable()
