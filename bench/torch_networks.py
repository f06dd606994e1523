"""Networks of zoo/ in torch: as `layoutkit.torch.optimize` runs them, against torch itself and against inductor.

    python bench/torch_networks.py --draw 6 --seed 1 --threads 2 --format channels_last
    python bench/torch_networks.py --contenders converted,eager

The second: only converted, `layoutkit.torch.convert`, in eval mode without gradients.

Every contender has its own process for each network; they are woken in turns, the idle ones blocked on a pipe. Inductor
has its weights frozen (`torch._inductor.config.freezing`), also as "autotuned" (`mode="max-autotune"`); it compiles for
a minute or so before anything is timed. A ratio is of one round; medians are told, and who computed something else than
torch.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import time
from pathlib import Path
from statistics import median
from typing import Any

from compare import POOLS

from layoutkit.bench.report import geomean

CONTENDERS = "layoutkit", "eager", "inductor"  # or "autotuned", "converted"; ratios are those of the first
TOLERANCE = 2e-4  # of the largest result
REST_SECONDS = 0.05  # between turns: runtimes spin for a while after a call


def work(contender: str, name: str, form: str, threads: int, clock: str, pipe: Any) -> None:
    """What the process of a contender does: prepares a network, then times calls when it is asked to."""
    import torch
    from zoo.export import made

    now = time.process_time if clock == "processor" else time.perf_counter
    torch.set_num_threads(threads)
    module, inputs, _ = made(name)
    tensors = tuple(inputs.values())
    if form == "channels_last":
        tensors = tuple(t.to(memory_format=torch.channels_last) if t.dim() == 4 else t for t in tensors)
        for part in module.modules():
            if isinstance(part, (torch.nn.Conv2d, torch.nn.ConvTranspose2d)):
                part.to(memory_format=torch.channels_last)
    with torch.no_grad():
        want = flat(module(*tensors))
        start = time.perf_counter()
        if contender == "layoutkit":
            import layoutkit.torch

            module = layoutkit.torch.optimize(module, tensors)
        elif contender == "converted":
            import layoutkit.torch

            module = layoutkit.torch.convert(module)
        elif contender in ("inductor", "autotuned"):
            import torch._inductor.config as inductor

            inductor.freezing = True
            module = torch.compile(module, mode="max-autotune" if contender == "autotuned" else None)
        got = flat(module(*tensors))
        first = time.perf_counter() - start
        apart = max(float((a - b).abs().max() / a.abs().max().clamp_min(1e-30)) for a, b in zip(want, got, strict=True))
        for _ in range(9):  # a converted layer tries two ways in eight
            module(*tensors)
        pipe.send({"first": first, "apart": apart})
        while (seconds := pipe.recv()) is not None:
            times, end = [], time.perf_counter() + seconds
            while not times or time.perf_counter() < end:
                start = now()
                module(*tensors)
                times.append(now() - start)
            pipe.send(median(times))


def flat(value: Any) -> list[Any]:
    """The tensors of a result."""
    return [value] if not isinstance(value, (tuple, list)) else [t for item in value for t in flat(item)]


def play(name: str, args: argparse.Namespace) -> dict:
    """All contenders on one network."""
    context = multiprocessing.get_context("spawn")
    processes, pipes = [], {}
    for contender in args.contenders.split(","):
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(contender, name, args.format, args.threads, args.clock, theirs))
        process.start()
        theirs.close()
        pipes[contender] = ours
        processes.append(process)
        ready = ours.recv()  # one after another: they would disturb each other
        if ready["apart"] > TOLERANCE:
            print(f"{name}: {contender} computed something else than torch: {ready['apart']:.1e}")
    times: dict[str, list[float]] = {contender: [] for contender in pipes}
    for _ in range(args.rounds):
        for contender, pipe in pipes.items():
            time.sleep(REST_SECONDS)
            pipe.send(args.seconds)
            times[contender].append(pipe.recv())
    for pipe, process in zip(pipes.values(), processes):
        pipe.send(None)
        process.join()
    ours, *others = times
    ratios = {other: median(b / a for a, b in zip(times[ours], times[other])) for other in others}
    return {"title": name, "ms": {c: 1e3 * median(t) for c, t in times.items()}, "ratios": ratios}


def main(argv=None) -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--only", help="networks with one of these words in their names: a,b")
    p.add_argument("--draw", type=int, help="so many of them, drawn at random")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--format", choices=("contiguous", "channels_last"), default="contiguous")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--seconds", type=float, default=0.2, help="of a turn")
    p.add_argument("--contenders", default=",".join(CONTENDERS))
    p.add_argument("--clock", choices=("wall", "processor"), default="wall",
                   help="on a machine that does other things too: processor, of one thread")  # fmt: skip
    p.add_argument("--json", type=Path)
    args = p.parse_args(argv)
    if args.clock == "processor" and args.threads > 1:
        p.error("--clock processor: expected --threads 1")
    from zoo import ZOO

    os.environ |= dict.fromkeys(POOLS, str(args.threads))
    names = [n for n in ZOO if not args.only or any(word in n for word in args.only.split(","))]
    if args.draw:
        names = random.Random(args.seed).sample(names, min(args.draw, len(names)))
    rows = []
    print(f"{args.threads} thread(s), {args.format}: ms a call; how many times as fast as the others the first is")
    for name in names:
        row = play(name, args)
        rows.append(row)
        told = "  ".join(f"{c} {ms:9.3f}" for c, ms in row["ms"].items())
        print(f"{name:18} {told}  {'  '.join(f'{c} {r:.2f}' for c, r in row['ratios'].items())}", flush=True)
    for contender in rows[0]["ratios"] if rows else ():
        found = [row["ratios"][contender] for row in rows]
        print(f"{contender}: geometric mean {geomean(found):.2f}, least {min(found):.2f}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
