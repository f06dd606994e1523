"""This installation against another one: ``python bench/before.py /path/to/other/bin/python [--seed 0]``.

Problems are drawn at random: convolutions (accuracy "strict"; 4 to 512 channels, log-uniform, maps of 7 to 80, kernels
of 1 to 7, a fifth depthwise, a fifth in groups), small groups by their own algorithm, reorders of 16 KB to 50 MB
between eight formats of four dimensions, and calls so small that only their overhead counts. Each installation times
them in processes of its own, in turns, on one thread or `--threads`; the least time counts. Told is the time here over
that there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from math import exp, log

LAYOUTS = "NHWC", "NCHW", "nChw16c"
FORMATS = "abcd", "acdb", "aBcd8b", "aBcd16b", "bcda", "cdba", "adbc", "badc"
CALLS = "lk.conv2d, tiny", "a kept Conv2d, tiny", "lk.reorder, tiny", "a kept reorder, tiny"
TURN, ROUNDS = 3e-3, 7  # seconds of a timing at least, and how many a process takes
MOST = 4e8  # multiplications of a convolution
APART = 0.1  # problems whose times differ by more are shown


def drawn(args: argparse.Namespace) -> list[tuple]:
    """The problems, each with its kind in front."""
    rng = random.Random(args.seed)
    problems: list[tuple] = [("call", name) for name in CALLS]
    for kind, count in (("convolution", args.convolutions), ("groups", args.groups)):
        for _ in range(count):
            groups, (ic, oc), which = 1, (int(2 ** rng.uniform(2, 9)) for _ in range(2)), rng.random()
            if kind == "groups" or which < 0.2:
                groups = rng.choice((4, 8, 16, 24, 32, 48, 64))
                ic = oc = groups * rng.choice((2, 3, 4, 5, 8, 10, 16))
            elif which < 0.4:
                groups = oc = ic
            size, kernel = rng.randint(7, 80), rng.choice((2 if kind == "groups" else 1, 3, 3, 3, 5, 7))
            stride = rng.choice((1, 1, 1, 2, 3))
            while ic * oc // groups * (kernel * size) ** 2 > MOST and size > 7:
                size = max(7, size * 2 // 3)
            problems.append((kind, ic, oc, size, kernel, stride, groups, rng.choice(LAYOUTS)))
    for _ in range(args.reorders):
        channels, n = rng.choice((3, 16, 20, 32, 64, 100, 128, 256)), rng.choice((1, 4, 16, 32))
        side = max(1, int((2 ** rng.uniform(12, 23.5) / channels / n) ** 0.5))
        problems.append(("reorder", (n, channels, side, side + rng.randint(0, 3)), *rng.sample(FORMATS, 2)))
    return problems


def call_of(threads: int, kind: str, *problem) -> Callable[[], object] | None:
    """What is timed; None where this installation cannot do it."""
    import numpy as np

    import layoutkit as lk

    rng = np.random.default_rng(0)
    if kind == "call":
        x, y = np.ones((1, 8, 7, 7), np.float32), np.empty((1, 7, 7, 8), np.float32)
        op = lk.Conv2d(np.ones((8, 8, 1, 1), np.float32), threads=threads)
        z, w = op(x), np.ones((8, 8, 3, 3), np.float32)
        run = lk.plan(lk.reorder, x, "NCHW", "NHWC", out=y, threads=threads).run
        return dict(zip(CALLS, (
            lambda: lk.conv2d(x, w, padding=1), lambda: op(x, z), lambda: lk.reorder(x, "NCHW", "NHWC", out=y),
            lambda: run(x, y),
        )))[problem[0]]  # fmt: skip
    if kind == "reorder":
        shape, src, dst = problem
        x = lk.reorder(rng.random(shape, np.float32), "abcd", src)
        y = lk.reorder(x, src, dst, shape=tuple(shape), threads=threads)
        run = lk.plan(lk.reorder, x, src, dst, shape=tuple(shape), out=y, threads=threads).run
        return lambda: run(x, y)
    ic, oc, size, kernel, stride, groups, layout = problem
    w = rng.standard_normal((oc, ic // groups, kernel, kernel), np.float32)
    op = lk.Conv2d(
        w, stride=stride, padding=kernel // 2, groups=groups, layout=layout, accuracy="strict", threads=threads,
        algorithm="grouped" if kind == "groups" else "auto",
    )  # fmt: skip
    x = lk.reorder(rng.random((1, ic, size, size), np.float32), "NCHW", layout)
    try:
        y = op(x)
    except ValueError:
        return None
    return lambda: op(x, y)


def timed(call: Callable[[], object], clock: Callable[[], float]) -> float:
    """Seconds of a call, the least of some timings."""
    times: list[float] = []
    repeat = 1
    for i in range(ROUNDS + 1):
        start = clock()
        for _ in range(repeat):
            call()
        seconds = (clock() - start) / repeat
        if i:
            times.append(seconds)
        else:  # wakes everything up, and tells how many calls make a timing
            repeat += int(TURN / max(seconds, 1e-7))
    return min(times)


def work() -> None:
    """What a process does: times the problems that come on its input."""
    threads, problems = json.load(sys.stdin)
    clock = time.thread_time if threads == 1 else time.perf_counter
    calls = (call_of(threads, *problem) for problem in problems)
    json.dump([None if call is None else timed(call, clock) for call in calls], sys.stdout)


def one_turn(python: str, threads: int, problems: Sequence[tuple]) -> list[float | None]:
    """The times of one process of an installation."""
    environment = {**os.environ, "LAYOUTKIT_CACHE_DIR": os.devnull}
    command, asked = [python, __file__, "--work"], json.dumps([threads, problems])
    done = subprocess.run(command, input=asked, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    if "--work" in (argv or sys.argv):
        work()
        return 0
    p = argparse.ArgumentParser(prog="python bench/before.py", description=(__doc__ or "").split("\n")[0])
    p.add_argument("python", help="of the other installation")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--turns", type=int, default=5, help="of each installation")
    for kind in ("convolutions", "groups", "reorders"):
        p.add_argument(f"--{kind}", type=int, default=40, metavar="N")
    args = p.parse_args(argv)
    problems = drawn(args)
    here: list[list[float | None]] = []
    there: list[list[float | None]] = []
    for turn in range(args.turns):
        for timings, python in ((here, sys.executable), (there, args.python))[:: -1 if turn % 2 else 1]:
            timings.append(one_turn(python, args.threads, problems))
    ratios: dict[str, list[float]] = {}
    for problem, a, b in zip(problems, zip(*here), zip(*there)):
        times = [min(t) for t in (tuple(filter(None, a)), tuple(filter(None, b))) if t]
        if len(times) == 2:
            ratio = times[0] / times[1]
            ratios.setdefault(problem[0], []).append(ratio)
            if problem[0] == "call" or abs(log(ratio)) > log(1 + APART):
                name = " ".join(map(str, problem))
                print(f"{ratio:6.2f}  {times[1] * 1e6:10.2f} -> {times[0] * 1e6:10.2f} us  {name}")
    for kind, every in ratios.items():
        mean, median = exp(sum(map(log, every)) / len(every)), sorted(every)[len(every) // 2]
        print(f"{kind:12} {len(every):3}: geometric mean {mean:.3f}, median {median:.3f}, most {max(every):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
