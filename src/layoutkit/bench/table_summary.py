"""What a cost table says of a machine, on one page; two of them side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from .._core.runtime import registry
from ..choosing.costfile import Cost, CostFile
from ..choosing.keys import operation
from ..choosing.machine_profile import LINE_BYTES, MachineProfile
from .listed import exact_cases
from .report import UNITS, geomean, on_threads
from .table_files import checked, profile_of, why_not_here

LABEL, COLUMN = 26, 26  # characters
WINNERS = 3  # candidates that are named of each operation


@dataclass(frozen=True)
class Table:
    """A table in a file, and the profile beside it."""

    path: Path
    file: CostFile
    profile: MachineProfile | None
    costs: Mapping[str, Mapping[str, Cost]]  # by problem and candidate
    groups: Mapping[str, list[str]]  # see `grouped`

    @classmethod
    def read(cls, path: Path) -> Table:
        """OSError or ValueError where there is none."""
        file = checked(path)
        costs = {problem: costs for problem, costs in file.all_costs().items() if costs}
        return cls(path, file, profile_of(path), costs, grouped(costs))

    def fastest(self, key: str) -> str:
        """The candidate of a problem that takes least."""
        costs = self.costs[key]
        return min(costs, key=lambda name: costs[name].min)

    def seconds(self, key: str) -> float:
        """Of that candidate."""
        return self.costs[key][self.fastest(key)].min


def grouped(problems: Iterable[str]) -> dict[str, list[str]]:
    """Problems by operation, and by threads where these are told."""
    groups: dict[str, list[str]] = {}
    for key in sorted(problems):
        last = key.rpartition(" t")[2]
        threads = f", {on_threads(int(last))}" if last.isdigit() and int(last) else ""
        groups.setdefault(f"{operation(key)}{threads}", []).append(key)
    return groups


def facts(table: Table) -> Iterator[tuple[str, str]]:
    """What a table says, as labels and texts."""
    m = table.file.machine
    yield "processor", str(m.get("cpu"))
    yield "cores", str(m.get("cores"))
    yield "instruction set", str(m.get("isa"))
    sizes = m.get("caches")  # a table may come from anywhere
    yield "caches", ", ".join(_bytes(size) for size in sizes if type(size) is int) if isinstance(sizes, list) else ""
    yield "layoutkit", f"{m.get('version')}, build {m.get('build')}"
    yield "problems", str(len(table.costs))
    yield "timings", str(sum(c.count for costs in table.costs.values() for c in costs.values()))
    spreads = [c.spread / c.median for costs in table.costs.values() for c in costs.values()]
    yield "their spread", f"{median(spreads):.1%} of the median" if spreads else ""
    yield from _limits(table)
    for group, keys in table.groups.items():
        yield group, f"{len(keys)} problems"
        yield "  mean rate", _rate(table, keys)
        best = Counter(table.fastest(key).partition(" ")[0] for key in keys)
        yield "  fastest", ", ".join(f"{name} {count / len(keys):.0%}" for name, count in best.most_common(WINNERS))


def _limits(table: Table) -> Iterator[tuple[str, str]]:
    """What the machine can do, by its profile."""
    p, isa = table.profile, table.file.machine.get("isa")
    if p is None:
        return
    lanes = max(
        (k.lanes for k in registry.kernels("peak", "f32", all_isas=True) if _extends(str(isa), k.isa)), default=0
    )
    yield "one core: float32", f"{2 * lanes / p.fma_f32:.0f} GFLOP/s" if lanes else ""
    yield "  copy in L2, L3", f"{_copied(p.copy_l2)}, {_copied(p.copy_l3)} GB/s"
    yield "  copy in memory", f"{_copied(min(p.copy_memory, p.stream))} GB/s"
    yield "all cores: copy in memory", f"{_copied(p.copy_all)} GB/s"


def _extends(isa: str, base: str) -> bool:
    return isa == base or isa.startswith(f"{base}_")


def _copied(nanoseconds: float) -> str:
    """GB/s, read and written, of a line in so long."""
    return f"{2 * LINE_BYTES / nanoseconds:.0f}"


def _rate(table: Table, keys: list[str]) -> str:
    """The geometric mean of work in a second."""
    found: dict[str, list[float]] = {}
    for key in keys:
        try:
            cases = list(exact_cases(key, (1,)))
        except ValueError:
            continue  # of an operation whose work is not counted
        for case in cases:
            found.setdefault(case.unit, []).append(case.work / table.seconds(key) / 1e9)
    return ", ".join(f"{geomean(rates):.1f} {unit}" for unit, rates in found.items() if unit in UNITS)


def _bytes(size: int) -> str:
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"


def one(table: Table) -> Iterator[str]:
    """Lines about a table."""
    yield str(table.path)
    for label, text in facts(table):
        if text:
            yield f"{label:<{LABEL}}{text}"
    why = why_not_here(table.file)
    yield "it applies on this machine" if not why else f"it does not apply on this machine: {why}"


def both(a: Table, b: Table) -> Iterator[str]:
    """Lines about two tables: side by side, then what both have measured."""
    yield f"A is {a.path}"
    yield f"B is {b.path}"
    yield f"{'':<{LABEL}}{'A':<{COLUMN}}B"
    of_a, of_b = _labelled(a), _labelled(b)
    for label in dict.fromkeys([*of_a, *of_b]):
        left, right = of_a.get(label, ""), of_b.get(label, "")
        if left or right:
            shown = label.partition("|")[2]
            if len(left) >= COLUMN or len(right) > COLUMN:
                yield f"{shown:<{LABEL}}A: {left or '-'}"
                yield f"{'':<{LABEL}}B: {right or '-'}"
            else:
                yield f"{shown:<{LABEL}}{left or '-':<{COLUMN}}{right or '-'}"
    yield from compared(a, b)


def _labelled(table: Table) -> dict[str, str]:
    """The facts, each under its label and the one that it is indented below."""
    found, above = {}, ""
    for label, text in facts(table):
        above = above if label.startswith(" ") else label
        found[f"{above}|{label}"] = text
    return found


def compared(a: Table, b: Table) -> Iterator[str]:
    """Lines about the problems that both tables have."""
    shared = a.costs.keys() & b.costs.keys()
    if not shared:
        yield "no problem is in both"
        return
    yield f"of the {len(shared)} problems in both:"
    for group, keys in grouped(shared).items():
        ratio = geomean(b.seconds(key) / a.seconds(key) for key in keys)
        same = sum(a.fastest(key) == b.fastest(key) for key in keys)
        told = f"B takes {ratio:.2f} times as long as A"
        yield f"{group:<{LABEL}}{told}; the same candidate is fastest in {same} of {len(keys)}"
