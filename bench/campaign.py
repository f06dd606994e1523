"""Random reorders and convolutions against the reference, many of them: ``python bench/campaign.py``.

Prints how many ran, how many were wrong, and the time. A case is a function of the seed and its number:
``--seed 3 --only reorders:1234`` runs that one again. The user's cost table is neither read nor written.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence

CHUNK = 200  # cases that a process takes at a time
SHOWN = 20  # failures that are printed in full
FORGET = 200  # cases, after which the cost table is emptied
KINDS = {"reorders": "reorder", "convolutions": "convolution"}


def _start(cache: str) -> None:
    os.environ["LAYOUTKIT_CACHE_DIR"] = cache


def run(kind: str, seed: int, first: int, last: int) -> list[str]:
    """The failures among cases [first, last) of a kind."""
    import random_cases

    from layoutkit import cost_table

    case = getattr(random_cases, KINDS[kind])
    failures = []
    for index in range(first, last):
        if index % FORGET == 0:  # what cases tell the cost table is what the next ones are estimated from
            cost_table._new.clear()
            cost_table.generation += 1
        try:
            wrong = case(seed, index)
        except Exception as error:  # whatever it is, the case is told and the rest goes on
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            failures.append(f"--seed {seed} --only {kind}:{index}  {wrong}")
    return failures


def _run(task: tuple[str, int, int, int]) -> list[str]:
    return run(*task)


def campaign(kind: str, seed: int, count: int, pool) -> dict[str, object]:
    """Run `count` cases of a kind in a pool of processes; what came of it."""
    tasks = [(kind, seed, i, min(i + CHUNK, count)) for i in range(0, count, CHUNK)]
    start, done, failures = time.perf_counter(), 0, []
    for (_, _, first, last), found in zip(tasks, pool.imap(_run, tasks)):
        done += last - first
        for text in found[: SHOWN - len(failures)]:
            print(text, file=sys.stderr)
        failures += found
        if sys.stderr.isatty():
            print(f"\r{done} of {count} {kind}", end="", file=sys.stderr, flush=True)
    return {"kind": kind, "cases": done, "wrong": len(failures), "seconds": time.perf_counter() - start}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 1 if anything was wrong."""
    p = argparse.ArgumentParser(prog="python bench/campaign.py", description=__doc__.split("\n")[0])
    p.add_argument("--reorders", type=int, default=100_000, metavar="N")
    p.add_argument("--convolutions", type=int, default=20_000, metavar="N")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    p.add_argument("--only", metavar="KIND:NUMBER", help="run one case again")
    p.add_argument("--json", action="store_true")
    args = p.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="layoutkit-campaign-") as cache:
        _start(cache)
        if args.only:
            kind, _, number = args.only.partition(":")
            if kind not in KINDS or not number.isdigit():
                p.error(f"--only {args.only}: expected {' or '.join(KINDS)}, a colon and a number")
            failures = run(kind, args.seed, int(number), int(number) + 1)
            print("\n".join(failures) or f"{args.only}: right")
            return bool(failures)
        context = multiprocessing.get_context("spawn")
        with context.Pool(args.jobs, _start, (cache,)) as pool:
            results = [campaign(kind, args.seed, getattr(args, kind), pool) for kind in KINDS]
    if args.json:
        print(json.dumps(results))
    else:
        for r in results:
            print(f"{r['cases']:>8} random {r['kind']}: {r['wrong']} wrong, {r['seconds']:.1f} s, seed {args.seed}")
    return any(r["wrong"] for r in results)


if __name__ == "__main__":
    sys.exit(main())
