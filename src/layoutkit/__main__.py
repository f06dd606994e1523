"""``python -m layoutkit``, or ``layoutkit``: show the configuration, run a model, measure or check this machine."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from .bench.exits import run
from .config import config, show_config
from .version import __version__

COMMANDS = """commands:
  show [--json]   print the configuration; so does no command
  doctor          check this machine and this installation; the text to paste into an issue
  run MODEL       run an ONNX model: how long it takes and where; run --help says more
  quantize MODEL  write an ONNX model of float32 as one of int8; quantize --help says more
  bench           measure this machine and save the cost table, as python -m layoutkit.bench; bench --help says more
  table           export, import, merge or show cost tables; table --help says more
"""
# Imported when they are asked for: bench takes long to import.
MODULES = {
    "doctor": ".doctor", "run": ".graph.command", "quantize": ".graph.quantize.command", "bench": ".bench.command",
    "table": ".bench.table_command",
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in MODULES:
        command: Callable[[Sequence[str]], int] = import_module(MODULES[argv[0]], __package__).main
        return command(argv[1:])
    p = argparse.ArgumentParser(
        prog="python -m layoutkit", usage=f"%(prog)s [-h] [--version] [show] [--json] | {' .. | '.join(MODULES)} ..",
        description="layoutkit: reorders between memory formats, and convolutions in whatever format the data has.",
        epilog=COMMANDS, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    p.add_argument("command", nargs="?", choices=("show", *MODULES), default="show", help=argparse.SUPPRESS)
    p.add_argument("--version", action="version", version=f"layoutkit {__version__}")
    p.add_argument("--json", action="store_true", help="show as JSON")
    args = p.parse_args(argv)
    if args.command != "show":
        p.error(f"{args.command} comes first: python -m layoutkit {args.command} ..")
    if args.json:
        json.dump(config(), sys.stdout, indent=1)
        print()
    else:
        show_config()
    return 0


def script() -> int:
    """What the command ``layoutkit`` runs; returns its exit code."""
    return run(main)


if __name__ == "__main__":
    sys.exit(script())
