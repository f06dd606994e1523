"""The measured cost table: what every candidate of a problem took on this machine.

A versioned JSON file per machine identity in the user's cache directory (``LAYOUTKIT_CACHE_DIR``), data
only. Writers lock, merge with what others wrote, and replace the file whole. A file that is damaged (its
text has a checksum) or of another machine counts as empty and is said so once. What only a look-up or a save needs
is imported there: importing layoutkit must stay cheap.
"""

from __future__ import annotations

import json
import os
import threading
import warnings
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from . import machine

VERSION = 1
MAX_SECONDS = 1e6  # of a cost: beyond any timing, and its sums stay finite
MAX_COUNT = 2**53
MAX_BYTES = 64 << 20  # of a file; tables are a few hundred KB


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
        """Both measurements as one: the least of all, the mean of the medians weighted by their counts."""
        least, count = min(self.min, other.min), self.count + other.count
        mean = (self.median * self.count + other.median * other.count) / count
        return Cost(least, max(least, mean), min(count, MAX_COUNT))


Costs = dict[str, dict[str, Cost]]  # problem -> candidate -> cost


def parse(text: str, identity: Mapping[str, object]) -> Costs:
    """The costs in a table's text; ValueError says why it is no table of this machine."""
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(data, dict) or data.get("layoutkit") != VERSION:
        raise ValueError(f"not a layoutkit cost table of version {VERSION}")
    head, _, body = text.partition("\n")
    if head != _head(body):
        raise ValueError("its checksum does not fit: damaged, or changed by hand")
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
    if type(count) is not int or not 1 <= count <= MAX_COUNT:
        raise ValueError(f"{where}: count {count!r} is not a positive integer")
    for x in (least, median):
        if type(x) not in (int, float) or not 0 < x <= MAX_SECONDS:
            raise ValueError(f"{where}: {x!r} is not a time in seconds")
    if least > median:
        raise ValueError(f"{where}: the least time {least} is above the median {median}")
    return Cost(float(least), float(median), count)


def _head(body: str) -> str:
    return f'{{"layoutkit": {VERSION}, "crc32": {zlib.crc32(body.encode(errors="surrogatepass"))},'


def dump(costs: Costs, identity: Mapping[str, object]) -> str:
    """The table's text, one line per problem."""
    lines = ",\n".join(
        f"  {json.dumps(problem)}: {json.dumps({k: list(c) for k, c in sorted(candidates.items())})}"
        for problem, candidates in sorted(costs.items())
    )
    body = f' "machine": {json.dumps(identity)},\n "costs": {{\n{lines}\n}}}}\n'
    return f"{_head(body)}\n{body}"


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
        # By path: the instruction set in use and the cache directory may change while the process runs.
        self._saved: dict[Path, Costs] = {}
        self._new: dict[Path, Costs] = {}
        self._doubtful: dict[Path, Costs] = {}
        self._warned: set[Path] = set()
        self._lock = threading.RLock()
        self.generation = 0

    @property
    def path(self) -> Path:
        """Where the table lives: never the working directory unless the caller says so."""
        import hashlib

        root = os.environ.get("LAYOUTKIT_CACHE_DIR")
        if not root:
            from platformdirs import user_cache_dir

            root = user_cache_dir("layoutkit", appauthor=False)
        key = hashlib.sha256(json.dumps(machine.identity()).encode()).hexdigest()[:12]
        return Path(root) / f"costs-{key}.json"

    def load(self) -> None:
        """Read the file again; what was recorded since and not saved is kept."""
        path = self.path
        with self._lock:
            self._saved[path] = self._read(path)
            self.generation += 1

    def _read(self, path: Path) -> Costs:
        try:
            with open(path, "rb") as f:
                content = f.read(MAX_BYTES + 1)
            if len(content) > MAX_BYTES:
                raise ValueError(f"larger than {MAX_BYTES >> 20} MB")
            return parse(content.decode(), machine.identity())
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError) as error:
            if path not in self._warned:
                self._warned.add(path)
                why = str(error) if len(str(error)) < 300 else f"{str(error)[:300]}.."
                warnings.warn(f"cost table {path} is not used: {why}", RuntimeWarning, stacklevel=4)
            return {}

    def costs(self, problem: str) -> dict[str, Cost]:
        """Measured candidates of a problem; empty where none was."""
        path = self.path
        with self._lock:
            if path not in self._saved:
                self.load()
            found = {problem: dict(self._saved[path].get(problem, {}))}
            merge(found, {problem: self._new.get(path, {}).get(problem, {})})
            return self._doubtful.get(path, {}).get(problem, {}) | found[problem]

    def problems(self) -> list[str]:
        """The problems that have measured candidates, doubtful ones aside."""
        path = self.path
        with self._lock:
            if path not in self._saved:
                self.load()
            return sorted({*self._saved[path], *self._new.get(path, {})})

    def record(self, problem: str, candidate: str, cost: Cost, doubtful: bool = False) -> None:
        """Remember a measurement; `save` makes it last.

        A doubtful one serves this process where there is no better, and is never saved.
        """
        path = self.path
        with self._lock:
            into = self._doubtful if doubtful else self._new
            merge(into.setdefault(path, {}), {problem: {candidate: cost}})
            self.generation += 1

    def save(self) -> Path:
        """Write what was recorded, merged with what other processes wrote; returns the path."""
        path = self.path
        import tempfile

        from filelock import FileLock

        path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock, FileLock(f"{path}.lock"):
            costs = self._read(path)
            merge(costs, self._new.get(path, {}))
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
            try:
                with os.fdopen(handle, "wb") as f:
                    f.write(dump(costs, machine.identity()).encode())
                    f.flush()
                    os.fsync(f.fileno())
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
            self._saved[path] = costs
            self._new.pop(path, None)
            self.generation += 1
        return path


cost_table = CostTable()
