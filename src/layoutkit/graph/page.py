"""A profile as a table, and as a page with bars."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

Profile = Sequence[tuple[str, str, float]]  # operator, name, seconds

STYLE = """body { font: 14px sans-serif; margin: 2em; max-width: 70em }
table { border-collapse: collapse; width: 100% }
td, th { padding: 2px 8px; text-align: left; white-space: nowrap }
td.number { text-align: right; font-variant-numeric: tabular-nums }
td.bar { width: 50% } td.bar div { background: #4878a8; height: 12px }"""


def by_operator(profile: Profile) -> list[tuple[str, int, float]]:
    """Operator, number of steps and their total seconds, slowest first."""
    seconds_of: dict[str, list[float]] = {}
    for op, _, seconds in profile:
        seconds_of.setdefault(op, []).append(seconds)
    return sorted(((op, len(s), sum(s)) for op, s in seconds_of.items()), key=lambda row: -row[2])


def table(profile: Profile) -> Iterator[str]:
    """Lines of a table: time by operator, and the total."""
    rows = by_operator(profile)
    total = sum(seconds for *_, seconds in rows)
    for op, count, seconds in rows:
        yield f"{op:<22}{count:5} {1e3 * seconds:9.3f} ms {seconds / total:6.1%}"
    yield f"{'all':<22}{len(profile):5} {1e3 * total:9.3f} ms"


def page(title: str, summary: str, profile: Profile, described: Sequence[tuple[str, float]] = ()) -> str:
    """An HTML page: the summary, time by operator, and every step with a bar, in the words of `described`."""
    named = [(f"{op} ({count})", seconds) for op, count, seconds in by_operator(profile)]
    steps = described or [(f"{op}: {name}", seconds) for op, name, seconds in profile]
    return (
        f"<!doctype html><meta charset='utf-8'><title>{html.escape(title)}</title><style>{STYLE}</style>"
        f"<h1>{html.escape(title)}</h1><pre>{html.escape(summary)}</pre>"
        f"<h2>By operator</h2>{_bars(named)}<h2>Step by step</h2>{_bars(steps)}\n"
    )


def _bars(rows: Sequence[tuple[str, float]]) -> str:
    most = max((seconds for _, seconds in rows), default=0.0) or 1.0
    lines = (
        f"<tr><td>{html.escape(name)}</td><td class='number'>{1e3 * seconds:.3f} ms</td>"
        f"<td class='bar'><div style='width:{100 * seconds / most:.1f}%'></div></td></tr>"
        for name, seconds in rows
    )
    return f"<table>{''.join(lines)}</table>"
