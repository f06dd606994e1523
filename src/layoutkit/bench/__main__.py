"""``python -m layoutkit.bench``."""

import sys

from ..exits import run
from .command import main

if __name__ == "__main__":
    sys.exit(run(main))
