"""A picture of a run's page, with the numbers that it shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from .report import on_threads


class Picture(NamedTuple):
    """Drawings (SVG) with a title and a caption, and their numbers as a table."""

    title: str
    caption: str
    drawings: Sequence[str]
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def convolutions(results: Sequence[dict]) -> dict[str, list[dict]]:
    """The convolutions of a run by threads and types, which share a limit and thus a panel; keys are its titles."""
    groups: defaultdict[tuple[int, str], list[dict]] = defaultdict(list)
    for r in results:
        if r["kind"] == "conv":
            groups[r["threads"], r["group"].partition(" ")[2]].append(r)
    return {f"{on_threads(threads)} {types}".rstrip(): panel for (threads, types), panel in sorted(groups.items())}


def intensity(result: dict) -> float:
    """Operations per byte."""
    return result["work"] / result["bytes"]
