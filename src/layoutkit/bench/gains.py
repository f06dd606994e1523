"""What choosing gained over each policy that a person could have had instead."""

from __future__ import annotations

from collections.abc import Sequence

from .drawing import COLOURS, INK, legend, new_figure, ratio_axis, svg_text
from .picture import Picture
from .policies import Policy, policies

SAYS = (
    "How many times as long as the choice it would take to decide once and for all: one algorithm wherever it can run, "
    "elsewhere the one that can run on most of the problems. Each is given its best candidate for every problem, and "
    "all are judged by the same problems, here in the order of what they lose; the means are geometric. The table has "
    "every policy, the drawing the best ones."
)
KINDS = {"conv": "convolutions", "weight": "gradients of filters", "reorder": "reorders"}
MAX_CURVES = 5
FEWEST_OF_A_CURVE = 5  # points: fewer are drawn as points, a line would tell of what was not measured


def picture(data: dict) -> Picture | None:
    """The picture of a run; None if there was nothing to choose."""
    policies_of: dict[str, list[Policy]] = {}
    for kind in KINDS:
        every = policies([r for r in data["results"] if r["kind"] == kind])
        if len(every) > 1:
            policies_of[kind] = every
    drawings = [_panel(KINDS[kind], every[:MAX_CURVES]) for kind, every in policies_of.items()]
    rows = [
        (KINDS[kind], p.algorithm, p.otherwise or "", f"{p.ran} of {len(p.ratios)}", f"{p.mean:.3f}",
         f"{max(p.ratios):.2f}")
        for kind, every in policies_of.items() for p in every
    ]  # fmt: skip
    head = ("problems", "always", "where it cannot run", "it ran on", "times as long", "worst")
    return Picture("What choosing gained", SAYS, drawings, head, rows) if policies_of else None


def _panel(title: str, every: Sequence[Policy]) -> str:
    figure, ax = new_figure()
    for colour, policy in zip(COLOURS, every):
        values = sorted(policy.ratios)
        at = [100 * (i + 0.5) / len(values) for i in range(len(values))]
        how = dict(linewidth=2) if len(values) >= FEWEST_OF_A_CURVE else dict(linestyle="none", marker="o")
        ax.plot(at, values, color=colour, label=f"{policy}: {policy.mean:.2f}", **how)
    ax.axhline(1, color=INK, linewidth=1)
    ax.set_xlim(0, 100)
    ax.set_xlabel(f"% of {len(every[0].ratios)} problems")
    ratio_axis(ax.yaxis, 0.98, 1.05 * max(1.05, *(max(p.ratios) for p in every)))
    ax.set_title(f"{title}: times as long as the choice", fontsize=10, loc="left")
    legend(ax, 1)
    return svg_text(figure, f"What choosing gained, {title}: the best policy takes {every[0].mean:.2f} times as long")
