"""Self-contained pages: one style for screens of any width, light and dark, and for paper; fragments for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

INK, PAPER, QUIET, GRID = "#000000", "#ffffff", "#98a2b3", "#e4e7ec"
COLOURS = ("#2563eb", "#d97706", "#059669", "#c026d3", "#64748b", "#dc2626")

# The CSS variable of each colour, and its values on light and on dark screens.
VARIABLES = {
    INK: ("ink", "#1d2530", "#e6e9ee"), PAPER: ("paper", "#ffffff", "#12161d"), QUIET: ("quiet", "#667085", "#98a2b3"),
    GRID: ("grid", "#e4e7ec", "#2c3440"),
    **{light: (f"c{i}", light, dark) for i, (light, dark) in enumerate(
        zip(COLOURS, ("#7aa2ff", "#f0a545", "#34d399", "#e879f9", "#a8b4c6", "#f87171")))},
}  # fmt: skip
THEME = "".join(
    f"{media}:root {{ color-scheme: {scheme}; "
    + "; ".join(f"--{name}: {colours[i]}" for name, *colours in VARIABLES.values())
    + f" }}{end}\n"
    for i, (media, scheme, end) in enumerate(
        (("", "light", ""), ("@media screen and (prefers-color-scheme: dark) { ", "dark", " }"))
    )
)

BARS = """
.bars { list-style: none; padding: 0; margin: .5em 0 }
.bars li { display: grid; grid-template-columns: 1fr auto; gap: 0 1em; padding: .3em 0;
           border-bottom: 1px solid var(--grid, #e4e7ec); break-inside: avoid }
.bars .value { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.bars .bar, .bars .quiet { grid-column: 1 / -1; font-size: 14px }
.bars .bar i { display: block; height: 5px; border-radius: 2px; background: var(--c0, #2563eb);
              print-color-adjust: exact }
"""

STYLE = """
* { box-sizing: border-box }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1120px;
       margin: 2em auto; padding: 0 1em; overflow-wrap: anywhere }
h1 { font-size: 1.5em; line-height: 1.25; margin-bottom: .2em } h2 { font-size: 1.2em; margin: 2.2em 0 .3em }
p { margin: .3em 0; max-width: 46em } .note { color: var(--c1) } .quiet { color: var(--quiet) }
.pictures { display: flex; flex-wrap: wrap; gap: 1em 1.5em; align-items: flex-start; margin: .8em 0 }
.pictures div { max-width: 100% } .scroll, .pictures div { overflow-x: auto }
svg { display: block; max-width: 100%; height: auto }
details { margin: .6em 0 } summary { cursor: pointer } .scroll { max-height: 34em; overflow-y: auto }
table { border-collapse: collapse; font-size: 14px; overflow-wrap: normal }
th { text-align: left; border-bottom: 1px solid var(--quiet); position: sticky; top: 0; background: var(--paper) }
td { border-bottom: 1px solid var(--grid) } td, th { padding: 1px 1em 1px 0; white-space: nowrap }
td.n { text-align: right; font-variant-numeric: tabular-nums }
pre { overflow-x: auto; font-size: 13px }
@media print { body { max-width: none; margin: 0; font-size: 12px } .scroll { max-height: none; overflow: visible }
  th { position: static } td, th { white-space: normal } pre { white-space: pre-wrap }
  details::details-content { content-visibility: visible; block-size: auto } }
"""


def document(title: str, parts: Iterable[str]) -> str:
    """A page of parts that are HTML."""
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(title)}</title><style>{THEME}{STYLE}{BARS}</style>\n" + "\n".join(parts) + "\n</html>\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts; numbers stand on the right."""

    def cell(text: str) -> str:
        return f"<td{' class=n' * text.removesuffix('%').replace('.', '').isdigit()}>{escape(text)}"

    body = "\n".join("<tr>" + "".join(map(cell, row)) for row in rows)
    names = "".join(f"<th scope=col>{escape(name)}" for name in head)
    return f"<table><thead><tr>{names}</thead>\n<tbody>{body}</tbody></table>"


def folded(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that is shown when its title is clicked."""
    inner = f"<div class=scroll tabindex=0>{table(head, rows)}</div>"
    return f"<details><summary>{escape(title)}</summary>{inner}</details>"


def bars(rows: Iterable[tuple[str, str, str, float]]) -> str:
    """Rows of a name, a value, a line below them, and the length of a bar, 0 to 1."""
    lines = (
        f"<li><span>{escape(name)}</span><span class=value>{escape(value)}</span>"
        f"<span class=bar><i style='width:{100 * length:.1f}%'></i></span>"
        + (f"<span class=quiet>{escape(about)}</span>" if about else "")
        + "</li>"
        for name, value, about, length in rows
    )
    return f"<ul class=bars>{''.join(lines)}</ul>"


def fragment(lines: Sequence[str], head: Sequence[str] = (), rows: Sequence[Sequence[str]] = ()) -> str:
    """What notebooks show: the first line, a table, and the other lines."""
    first, *others = [*lines, ""]
    parts = [f"<div><b>{escape(first)}</b>"]
    if rows:
        parts.append(table(head, rows))
    parts += [f"<div>{escape(line)}</div>" for line in others if line]
    return "\n".join([*parts, "</div>"])
