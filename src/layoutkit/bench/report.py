"""Results of a benchmark: winner, lead and share of the limit of each problem, and totals; as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, log

from ..choosing.costfile import Cost
from .folding import COLUMNS, fold, table
from .suites import Case

UNITS = {"GFLOP/s": "FMA peak", "GB/s": "a copy"}


@dataclass(frozen=True)
class Result:
    """A case, the costs of its candidates, and the machine's limit (work per second), sampled before and after."""

    case: Case
    costs: dict[str, Cost]
    limits: tuple[float, ...]
    cold: float | None = None  # seconds of the winner with a cold filter

    @property
    def order(self) -> list[str]:
        """Candidates, best first."""
        return sorted(self.costs, key=lambda name: self.costs[name].min)

    @property
    def seconds(self) -> float:
        """Time of the winner."""
        return self.costs[self.order[0]].min

    @property
    def lead(self) -> float | None:
        """Time of the second relative to the winner; None if there is one candidate."""
        return self.costs[self.order[1]].min / self.seconds if len(self.costs) > 1 else None

    @property
    def rate(self) -> float:
        """Work per second."""
        return self.case.work / self.seconds

    @property
    def share(self) -> float:
        """Rate relative to the limit."""
        return self.rate / self.limit

    @property
    def limit(self) -> float:
        """Work per second that the machine can do: the maximum of the samples, as costs are minima."""
        return max(self.limits)

    def json(self) -> dict[str, object]:
        """As plain data."""
        c = self.case
        return {
            "problem": c.key, "kind": c.kind, "title": c.title, "group": c.group, "threads": c.threads,
            "count": c.count, "winner": self.order[0], "seconds": self.seconds, "lead": self.lead,
            "unit": c.unit, "rate": self.rate / 1e9, "limit": self.limit / 1e9, "share": self.share,
            "work": c.work, "bytes": c.nbytes, "cold": self.cold,
            "candidates": {name: self.costs[name]._asdict() for name in self.order},
        }  # fmt: skip


def geomean(values: Iterable[float]) -> float:
    """The geometric mean; 1 for no values."""
    logs = [log(v) for v in values]
    return exp(sum(logs) / len(logs)) if logs else 1.0


@dataclass(frozen=True)
class Total:
    """The results of one kind, group and thread count: sums weighted by count, means over problems."""

    results: Sequence[Result]

    @property
    def count(self) -> int:
        """How often these problems occur in the network."""
        return sum(r.case.count for r in self.results)

    @property
    def seconds(self) -> float:
        """Time of all of them."""
        return sum(r.case.count * r.seconds for r in self.results)

    @property
    def rate(self) -> float:
        """Work per second over all of them."""
        return sum(r.case.count * r.case.work for r in self.results) / self.seconds

    @property
    def share(self) -> float:
        """Geometric mean of the shares."""
        return geomean(r.share for r in self.results)

    @property
    def lead(self) -> float:
        """Geometric mean of the leads."""
        return geomean(r.lead for r in self.results if r.lead)

    def json(self) -> dict[str, object]:
        """As plain data."""
        c = self.results[0].case
        return {
            "kind": c.kind, "group": c.group, "threads": c.threads, "problems": len(self.results),
            "count": self.count, "seconds": self.seconds, "unit": c.unit, "rate": self.rate / 1e9,
            "share": self.share, "lead": self.lead,
        }  # fmt: skip


def totals(results: Sequence[Result]) -> list[Total]:
    """One per kind, thread count and group, in the order in which they were measured."""
    groups: dict[tuple, list[Result]] = {}
    for r in results:
        groups.setdefault((r.case.kind, r.case.threads, r.case.group), []).append(r)
    return [Total(rs) for rs in groups.values()]


def lines(results: Sequence[Result], width: int = COLUMNS) -> Iterator[str]:
    """The report, `width` columns wide: every problem, then the totals."""
    if not results:
        return
    sums = totals(results)
    for total in sums:
        case = total.results[0].case
        yield ""
        yield from fold(f"{case.kind} {case.group}, {on_threads(case.threads)}: share of {UNITS[case.unit]}", width)
        yield from table(list(_rows(total)), width)
    yield "\nall together on t threads: n problems, shares and leads as geometric means"
    yield from table(list(_summary(sums)), width)


def _rows(total: Total) -> Iterator[tuple[str, str, str]]:
    cold = any(r.cold for r in total.results)
    unit = total.results[0].case.unit
    yield "", f" {'n':>4} {'us':>9} {'lead':>6} {unit:>7}  share" + "   cold" * cold, "winner"
    for r in total.results:
        lead = f"{r.lead:5.2f}x" if r.lead else "-"
        figures = f" {r.case.count:>4} {r.seconds * 1e6:9.1f} {lead:>6} {r.rate / 1e9:7.1f} {r.share:6.1%}"
        cold_share = f"{r.share * r.seconds / r.cold:6.1%}" if r.cold else ""
        yield r.case.title, figures + f" {cold_share:>6}" * cold, r.order[0]


def _summary(totals: Sequence[Total]) -> Iterator[tuple[str, str, str]]:
    yield "", "   t    n   met       ms    rate  share   lead", ""
    for t in totals:
        case = t.results[0].case
        figures = f" {case.threads:>3} {len(t.results):>4} {t.count:>5} {t.seconds * 1e3:8.1f} {t.rate / 1e9:7.1f}"
        yield f"{case.kind} {case.group}", f"{figures} {t.share:6.1%} {t.lead:5.2f}x", case.unit


def busy(results: Sequence[Result]) -> Iterator[str]:
    """Warnings about thread counts for which the machine was busy, so that figures are doubtful."""
    peaks: dict[tuple[int, str], list[float]] = {}
    for r in results:
        if r.case.kind == "conv":
            peaks.setdefault((r.case.threads, r.case.peak), []).extend(r.limits)
    for threads in sorted({threads for threads, _ in peaks}):
        samples = [rates for (t, _), rates in peaks.items() if t == threads]
        low, count = sum(x < 0.8 * max(rates) for rates in samples for x in rates), sum(map(len, samples))
        if low > count / 10:
            yield (f"the machine was busy: {low} of {count} times {on_threads(threads)} had less than 80% of "
                   "the FMA peak; measure again when it is idle")  # fmt: skip


def on_threads(n: int) -> str:
    """A number of threads, in words."""
    return f"{n} thread{'s' * (n > 1)}"
