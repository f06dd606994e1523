"""The costs that estimates of reorders rest on: ``python bench/unseen.py --exhaustive --level LEVEL --json FILE`` of
every level, then ``python bench/fit.py FILE [FILE ..]``.

Least squares of relative errors, no cost below 0, over every candidate of every reorder in the files; printed as
layoutkit/reorders/costs.py has them. `--judge FILE` then tells how far the picks by these estimates alone, and with
corrections by the nearest reorders of the files, are from the best candidates of another file.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from scipy.optimize import nnls

from layoutkit.choosing import machine_profile, packaged
from layoutkit.reorders.costs import Counts, SlabCounts, WindowCounts
from layoutkit.reorders.estimate import level_of, scales
from layoutkit.reorders.problem import ReorderProblem
from layoutkit.reorders.variants import VARIANTS

LEAST = 20  # timings of a way of moving, that its costs are told
ROUNDS = 8  # of weighting by what the last one estimated
ELEMENTS = Counts._fields.index("elements")
REACH, NEAREST = 2.5, 32  # of corrections, as in layoutkit/choosing/model.py


def rows(path: str) -> list[tuple[ReorderProblem, dict]]:
    """Problems, and what was told of them."""
    with open(path, encoding="utf-8") as f:
        return [(ReorderProblem.parse(row["problem"]), row) for row in json.load(f)]


def counts(problem: ReorderProblem, names) -> dict[str, tuple[tuple[str, str], Sequence[float]]]:
    """By candidate, the level and how it moves; and what, times the scale of this machine."""
    level = level_of(problem.footprint)
    count, costs = problem.counts(level), {}
    for name in names:
        if cost := count(VARIANTS[name]):
            how, of = cost
            scaled = [n * by for n, by in zip(of, scales(level, how, type(of)._fields))]
            costs[name] = (level, how), type(of)(*scaled)
    return costs


def fit(measured) -> dict[tuple[str, str], np.ndarray]:
    """Nanoseconds of each count on the machine whose scale is 1, by level and how elements are moved."""
    by_way = defaultdict(list)
    for problem, row in measured:
        for name, (way, what) in counts(problem, row["seconds"]).items():
            if math.isfinite(row["seconds"][name]):
                by_way[way].append((what, 1e9 * row["seconds"][name]))
    costs = {}
    for way, points in sorted(by_way.items()):
        if len(points) < LEAST:
            continue
        x, y = np.array([what for what, _ in points], float), np.array([ns for _, ns in points])
        weights = 1 / y
        for _ in range(ROUNDS):
            costs[way], _ = nnls(x * weights[:, None], y * weights)
            weights = 1 / np.sqrt(y * np.maximum(x @ costs[way], 1e-9))
    for (level, way), cost in costs.items():  # runs beside transposes are too few to tell what they cost
        if way.startswith("fused") and (level, "runs") in costs:
            cost[ELEMENTS] = max(cost[ELEMENTS], costs[level, "runs"][ELEMENTS])
    return costs


def estimates(measured, costs) -> list[dict[str, float]]:
    """Nanoseconds of every candidate, by problem."""
    return [{name: float(np.dot(costs[way], what)) for name, (way, what) in counts(problem, row["seconds"]).items()
             if way in costs} for problem, row in measured]  # fmt: skip


def judge(measured, near, costs) -> None:
    """Print how far picks are from the best: by estimates, and with corrections from `near`."""
    guess, there = estimates(measured, costs), estimates(near, costs)
    places = np.array([problem.features() for problem, _ in near])
    for corrected in (False, True):
        lost = []
        for (problem, row), guesses in zip(measured, guess):
            if not guesses:  # of a level that was not fitted
                continue
            sums = defaultdict(lambda: [0.0, 0.0])
            distances = np.abs(places - np.array(problem.features())).sum(1)
            for j in np.argsort(distances)[: NEAREST * corrected]:
                weight = math.exp(-distances[j] / REACH)
                for name, ns in there[j].items():
                    if math.isfinite(near[j][1]["seconds"][name]):
                        sums[name][0] += weight * math.log(1e9 * near[j][1]["seconds"][name] / ns)
                        sums[name][1] += weight
            pick = min(guesses, key=lambda name: guesses[name] * math.exp(sums[name][0] / (sums[name][1] + 0.01)))
            lost.append(math.log(row["seconds"][pick] / min(row["seconds"].values())))
        how = "estimates and the nearest" if corrected else "estimates"
        mean, most = math.exp(np.mean(lost)), math.exp(max(lost))
        print(f"{how}: the pick takes {mean:.3f} of the best one's time, {most:.2f} at most")


def main(argv=None) -> int:
    """Run; returns the exit code."""
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("files", nargs="+")
    p.add_argument("--judge", metavar="FILE")
    args = p.parse_args(argv)
    with machine_profile.scaled(packaged.this_machine()):
        return tell(args)


def tell(args: argparse.Namespace) -> int:
    """Print costs, and how well they choose."""
    measured = [row for path in args.files for row in rows(path)]
    costs = fit(measured)
    for level in dict.fromkeys(level for level, _ in costs):
        print(f"    {level.upper()}: {{")
        for of, way in costs:
            if of == level:
                kind = {"windows": WindowCounts, "slabs": SlabCounts}.get(way, Counts)
                print(f'        "{way}": {kind.__name__}({", ".join(f"{x:.3g}" for x in costs[of, way])}),')
        print("    },")
    if args.judge:
        judge(rows(args.judge), measured, costs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
