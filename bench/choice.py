"""How well the cost table chooses on problems that it has never met.

    python bench/choice.py --table DIR --tune            measures the spread (layoutkit.suites) into DIR's table
        --large 500 --small 200                          and that many reorders beyond the caches and within the second
                                                         one, drawn at random
        --dtype bfloat16,int8 --count 150                or so many of the spread's convolutions in other types
    python bench/choice.py --table DIR                   judges by other problems, and prints
    python bench/choice.py --table DIR --loading         times reading the table, and decisions about what it knows
    python bench/choice.py --table DIR --ship            puts DIR's table into the package: what estimates of machines
                                                         without a table of their own rest on (once per LAYOUTKIT_ISA)
    python bench/choice.py --table DIR --ship --add      adds DIR's table to the one in the package; if it has reorders
                                                         beyond the caches, the package's are left out
    python bench/choice.py --ship FILE                   the same of a cost table's file; of one that comes with the
                                                         package it leaves out what is no candidate any more

Judging a problem: the table ranks its candidates; all of them are measured, beside the table, which learns nothing;
then the pick, the pick among the few that measuring on first use would try, and the best of all are measured once
more against each other, and only that counts: the best of many noisy timings looks better than it is. A problem
without undisturbed timings is left out and tried again by the next call. `--time-budget` ends either step; the next
call goes on where it ended (`--json` keeps what was judged).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from math import exp, log
from pathlib import Path


def arguments(argv=None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--table", type=Path, help="directory of the cost table")
    p.add_argument("--tune", action="store_true", help="measure the spread into the table, what is missing")
    p.add_argument("--large", type=int, default=0, metavar="N", help="with --tune: large reorders drawn at random, too")
    p.add_argument("--small", type=int, default=0, metavar="N", help="with --tune: small ones likewise")
    p.add_argument("--dtype", metavar="A,B", help="with --tune: only convolutions, in these types")
    p.add_argument("--count", type=int, default=150, help="with --dtype: how many in each")
    p.add_argument("--add", action="store_true", help="with --ship: keep what the package has of other problems")
    p.add_argument("--ship", nargs="?", const=Path(), type=Path, metavar="FILE",
                   help="write the table, or that in FILE, into src/layoutkit/data")  # fmt: skip
    p.add_argument("--share", type=float, default=1.0, metavar="X",
                   help="with --ship: of how many problems that come with the package otherwise")  # fmt: skip
    p.add_argument("--renew", action="store_true",
                   help="of all tables that come with the package, write what is a candidate today, and how far"
                   " estimates are off today")  # fmt: skip
    p.add_argument("--loading", action="store_true", help="time reading the table and deciding what it knows")
    p.add_argument("--shipped", action="store_true", help="judge what comes with the package: ignore the table")
    p.add_argument("--seed", type=int, default=2, help="of the problems to judge by (the spread has 1)")
    p.add_argument("--convs", type=int, default=100)
    p.add_argument("--moves", type=int, default=100)
    p.add_argument("--threads", default="1,2")
    p.add_argument("--json", type=Path, help="keep what was judged in this file, and go on from it")
    p.add_argument("--time-budget", type=float, default=1e9, metavar="S")
    p.add_argument("--worst", type=int, default=8)
    args = p.parse_args(argv)
    if not args.table and not args.renew and not (args.ship and args.ship.name):
        p.error("--table DIR is needed, or --ship FILE")
    return args


LAYOUTS = ["NHWC", "NCHW", "nChw16c", "nChw8c"]


SEED = 1


def drawn(count: int, threads: list[int], level: str) -> list:
    """Reorders of a level, "memory" or "inner": a third among named formats, the others as `unseen.py` draws
    them; those in memory on one thread for the most part, the others always."""
    import random

    import unseen

    from layoutkit.reorders.problem import ReorderProblem

    rng, problems = random.Random(SEED), []
    while len(problems) < count:
        src, dst, shape, width = unseen.drawn(rng, level)
        if len(problems) % 3 or all(str(x) in unseen.NAMED.get(len(shape), ()) for x in (src, dst)):
            many = len(problems) % 4 == 3 and level == "memory"
            problems.append(ReorderProblem(src, dst, shape, width, threads[-1] if many else threads[0]))
    return problems


def tune(threads: list[int], end: float, large: int, small: int) -> None:
    """Measure what the table lacks of the spread, and so many large and small reorders."""
    from layoutkit import cost_table
    from layoutkit.bench.suites import SUITES

    known = set(cost_table.problems())
    todo = [(case.task, 0.1 if case.kind == "conv" else 0.05) for case in SUITES["spread"](LAYOUTS, threads)]
    todo = [(task, seconds) for task, seconds in todo if task.key not in known]
    reorders = [*drawn(large, threads, "memory"), *drawn(small, threads, "inner")]
    todo[:0] = [(problem, 0.3 if is_large(problem.key) else 0.1) for problem in reorders if problem.key not in known]
    measured(todo, end)


def tune_types(names: str, count: int, threads: list[int], end: float) -> None:
    """Measure what the table lacks of the spread's first convolutions, in types."""
    from layoutkit import cost_table
    from layoutkit.bench.suites import DTYPES, SUITES, in_types

    known = set(cost_table.problems())
    some = [case for case in SUITES["spread"](LAYOUTS, threads) if case.kind == "conv"][:count]
    cases = in_types(some, [DTYPES[name] for name in names.split(",")])
    measured([(case.task, 0.1) for case in cases if case.key not in known], end)


