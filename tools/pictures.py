"""The drawings of the documentation: ``python tools/pictures.py`` writes docs/pictures/."""

from __future__ import annotations

import sys
from pathlib import Path

from layoutkit.formats.layout import Layout

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
DRAWINGS = {"nchw": "NCHW", "nhwc": "NHWC", "nchw4c": "nChw4c"}
SHAPE = 1, 6, 2, 2


def pictures() -> dict[str, str]:
    """Each file's name and text."""
    return {f"{name}.svg": Layout(text).draw(SHAPE)._repr_svg_() for name, text in DRAWINGS.items()}


def main() -> int:
    """Write them; returns the exit code."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
