"""``python -m layoutkit``: print the configuration; ``python -m layoutkit run MODEL``: run an ONNX model."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from .bench.exits import run
from .config import config, show_config
from .graph import command


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["run"]:
        return command.main(argv[1:])
    p = argparse.ArgumentParser(
        prog="python -m layoutkit",
        description="Print layoutkit's configuration. To run an ONNX model: python -m layoutkit run MODEL. "
        "To measure and tune: python -m layoutkit.bench",
    )
    p.add_argument("--json", action="store_true", help="as JSON")
    if p.parse_args(argv).json:
        json.dump(config(), sys.stdout, indent=1)
        print()
    else:
        show_config()
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
