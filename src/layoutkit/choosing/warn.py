"""Warnings that point at the line of the user's code that led to them, however deep in the package they arise."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"


def warn(text: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn at the innermost line that is not this package's."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
