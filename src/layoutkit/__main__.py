"""``python -m layoutkit``: show the configuration, run an ONNX model, or measure this machine."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from .bench.exits import run
from .config import config, show_config
from .graph import command
from .version import __version__

COMMANDS = """commands:
  show [--json]   print the configuration; so does no command
  run MODEL       run an ONNX model: how long it takes and where; run --help says more
  bench           measure this machine and save the cost table, as python -m layoutkit.bench; bench --help says more
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["run"]:
        return command.main(argv[1:])
    if argv[:1] == ["bench"]:
        from .bench.command import main as bench  # which takes long to import

        return bench(argv[1:])
    p = argparse.ArgumentParser(
        prog="python -m layoutkit", usage="%(prog)s [-h] [--version] [show] [--json] | run MODEL .. | bench ..",
        description="layoutkit: reorders between memory formats, and convolutions in whatever format the data has.",
        epilog=COMMANDS, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    p.add_argument("command", nargs="?", choices=("show", "run", "bench"), default="show", help=argparse.SUPPRESS)
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


if __name__ == "__main__":
    sys.exit(run(main))
