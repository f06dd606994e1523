"""What each object of a build costs, the most expensive first: python tools/build_costs.py build [--by source]

    CC=gcc python -m pip install --no-build-isolation --no-deps --target build/site . -Cbuild-dir=build
    python tools/build_costs.py build

Seconds are those that ninja noted when it made an object last. Begin with an empty directory, without ccache, and on a
machine that does nothing else: what waits for a core counts as well.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

OUTPUT = re.compile(r"(?:.*/)?(?:lib)?(?P<target>[^/]*?)(?:\.cpython[^/]*)?\.(?:a|so)\.p/(?P<source>.*)")
LINKED = re.compile(r"(?:.*/)?(?:lib)?(?P<target>.*?)(?:\.cpython[^/]*)?\.(?:a|so)")
PLACE = re.compile(r"^(?:meson-generated_\.*)?(?:.*_core_)?")  # of a source, where its name begins


class Made(NamedTuple):
    """A step of a build: its first output, and when it began and ended, in milliseconds."""

    output: str
    begin: int
    end: int

    @property
    def target(self) -> str:
        """What it is made for."""
        found = OUTPUT.fullmatch(self.output) or LINKED.fullmatch(self.output)
        return found["target"] if found else self.output

    @property
    def source(self) -> str:
        """What it is made of, or "link"."""
        found = OUTPUT.fullmatch(self.output)
        return PLACE.sub("", found["source"].removesuffix(".o")) if found else "link"


BY: dict[str, Callable[[Made], str]] = {
    "object": lambda made: f"{made.target}: {made.source}",
    "source": lambda made: made.source,
    "target": lambda made: made.target,
}


def read(log: Iterable[str]) -> list[Made]:
    """The steps in a log of ninja, each as it was done last."""
    found: dict[str, Made] = {}
    for line in log:
        if not line.startswith("#"):
            begin, end, _, output, command = line.rstrip("\n").split("\t")
            found[command] = Made(output, int(begin), int(end))  # a step has a line for each of its outputs
    return list(found.values())


def report(steps: list[Made], by: str, most: int) -> list[str]:
    """What is printed."""
    costs: Counter[str] = Counter()
    for step in steps:
        costs[BY[by](step)] += step.end - step.begin
    total = sum(costs.values())
    took = max(step.end for step in steps) - min(step.begin for step in steps)
    lines = [f"{took / 1e3:.1f} s, {total / 1e3:.1f} s of steps: {total / max(1, took):.1f} at a time"]
    lines += [f"{cost / 1e3:8.2f} s {cost / max(1, total):6.1%}  {name}" for name, cost in costs.most_common(most)]
    rest = sum(sorted(costs.values())[: max(0, len(costs) - most)])
    return [*lines, f"{rest / 1e3:8.2f} s {rest / max(1, total):6.1%}  {len(costs) - most} others"] if rest else lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("build", type=Path, help="a build directory")
    parser.add_argument("--by", choices=BY, default="object")
    parser.add_argument("--most", type=int, default=40, help="so many lines")
    args = parser.parse_args()
    with open(args.build / ".ninja_log") as log:
        print("\n".join(report(read(log), args.by, args.most)))


if __name__ == "__main__":
    main()
