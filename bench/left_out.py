"""How well estimates choose on a processor whose table is left out: ``python bench/left_out.py [TABLE ..]``.

Every table that comes with the package, or is named, holds what all candidates of some problems took on its machine,
and that machine's profile. Here the problems of one are decided as a user of that processor would have them decided
with another table in the package: estimates for the profile of the one, corrected by the other. The cost of a pick is
what the left-out table says it took, over that of the best candidate. A problem that both tables have does not help
to decide itself. Nothing is measured, so any machine can run it.
`--alone`: each problem is decided by all others of its own table, as on a processor like the one that measured it.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path

from layoutkit.bench.listed import as_on, runnable, with_isa
from layoutkit.bench.report import geomean
from layoutkit.choosing import keys, model, packaged, shipped
from layoutkit.convolutions.task import ConvTask

POOR = 1.25  # a pick that takes more times as long as the best


class Machine:
    """A table, and what it says of its machine."""

    def __init__(self, path: Path) -> None:
        self.name, self.table = path.stem.removeprefix("costs-"), shipped.read(path)
        self.own_isa = str(self.table.machine["isa"])
        self.isa = runnable(self.own_isa)

    def known_as(self, name: str) -> str:
        """The name here of a candidate of the table."""
        return with_isa(name, self.own_isa, self.isa)


def picks(of: Machine, by: Machine) -> Iterator[tuple[str, float, str, str]]:
    """Problem, cost of the pick over the best, pick and best, of every problem that both tables have some like."""
    neighbours = {}
    for key in of.table:
        costs = {of.known_as(name): cost.min for name, cost in of.table[key].items()}
        what = keys.operation(key)
        if what not in neighbours:
            neighbours[what] = model.Neighbours(list(by.table), what, of.isa)
        parsed = model.problem_of(key, of.isa)
        estimate = parsed and parsed[0].estimates()
        if len(costs) < 2 or parsed is None or estimate is None:
            continue

        def errors(near: str, itself: str = key) -> Mapping[str, float]:
            if near == itself:
                return {}
            return {by.known_as(name): error for name, error in by.table.log_errors(near).items()}

        factors = model.weigh(parsed[1], [(neighbours[what], errors, 1.0)])
        expected = {name: seconds * factors[name] for name in costs if (seconds := estimate(name))}
        if len(expected) > 1:
            pick, best = min(expected, key=expected.__getitem__), min(costs, key=costs.__getitem__)
            yield key, costs[pick] / costs[best], pick, best


def kind(key: str) -> str:
    """Of a problem: the operation, of convolutions with their types."""
    what = keys.operation(key)
    return f"{what} {ConvTask.parse(key).problem.types.name}" if what == "conv" else what


def show(of: Machine, by: Machine, worst: int) -> None:
    """Decide the problems of one machine with the table of another, and print by kind what that costs."""
    regrets = defaultdict(list)
    with as_on(of.table.machine):
        for pick in picks(of, by):
            regrets[kind(pick[0])].append(pick)
    print(f"\n{of.name}'s problems with {'all others' if by is of else f'the table of {by.name}'}")
    for what, found in sorted(regrets.items()):
        ratios = [ratio for _, ratio, _, _ in found]
        poor = sum(ratio > POOR for ratio in ratios)
        print(f"{what:<16}{len(found):>6} problems: geomean {geomean(ratios):.3f}, "
              f"most {max(ratios):.2f}, {poor} past {POOR}")  # fmt: skip
        for key, ratio, pick, best in sorted(found, key=lambda p: -p[1])[:worst]:
            print(f"    {ratio:5.2f}  {pick} | {best} | {key}")


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    p.add_argument("tables", nargs="*", type=Path, metavar="TABLE", help="default: all that come with the package")
    p.add_argument("--alone", action="store_true", help="decide problems by the others of their own table")
    p.add_argument("--worst", type=int, default=0, metavar="N", help="print the N worst picks of each kind")
    args = p.parse_args(argv)
    machines = [Machine(path) for path in args.tables or sorted(packaged.DATA.glob("costs-*.txt"))]
    for of, by in zip(machines, machines) if args.alone else permutations(machines, 2):
        show(of, by, args.worst)
    return 0


if __name__ == "__main__":
    sys.exit(main())
