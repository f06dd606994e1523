"""What choosing by cost gains over policies that always use one algorithm."""

from __future__ import annotations

from collections.abc import Sequence

from ..pages import COLOURS, INK
from .drawing import legend, new_figure, ratio_axis, svg_text
from .picture import Picture
from .policies import Policy, policies

CAPTION = (
    "How many times as long as the choice it would take to decide once and for all: one algorithm wherever it can run, "
    "elsewhere the one that can run on most of the problems. Each is given its best candidate for every problem, and "
    "all are judged by the same problems, here in the order of what they lose; the means are geometric. The table has "
    "every policy, the drawing the best ones."
)
KINDS = {"conv": "convolutions", "weight": "gradients of filters", "reorder": "reorders"}
MAX_CURVES = 5
MIN_CURVE_POINTS = 5  # fewer values are drawn as points


def picture(data: dict) -> Picture | None:
    """The picture of a run; None if no problem kind has several policies."""
    policies_of: dict[str, list[Policy]] = {}
    for kind in KINDS:
        of_kind = policies([r for r in data["results"] if r["kind"] == kind])
        if len(of_kind) > 1:
            policies_of[kind] = of_kind
    drawings = [_panel(KINDS[kind], of_kind[:MAX_CURVES]) for kind, of_kind in policies_of.items()]
    rows = [
        (KINDS[kind], p.algorithm, p.fallback or "", f"{p.problems} of {len(p.ratios)}", f"{p.mean:.3f}",
         f"{max(p.ratios):.2f}")
        for kind, of_kind in policies_of.items() for p in of_kind
    ]  # fmt: skip
    head = ("problems", "always", "where it cannot run", "it ran on", "times as long", "worst")
    return Picture("What choosing gained", CAPTION, drawings, head, rows) if policies_of else None


def _panel(title: str, best: Sequence[Policy]) -> str:
    figure, ax = new_figure()
    for colour, policy in zip(COLOURS, best):
        values = sorted(policy.ratios)
        xs = [100 * (i + 0.5) / len(values) for i in range(len(values))]
        line = dict(linewidth=2) if len(values) >= MIN_CURVE_POINTS else dict(linestyle="none", marker="o")
        ax.plot(xs, values, color=colour, label=f"{policy}: {policy.mean:.2f}", **line)
    ax.axhline(1, color=INK, linewidth=1)
    ax.set_xlim(0, 100)
    ax.set_xlabel(f"% of {len(best[0].ratios)} problems")
    ratio_axis(ax.yaxis, 0.98, 1.05 * max(1.05, *(max(p.ratios) for p in best)))
    ax.set_title(f"{title}: times as long as the choice", fontsize=10, loc="left")
    legend(ax, 1)
    return svg_text(figure, f"What choosing gained, {title}: the best policy takes {best[0].mean:.2f} times as long")
