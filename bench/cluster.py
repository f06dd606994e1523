"""A simulated cluster: dask's task graph replayed with measured task times and 10/100 Gbit links.

A large volume is convolved, reordered and stored by layoutkit.dask. The graph is the real one, as dask optimises it,
but nothing of that size is computed: a few tasks of each kind run here, and the whole is replayed event by event on 1,
2, 4, .. workers with their threads, links, storage and the scheduler. What is replayed, and what `distributed` does
that is not, is said in cluster_simulation.py. ``--validate`` holds the replay against dask's threads on this machine.

Speed-up and efficiency are relative to one worker. A resource's share is of the time that it was in use: of threads
the mean, of links and storage of workers the busiest.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import dask.threaded
from chunked import positive
from cluster_graph import Cost, Tasks, Volume, graph_of, measured, tasks_of
from cluster_simulation import Cluster, Graph, Outcome, simulate
from dask.task_spec import Task, TaskRef

from layoutkit.choosing import machine

ENOUGH = 0.5  # efficiency from which on scaling has stopped
BUSY = 0.7  # a resource in use for such a share of the time is what others wait for


def shares(outcome: Outcome, cluster: Cluster) -> dict[str, float]:
    """Of the time, for which share each resource was in use."""
    seconds = outcome.seconds or 1.0
    return {
        "compute": outcome.compute / (cluster.workers * cluster.threads * seconds),
        "links": max(outcome.links) / seconds,
        "scheduler": outcome.scheduler / seconds,
        "storage": outcome.storage / seconds,
    }


def row_of(outcome: Outcome, cluster: Cluster, first: float) -> dict:
    """What is told of a number of workers; `first`: seconds of one."""
    used = shares(outcome, cluster)
    speedup = first / outcome.seconds if outcome.seconds else 1.0
    return {
        "workers": cluster.workers, "seconds": outcome.seconds, "speedup": speedup,
        "efficiency": speedup / cluster.workers, "moved": outcome.moved, "held": outcome.held, "stolen": outcome.stolen,
        "shares": used, "busiest": max(used, key=lambda name: used[name]),
    }  # fmt: skip


def why(rows: Sequence[dict], graph: Graph, threads: int) -> str:
    """In words, where scaling stops and why."""
    at = next((r for r in rows if r["efficiency"] < ENOUGH), None)
    if at is None:
        last = rows[-1]
        return f"scales to {last['workers']} workers, with an efficiency of {last['efficiency']:.0%} there"
    good = max((r["workers"] for r in rows if r["efficiency"] >= ENOUGH and r["workers"] < at["workers"]), default=1)
    long = [s for s in graph.seconds if s > max(graph.seconds) / 2]
    slots = at["workers"] * threads
    reasons = {
        "compute": "threads are busy all the time, with more work than on one worker",
        "links": "the busiest link between workers is in use nearly all the time",
        "scheduler": f"the scheduler is busy nearly all the time with {graph.tasks} tasks: larger chunks make fewer",
        "storage": "storage gives and takes no more",
    }
    told = f"stops scaling past {good} workers: with {at['workers']} "
    if at["shares"][at["busiest"]] >= BUSY:
        return told + reasons[at["busiest"]]
    if len(long) < 3 * slots:
        return told + f"there are {len(long)} long tasks for {slots} threads, and the longest chain of tasks takes " \
                      f"{graph.chain():.3g} of {at['seconds']:.3g} s"  # fmt: skip
    used = ", ".join(f"{name} {share:.0%}" for name, share in at["shares"].items())
    return told + f"no resource is in use all the time, tasks wait for data: {used}"


def table(rows: Sequence[dict]) -> Iterator[str]:
    """Rows for people."""
    yield f"{'workers':>7} {'s':>10} {'speed-up':>9} {'efficiency':>10} {'GB moved':>9} {'GB held':>8} {'stolen':>7}" \
          "  compute links scheduler storage  busiest"  # fmt: skip
    for r in rows:
        used = r["shares"]
        yield (
            f"{r['workers']:>7} {r['seconds']:>10.2f} {r['speedup']:>9.1f} {r['efficiency']:>10.0%} "
            f"{r['moved'] / 1e9:>9.2f} {r['held'] / 1e9:>8.2f} {r['stolen']:>7}  {used['compute']:>7.0%} "
            f"{used['links']:>5.0%} {used['scheduler']:>9.0%} {used['storage']:>7.0%}  {r['busiest']}"
        )


def scaled(graph: Graph, args: argparse.Namespace, gbit: float) -> list[dict]:
    """Rows of 1, 2, 4, .. workers."""
    rows: list[dict] = []
    workers = 1
    while workers <= args.workers:
        cluster = Cluster(
            workers, args.threads, gbit * 1e9 / 8, args.latency_us * 1e-6, args.scheduler_us * 1e-6,
            args.worker_storage_gbytes * 1e9, args.storage_gbytes * 1e9, args.roots == "queued",
        )  # fmt: skip
        outcome = simulate(graph, cluster)
        rows.append(row_of(outcome, cluster, rows[0]["seconds"] if rows else outcome.seconds))
        workers *= 2
    return rows


def costs_table(tasks: Tasks, costs: dict[str, Cost]) -> Iterator[str]:
    """What each kind of tasks takes."""
    counts = Counter(tasks.kinds)
    yield f"{'tasks':>7} {'ms':>9} {'MB made':>9} {'MB read':>9} {'MB stored':>9}"
    for kind, c in costs.items():
        yield f"{counts[kind]:>7} {1e3 * c.seconds:>9.3f} {c.nbytes / 1e6:>9.3f} {c.read / 1e6:>9.3f} " \
              f"{c.written / 1e6:>9.3f}  {kind}"  # fmt: skip


def validated(volume: Volume, samples: int, rounds: int) -> Iterator[dict]:
    """A computation on dask's threads here against its replay: with one thread, and two.

    What dask takes for a task is that of the same graph with tasks that do nothing.
    """
    tasks = tasks_of(volume.stored())
    nodes = {node.key: node for node in tasks.nodes}
    idle = {key: Task(key, _nothing, *map(TaskRef, node.dependencies)) for key, node in nodes.items()}
    last = [node.key for node, kind in zip(tasks.nodes, tasks.kinds) if kind.endswith(" 0 out")]
    for threads in (1, 2):
        found: dict[str, list[float]] = {"measured": [], "simulated": [], "ratio": [], "overhead": []}
        for _ in range(rounds):
            graph = graph_of(tasks, measured(tasks, threads, samples))
            overhead = _seconds(idle, last, threads) / graph.tasks
            real = _seconds(nodes, last, threads)
            simulated = simulate(graph, Cluster(1, threads, scheduler=overhead)).seconds
            for name, value in zip(found, (real, simulated, simulated / real, overhead)):
                found[name].append(value)
        yield {"threads": threads, **{name: median(values) for name, values in found.items()}}


def _seconds(nodes: dict, last: list, threads: int) -> float:
    """What dask's threads take for a graph."""
    start = time.perf_counter()
    dask.threaded.get(nodes, last, num_workers=threads)
    return time.perf_counter() - start


