"""results.md and its pictures, from what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from results_parts import COPY, DOT_PEAK, FASTER, LONGER, PEAK, Figure, Part

INTRODUCTION = """\
# Measured

`python bench/results.py` measures all of this and writes this page; `--only PART` measures a part again and keeps the
rest. Each part is a process of its own with an empty cost table. A figure is a geometric mean; behind it the least of
its values, or the most where less is better.
"""
NOTHING = "Nothing was measured yet.\n"
UNITS = {PEAK: "%", DOT_PEAK: "%", COPY: "%", FASTER: "", LONGER: ""}


def told(f: Figure) -> str:
    """A figure in words."""
    if UNITS[f.unit]:
        least = "" if f.extreme is None else f", least {f.extreme:.0%}"
        return f"{f.value:.0%} {f.unit}{least}".replace("%", " %")
    limit = "least" if f.unit == FASTER else "most"
    return f"{f.value:.2f} {f.unit}" + ("" if f.extreme is None else f", {limit} {f.extreme:.2f}")


def page(store: Mapping[str, dict], known: Mapping[str, Part], pictures: Mapping[str, str]) -> str:
    """The text of results.md. store: what was measured, by part; pictures: titles by file name."""
    return "\n".join(_lines(store, known, pictures))


def _lines(store: Mapping[str, dict], known: Mapping[str, Part], pictures: Mapping[str, str]) -> Iterator[str]:
    yield INTRODUCTION
    there = {name: store[name] for name in known if name in store}
    if not there:
        yield NOTHING
        return
    circumstances: dict[str, list[str]] = {}
    for name, found in there.items():
        circumstances.setdefault(found["measured"], []).append(name)
    for measured, names in circumstances.items():
        yield f"- {measured}" + (f": {', '.join(names)}" if len(circumstances) > 1 else "")
    yield "\n| part | what | figure | command |\n|---|---|---|---|"
    for name, found in there.items():
        for i, figure in enumerate(figures(found)):
            part, command = (name, f"`bench/{found['command']}`") if i == 0 else ("", "")
            yield f"| {part} | {figure.what} | {told(figure)} | {command} |"
    for file, title in pictures.items():
        yield f"\n![{title}]({file})"
    yield ""


def figures(found: Mapping) -> list[Figure]:
    """The figures of a stored part."""
    return [Figure(*f) for f in found["figures"]]


def draw(store: Mapping[str, dict], folder: Path) -> dict[str, str]:
    """Write the pictures beside the page; returns titles by file name."""
    from layoutkit.bench.plots import COLOURS, new_figure, svg_text

    drawn = {}

    def keep(name: str, title: str, figure) -> None:
        (folder / name).write_text(svg_text(figure), encoding="utf-8")
        drawn[name] = title

    every = [f for found in store.values() for f in figures(found)]
    for name, unit, limit in (
        ("results-peak.svg", PEAK, "% of the FMA peak"),
        ("results-copy.svg", COPY, "% of a copy"),
    ):
        bars = [f for f in every if f.unit == unit][::-1]
        if bars:
            figure, (ax,) = new_figure(8, 0.9 + 0.22 * len(bars))
            ax.barh(range(len(bars)), [100 * f.value for f in bars], color=COLOURS[0], height=0.65, zorder=3)
            least = [100 * f.value if f.extreme is None else 100 * f.extreme for f in bars]
            ax.scatter(least, range(len(bars)), s=40, marker="|", color="#1d2530", zorder=4, label="least")
            ax.axvline(100, color="#1d2530", linewidth=1)
            ax.set_yticks(range(len(bars)), [f.what for f in bars], fontsize=8)
            ax.set_xlabel(limit)
            ax.legend(frameon=False, fontsize=8, loc="lower right")
            keep(name, f"Geometric means, {limit}", figure)
    curves = [(figures(found)[0].what, found["curve"]) for found in store.values() if found.get("curve")]
    if curves:
        figure, (ax,) = new_figure(8, 3.4)
        for colour, (label, values) in zip(COLOURS, curves):
            at = [100 * (i + 0.5) / len(values) for i in range(len(values))]
            ax.plot(at, [100 * v for v in values], color=colour, linewidth=2, label=label)
        ax.axhline(100, color="#1d2530", linewidth=1)
        ax.set_ylim(bottom=0)
        ax.set(xlabel="% of the problems", ylabel="% of a copy")
        ax.legend(frameon=False, fontsize=8, loc="lower right")
        keep("results-unseen.svg", "Reorders drawn at random, sorted, % of a copy", figure)
    bars = [f for f in every if f.unit == FASTER][::-1]
    if bars:
        figure, (ax,) = new_figure(8, 0.9 + 0.22 * len(bars))
        ax.barh(range(len(bars)), [f.value for f in bars], color=COLOURS[2], height=0.65, zorder=3)
        ax.axvline(1, color="#1d2530", linewidth=1)
        ax.set_yticks(range(len(bars)), [f.what for f in bars], fontsize=8)
        ax.set_xlabel(FASTER)
        keep("results-others.svg", "Against torch and numpy, times as fast", figure)
    return drawn
