"""How much longer convolutions take when their filter is not in the caches."""

from __future__ import annotations

from collections.abc import Sequence

from ..pages import INK
from .drawing import legend, new_figure, points, ratio_axis, styles, svg_text
from .picture import Picture, convolutions, intensity
from .report import geomean

CAPTION = "Time with the filter out of the caches, as it is in a network of many layers, to the time with a warm one."


def picture(data: dict) -> Picture | None:
    """The picture of a run; None if no time with a cold filter was measured."""
    panels = convolutions([r for r in data["results"] if r.get("cold")])
    style = styles(r["group"] for results in panels.values() for r in results)
    drawings = [_panel(title, results, style) for title, results in panels.items()]
    rows = [
        (r["title"], r["group"], str(r["threads"]), f"{intensity(r):.1f}", f"{1e6 * r['seconds']:.1f}",
         f"{1e6 * r['cold']:.1f}", f"{r['cold'] / r['seconds']:.2f}")
        for results in panels.values() for r in results
    ]  # fmt: skip
    head = ("layer", "layout", "threads", "operations per byte", "warm, \N{MICRO SIGN}s", "cold, \N{MICRO SIGN}s",
            "cold / warm")  # fmt: skip
    return Picture("Filters met cold", CAPTION, drawings, head, rows) if panels else None


def _panel(title: str, results: Sequence[dict], style: dict[str, tuple[str, str]]) -> str:
    figure, ax = new_figure()
    for name, mark in style.items():
        points(ax, [(intensity(r), r["cold"] / r["seconds"]) for r in results if r["group"] == name], name, mark)
    mean = geomean(r["cold"] / r["seconds"] for r in results)
    ax.axhline(1, color=INK, linewidth=1)
    xs = [intensity(r) for r in results]
    ratio_axis(ax.xaxis, min(xs) / 1.5, max(xs) * 1.5)
    ax.set_xlabel("operations per byte")
    ax.set_title(f"{title}: cold / warm, {mean:.2f} in the mean", fontsize=10, loc="left")
    legend(ax, 3)
    return svg_text(figure, f"Cold by warm time of {len(results)} convolutions, {title}: {mean:.2f} in the mean")
