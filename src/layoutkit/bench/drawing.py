"""Figures and their SVG, whose colours follow the light or dark scheme of the screen."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from html import escape
from math import floor, log10

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from ..pages import COLOURS, GRID, INK, PAPER, THEME, VARIABLES

MARKS = "osD^vP"
PANEL = 3.9, 2.9  # inches, of the axes of a panel without labels
MIN_SCALE = 0.8  # a narrower page scrolls pictures instead of shrinking them: their text stays readable


def new_figure(width: float = PANEL[0], height: float = PANEL[1], grid: bool = True) -> tuple[Figure, Axes]:
    """A figure whose axes are so large, in inches, without labels."""
    figure = Figure(figsize=(width, height))
    ax = figure.add_axes((0.0, 0.0, 1.0, 1.0), facecolor="none")
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=9)
    if grid:
        ax.grid(True, color=GRID, linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    return figure, ax


def legend(ax: Axes, columns: int = 2) -> None:
    """Put the legend below the axes."""
    ax.legend(frameon=False, fontsize=9, ncols=columns, loc="upper left", bbox_to_anchor=(0.0, -0.55 / _height(ax)),
              borderaxespad=0.0, borderpad=0.0, handlelength=1.8, columnspacing=1.2)  # fmt: skip


def _height(ax: Axes) -> float:
    return ax.get_figure(root=True).get_size_inches()[1]  # type: ignore[union-attr]


def ratio_ticks(low: float, high: float, max_ticks: int = 7) -> list[float]:
    """Round numbers from `low` to `high` for a logarithmic axis, as evenly spaced as possible."""
    decades = range(floor(log10(low)), floor(log10(high)) + 1)
    ticks: list[float] = []
    for steps in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        ticks = [step * 10.0**d for d in decades for step in steps if low <= step * 10.0**d <= high]
        if len(ticks) <= max_ticks:
            return ticks
    return ticks[:: -(-len(ticks) // max_ticks)]


def ratio_axis(axis, low: float, high: float) -> None:
    """Make an axis (`ax.xaxis`) logarithmic from `low` to `high`."""
    name = axis.axis_name
    axis.axes.set(**{f"{name}scale": "log", f"{name}lim": (low, high)})
    axis.axes.minorticks_off()
    ticks = ratio_ticks(low, high)
    axis.set_ticks(ticks, [f"{t:g}" for t in ticks])


def styles(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """A colour and a mark for each name."""
    return {name: (COLOURS[i % len(COLOURS)], MARKS[i % len(MARKS)]) for i, name in enumerate(dict.fromkeys(names))}


def points(ax: Axes, at: Sequence[tuple[float, float]], name: str, style: tuple[str, str]) -> None:
    """Draw points with an entry in the legend."""
    if at:
        colour, mark = style
        xs, ys = zip(*at)
        ax.scatter(xs, ys, s=24, c=colour, marker=mark, label=name, alpha=0.8, linewidths=0, zorder=3)


def svg_text(figure: Figure, label: str, min_scale: float = MIN_SCALE) -> str:
    """The figure as SVG to be embedded in HTML; `label` is its text for screen readers."""
    text = io.StringIO()
    FigureCanvasSVG(figure)
    figure.set_facecolor(PAPER)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "layoutkit"}):
        figure.savefig(text, format="svg", bbox_inches="tight", pad_inches=0.04, metadata={"Date": None})
    svg = text.getvalue()
    head, _, body = svg.partition("</defs>")
    root = dict(re.findall(r'(\w+)="([^"]*)"', head[head.index("<svg") :]))
    used = set(re.findall(r"#(\w+)[\")]", body))
    body = re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in used else "", body)
    body = re.sub(r"#[0-9a-f]{6}\b", lambda m: _variable(m[0]), body)
    min_width = min_scale * float(root["width"].removesuffix("pt"))
    size = " ".join(f'{name}="{root[name]}"' for name in ("width", "height", "viewBox"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {size} '
        f'role="img" aria-label="{escape(label)}" stroke-linejoin="round" stroke-linecap="butt" '
        f'style="fill: {_variable(INK)}; min-width: {min_width:.0f}pt"><title>{escape(label)}</title>{body}'
    )  # fmt: skip


def _variable(colour: str) -> str:
    if colour not in VARIABLES:
        return colour
    name, light, _ = VARIABLES[colour]
    return f"var(--{name}, {light})"


def standalone(svg: str) -> str:
    """The result of `svg_text` as a file of its own."""
    return svg.replace("</title>", f"</title><style>{THEME}</style>", 1)
