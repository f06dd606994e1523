"""layoutkit and torch in one process: what an idle one costs the other. ``python bench/neighbours.py``.

Each of four processes runs one library's convolution: alone, or with the other imported, used before, and now idle
(its threads exist); both import orders. They take turns; a figure is the median over rounds of the ratio to alone.
Nothing may be slowed by more than 10 %: exit code 1 if something is.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence

LIMIT = 1.10
PROGRAM = """
import sys, time
order, timed, threads = sys.argv[1].split("+"), sys.argv[2], int(sys.argv[3])
work = {}
for name in order:
    if name == "torch":
        import torch
        torch.set_num_threads(threads)
        a, b = torch.ones(1, 64, 56, 56), torch.ones(64, 64, 3, 3)
        work[name] = lambda: torch.nn.functional.conv2d(a, b, padding=1)
    else:
        import numpy as np, layoutkit as lk
        op = lk.Conv2d(np.ones((64, 64, 3, 3), np.float32), padding=1, threads=threads)
        x = np.ones((1, 64, 56, 56), np.float32)
        out = op(x)
        work[name] = lambda: op(x, out)
for run in work.values():
    for _ in range(20):
        run()
print("ready", flush=True)
for _ in sys.stdin:
    for name, run in work.items():
        if name != timed:
            run()  # the other one's threads have just been at work, and go idle
    times = []
    for _ in range(60):
        start = time.perf_counter()
        work[timed]()
        times.append(time.perf_counter() - start)
    print(min(times), flush=True)
"""
CASES = {
    ("layoutkit", "alone"): ("layoutkit", "layoutkit"),
    ("layoutkit", "torch imported first"): ("torch+layoutkit", "layoutkit"),
    ("layoutkit", "torch imported after"): ("layoutkit+torch", "layoutkit"),
    ("torch", "alone"): ("torch", "torch"),
    ("torch", "layoutkit imported first"): ("layoutkit+torch", "torch"),
    ("torch", "layoutkit imported after"): ("torch+layoutkit", "torch"),
}


class Process:
    """A library at work in a process of its own, woken for its turns."""

    def __init__(self, order: str, timed: str, threads: int) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, order, timed, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        if self._child.stdout.readline() != "ready\n":
            raise RuntimeError(f"{order}: the process did not start")

    def turn(self) -> float:
        """Seconds of the best call of one turn."""
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        return float(self._child.stdout.readline())

    def end(self) -> None:
        """End the process."""
        self._child.stdin.close()
        self._child.wait()


def measure(threads: int, rounds: int) -> dict[tuple[str, str], list[float]]:
    """Seconds of every case, round by round."""
    processes = {case: Process(*how, threads) for case, how in CASES.items()}
    try:
        times = {case: [] for case in CASES}
        for _ in range(rounds):
            for case, process in processes.items():
                times[case].append(process.turn())
        return times
    finally:
        for process in processes.values():
            process.end()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    p = argparse.ArgumentParser(prog="python bench/neighbours.py", description=__doc__.split("\n")[0])
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--json", action="store_true")
    args = p.parse_args(argv)
    measured = measure(args.threads, args.rounds)
    slowed = {}
    for (who, beside), times in measured.items():
        alone = measured[who, "alone"]
        slowed[f"{who}, {beside}"] = statistics.median(t / a for t, a in zip(times, alone))
        if not args.json:
            ms = 1e3 * statistics.median(times)
            print(f"{who:<10} {beside:<26} {ms:8.3f} ms  {slowed[f'{who}, {beside}']:5.2f}x")
    if args.json:
        print(json.dumps(slowed))
    return max(slowed.values()) > LIMIT


if __name__ == "__main__":
    sys.exit(main())
