"""Heat maps of reorders between formats, in percent of a copy's bandwidth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from matplotlib.colors import BoundaryNorm, ListedColormap

from ..pages import PAPER
from .drawing import new_figure, svg_text
from .picture import Picture
from .report import geomean, on_threads

CAPTION = (
    "Percent of the bandwidth of a copy of the same bytes, geometric means over the shapes, from the row's format to "
    "the column's."
)
STEPS = (0, 20, 40, 60, 80, 100)  # percent where a colour begins
COLOURS = ("#ffffcc", "#c7e9b4", "#7fcdbb", "#41b6c4", "#2c7fb8", "#253494")
DARK = 80  # percent from which text on the colour is white
CELL_INCHES = 0.34  # high
LETTER_INCHES = 0.074  # wide, at the size of the labels
MAX_LETTERS = 9  # of a label that is not turned

Cells = dict[tuple[str, str], list[float]]


def picture(data: dict) -> Picture | None:
    """The picture of a run; None if no formats are reordered in both directions."""
    panels: defaultdict[tuple[int, int], Cells] = defaultdict(lambda: defaultdict(list))
    for r in data["results"]:
        if r["kind"] == "reorder":
            src, _, dst = r["group"].partition(">")
            panels[len(r["title"].split(" ")[0].split("x")), r["threads"]][src, dst].append(r["share"])
    cells_of = {key: mutual for key, cells in sorted(panels.items()) if (mutual := _in_both_directions(cells))}
    letters = max((len(name) for cells in cells_of.values() for pair in cells for name in pair), default=0)
    width = max(0.46, LETTER_INCHES * min(letters, MAX_LETTERS) + 0.06)
    drawings = [_panel(f"{rank}-D, {on_threads(t)}", cells, width) for (rank, t), cells in cells_of.items()]
    rows = [
        (a, b, f"{rank}-D", str(threads), str(len(shares)), f"{geomean(shares):.1%}", f"{min(shares):.1%}")
        for (rank, threads), cells in cells_of.items() for (a, b), shares in cells.items()
    ]  # fmt: skip
    head = ("from", "to", "", "threads", "shapes", "of a copy", "least")
    return Picture("Reorders", CAPTION, [_scale(), *drawings], head, rows) if cells_of else None


def _in_both_directions(cells: Cells) -> Cells:
    """The pairs of formats measured in both directions, which leaves out filters."""
    return {(a, b): shares for (a, b), shares in cells.items() if (b, a) in cells}


def _colours(ax, grid: Sequence[Sequence[float]]) -> None:
    norm = BoundaryNorm([*STEPS, 1e9], len(COLOURS))
    ax.pcolormesh(grid, cmap=ListedColormap(COLOURS), norm=norm, edgecolors=PAPER, linewidth=1.5)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, labelsize=8.5)


def _panel(title: str, cells: Cells, width: float) -> str:
    names = list(dict.fromkeys(name for pair in cells for name in pair))
    figure, ax = new_figure(width * len(names), CELL_INCHES * len(names), grid=False)
    grid = [[100 * geomean(cells[a, b]) if (a, b) in cells else float("nan") for b in names] for a in names]
    _colours(ax, grid)
    for i, line in enumerate(grid):
        for j, value in enumerate(line):
            if value == value:
                colour = "#fefefe" if value >= DARK else "#111111"
                ax.text(j + 0.5, i + 0.5, f"{value:.0f}", ha="center", va="center", fontsize=9, color=colour)
    middles = [i + 0.5 for i in range(len(names))]
    ax.set_ylim(len(names), 0)
    ax.set_yticks(middles, names)
    ax.set_xticks(middles, names, rotation=90 if max(map(len, names)) > MAX_LETTERS else 0)
    ax.xaxis.tick_top()
    ax.set_title(title, fontsize=10, loc="left", pad=8)
    return svg_text(figure, f"Reorders in percent of a copy, {title}", min_scale=1.0)


def _scale() -> str:
    figure, ax = new_figure(2.6, 0.16, grid=False)
    _colours(ax, [[(a + b) / 2 for a, b in zip(STEPS, [*STEPS[1:], 120])]])
    ax.set_yticks([])
    ax.set_xticks(range(len(STEPS)), map(str, STEPS))
    ax.set_title("% of a copy", fontsize=9, loc="left")
    return svg_text(figure, "The colours: " + ", ".join(f"from {step} percent" for step in STEPS), min_scale=1.0)