def _nothing(*results: object) -> None:
    """What a task does that takes no time."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    p = argparse.ArgumentParser(prog="cluster.py", description=__doc__.splitlines()[0])
    number = positive(float)
    p.add_argument("--gigabytes", type=number, help="of the volume, default 1000; of --validate 2, held in memory")
    p.add_argument("--chunk-mb", type=number, default=64, help="default %(default)s")
    p.add_argument("--channels", type=positive(int), default=8, help="of the volume, default %(default)s")
    p.add_argument("--out", type=positive(int), default=8, help="channels of the result, default %(default)s")
    p.add_argument("--kernel", type=positive(int), default=3, help="in each dimension, odd, default %(default)s")
    p.add_argument("--workers", type=positive(int), default=1024, help="at most, default %(default)s")
    p.add_argument("--threads", type=positive(int), default=2, help="of a worker, default %(default)s")
    p.add_argument("--gbit", type=number, nargs="+", default=[10.0, 100.0], help="of links, default 10 100")
    p.add_argument("--latency-us", type=number, default=100, help="of a message, default %(default)s")
    p.add_argument("--scheduler-us", type=number, default=200, help="of the scheduler for a task, default %(default)s")
    p.add_argument("--worker-storage-gbytes", type=number, default=2, help="a second of a worker, default %(default)s")
    p.add_argument("--storage-gbytes", type=number, default=200, help="a second of all storage, default %(default)s")
    p.add_argument("--roots", choices=("queued", "grouped"), default="queued",
                   help="how tasks without inputs get to workers: one by one as threads get free, as distributed "
                        "does it, or in groups, as with worker-saturation: inf; default %(default)s")  # fmt: skip
    p.add_argument("--samples", type=positive(int), default=3, help="tasks of each kind that run, default %(default)s")
    p.add_argument("--validate", action="store_true", help="hold the replay against dask's threads on this machine")
    p.add_argument("--rounds", type=positive(int), default=3, help="of --validate, default %(default)s")
    p.add_argument("--json", metavar="FILE", help="write every figure to FILE")
    args = p.parse_args(argv)
    if args.gigabytes is None:
        args.gigabytes = 2 if args.validate else 1000
    if not args.kernel % 2:
        p.error("argument --kernel: expected an odd number")
    volume = Volume.of(args.gigabytes, args.chunk_mb, args.channels, args.out, args.kernel)
    print(f"{machine.cpu_model()}, {machine.identity()['isa']}\n{volume}", flush=True)
    data: dict = {"machine": machine.identity(), "arguments": vars(args)}
    if args.validate:
        data["validated"] = []
        for r in validated(volume, args.samples, args.rounds):
            data["validated"].append(r)
            print(f"{r['threads']} threads: measured {r['measured']:.3f} s, simulated {r['simulated']:.3f} s, "
                  f"{r['ratio']:.2f}; dask takes {1e6 * r['overhead']:.0f} us a task", flush=True)  # fmt: skip
    else:
        start = time.perf_counter()
        tasks = tasks_of(volume.stored())
        built = time.perf_counter() - start
        costs = measured(tasks, min(args.threads, len(os.sched_getaffinity(0))), args.samples)
        graph = graph_of(tasks, costs)
        print(f"{graph.tasks} tasks; graph built and ordered in {built:.1f} s")
        for told in costs_table(tasks, costs):
            print(told)
        data["links"] = {}
        for gbit in args.gbit:
            start = time.perf_counter()
            rows = scaled(graph, args, gbit)
            took = time.perf_counter() - start
            print(f"\n{gbit:g} Gbit/s, {args.threads} threads a worker, tasks without inputs {args.roots}; replayed in "
                  f"{took:.1f} s")  # fmt: skip
            for told in table(rows):
                print(told)
            words = why(rows, graph, args.threads)
            print(words, flush=True)
            data["links"][f"{gbit:g}"] = {"rows": rows, "why": words}
    if args.json:
        Path(args.json).write_text(json.dumps(data, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
