"""The page of a run: one self-contained HTML file with plots and all results."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from ..pages import document, folded
from . import comparison
from .picture import Picture
from .report import geomean, on_threads


def available() -> bool:
    """Whether the plots can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def write(data: dict, path: str | Path) -> None:
    """Write the page of a run, given as --json writes it."""
    Path(path).write_text(page(data), encoding="utf-8")


def pictures(data: dict) -> Iterator[Picture]:
    """The pictures of a run, without those that it has no results for."""
    from . import cold, gains, heat, roofline, shares  # matplotlib is needed here only

    yield from filter(None, (module.picture(data) for module in (roofline, shares, heat, gains, cold)))


def page(data: dict) -> str:
    """The page's text."""
    m, results = data.get("machine") or {}, data["results"]
    caches = ", ".join(f"{size >> 10} KB" for size in m.get("caches", ()))
    title = f"layoutkit {data.get('layoutkit', '')}, {data.get('suite', '')}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p class=quiet>{escape(str(m.get('cpu')))}, {m.get('cores')} cores, {escape(str(m.get('isa')))}, caches "
        f"{caches}; build {escape(str(m.get('build')))}; {len(results)} problems in {data.get('seconds', 0):.0f} s</p>",
        *(f"<p class=note>{escape(note)}</p>" for note in data.get("notes", ())),
    ]
    for p in pictures(data):
        parts += [f"<h2>{escape(p.title)}</h2>", f"<p class=quiet>{escape(p.caption)}</p>", "<div class=pictures>"]
        parts += [f"<div>{drawing}</div>" for drawing in p.drawings]
        parts += ["</div>", folded("The numbers", p.head, p.rows)]
    parts += ["<h2>Every figure</h2>", *tables(results)]
    return document(title, parts)


def tables(results: Sequence[dict]) -> Iterator[str]:
    """A table per kind, group and thread count."""
    groups: dict[tuple, list[dict]] = {}
    for r in results:
        groups.setdefault((r["kind"], r["group"], r["threads"]), []).append(r)
    for (kind, group, threads), rows_of_group in groups.items():
        mean = geomean(r["share"] for r in rows_of_group)
        unit = rows_of_group[0]["unit"]
        head = ("what", "met", "winner", "\N{MICRO SIGN}s", unit, "share", "problem", "others, times as long")
        rows = [
            (r["title"], str(r["count"]), r["winner"], f"{1e6 * r['seconds']:.1f}", f"{r['rate']:.1f}",
             f"{r['share']:.1%}", r["problem"],
             ", ".join(f"{name} {c['min'] / r['seconds']:.2f}" for name, c in list(r["candidates"].items())[1:6]))
            for r in rows_of_group
        ]  # fmt: skip
        title = f"{kind} {group}, {on_threads(threads)}: {len(rows_of_group)} problems, {mean:.1%} of the limit"
        yield folded(title, head, rows)


def main(argv: Sequence[str]) -> int:
    """``python -m layoutkit.bench report``; returns its exit code."""
    p = argparse.ArgumentParser(prog="python -m layoutkit.bench report", description="The page of a run.")
    p.add_argument("run", metavar="A.json")
    p.add_argument("out", metavar="OUT.html")
    args = p.parse_args(argv)
    if not available():
        p.error("needs matplotlib: pip install 'layoutkit[report]'")
    try:
        write(comparison.read(args.run), args.out)
    except (OSError, ValueError) as error:
        p.error(str(error))
    return 0
