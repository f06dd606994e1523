"""Progress on stderr: a bar on a terminal (that of rich if installed), elsewhere a line a minute."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

try:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    HAS_RICH = True
except ImportError:
    HAS_RICH = False


LINE_EVERY_SECONDS = 60.0


class Titled(Protocol):
    """An item with a title to show."""

    @property
    def title(self) -> str: ...


T = TypeVar("T", bound=Titled)


def track(items: Iterable[T], total: int, clock: Callable[[], float] = time.monotonic) -> Iterator[T]:
    """Yield `items`, showing how many are done and the title of the current one."""
    if sys.stderr is None:
        return iter(items)
    if not sys.stderr.isatty():
        return _lines(items, total, clock)
    return _rich(items, total) if HAS_RICH else _plain(items, total, clock)


def _rich(items: Iterable[T], total: int) -> Iterator[T]:
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    # drawn between problems only: a drawing thread would disturb measurements
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=total)
        for item in items:
            bar.update(task, description=item.title, refresh=True)
            yield item
            bar.advance(task)


def _plain(items: Iterable[T], total: int, clock: Callable[[], float]) -> Iterator[T]:
    start = clock()
    width = shutil.get_terminal_size().columns - 1
    try:
        for i, item in enumerate(items):
            done = 24 * i // max(1, total)
            bar = f"[{'#' * done}{'.' * (24 - done)}] {i}/{total}"
            line = f"{bar} {clock() - start:4.0f} s  {item.title}"
            print(f"\r{line[:width]:<{width}}", end="", file=sys.stderr, flush=True)
            yield item
    finally:
        print(f"\r{'':<{width}}\r", end="", file=sys.stderr, flush=True)


def _lines(items: Iterable[T], total: int, clock: Callable[[], float]) -> Iterator[T]:
    start = printed = clock()
    for i, item in enumerate(items):
        now = clock()
        if now - printed >= LINE_EVERY_SECONDS:
            printed = now
            with contextlib.suppress(OSError):  # a closed pipe is no reason to stop measuring
                print(f"{i}/{total} after {(now - start) / 60:.0f} min: {item.title}", file=sys.stderr, flush=True)
        yield item
