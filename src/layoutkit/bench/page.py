"""The page of a run: one self-contained HTML file with the plots that tell what was measured, and every figure."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from . import comparison
from .report import geomean

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2530; max-width: 1120px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em; margin-bottom: .2em } h2 { font-size: 1.15em; margin: 2.2em 0 .3em } p { margin: .3em 0 }
svg { width: 100%; height: auto } .note { color: #9a3412 } .quiet { color: #667085 }
table { border-collapse: collapse; font-size: 13px; width: 100% } details { margin: .6em 0 }
th { text-align: left; border-bottom: 1px solid #98a2b3; position: sticky; top: 0; background: #fff }
td { border-bottom: 1px solid #eaecf0; padding: 1px 8px 1px 0; white-space: nowrap } td.n { text-align: right }
"""


def available() -> bool:
    """Whether the plots can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def write(data: dict, path: str | Path) -> None:
    """Write the page of a run, which `data` holds as --json writes it."""
    Path(path).write_text(page(data), encoding="utf-8")


def _sections():
    from . import plots

    yield (
        "Roofline",
        (
            "Every convolution by its operations per byte (input, filter and output once each), under the FMA peak and "
            "the copy bandwidth measured in this run."
        ),
        plots.roofline,
    )
    yield (
        "Share of the limit",
        (
            "Convolutions against the FMA peak, layer by layer, one mark a layout. Above 100 %: fewer operations than "
            "counted (Winograd, padded taps left out)."
        ),
        plots.shares,
    )
    yield (
        "Reorders",
        (
            "Share of the bandwidth of a copy of the same bytes, geometric mean over the shapes, from the row's format "
            "to the column's."
        ),
        plots.heat,
    )
    yield (
        "What choosing gained",
        (
            "How many times longer than the choice the second best candidate takes, the one candidate that is best "
            "over all where it can run, and the slowest; the problems in order of gain."
        ),
        plots.gains,
    )
    yield (
        "Filters met cold",
        ("Time with the filter out of the caches, as it is in a network of many layers, to the time with a warm one."),
        plots.cold,
    )


def page(data: dict) -> str:
    """The page's text."""
    m, results = data.get("machine") or {}, data["results"]
    caches = ", ".join(f"{size >> 10} KB" for size in m.get("caches", ()))
    parts = [
        f"<h1>layoutkit {escape(str(data.get('layoutkit', '')))}, {escape(str(data.get('suite', '')))}</h1>",
        f"<p class=quiet>{escape(str(m.get('cpu')))}, {m.get('cores')} cores, {escape(str(m.get('isa')))}, caches "
        f"{caches}; build {escape(str(m.get('build')))}; {len(results)} problems in {data.get('seconds', 0):.0f} s</p>",
        *(f"<p class=note>{escape(note)}</p>" for note in data.get("notes", ())),
    ]
    for title, says, draw in _sections():
        drawing = draw(results)
        if drawing:
            parts += [f"<h2>{title}</h2>", f"<p class=quiet>{says}</p>", drawing]
    parts += ["<h2>Every figure</h2>", *tables(results)]
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>layoutkit {escape(str(data.get('suite', '')))}</title><style>{STYLE}</style>\n"
        + "\n".join(parts) + "\n</html>\n"
    )  # fmt: skip


def tables(results: Sequence[dict]) -> Iterator[str]:
    """A table per kind, group and thread count, folded."""
    groups: dict[tuple, list[dict]] = {}
    for r in results:
        groups.setdefault((r["kind"], r["group"], r["threads"]), []).append(r)
    for (kind, group, threads), found in groups.items():
        mean = geomean(r["share"] for r in found)
        yield (f"<details><summary>{escape(f'{kind} {group}')}, {threads} thread{'s' * (threads > 1)}: {len(found)} "
               f"problems, {mean:.1%} of the limit</summary><table><tr><th>problem<th>met<th>winner<th>&micro;s<th>"
               f"{found[0]['unit']}<th>share<th>others, times as long</tr>")  # fmt: skip
        for r in found:
            others = ", ".join(
                f"{escape(name)} {c['min'] / r['seconds']:.2f}" for name, c in list(r["candidates"].items())[1:6]
            )
            yield (f"<tr><td title='{escape(r['problem'])}'>{escape(r['title'])}<td class=n>{r['count']}"
                   f"<td>{escape(r['winner'])}<td class=n>{1e6 * r['seconds']:.1f}<td class=n>{r['rate']:.1f}"
                   f"<td class=n>{r['share']:.1%}<td class=quiet>{others}</tr>")  # fmt: skip
        yield "</table></details>"


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
