"""Random problems against the reference, many of them: ``python stress/campaign.py``.

Everything that a signature accepts is drawn, see `random_cases`. A case is a function of the seed and its number:
``--seed 3 --only reorders:1234`` runs that one again. Cases run in processes of their own, some hundred each: one that
crashes or hangs is a failure like any other, and the rest goes on. The user's cost table is neither read nor written.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # random_cases, and what they are held against

CHUNK = 400  # cases of a process
SHOWN = 20  # failures that are printed in full
PATIENCE = 120.0  # seconds that a case may take
COUNTS = {
    "reorders": 100_000,
    "convolutions": 20_000,
    "integers": 10_000,
    "transposed": 2_000,
    "limits": 2_000,
    "reproducible": 1_000,
    "filters": 10_000,
    "chunked": 5_000,
}


def run(kind: str, seed: int, first: int, last: int, at: mmap.mmap | None = None) -> Iterator[str]:
    """The failures among cases [first, last) of a kind; `at` tells which one is running."""
    from random_cases import CASES

    for index in range(first, last):
        if at is not None:
            at[:8] = index.to_bytes(8, "little")
        try:
            wrong = CASES[kind](seed, index)
        except Exception as error:  # whatever it is, the case is told and the rest goes on
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            yield f"--seed {seed} --only {kind}:{index}  {wrong}"


def _work(kind: str, seed: int, first: int, last: int, progress: Path) -> None:
    """What a process does: prints failures, a line each, and keeps the number of its case in a file."""
    with open(progress, "r+b") as file, mmap.mmap(file.fileno(), 8) as at:
        for failure in run(kind, seed, first, last, at):
            print(failure.replace("\n", " "), flush=True)


def _chunk(kind: str, seed: int, first: int, last: int) -> list[str]:
    """The failures of a chunk, in as many processes as it takes."""
    failures: list[str] = []
    while first < last:
        with tempfile.TemporaryDirectory(prefix="layoutkit-campaign-") as folder:
            progress = Path(folder) / "progress"
            progress.write_bytes(first.to_bytes(8, "little"))
            command = [sys.executable, __file__, "--work", kind, str(seed), str(first), str(last), str(progress)]
            environment = {**os.environ, "LAYOUTKIT_CACHE_DIR": folder}
            status, lines, told = _watched(command, environment, progress, Path(folder) / "output")
            failures += lines
            if not status:
                return failures
            at = int.from_bytes(progress.read_bytes(), "little")
            failures.append(f"--seed {seed} --only {kind}:{at}  {status} {told}")
            first = at + 1
    return failures


def _watched(command, environment, progress: Path, output: Path) -> tuple[str, list[str], str]:
    """What became of a process ("" if nothing), its lines, the end of what it said on stderr."""
    status = ""
    with open(output, "wb") as out, open(f"{output}.err", "wb") as err:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=err)
        seen, since = b"", time.monotonic()
        while process.poll() is None:
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                now = progress.read_bytes()
                if now != seen:
                    seen, since = now, time.monotonic()
                elif time.monotonic() - since > PATIENCE:
                    process.kill()
                    status = f"hangs, for {PATIENCE:.0f} s"
    if process.returncode and not status:
        status = f"the process ended with {process.returncode}"
    return status, output.read_text().splitlines(), Path(f"{output}.err").read_text(errors="replace")[-1500:]


def campaign(kind: str, seed: int, count: int, jobs: ThreadPoolExecutor) -> dict[str, object]:
    """Run `count` cases of a kind; what came of it."""
    start, done, failures = time.perf_counter(), 0, []
    firsts = range(0, count, CHUNK)
    for first, found in zip(firsts, jobs.map(lambda a: _chunk(kind, seed, a, min(a + CHUNK, count)), firsts)):
        done = min(first + CHUNK, count)
        for text in found[: max(0, SHOWN - len(failures))]:
            print(text, file=sys.stderr, flush=True)
        failures += found
        if sys.stderr.isatty():
            print(f"\r{done} of {count} {kind}", end="", file=sys.stderr, flush=True)
    return {"kind": kind, "cases": done, "wrong": len(failures), "seconds": time.perf_counter() - start}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 1 if anything was wrong."""
    p = argparse.ArgumentParser(prog="python stress/campaign.py", description=(__doc__ or "").split("\n")[0])
    for kind, count in COUNTS.items():
        p.add_argument(f"--{kind}", type=int, default=count, metavar="N")
    p.add_argument("--seed", type=int, help="a new one by default, which is printed")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    p.add_argument("--only", metavar="KIND:NUMBER", help="run one case of a seed again, in this process")
    p.add_argument("--json", action="store_true")
    p.add_argument("--work", nargs=5, help=argparse.SUPPRESS)
    args = p.parse_args(argv)
    if args.work:
        kind, seed, first, last, progress = args.work
        _work(kind, int(seed), int(first), int(last), Path(progress))
        return 0
    if args.only:
        kind, _, number = args.only.partition(":")
        if kind not in COUNTS or not number.isdigit() or args.seed is None:
            p.error(f"--only {args.only}: expected {' or '.join(COUNTS)}, a colon and a number, and the --seed")
        with tempfile.TemporaryDirectory(prefix="layoutkit-campaign-") as cache:
            os.environ["LAYOUTKIT_CACHE_DIR"] = cache
            failures = list(run(kind, args.seed, int(number), int(number) + 1))
        print("\n".join(failures) or f"{args.only}: right")
        return bool(failures)
    seed = secrets.randbits(32) if args.seed is None else args.seed
    with ThreadPoolExecutor(args.jobs) as jobs:
        results = [campaign(kind, seed, getattr(args, kind), jobs) for kind in COUNTS]
    if args.json:
        print(json.dumps({"seed": seed, "kinds": results}))
    else:
        for r in results:
            print(f"{r['cases']:>8} random {r['kind']}: {r['wrong']} wrong, {r['seconds']:.1f} s, seed {seed}")
    return any(r["wrong"] for r in results)


if __name__ == "__main__":
    sys.exit(main())
