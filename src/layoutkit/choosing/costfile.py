"""The text of a cost table: versioned JSON that people can read and compare, one line a candidate, best first.

    {"layoutkit": 2, "crc32": 3632233996,
     "machine": {"cpu": "..", "caches": [49152, 1048576], "cores": 2, "isa": "avx2", "version": "..", "build": ".."},
     "microseconds": ["least", "median", "spread", "count"],
     "costs": {
      "reorder 1x64x56x56 NCHW>NHWC x32 t1": {
       "store allx64": [18.31, 18.5, 0.09, 41],
       "stream allxall": [44.2, 45.03, 0.5, 3]},
      ..}}

The checksum covers every line below the first, so what is damaged is no table. Keys are checked against their grammar
when a table is read (see `keys`), costs when they are asked for: problems that fail are left out and counted. Nothing
else is parsed before it is asked for: a table is read in little more than the time that its checksum takes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from . import keys

VERSION = 2
MAX_BYTES = 8 << 20  # of a table's text; tables are a few hundred KB
MAX_SECONDS = 1e6  # of a cost: longer than any timing, and sums stay finite
MIN_SECONDS = 1e-12
MAX_COUNT = 2**53
SHOWN_CHARACTERS = 200  # of a table's text in an error
DIGITS = 4  # significant ones of a cost: memory and file hold the same number

_FIELDS = ' "microseconds": ["least", "median", "spread", "count"],'


class Cost(NamedTuple):
    """Seconds of one candidate: least, median, median distance from the median, and how many timings."""

    min: float
    median: float
    spread: float
    count: int  # type: ignore[assignment]  # hides the method of tuples

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Cost:
        """The cost that timings show."""
        s = sorted(min(max(t, MIN_SECONDS), MAX_SECONDS) for t in seconds)
        median = s[len(s) // 2]
        deviations = sorted(abs(t - median) for t in s)
        return cls(_round(s[0]), _round(median), _round(deviations[len(s) // 2]), len(s))

    def merge(self, other: Cost) -> Cost:
        """Both measurements as one: the least of all, means of medians and spreads weighted by their counts."""
        count = self.count + other.count
        least = min(self.min, other.min)
        median, spread = (
            _round((a * self.count + b * other.count) / count)
            for a, b in ((self.median, other.median), (self.spread, other.spread))
        )
        return Cost(least, max(least, median), spread, min(count, MAX_COUNT))

    def covers(self, other: Cost) -> bool:
        """Whether `other` has no more timings and no lower least time."""
        return self.count >= other.count and self.min <= other.min


Costs = dict[str, dict[str, Cost]]  # problem -> candidate -> cost


def _round(x: float) -> float:
    return float(f"{x:.{DIGITS}g}")


def merge(into: Costs, other: Mapping[str, Mapping[str, Cost]]) -> None:
    """Add the measurements of `other` to `into`."""
    for problem, candidates in other.items():
        costs = into.setdefault(problem, {})
        for name, cost in candidates.items():
            costs[name] = costs[name].merge(cost) if name in costs else cost


def adopt(into: Costs, other: Mapping[str, Mapping[str, Cost]]) -> bool:
    """Add those measurements of `other` that `into` does not cover, so that nothing is added twice. Returns whether any
    were."""
    added: Costs = {}
    for problem, candidates in other.items():
        costs = into.get(problem, {})
        new = {name: c for name, c in candidates.items() if name not in costs or not costs[name].covers(c)}
        if new:
            added[problem] = new
    merge(into, added)
    return bool(added)


def dump(costs: Mapping[str, Mapping[str, Cost]], identity: Mapping[str, object], best: int | None = None) -> str:
    """The table's text; with `best`, only so many candidates of each problem."""
    problems = ",\n".join(f"  {json.dumps(p)}: {{\n{_lines(costs[p], best)}}}" for p in sorted(costs))
    body = f' "machine": {json.dumps(identity)},\n{_FIELDS}\n "costs": {{\n{problems}}}}}\n'
    return f"{_head(body)}\n{body}"


def dump_within(most: int, costs: Mapping[str, Mapping[str, Cost]], identity: Mapping[str, object]) -> bytes:
    """The table's text in at most `most` bytes: of more, the candidates that took longest are left out.

    Raises
    ------
    ValueError
        The best candidate of each problem takes more.
    """
    for best in (None, 16, 8, 4, 2, 1):
        text = dump(costs, identity, best).encode()
        if len(text) <= most:
            return text
    raise ValueError(f"{len(costs)} problems take more than {most} bytes")


def _head(body: str) -> str:
    return f'{{"layoutkit": {VERSION}, "crc32": {zlib.crc32(body.encode(errors="surrogatepass"))},'


def _lines(candidates: Mapping[str, Cost], best: int | None) -> str:
    best_first = sorted(candidates.items(), key=lambda item: (item[1], item[0]))[:best]
    return ",\n".join(f"   {json.dumps(name)}: {_fields(cost)}" for name, cost in best_first)


def _fields(c: Cost) -> str:
    times = ", ".join(f"{_round(1e6 * t):.15g}" for t in (c.min, c.median, c.spread))
    return f"[{times}, {c.count}]"


