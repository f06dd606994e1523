"""Text that fits the terminal, or 80 columns where there is none."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

COLUMNS = 80  # of a file or a pipe


def columns(stream: IO[str] | None) -> int:
    """Characters in a line of `stream`."""
    if stream is None or not stream.isatty():
        return COLUMNS
    return shutil.get_terminal_size((COLUMNS, 24)).columns


def fold(text: str, width: int, hang: int = 2) -> list[str]:
    """Fold one line of text, lines after the first indented by `hang`; long words are not broken."""
    lines = textwrap.wrap(text, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False)
    return lines or [""]


def print_folded(lines: Iterable[str], stream: IO[str] | None, hang: int = 2) -> None:
    """Print lines, folded to the width of `stream`; nothing if it is None."""
    if stream is None:
        return
    width = columns(stream)
    for text in lines:
        for line in text.split("\n"):
            print("\n".join(fold(line, width, hang)), file=stream)


def table(rows: Sequence[tuple[str, str, str]], width: int) -> Iterator[str]:
    """The lines of a table of titles, figures that are aligned already, and names.

    A title or a name that does not fit beside the figures is on a line of its own.
    """
    titles = min(max(len(t) for t, _, _ in rows), width - 2 - max(len(f) for _, f, _ in rows))
    for title, figures, name in rows:
        if len(title) > titles:
            yield from fold(f"  {title}", width, 4)
            title = ""
        line = f"  {title:<{titles}}{figures}"
        if len(line) + 2 + len(name) <= width:
            yield f"{line}  {name}".rstrip()
        else:
            yield line
            yield from (part.rjust(width) for part in fold(name, width, 0))
