"""A progress bar on stderr, when that is a terminal: rich's if it is installed, a plain one if not."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

try:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    HAS_RICH = True
except ImportError:
    HAS_RICH = False


class Titled(Protocol):
    """Something that says what it is."""

    @property
    def title(self) -> str: ...


T = TypeVar("T", bound=Titled)


def track(items: Iterable[T], total: int) -> Iterator[T]:
    """`items`, with a bar that names the one at work while stderr is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        return iter(items)
    return _rich(items, total) if HAS_RICH else _plain(items, total)


def _rich(items: Iterable[T], total: int) -> Iterator[T]:
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    # drawn between problems only: a thread that draws would disturb what is measured
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=total)
        for item in items:
            bar.update(task, description=item.title, refresh=True)
            yield item
            bar.advance(task)


def _plain(items: Iterable[T], total: int) -> Iterator[T]:
    start = time.monotonic()
    width = shutil.get_terminal_size().columns - 1
    try:
        for i, item in enumerate(items):
            done = 24 * i // max(1, total)
            bar = f"[{'#' * done}{'.' * (24 - done)}] {i}/{total}"
            line = f"{bar} {time.monotonic() - start:4.0f} s  {item.title}"
            print(f"\r{line[:width]:<{width}}", end="", file=sys.stderr, flush=True)
            yield item
    finally:
        print(f"\r{'':<{width}}\r", end="", file=sys.stderr, flush=True)