class CostFile(Mapping[str, dict[str, Cost]]):
    """The costs of a text, problem by problem; each is parsed when it is first asked for.

    Attributes
    ----------
    machine : dict
        The identity that the text was measured on.
    head : str
        Its first line, which has the checksum of all others.
    dropped : dict of str to str
        Problems left out so far, and why: keys are checked at once, costs when they are asked for.

    Raises
    ------
    ValueError
        The text is not a cost table, or damaged.
    """

    def __init__(self, text: str) -> None:
        head, _, body = text.partition("\n")
        if not head.startswith('{"layoutkit": '):
            raise ValueError("not a layoutkit cost table")
        if not head.startswith(f'{{"layoutkit": {VERSION}, '):
            raise ValueError(f"not of version {VERSION} of layoutkit's cost tables")
        if head != _head(body):
            raise ValueError("its checksum does not fit: damaged, or changed by hand")
        self.head = head
        machine, fields, costs, problems = (*body.split("\n", 3), "", "", "")[:4]
        header = _json(machine.removesuffix(",").join(("{", "}")))
        identity = header.get("machine") if isinstance(header, dict) else None
        if not isinstance(identity, dict) or fields != _FIELDS or costs != ' "costs": {':
            raise ValueError("not laid out as a cost table is")
        self.machine = identity
        if not problems.endswith("}}\n"):
            raise ValueError("costs: expected an object, laid out as a cost table's is")
        self.dropped: dict[str, str] = {}
        self._text: dict[str, str] = {}
        self._parsed: dict[str, dict[str, Cost]] = {}
        problems = problems[:-3]
        for chunk in problems.removeprefix("  ").split(',\n  "') if problems else ():
            key, opening, value = chunk.removeprefix('"').partition('": {\n')  # no string has a line end in it
            if not opening:
                raise ValueError(f"costs: expected a problem and its candidates, got {chunk[:80]!r}")
            problem = _json(f'"{key}"') if "\\" in key else key
            if problem in self._text or problem in self.dropped:
                raise ValueError(f"costs of {shortened(repr(problem))}: twice")
            why = keys.why_invalid(problem)
            if why:
                self.dropped[problem] = why
            else:
                self._text[problem] = f"{{{value}"

    def __getitem__(self, problem: str) -> dict[str, Cost]:
        """The costs of a problem; none where they are nonsense."""
        costs = self._parsed.get(problem)
        if costs is None:
            try:
                costs = _candidates(problem, self._text[problem])
            except ValueError as error:
                costs, self.dropped[problem] = {}, shortened(str(error))
                del self._text[problem]
            self._parsed[problem] = costs
        return costs

    def all_costs(self) -> Costs:
        """The costs of all problems but those dropped."""
        return {problem: costs for problem in self if (costs := self[problem]) or problem not in self.dropped}

    def describe_dropped(self) -> str:
        """What was dropped so far, in words; empty if nothing was."""
        if not self.dropped:
            return ""
        problem, why = next(iter(self.dropped.items()))
        return f"{len(self.dropped)} of its problems are not used, such as {shortened(repr(problem))}: {why}"

    def __contains__(self, problem: object) -> bool:
        return problem in self._text

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._text))  # parsing one may drop it

    def __len__(self) -> int:
        return len(self._text)

    def check(self, identity: Mapping[str, object]) -> None:
        """ValueError that says what differs, if this was not measured on `identity`."""
        if self.machine != identity:
            pairs = ((k, self.machine.get(k), identity.get(k)) for k in {**identity, **self.machine})
            differing = [(k, repr(there), repr(here)) for k, there, here in pairs if there != here][:9]
            why = ", ".join(f"{shortened(k)} {shortened(a)} there and {shortened(b)} here" for k, a, b in differing)
            raise ValueError(f"measured on another machine or build: {why}")


def shortened(text: str, most: int = SHOWN_CHARACTERS) -> str:
    """`text` as an error shows it."""
    return text if len(text) <= most else f"{text[:most]}.."


def _json(text: str, distinct: bool = False) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_distinct if distinct else None)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a candidate stands twice")
    return mapping


def _candidates(problem: str, text: str) -> dict[str, Cost]:
    """The costs in the `text` of an object."""
    costs = _json(text, distinct=True)
    if len(costs) > keys.MAX_CANDIDATES or any(len(name) > keys.MAX_NAME for name in costs):
        raise ValueError(f"over {keys.MAX_CANDIDATES} candidates, or names of over {keys.MAX_NAME} characters")
    return {name: _cost(problem, name, c) for name, c in costs.items()}


def parse(text: str, identity: Mapping[str, object]) -> Costs:
    """All costs in a table's text but those dropped; ValueError says why it is no table of this machine."""
    file = CostFile(text)
    file.check(identity)
    return file.all_costs()


def _cost(problem: str, name: str, fields: object) -> Cost:
    where = f"cost of {name!r} for {problem!r}"
    if not isinstance(fields, list) or len(fields) != 4:
        raise ValueError(f"{where}: expected [least, median, spread, count], got {fields!r}")
    *times, count = fields
    if type(count) is not int or not 1 <= count <= MAX_COUNT:
        raise ValueError(f"{where}: count {count!r} is not a positive integer")
    for x in times:
        if type(x) not in (int, float) or not 0 <= x <= 1e6 * MAX_SECONDS:
            raise ValueError(f"{where}: {x!r} is not a time in microseconds")
    least, median, spread = (_round(x / 1e6) for x in times)
    if not MIN_SECONDS / 2 < least <= median:
        raise ValueError(f"{where}: the least time {least} is not between 0 and the median {median}")
    return Cost(least, median, spread, count)
