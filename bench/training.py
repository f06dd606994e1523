"""A step of training a network, torch alone against the model that `layoutkit.torch.convert` makes of it.

Each has its own process; they are woken in turns, the idle one blocked on a pipe. A ratio is of one round; medians are
told. Both begin with the same weights: their losses are compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from compare import Contender, number
from contenders import LEAST_TIMED
from residual import NETWORKS, OF_ZOO

from layoutkit.choosing import machine
from layoutkit.torch.trials import ROUNDS

RUNTIMES = "layoutkit.torch", "torch"
TOLERANCE = 1e-3  # of the first loss
WARM = -(-(3 * ROUNDS + 1) // (1 + LEAST_TIMED))  # turns in whose steps layers are tried


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; returns its exit code."""
    p = argparse.ArgumentParser(prog="training.py", description=__doc__.splitlines()[0])
    p.add_argument("--network", choices=(*NETWORKS, *OF_ZOO), default="resnet50", help="default %(default)s")
    p.add_argument("--batch", type=number, default=8, help="images, default %(default)s")
    p.add_argument("--size", type=number, default=224, help="of an image or volume by axis, default %(default)s")
    p.add_argument("--layouts", default="NHWC,NCHW", help="default %(default)s")
    p.add_argument("--threads", type=number, default=1, help="of both, default %(default)s")
    p.add_argument("--rounds", type=number, default=5, help="default %(default)s")
    p.add_argument("--tuning", choices=("estimate", "measure"), default="estimate", help="ours, default %(default)s")
    p.add_argument("--clock", choices=("wall", "processor"), default="wall",
                   help="on a machine that does other things too: processor, of one thread")  # fmt: skip
    p.add_argument("--json", metavar="FILE", help="write every figure to FILE")
    args = p.parse_args(argv)
    if args.clock == "processor" and args.threads > 1:
        p.error("--clock processor: expected --threads 1")
    what = f"{args.network}, batch {args.batch}, {args.size} pixels, {args.threads} thread(s), tuning {args.tuning}"
    print(f"{machine.cpu_model()}, {machine.identity()['isa']}, {what}")
    rows = []
    for layout in args.layouts.split(","):
        case = {"kind": "training", "network": args.network, "batch": args.batch, "size": args.size, "layout": layout}
        contenders = [Contender(name, args.threads, args.tuning) for name in RUNTIMES]
        losses = {c.name: c.ask(do="prepare", case=case)["digests"]["step"][0] for c in contenders}
        times: dict[str, list[float]] = {c.name: [] for c in contenders}
        for _ in range(WARM):
            for c in contenders:
                c.ask(do="run", way="step", seconds=0)
        for _ in range(args.rounds):
            for c in contenders:
                times[c.name].append(c.ask(do="run", way="step", seconds=0, clock=args.clock)["seconds"])
        for c in contenders:
            c.close()
        ours, theirs = (times[name] for name in RUNTIMES)
        row = {"layout": layout, "seconds": {name: median(t) for name, t in times.items()}, "losses": losses,
               "ratio": median(b / a for a, b in zip(ours, theirs))}  # fmt: skip
        rows.append(row)
        text = ", ".join(f"{name} {median(t):.3f} s" for name, t in times.items())
        apart = abs(losses[RUNTIMES[0]] - losses[RUNTIMES[1]]) > TOLERANCE * abs(losses[RUNTIMES[1]])
        print(f"{layout}: {text}: {row['ratio']:.2f} times as fast{', losses differ' * apart}", flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
