"""Figures of arrays past memory: ``python bench/chunked.py throughput``, ``others``, ``memory``.

Cases are drawn at random, with a fresh seed unless one is given. What is compared takes turns, round after round; a
figure is the median over rounds of the ratio within one round. All chunks are in memory before, and filters are
packed; every result is new.

throughput  layoutkit.dask relative to the call on the whole array, in one process: a task on a thread, as many tasks
            as threads ("tasks"); and one task at a time on all threads ("one").
others      layoutkit.dask against map_overlap with scipy.ndimage and with torch, on the same chunks and threads.
            Each library has a process of its own: two OpenMP runtimes in one ruin each other.
memory      what a process holds at most, beside what it held before, against what `layoutkit.dask.plan` says;
            and "bare": when neither layoutkit nor malloc keep memory that is free, and Zarr decodes a chunk at a time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from chunked_cases import draw, draw_lazy, draw_plain, physical_chunks, title

from layoutkit.choosing import machine

WORKER = Path(__file__).with_name("chunked_workers.py")
POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
TOLERANCE = 1e-4  # of the largest number
# No memory is kept when it is free, by layoutkit or malloc, and Zarr decodes a chunk at a time.
BARE = {"LAYOUTKIT_MEMORY": "0", "MALLOC_MMAP_THRESHOLD_": "1000000", "ZARR_ASYNC__CONCURRENCY": "1"}


class Process:
    """A library in a process of its own, woken for its turns."""

    def __init__(self, name: str, threads: int) -> None:
        self.name = name
        self._child = subprocess.Popen(
            [sys.executable, str(WORKER), "others", name, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=os.environ | dict.fromkeys(POOLS, "1"),
        )  # fmt: skip
        self.missing = self._answer().get("missing")

    def _answer(self) -> dict:
        line = self._child.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise SystemExit(f"chunked.py: the process of {self.name} has ended (see its message above)")
        return json.loads(line)

    def ask(self, **request: Any) -> dict:
        """Send a request, wait for the answer."""
        self._child.stdin.write(json.dumps(request) + "\n")  # type: ignore[union-attr]
        self._child.stdin.flush()  # type: ignore[union-attr]
        return self._answer()

    def close(self) -> None:
        """Let the process end."""
        self._child.stdin.close()  # type: ignore[union-attr]
        self._child.wait()
        self._child.stdout.close()  # type: ignore[union-attr]


def throughput(args: argparse.Namespace, rng: random.Random) -> Iterator[dict]:
    """Rows: layoutkit.dask relative to the call on the whole array."""
    for _ in range(args.count):
        case = draw(rng, args.megabytes, args.chunk_mb, args.gflop)
        ways, build = _ways(case, args.threads)
        times: dict[str, list[float]] = {way: [] for way in ways}
        for k in range(args.rounds + 1):
            for way, call in ways.items():
                seconds = _timed(call)
                if k:  # the first calls pack filters and make threads
                    times[way].append(seconds)
        ratios = {way: [a / b for a, b in zip(times["memory"], times[way])] for way in times if way != "memory"}
        yield {"title": title(case), "case": case, "build": build, "seconds": times, "ratios": ratios}


def _ways(case: dict, threads: int) -> tuple[dict[str, Callable[[], Any]], float]:
    """What is timed of a case; and the seconds that it took to build the graph."""
    from chunked_workers import chunked, eager, lazily, numbers, persisted

    x, w = numbers(case)
    op, source = eager(case, w, threads), chunked(x, physical_chunks(case))
    start = time.perf_counter()
    tasks = lazily(case, source, w)
    build = time.perf_counter() - start
    one = lazily(case, source, w, threads=threads)
    ways = {"memory": lambda: op(x), "tasks": lambda: persisted(tasks, threads)}
    return ways | ({"one": lambda: persisted(one, 1)} if threads > 1 else {}), build


def _timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - start
    del result
    return seconds


def others(args: argparse.Namespace, rng: random.Random) -> Iterator[dict]:
    """Rows: layoutkit.dask against what others do with map_overlap."""
    everyone = [Process(name, args.threads) for name in ("layoutkit", "scipy", "torch")]
    for process in everyone:
        if process.missing:
            print(f"chunked.py: without {process.name}: {process.missing}", file=sys.stderr)
    there = [process for process in everyone if not process.missing]
    for _ in range(args.count):
        case = draw_plain(rng, args.megabytes, args.chunk_mb, args.gflop)
        digests = [p.ask(do="prepare", case=case)["digests"] for p in there]
        check(title(case), {way: found for each in digests for way, found in each.items()})
        times: dict[str, list[float]] = {}
        for _ in range(args.rounds):
            for process, ways in zip(there, digests):
                for way in ways:
                    times.setdefault(way, []).append(process.ask(do="run", way=way)["seconds"])
        ratios = {w: [b / a for a, b in zip(times["layoutkit"], t)] for w, t in times.items() if w != "layoutkit"}
        yield {"title": title(case), "case": case, "seconds": times, "ratios": ratios}
    for process in everyone:
        process.close()


def check(what: str, digests: dict[str, list[float]]) -> None:
    """Stop if two did not compute the same."""
    first, want = next(iter(digests.items()))
    most = TOLERANCE * max(1.0, *map(abs, want))
    for way, got in digests.items():
        if len(got) != len(want) or any(abs(a - b) > most for a, b in zip(got, want)):
            raise SystemExit(f"chunked.py: {what}: {way} and {first} do not agree")


def memory(args: argparse.Namespace, rng: random.Random) -> Iterator[dict]:
    """Rows: memory that was measured, relative to what was predicted."""
    for _ in range(args.count):
        case = draw_lazy(rng, args.megabytes, args.gflop)
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            if case["way"] == "zarr":
                subprocess.run([sys.executable, str(WORKER), "write", json.dumps(case), folder], check=True)
            command = [sys.executable, str(WORKER), "memory", json.dumps(case), folder, str(args.threads)]
            reports = {}
            for way, env in (("measured", {}), ("bare", BARE)):
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | env)
                reports[way] = json.loads(done.stdout)
        ratios = {f"{way} / predicted": [r["measured"] / max(1, r["predicted"])] for way, r in reports.items()}
        yield {"title": title(case), "case": case, **reports["measured"], "bare": reports["bare"], "ratios": ratios}


COMMANDS = {"throughput": throughput, "others": others, "memory": memory}


def line(row: dict) -> str:
    """A row for people."""
    text = "  ".join(f"{way} {median(values):5.2f}" for way, values in row["ratios"].items())
    if "measured" in row:
        return f"{row['title']:<86} {row['measured'] / 1e6:7.0f} of {row['predicted'] / 1e6:7.0f} MB  {text}"
    first = next(iter(row["seconds"]))
    return f"{row['title']:<86} {first} {1e3 * median(row['seconds'][first]):8.0f} ms  {text}"


def summary(rows: Sequence[dict]) -> Iterator[str]:
    """Quartiles of the cases' medians."""
    for way in dict.fromkeys(way for row in rows for way in row["ratios"]):
        medians = sorted(median(row["ratios"][way]) for row in rows if way in row["ratios"])
        low, middle, high = quantiles(medians, n=4, method="inclusive") if len(medians) > 1 else medians * 3
        text = f"least {medians[0]:.2f}, quartiles {low:.2f} {middle:.2f} {high:.2f}, most {medians[-1]:.2f}"
        yield f"{way}: {text}, of {len(medians)} cases"


