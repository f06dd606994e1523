"""``python -m layoutkit.bench``."""

import sys

from .command import main
from .exits import run

if __name__ == "__main__":
    sys.exit(run(main))
