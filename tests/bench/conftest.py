"""The tools that make up runs are beside the tests, not among them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tools"))
