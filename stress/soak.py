"""Everything at once in one process, for long: ``python stress/soak.py --seconds 3600``.

Some threads run random operations of all types against the reference (`tests/random_cases`), others networks whose
shapes change, whose results must be those of the first time, bit by bit. They call with any number of threads, while
the processors that the process may use change, too. Meanwhile and at the end: memory stays within a bound of what it
was after a warm-up, but for a short while and for what the pool keeps, whose limit is its own; no thread or file is
left over, and the cost table that was written can be read.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import secrets
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ["LAYOUTKIT_CACHE_DIR"] = tempfile.mkdtemp(prefix="layoutkit-soak-")  # the user's cost table is left alone
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # random_cases, and what they are held against

import numpy as np

import layoutkit as lk
from layoutkit._core.runtime import team
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.memory.pool import pool

KINDS = ("reorders", "convolutions", "integers", "transposed", "limits")
WARM = 0.3  # of the time, until memory is looked at
GROWTH = 1.25  # times the largest so far it may become afterwards
SLACK_BYTES = 64 << 20  # besides
LASTS = 0.05  # of the time: growth that is shorter is a large case, which frees its memory
EVERY = 0.1  # seconds
SHOWN = 10


def network(channels: int) -> Graph:
    """A convolution, a depthwise one, pooling and a sum of two branches, over images of any size."""
    rng = np.random.default_rng(channels)
    w = {
        "first": rng.standard_normal((channels, 3, 3, 3), np.float32),
        "depthwise": rng.standard_normal((channels, 1, 3, 3), np.float32),
        "mixed": rng.standard_normal((channels, channels, 1, 1), np.float32) / channels,
    }
    nodes = [
        Node("Conv", ("x", "first"), ("a",), {"pads": [1, 1, 1, 1]}), Node("Relu", ("a",), ("b",)),
        Node("Conv", ("b", "depthwise"), ("c",), {"group": channels, "pads": [1, 1, 1, 1]}),
        Node("Conv", ("c", "mixed"), ("d",)), Node("Add", ("b", "d"), ("e",)),
        Node("MaxPool", ("e",), ("f",), {"kernel_shape": [2, 2], "strides": [2, 2]}),
        Node("GlobalAveragePool", ("f",), ("y",)),
    ]  # fmt: skip
    return Graph(nodes, {"x": TensorType(np.dtype(np.float32), ("n", 3, "h", "w"))}, ("f", "y"), w)


class Soak:
    """The threads, and what they found wrong."""

    def __init__(self, seed: int, seconds: float) -> None:
        self.seed, self.end = seed, time.monotonic() + seconds
        self.wrong: list[str] = []
        self.done: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._first: dict[tuple, dict[str, np.ndarray]] = {}
        self._models = {n: Model(network(n), accuracy="reproducible") for n in (8, 24)}

    def tell(self, what: str, wrong: str | None) -> None:
        """Count a case, and keep what is wrong with it."""
        with self._lock:
            self.done[what] += 1
            if wrong:
                self.wrong.append(wrong)

    def cases(self, kinds: Sequence[str], first: int, step: int) -> None:
        """Random cases of these kinds, from number `first` on."""
        from random_cases import CASES

        for number in range(first, 1 << 40, step):
            kind = kinds[number // step % len(kinds)]
            if time.monotonic() > self.end:
                return
            try:
                wrong = CASES[kind](self.seed, number)
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
            self.tell(kind, wrong and f"--seed {self.seed} --only {kind}:{number}  {wrong}")

    def networks(self, number: int) -> None:
        """Networks on images of sizes that come again."""
        rng = random.Random(self.seed + number)
        while time.monotonic() < self.end:
            channels, n, h, w = rng.choice((8, 24)), rng.randint(1, 2), rng.randint(2, 60), rng.randint(2, 60)
            h, w = h // 4 * 4 + 4, w // 4 * 4 + 4
            x = np.random.default_rng(h * w).standard_normal((n, 3, h, w), np.float32)
            try:
                found = self._models[channels].run(x)
            except Exception as error:
                self.tell("networks", f"network {channels}, {x.shape}: {type(error).__name__}: {error}")
                continue
            with self._lock:
                first = self._first.setdefault((channels, x.shape), found)
            same = all(np.array_equal(first[name], found[name]) for name in first)
            self.tell("networks", None if same else f"network {channels}, {x.shape}: other bits than the first time")

    def processors(self) -> None:
        """The processors that may be used change all the time."""
        rng = random.Random(self.seed)
        while time.monotonic() < self.end:
            team.assume(rng.randint(1, 4))
            time.sleep(0.02)


def resident() -> int:
    """Bytes of memory in use, without those that the pool keeps for later."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") - pool.free_bytes


def entries(folder: str) -> int:
    """Of /proc/self: threads, open files."""
    return len(os.listdir(f"/proc/self/{folder}"))


def soak(seed: int, seconds: float, callers: int, memory: Callable[[], int] = resident) -> Soak:
    """Run everything; the result says what was wrong."""
    from random_cases import deciding

    deciding.shared = True
    run, start = Soak(seed, seconds), time.monotonic()
    files, threads = entries("fd"), entries("task")
    calls = [threading.Thread(target=run.cases, args=(KINDS, i, callers)) for i in range(callers)]
    calls += [threading.Thread(target=run.networks, args=(i,)) for i in range(2)]
    calls.append(threading.Thread(target=run.processors))
    warnings.simplefilter("ignore", lk.SlowPathWarning)  # odd shapes and layouts are what is asked for
    for t in calls:
        t.start()
    largest, recent = 0, deque[int](maxlen=int(LASTS * seconds / EVERY) + 1)
    while any(t.is_alive() for t in calls):
        time.sleep(EVERY)
        recent.append(memory())
        if time.monotonic() - start < WARM * seconds:
            largest = max(largest, recent[-1])
        elif min(recent) > GROWTH * largest + SLACK_BYTES:
            run.tell("memory", f"memory grew from {largest >> 20} to {min(recent) >> 20} MB")
            largest = min(recent)
    team.assume(0)
    gc.collect()
    left = entries("fd") - files, entries("task") - threads
    if left[0] > 0:
        run.tell("files", f"{left[0]} files left open")
    if left[1] > 3:  # workers of teams of four
        run.tell("threads", f"{left[1]} threads left over")
    try:
        lk.cost_table.load(lk.cost_table.save())
    except (OSError, ValueError) as error:
        run.tell("table", f"the cost table cannot be read: {error}")
    return run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 1 if anything was wrong."""
    p = argparse.ArgumentParser(prog="python stress/soak.py", description=(__doc__ or "").split("\n")[0])
    p.add_argument("--seconds", type=float, default=3600.0)
    p.add_argument("--callers", type=int, default=3, help="threads with random cases")
    p.add_argument("--seed", type=int, help="a new one by default, which is printed")
    args = p.parse_args(argv)
    run = soak(secrets.randbits(32) if args.seed is None else args.seed, args.seconds, args.callers)
    for wrong in run.wrong[:SHOWN]:
        print(wrong, file=sys.stderr)
    cases = ", ".join(f"{n} {what}" for what, n in sorted(run.done.items()))
    print(f"{cases}: {len(run.wrong)} wrong, {resident() >> 20} MB at the end, seed {run.seed}")
    return bool(run.wrong)


if __name__ == "__main__":
    sys.exit(main())
