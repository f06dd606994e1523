"""A profile as a table, and as a page: what to do, where the time goes, what costs most first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from ..pages import document
from .report import Profile

Timings = Sequence[tuple[str, str, float]]  # operator, name, seconds


def by_operator(profile: Timings) -> list[tuple[str, int, float]]:
    """Operator, number of steps and their total seconds, slowest first."""
    seconds_of: dict[str, list[float]] = {}
    for op, _, seconds in profile:
        seconds_of.setdefault(op, []).append(seconds)
    return sorted(((op, len(s), sum(s)) for op, s in seconds_of.items()), key=lambda row: -row[2])


def table(profile: Timings) -> Iterator[str]:
    """Lines of a table: time by operator, and the total."""
    rows = by_operator(profile)
    total = sum(seconds for *_, seconds in rows)
    for op, count, seconds in rows:
        yield f"{op:<22}{count:5} {1e3 * seconds:9.3f} ms {seconds / total:6.1%}"
    yield f"{'all':<22}{len(profile):5} {1e3 * total:9.3f} ms"


def page(title: str, advice: Iterable[str], machine: str, summary: str, profile: Profile) -> str:
    """The page of a model: sentences that say what to do, the machine, the profile, and the text of the command."""
    parts = [f"<h1>{escape(title)}</h1>", f"<p class=quiet>{escape(machine)}</p>"]
    parts += [f"<p class=note>{escape(sentence)}</p>" for sentence in advice]
    printed = f"<details><summary>What the command printed</summary><pre>{escape(summary)}</pre></details>"
    return document(title, [*parts, *profile.parts(), printed])
