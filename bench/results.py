"""Measures what the README says, writes results.md: ``python bench/results.py [--only PART] [--time-budget SECONDS]``.

Each part (`results_parts.py`) is a command of this folder, run in a process of its own with an empty cost table, one
after another; nothing else should run. After each, results.json has its figures, results.md and the README's picture
(which needs matplotlib) show all that was measured so far, with the machine, the commit and the day. Parts that are
not measured again are kept.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from results_page import draw, page
from results_parts import Part, parts

from layoutkit.choosing import machine

HERE = Path(__file__).parent


def circumstances(quick: bool) -> str:
    """What figures depend on beside the command."""
    identity = machine.identity()
    day = datetime.datetime.now(datetime.UTC).date()
    text = f"{day}, commit {commit()}, {identity['cores']} cores of {machine.cpu_model()}, {identity['isa']}"
    return text + ", quick: no figures to rely on" * quick


def commit() -> str:
    """The commit that is checked out, and whether sources differ from it."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "../src", ".", ":!results*")
        return git("rev-parse", "--short", "HEAD") + " with changes" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def measured(part: Part, quick: bool, seconds: float) -> dict | None:
    """Run the command of a part; what the store keeps of it, None if it wrote nothing."""
    with tempfile.TemporaryDirectory(prefix="layoutkit-results-") as folder:
        file, cache = Path(folder) / "figures.json", Path(folder) / "cache"
        cache.mkdir()
        script, *arguments = [*part.command, *(part.quick if quick else ())]
        command = [sys.executable, str(HERE / script), *arguments, "--json", str(file)]
        if not _ended(command, os.environ | {"LAYOUTKIT_CACHE_DIR": str(cache)}, seconds) or not file.exists():
            return None
        data = json.loads(file.read_text(encoding="utf-8"))
    results = {"command": " ".join([script, *arguments]), "measured": circumstances(quick)}
    results["figures"] = list(part.read(data))
    return results


def _ended(command: Sequence[str], environment: dict[str, str], seconds: float) -> bool:
    """Whether the command, with all that it starts, ended by itself within so many seconds."""
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        process.wait(None if seconds == float("inf") else seconds)
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def write(store: dict[str, dict], known: dict[str, Part], folder: Path) -> None:
    """results.json, results.md and the picture."""
    shown = {name: store[name] for name in known if name in store}
    (folder / "results.json").write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")
    try:
        pictures = draw(shown, folder)
    except ImportError as error:
        print(f"results.py: no picture: {error}", file=sys.stderr)
        pictures = {}
    (folder / "results.md").write_text(page(shown, known, pictures), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 1 if a part was not measured."""
    p = argparse.ArgumentParser(prog="python bench/results.py", description=(__doc__ or "").split("\n")[0])
    p.add_argument("--only", choices=list(parts(0)), action="append", metavar="PART", help=", ".join(parts(0)))
    p.add_argument("--time-budget", type=float, default=float("inf"), metavar="SECONDS", help="for all parts together")
    p.add_argument("--quick", action="store_true", help="to see that it works: the figures mean nothing")
    p.add_argument("--seed", type=int, help="of the reorders drawn at random")
    p.add_argument("--folder", type=Path, default=HERE, help="where to write, default %(default)s")
    args = p.parse_args(argv)
    known = parts(args.seed)
    kept = args.folder / "results.json"
    store = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    end, missing = time.monotonic() + args.time_budget, []
    for name in args.only or known:
        start = time.monotonic()
        results = measured(known[name], args.quick, end - start) if start < end else None
        if results is None:
            missing.append(name)
            continue
        store[name] = results
        write(store, known, args.folder)
        print(f"results.py: {name}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    if missing:
        print(f"results.py: not measured: {', '.join(missing)}", file=sys.stderr)
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
