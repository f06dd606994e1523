"""Rates of convolutions by operations per byte, under the slopes of bandwidths and the roof of the peak."""

from __future__ import annotations

from collections.abc import Sequence

from ..pages import INK
from .drawing import legend, new_figure, points, ratio_axis, styles, svg_text
from .picture import Picture, convolutions, intensity

CAPTION = (
    "Every convolution by its operations per byte (input, filter and output once each). The roof is the peak of "
    "multiply-adds; the slopes are what copies of memory and within the caches give, all measured in this run. Where a "
    "slope meets the roof, computing begins to be the limit. Above the roof: fewer operations than counted (Winograd)."
)
LINES = {"memory": "-", "L4": (0, (9, 2)), "L3": "--", "L2": ":"}


def picture(data: dict) -> Picture | None:
    """The picture of a run; None if it has no convolutions."""
    panels = convolutions(data["results"])
    style = styles(r["group"] for results in panels.values() for r in results)
    drawings = []
    for title, results in panels.items():
        slopes = [b for b in data.get("bandwidths", ()) if b["threads"] == results[0]["threads"]]
        drawings.append(_panel(title, results, {b["level"]: b["rate"] for b in slopes}, style))
    rows = [
        (r["title"], r["group"], str(r["threads"]), f"{intensity(r):.1f}", f"{r['rate']:.1f}", f"{r['limit']:.1f}")
        for results in panels.values() for r in results
    ]  # fmt: skip
    rows += [
        (f"copy, {b['level']}", f"{b['bytes'] >> 10} KB", str(b["threads"]), "", f"{b['rate']:.1f} GB/s", "")
        for b in data.get("bandwidths", ())
    ]
    head = ("layer", "layout", "threads", "operations per byte", "GFLOP/s", "peak")
    return Picture("Roofline", CAPTION, drawings, head, rows) if panels else None


def _panel(title: str, results: Sequence[dict], levels: dict[str, float], style: dict[str, tuple[str, str]]) -> str:
    peak = max(r["limit"] for r in results)
    xs = [intensity(r) for r in results]
    ridges = {level: peak / rate for level, rate in levels.items()}
    low, high = min([*xs, *(r / 3 for r in ridges.values())]) / 1.3, 1.5 * max([*xs, *(2 * r for r in ridges.values())])
    rates = [r["rate"] for r in results]
    bottom = min([*rates, *(low * rate for rate in levels.values())]) / 1.2
    figure, ax = new_figure()
    ax.plot((min(ridges.values(), default=low), high), (peak, peak), color=INK, linewidth=1.4,
            label=f"peak: {peak:.0f} GFLOP/s")  # fmt: skip
    for level, ridge in ridges.items():
        ax.plot((low, ridge), (low * levels[level], peak), color=INK, linewidth=1.4, linestyle=LINES.get(level, "-."),
                label=f"{level}: {levels[level]:.0f} GB/s")  # fmt: skip
    for name, mark in style.items():
        points(ax, [(intensity(r), r["rate"]) for r in results if r["group"] == name], name, mark)
    ratio_axis(ax.xaxis, low, high)
    ratio_axis(ax.yaxis, bottom, 1.5 * max([peak, *rates]))
    ax.set_xlabel("operations per byte")
    ax.set_title(f"{title}: GFLOP/s", fontsize=10, loc="left")
    legend(ax)
    return svg_text(figure, f"Roofline of {len(results)} convolutions, {title}")
