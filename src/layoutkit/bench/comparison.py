"""``python -m layoutkit.bench compare A.json B.json``: what changed between two runs, each as a share of its limit."""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence

from .folding import print_folded
from .report import geomean

FIELDS = ("problem", "kind", "group", "title", "threads", "count", "unit", "work", "bytes", "share", "rate", "limit",
          "seconds", "lead", "winner", "candidates")  # fmt: skip
BANDWIDTH_FIELDS = "threads", "level", "bytes", "rate"
NOISE_RATIO = 1.05  # smaller changes are not listed one by one
CONTINUED_COLUMN = 26  # indentation of folded lines: below the winner


def read(path: str) -> dict:
    """The JSON of a run; ValueError if the file is something else."""
    with open(path, encoding="utf-8") as f:
        try:
            data = json.load(f)
            for r in data["results"]:
                for field in FIELDS:
                    r[field]
            for b in data.get("bandwidths", ()):  # older runs have none
                for field in BANDWIDTH_FIELDS:
                    b[field]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"{path}: not what layoutkit.bench --json writes ({reason})") from None
    return data


def lines(a: dict, b: dict) -> Iterator[str]:
    """The comparison: the problems whose share changed, then geometric means."""
    before = {r["problem"]: r for r in a["results"]}
    both = [(before[r["problem"]], r) for r in b["results"] if r["problem"] in before]
    if a.get("machine") != b.get("machine"):
        machine_a, machine_b = a.get("machine") or {}, b.get("machine") or {}
        differing = [f"{k}: {v} / {machine_b.get(k)}" for k, v in machine_a.items() if v != machine_b.get(k)]
        yield "not measured alike: " + ", ".join(differing)
    only_a, only_b = len(before) - len(both), len(b["results"]) - len(both)
    yield f"{len(both)} problems in both, {only_a} only in A, {only_b} only in B"
    ratios = defaultdict(list)
    changed = []
    for x, y in both:
        ratio = y["share"] / x["share"]
        ratios[x["kind"], x["threads"], x["group"]].append((ratio, x["seconds"] / y["seconds"]))
        if max(ratio, 1 / ratio) > NOISE_RATIO:
            changed.append((ratio, x, y))
    if changed:
        yield f"\n{'B/A':>6}   {'share':>15}   winner, problem"
    for ratio, x, y in sorted(changed, key=lambda c: c[0]):
        winner = y["winner"] if x["winner"] == y["winner"] else f"{x['winner']} -> {y['winner']}"
        yield f"{ratio:6.2f}   {x['share']:6.1%} {y['share']:>7.1%}   {winner}, {y['problem']}"
    if ratios:
        yield f"\nB/A by share of the limit, by time (geomeans){'problems':>12}"
    for (kind, threads, group), pairs in sorted(ratios.items()):
        what = f"{kind} {group}, {threads} thread{'s' * (threads > 1)}"
        yield f"{geomean(r for r, _ in pairs):6.3f} {geomean(t for _, t in pairs):6.3f}   {what:<44} {len(pairs):>4}"


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    p = argparse.ArgumentParser(prog="python -m layoutkit.bench compare", description=__doc__.partition(": ")[2])
    p.add_argument("a", metavar="A.json")
    p.add_argument("b", metavar="B.json")
    args = p.parse_args(argv)
    try:
        a, b = read(args.a), read(args.b)
    except (OSError, ValueError) as error:
        p.error(str(error))
    print_folded(lines(a, b), sys.stdout, CONTINUED_COLUMN)
    return 0
