"""The share of the peak that each convolution reaches, layer by layer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ..pages import INK, QUIET
from .drawing import PANEL, legend, new_figure, points, styles, svg_text
from .picture import Picture, convolutions

CAPTION = (
    "Convolutions against the peak of multiply-adds, layer by layer, one mark a layout. Above 100 %: fewer operations "
    "than counted (Winograd, padded taps left out)."
)
MAX_LAYERS = 60  # of a drawing; the table has all
LAYER_INCHES = 0.21
MAX_LETTERS = 28  # of a layer in the drawing; the table has all


def picture(data: dict) -> Picture | None:
    """The picture of a run; None if it has no convolutions."""
    panels = convolutions(data["results"])
    style = styles(r["group"] for results in panels.values() for r in results)
    drawings = [_panel(title, results, style) for title, results in panels.items()]
    rows = [
        (r["title"], r["group"], str(r["threads"]), f"{r['share']:.1%}", r["winner"])
        for results in panels.values() for r in results
    ]  # fmt: skip
    head = ("layer", "layout", "threads", "share", "winner")
    return Picture("Share of the limit", CAPTION, drawings, head, rows) if panels else None


def _panel(title: str, results: Sequence[dict], style: dict[str, tuple[str, str]]) -> str:
    layers = list(dict.fromkeys(r["title"] for r in results))
    titles = layers[:MAX_LAYERS]
    row = {layer: i for i, layer in enumerate(titles)}
    figure, ax = new_figure(PANEL[0] - 1.3, LAYER_INCHES * (len(titles) + 1))
    spans = defaultdict(list)
    for name, mark in style.items():
        at = [(100 * r["share"], row[r["title"]]) for r in results if r["group"] == name and r["title"] in row]
        for x, y in at:
            spans[y].append(x)
        points(ax, at, name, mark)
    for y, xs in spans.items():
        ax.plot((min(xs), max(xs)), (y, y), color=QUIET, linewidth=1, zorder=2)
    ax.axvline(100, color=INK, linewidth=1)
    ax.set_xlim(left=0)
    ax.set_ylim(len(titles) - 0.3, -0.7)
    ax.set_yticks(range(len(titles)), [_short(layer) for layer in titles], fontsize=9)
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel("% of the peak")
    part = f", {len(titles)} of {len(layers)} layers" if len(titles) < len(layers) else ""
    ax.set_title(title + part, fontsize=10, loc="left")
    legend(ax)
    return svg_text(figure, f"Share of the peak by layer and layout, {title}{part}")


def _short(layer: str) -> str:
    return layer if len(layer) <= MAX_LETTERS else layer[: MAX_LETTERS - 1] + "\N{HORIZONTAL ELLIPSIS}"