THOROUGH = (1, 8.0), (10, 3.0), (20, 1.5), (40, 1.2)  # as `DROP_RATIOS`: corrections rest on what loses, too


def measured(todo: list, end: float) -> None:
    """Measure tasks, each for so many seconds, until `end`, and save the table."""
    from layoutkit import cost_table
    from layoutkit.choosing import measuring

    measuring.DROP_RATIOS = THOROUGH
    for done, (task, seconds) in enumerate(todo):
        if time.perf_counter() > end:
            print(f"{len(todo) - done} problems left")
            break
        measuring.measure(task, seconds)
    cost_table.save()
    print(f"{cost_table.path}: {len(cost_table.problems())} problems")


SHIPPED = {"conv": 450, "conv of other types": 120, "filter": 150, "reorder": 350, "reorder of much": 150}


def kind(key: str) -> str:
    """Of a problem: the one of `SHIPPED` that its key belongs to."""
    what = key.partition(" ")[0]
    return f"{what} of other types" if is_of_other_types(key) else f"{what} of much" if is_large(key) else what


def some_of(costs: dict, share: float) -> dict:
    """At most a share of `SHIPPED` of each kind, evenly drawn."""
    kinds = defaultdict(list)
    for key in sorted(costs):
        kinds[kind(key)].append(key)
    drawn = {}
    for what, of in kinds.items():
        count = min(len(of), round(share * SHIPPED[what]))
        drawn |= {key: costs[key] for key in (of[i * len(of) // count] for i in range(count))}
    return drawn


def is_of_other_types(key: str) -> bool:
    """Whether a key is of a convolution that is not of float32."""
    from layoutkit.convolutions.task import ConvTask
    from layoutkit.convolutions.types import F32

    return key.startswith("conv ") and ConvTask.parse(key).problem.types != F32


def is_large(key: str) -> bool:
    """Whether a key is of a reorder beyond the caches."""
    from layoutkit.choosing.machine import last_level_cache
    from layoutkit.reorders.problem import ReorderProblem

    return key.startswith("reorder ") and ReorderProblem.parse(key).work > last_level_cache()


def of_file(path: Path) -> tuple[dict, dict]:
    """The costs and the machine of a table's file, or of one that comes with the package."""
    from layoutkit.choosing import shipped, table

    costs = shipped.read(path) if path.suffix == ".txt" else table.read(path)
    return dict(costs), costs.machine


def ship(path: Path, add: bool, share: float) -> int:
    """Write a table as one that comes with the package, or add it to that, without what is no candidate any more."""
    from layoutkit import cost_table
    from layoutkit.choosing import machine_profile, packaged

    path = path if path.name else cost_table.path
    if not path.exists():
        print(f"{path} does not exist; --tune measures such a table", file=sys.stderr)
        return 2
    costs, machine = of_file(path)
    to = path if path.suffix == ".txt" else packaged.path_of(machine["isa"], processor())
    to = Path(__file__).parents[1] / "src" / "layoutkit" / "data" / to.name
    if add:
        there, machine = of_file(to)
        large = {key for key in there if is_large(key)} if any(map(is_large, costs)) else set()
        costs = {key: of for key, of in there.items() if key not in large} | costs
    kept = of_today(costs, machine)
    before, after = (sum(map(len, of.values())) for of in (costs, kept))
    kept = some_of(kept, share)
    if "profile" not in machine:  # only this machine's own table, measured here, has none
        machine = machine | {"profile": machine_profile.measure().rounded(3).content}
    write(to, kept, machine)
    write(to, *of_file(to))  # errors of times to three digits, as `renew` writes them
    print(
        f"{to}: {len(kept)} problems, {to.stat().st_size / 1e3:.0f} kB; "
        f"{before - after} of {before} costs were of no candidate"
    )
    return 0


def of_today(costs: dict, machine: dict) -> dict:
    """A table's costs, but for those of what is no candidate any more."""
    from layoutkit.bench.listed import candidates_of

    kept = {}
    for key, of_problem in costs.items():
        names = candidates_of(machine, key)
        if some := {name: cost for name, cost in of_problem.items() if name in names}:
            kept[key] = some
    return kept


def processor() -> str:
    """This machine's processor, as tables that come with the package are named: vendor, family and model."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        of = dict(line.split(":", 1) for line in file.read().partition("\n\n")[0].replace("\t", "").splitlines())
    vendors = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}
    vendor, family, model = (of[name].strip() for name in ("vendor_id", "cpu family", "model"))
    return f"{vendors.get(vendor, vendor.lower())}-{family}-{model}"


def renew() -> None:
    """Write the tables that come with the package anew, of all instruction sets that this machine has or emulates:
    with the same costs, without what is no candidate any more, and how far today's estimates are off."""
    from layoutkit.choosing import packaged

    for path in sorted(packaged.DATA.glob("costs-*.txt")):
        costs, machine = of_file(path)
        write(path, of_today(costs, machine), machine)
        print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


def write(path: Path, costs: dict, machine: dict) -> None:
    """Write a table that comes with the package."""
    from functools import partial

    from layoutkit.bench.listed import shipped_features, shipped_log_errors
    from layoutkit.choosing import files, shipped

    text = shipped.dump(costs, machine, partial(shipped_log_errors, costs, machine), shipped_features)
    files.replace(path, text.encode())
    path.chmod(0o644)


def loading() -> None:
    """Print what it takes to read tables, and to decide about a problem once it is known."""
    import timeit

    from layoutkit import Layout, cost_table
    from layoutkit._core.runtime import registry
    from layoutkit.choosing import packaged, shipped
    from layoutkit.choosing.best import choices
    from layoutkit.reorders.problem import ReorderProblem

    def print_best(what: str, run, unit: str, number: int = 1) -> None:
        seconds = min(timeit.repeat(run, number=number, repeat=9)) / number
        print(f"{what:<52}{seconds * {'ms': 1e3, 'us': 1e6}[unit]:8.2f} {unit}")

    print_best(f"reading the table, {len(cost_table.problems())} problems", cost_table.load, "ms")
    path = packaged.file(registry.isa())
    print_best(f"reading the package's, {len(shipped.read(path))} problems", lambda: shipped.read(path), "ms")
    known = ReorderProblem(Layout("NCHW"), Layout("NHWC"), (1, 64, 56, 56), 4, 1)
    print_best("deciding about a reorder that is known", lambda: choices(known), "us", 10000)


def judge(case) -> dict | None:
    """Costs of what would be picked, relative to the best; None where the machine was busy."""
    from layoutkit.choosing.measuring import FIRST_USE_CANDIDATES, timed
    from layoutkit.choosing.ranking import rank

    problem = case.task
    start = time.perf_counter()
    order = [c.candidate for c in rank(problem)]
    decided = time.perf_counter() - start
    if len(order) < 2:
        return None
    runner = problem.prepare()
    first = timed(order[:FIRST_USE_CANDIDATES], runner, 0.1)
    every = timed(order, runner, 0.15)
    picks = {
        "counted": min(order, key=lambda c: c.estimate),
        "estimate": order[0],
        "measured": min(order[:FIRST_USE_CANDIDATES], key=lambda c: first[c.name].best),
        "best": min(order, key=lambda c: every[c.name].best),
    }
    again = timed(list({c.name: c for c in picks.values()}.values()), runner, 0.1)
    if not all(t.clean for t in (*again.values(), every[picks["best"].name])):
        return None
    best = min(t.best for t in again.values())
    return {
        "kind": case.kind, "decided": decided, "picks": {how: c.name for how, c in picks.items()},
        "regret": {how: again[c.name].best / best for how, c in picks.items()},
        "costs": {name: t.best for name, t in every.items()},
    }  # fmt: skip


def geomean(values) -> float:
    values = list(values)
    return exp(sum(map(log, values)) / len(values)) if values else 1.0


def same_path(results: list[dict]) -> tuple[str, float]:
    """The candidate that would do best if it were taken wherever it can, and its geomean; else the pick's cost."""
    names = {name for r in results for name in r["costs"]}

    def cost(name: str) -> float:
        taken = (r["costs"].get(name, r["costs"][r["picks"]["counted"]]) / min(r["costs"].values()) for r in results)
        return geomean(taken)

    return min(((name, cost(name)) for name in names), key=lambda item: item[1])


def show(judged: dict[str, dict], worst: int) -> None:
    kinds = defaultdict(list)
    for key, r in judged.items():
        kinds[r["kind"]].append((key, r))
    print(f"{'':<9}{'problems':>8}   {'':<10}{'geomean':>8} {'worst':>7} {'above 1.25':>10}")
    for kind, found in kinds.items():
        for how, what in (("counted", "by counting"), ("estimate", "estimate"), ("measured", "first use")):
            regrets = [r["regret"][how] for _, r in found]
            print(f"{kind:<9}{len(found):>8}   {what:<11}{geomean(regrets):>7.3f} {max(regrets):>7.2f} "
                  f"{sum(x > 1.25 for x in regrets):>10}")  # fmt: skip
        name, cost = same_path([r for _, r in found])
        print(f"{'':<20}always {name}: {cost:.3f}")
        decided = sorted(r["decided"] for _, r in found)
        median, most = 1e3 * decided[len(decided) // 2], 1e3 * decided[-1]
        print(f"{'':<20}a decision took {median:.2f} ms, the slowest {most:.0f} ms")
    print("\nworst estimates: regret, pick, best, problem")
    ordered = sorted(judged.items(), key=lambda item: -item[1]["regret"]["estimate"])
    for key, r in ordered[:worst]:
        print(f"{r['regret']['estimate']:5.2f}  {r['picks']['estimate']} | {r['picks']['best']} | {key}")


def main(argv=None) -> int:
    args = arguments(argv)
    if args.table:
        os.environ["LAYOUTKIT_CACHE_DIR"] = str(args.table.resolve())
    end = time.perf_counter() + args.time_budget
    threads = [int(t) for t in args.threads.split(",")]
    if args.tune:
        if args.dtype:
            tune_types(args.dtype, args.count, threads, end)
        else:
            tune(threads, end, args.large, args.small)
        return 0
    from layoutkit import cost_table, tuning
    from layoutkit.bench.suites import spread_cases

    if args.ship:
        return ship(args.ship, args.add, args.share)
    if args.renew:
        renew()
        return 0
    if args.loading:
        loading()
        return 0
    if args.shipped:
        tuning("off")

    known = set(cost_table.problems())
    judged = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    cases = spread_cases(args.convs, args.moves, args.seed, LAYOUTS, threads)
    for case in cases:
        if time.perf_counter() > end:
            break
        if case.key not in judged and case.key not in known and (found := judge(case)):
            judged[case.key] = found
    if args.json:
        args.json.write_text(json.dumps(judged))
    show(judged, args.worst)
    return 0


if __name__ == "__main__":
    sys.exit(main())