def positive(kind: type) -> Callable[[str], Any]:
    """A number above 0 for argparse."""

    def number(text: str) -> Any:
        value = kind(text)
        if not 0 < value < math.inf:
            raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
        return value

    return number


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    p = argparse.ArgumentParser(prog="chunked.py", description=__doc__.splitlines()[0])
    p.add_argument("command", choices=COMMANDS)
    p.add_argument("--count", type=positive(int), default=20, help="cases that are drawn, default %(default)s")
    p.add_argument("--rounds", type=positive(int), default=5, help="default %(default)s; of memory there is one")
    p.add_argument("--threads", type=positive(int), default=len(os.sched_getaffinity(0)), help="default: all")
    p.add_argument("--megabytes", type=positive(float), default=256, help="of whole arrays, default %(default)s")
    p.add_argument("--chunk-mb", type=positive(float), default=32, help="of chunks, default %(default)s")
    p.add_argument("--gflop", type=positive(float), default=300, help="cases with more are drawn again")
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="of what is drawn")
    p.add_argument("--folder", help="where Zarr arrays are made, default the system's temporary folder")
    p.add_argument("--json", metavar="FILE", help="write every figure to FILE")
    args = p.parse_args(argv)
    print(f"{machine.cpu_model()}, {machine.identity()['isa']}, {args.threads} thread(s); {args.command}, seed "
          f"{args.seed}, {args.rounds} rounds", flush=True)  # fmt: skip
    rows = []
    for row in COMMANDS[args.command](args, random.Random(args.seed)):
        rows.append(row)
        print(line(row), flush=True)
    for told in summary(rows):
        print(told)
    if args.json:
        data = {"machine": machine.identity(), "seed": args.seed, "threads": args.threads, "rows": rows}
        Path(args.json).write_text(json.dumps(data, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
