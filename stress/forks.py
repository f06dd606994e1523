"""Forks beside threads that allocate, compute and record: ``python stress/forks.py --forks 1000 --seconds 120``.

Every child allocates, moves by a plan that was kept for two threads, convolves by an object that was kept for two and
with a new filter, records in the cost table and saves it, all with the right result and on one thread. A child that has
not ended after 20 seconds hangs. Exit code 1 if one hangs or fails.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

import layoutkit as lk
from layoutkit.choosing.costfile import Cost

PATIENCE = 20  # seconds, then a child hangs
AT_ONCE = 2  # children
PAUSE = 1e-3  # seconds between two steps of a thread, for the forks to come to their turn
COST = Cost(1.0, 1.0, 0.0, 1)


class Work:
    """What the threads of the parent and the children do, on arrays of the caller's own."""

    def __init__(self) -> None:
        self.x = np.random.default_rng(0).random((1, 64, 70, 66), np.float32)
        w = np.random.default_rng(1).random((16, 64, 3, 3), np.float32)
        self.kept = lk.plan(lk.reorder, self.x, "NCHW", "NHWC", threads=2).run
        self.op = lk.Conv2d(w, threads=2, algorithm="direct")
        self.moved, self.convolved = self.x.transpose(0, 2, 3, 1).copy(), self.op(self.x)
        self.few = self.x[:, :16, :9, :8], w[:, :16]
        self.summed = lk.conv2d(*self.few, padding=1, algorithm="direct")

    def allocate(self, i: int) -> None:
        """Large arrays and small ones, which the pool takes back."""
        held = [lk.empty((n << 20,), "a", "u1") for n in (5, 9, 1 + i % 8)]
        held[i % 3][::4096] = i % 256

    def move(self, i: int) -> None:
        """By the kept plan, and by a call."""
        out = np.empty_like(self.moved)
        self.kept(self.x, out)
        assert np.array_equal(out, self.moved), "moved wrong"
        assert np.array_equal(lk.reorder(self.x, "NCHW", "NHWC", threads=2), self.moved), "moved wrong"

    def convolve(self, i: int) -> None:
        """By the kept object."""
        assert np.array_equal(self.op(self.x), self.convolved), "convolved wrong"

    def convolve_once(self, i: int) -> None:
        """With a filter that nothing is known of yet."""
        (x, w), scale = self.few, np.float32(2.0 ** (i % 9))
        y = lk.conv2d(x, w * scale, padding=1, algorithm="direct")
        assert np.array_equal(y, self.summed * scale), "convolved wrong"

    def record(self, i: int) -> None:
        """A cost, looked up again and now and then saved."""
        lk.cost_table.record(f"p{i % 100}", f"c{i % 7}", COST)
        assert lk.cost_table.costs(f"p{i % 100}")[f"c{i % 7}"].count
        if not i % 20:
            lk.cost_table.save(PATIENCE)

    def child(self, i: int) -> None:
        """All of it, once."""
        for step in (self.allocate, self.move, self.convolve, self.convolve_once, self.record):
            step(i)
        assert lk.get_num_threads() == len(os.listdir("/proc/self/task")) == 1, "more than one thread"


def fork(work: Callable[[], None]) -> int:
    """The process of a child that does `work`."""
    child = os.fork()
    if child:
        return child
    signal.alarm(PATIENCE)
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    os._exit(status)


def campaign(forks: int, seconds: float) -> dict[str, int]:
    """Counts of children that were forked, that failed and that hung; of rounds of the parent's threads."""
    work, over, rounds = Work(), threading.Event(), [0]
    errors: list[BaseException] = []

    def repeat(step: Callable[[int], None]) -> None:
        i = 1
        try:
            while not over.wait(PAUSE):
                step(i)
                i += 1
        except BaseException as error:
            errors.append(error)
        rounds[0] += i

    steps = work.allocate, work.move, work.convolve, work.convolve_once, work.record
    threads = [threading.Thread(target=repeat, args=(step,)) for step in steps]
    for t in threads:
        t.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # else most of the time goes by waiting for the interpreter
    end = time.monotonic() + seconds
    running: list[int] = []
    counts = dict(forked=0, failed=0, hung=0)

    def reap() -> None:
        code = os.waitstatus_to_exitcode(os.waitpid(running.pop(0), 0)[1])
        counts["hung"] += code == -signal.SIGALRM
        counts["failed"] += code not in (0, -signal.SIGALRM)

    try:
        while counts["forked"] < forks and time.monotonic() < end and not errors:
            if len(running) == AT_ONCE:
                reap()
            running.append(fork(partial(work.child, counts["forked"])))
            counts["forked"] += 1
        while running:
            reap()
    finally:
        sys.setswitchinterval(interval)
        over.set()
        for t in threads:
            t.join()
    for error in errors:
        traceback.print_exception(error)
    return counts | dict(failed_threads=len(errors), rounds=rounds[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign that the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--forks", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=120.0, help="end after that, with fewer forks")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", "This process", DeprecationWarning)  # that it has threads and forks
    with tempfile.TemporaryDirectory(prefix="layoutkit-forks-") as folder:
        os.environ["LAYOUTKIT_CACHE_DIR"] = folder
        counts = campaign(args.forks, args.seconds)
    text = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in counts.items())
    print(json.dumps(counts) if args.json else text)
    return int(any(counts[name] for name in ("failed", "hung", "failed_threads")))


if __name__ == "__main__":
    sys.exit(main())
