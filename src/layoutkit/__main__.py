"""``python -m layoutkit``: print the configuration."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from .bench.exits import run
from .config import config, show_config


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    p = argparse.ArgumentParser(
        prog="python -m layoutkit",
        description="Print layoutkit's configuration. To measure and tune: python -m layoutkit.bench",
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
