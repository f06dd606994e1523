"""The plots of a run's page, each an SVG; nothing where a run has nothing for it."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Sequence

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from .report import geomean, on_threads

COLOURS = ("#2563eb", "#d97706", "#059669", "#c026d3", "#64748b", "#dc2626")
MARKS = "osD^vP"
GRID = dict(color="#e4e7ec", linewidth=0.8, zorder=0)


def svg_text(figure: Figure) -> str:
    text = io.StringIO()
    FigureCanvasSVG(figure)
    figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    return text.getvalue().partition("<svg")[1] + text.getvalue().partition("<svg")[2]


def new_figure(width: float, height: float, columns: int = 1, **kwargs):
    figure = Figure(figsize=(width, height))
    axes = figure.subplots(1, columns, squeeze=False, **kwargs)[0]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(True, **GRID)
        ax.set_axisbelow(True)
    return figure, axes


def _convs(results: Sequence[dict]) -> dict[int, list[dict]]:
    found = defaultdict(list)
    for r in results:
        if r["kind"] == "conv":
            found[r["threads"]].append(r)
    return dict(sorted(found.items()))


def _groups(results: Sequence[dict]) -> dict[str, tuple[str, str]]:
    names = list(dict.fromkeys(r["group"] for r in results))
    return {name: (COLOURS[i % len(COLOURS)], MARKS[i % len(MARKS)]) for i, name in enumerate(names)}


def roofline(results: Sequence[dict]) -> str | None:
    """Rate against operations a byte, under peak and bandwidth."""
    convs = _convs(results)
    if not convs:
        return None
    style = _groups([r for rs in convs.values() for r in rs])
    figure, axes = new_figure(11, 4.4, len(convs), sharey=True)
    for ax, (threads, found) in zip(axes, convs.items()):
        peak = max(r["limit"] for r in found)
        moves = [r for r in results if r["kind"] == "reorder" and r["threads"] == threads]
        copies = [r["limit"] for r in moves if r["work"] > 4 << 20] or [r["limit"] for r in moves]
        intensities = [r["work"] / r["bytes"] for r in found]
        ends = min(intensities) / 2, max(intensities) * 2
        ax.axhline(peak, color="#1d2530", linewidth=1.2)
        ax.annotate(f"FMA peak {peak:.0f}", (ends[0], peak), xytext=(2, 3), textcoords="offset points", fontsize=8)
        if copies:
            bandwidth = max(copies)
            ax.plot(ends, [x * bandwidth for x in ends], color="#1d2530", linewidth=1.2)
            ax.annotate(f"copy {bandwidth:.0f} GB/s", (ends[0], ends[0] * bandwidth), xytext=(6, -2),
                        textcoords="offset points", fontsize=8, va="top")  # fmt: skip
        for name, (colour, mark) in style.items():
            points = [(r["work"] / r["bytes"], r["rate"]) for r in found if r["group"] == name]
            if points:
                ax.scatter(*zip(*points), s=22, c=colour, marker=mark, label=name, alpha=0.75, linewidths=0, zorder=3)
        low = min(r["rate"] for r in found)
        ax.set(xscale="log", yscale="log", xlim=ends, ylim=(low / 1.5, 1.6 * max([peak, *(r["rate"] for r in found)])))
        ax.set_xlabel("operations per byte")
        ax.set_title(on_threads(threads), fontsize=10, loc="left")
    axes[0].set_ylabel("GFLOP/s")
    axes[-1].legend(frameon=False, fontsize=8, loc="lower right")
    return svg_text(figure)


def shares(results: Sequence[dict]) -> str | None:
    """Share of the FMA peak per layer and layout."""
    convs = _convs(results)
    if not convs:
        return None
    style = _groups([r for rs in convs.values() for r in rs])
    titles = list(dict.fromkeys(r["title"] for rs in convs.values() for r in rs))[:80]
    row = {title: len(titles) - 1 - i for i, title in enumerate(titles)}
    figure, axes = new_figure(11, 0.8 + 0.21 * len(titles), len(convs), sharey=True)
    for ax, (threads, found) in zip(axes, convs.items()):
        spans = defaultdict(list)
        for name, (colour, mark) in style.items():
            points = [(100 * r["share"], row[r["title"]]) for r in found if r["group"] == name and r["title"] in row]
            for x, y in points:
                spans[y].append(x)
            if points:
                ax.scatter(*zip(*points), s=26, c=colour, marker=mark, label=name, alpha=0.85, linewidths=0, zorder=3)
        for y, xs in spans.items():
            ax.plot((min(xs), max(xs)), (y, y), color="#98a2b3", linewidth=1, zorder=2)
        ax.axvline(100, color="#1d2530", linewidth=1)
        ax.set_xlim(left=0)
        ax.set_xlabel("% of FMA peak")
        ax.set_title(on_threads(threads), fontsize=10, loc="left")
        ax.set_ylim(-0.7, len(titles) - 0.3)
    axes[0].set_yticks(range(len(titles)), titles[::-1], fontsize=7.5)
    axes[-1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return svg_text(figure)


def heat(results: Sequence[dict]) -> str | None:
    """Share of copy bandwidth, source format by destination format."""
    shares: defaultdict[tuple, defaultdict[tuple, list]] = defaultdict(lambda: defaultdict(list))
    for r in results:
        if r["kind"] == "reorder":
            src, _, dst = r["group"].partition(">")
            shares[r["threads"], len(r["title"].split(" ")[0].split("x"))][src, dst].append(r["share"])
    found = {k: v for k, v in sorted(shares.items()) if any((b, a) in v for a, b in v)}  # filters go one way only
    if not found:
        return None
    widest = max(len({x for pair in cells for x in pair}) for cells in found.values())
    figure, axes = new_figure(min(11, 2.2 + len(found) * (1.2 + 0.62 * widest)), 1.6 + 0.5 * widest, len(found))
    for ax, ((threads, rank), cells) in zip(axes, found.items()):
        names = list(dict.fromkeys(x for pair in cells for x in pair))
        grid = [[100 * geomean(cells[a, b]) if (a, b) in cells else float("nan") for b in names] for a in names]
        ax.grid(False)
        ax.spines[:].set_visible(False)
        ax.imshow(grid, cmap="RdYlGn", vmin=20, vmax=110)
        for i, line in enumerate(grid):
            for j, value in enumerate(line):
                if value == value:
                    ax.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=9)
        ax.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize=8)
        ax.set_yticks(range(len(names)), names, fontsize=8)
        ax.set_title(f"{rank}-D, {on_threads(threads)}: % of a copy", fontsize=9, loc="left")
    figure.tight_layout()
    return svg_text(figure)


def one_path(results: Sequence[dict]) -> str:
    """The candidate that is best over all `results` if it is taken wherever it can run."""
    names = {name for r in results for name in r["candidates"]}

    def cost(name: str) -> tuple[int, float]:
        ran = [r["candidates"][name]["min"] / r["seconds"] for r in results if name in r["candidates"]]
        return -len(ran), geomean(ran)

    most = min(cost(name)[0] for name in names)
    return min((name for name in sorted(names) if cost(name)[0] <= 0.9 * most), key=lambda name: cost(name)[1])


def gains(results: Sequence[dict]) -> str | None:
    """How much longer the second best, and always the same candidate, would take."""
    chosen = [r for r in results if len(r["candidates"]) > 1]
    kinds = [(kind, found) for kind in ("conv", "reorder") if (found := [r for r in chosen if r["kind"] == kind])]
    if not kinds:
        return None
    figure, axes = new_figure(11, 3.8, len(kinds))
    for ax, (kind, found) in zip(axes, kinds):
        same = one_path(found)
        lines = {
            "second best": [r["lead"] for r in found],
            f"always {same}": [r["candidates"][same]["min"] / r["seconds"] for r in found if same in r["candidates"]],
            "the slowest": [max(c["min"] for c in r["candidates"].values()) / r["seconds"] for r in found],
        }
        for colour, (name, values) in zip(COLOURS, lines.items()):
            ax.plot([100 * (i + 0.5) / len(values) for i in range(len(values))], sorted(values), color=colour,
                    linewidth=2, label=f"{name}: {geomean(values):.2f}")  # fmt: skip
        ax.set_yscale("log")
        ax.set_ylim(bottom=1)
        most = max(map(max, lines.values()))
        ticks = [t for t in ((1, 1.25, 1.5, 2, 3, 5) if most < 8 else (1, 2, 5, 10, 20, 50, 100, 1000)) if t <= most]
        ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
        ax.minorticks_off()
        ax.set_xlabel("% of the problems")
        ax.set_title(f"{kind}: times as long as the choice (geomean)", fontsize=10, loc="left")
        ax.legend(frameon=False, fontsize=8, loc="upper left")
    return svg_text(figure)


def cold(results: Sequence[dict]) -> str | None:
    """Time with a cold filter to time with a warm one, by the filter's share of the bytes."""
    convs = {t: [r for r in rs if r.get("cold")] for t, rs in _convs(results).items()}
    convs = {t: rs for t, rs in convs.items() if rs}
    if not convs:
        return None
    style = _groups([r for rs in convs.values() for r in rs])
    figure, axes = new_figure(11, 3.4, len(convs), sharey=True)
    for ax, (threads, found) in zip(axes, convs.items()):
        for name, (colour, mark) in style.items():
            points = [(r["work"] / r["bytes"], r["cold"] / r["seconds"]) for r in found if r["group"] == name]
            if points:
                ax.scatter(*zip(*points), s=22, c=colour, marker=mark, label=name, alpha=0.75, linewidths=0, zorder=3)
        mean = geomean(r["cold"] / r["seconds"] for r in found)
        ax.axhline(1, color="#1d2530", linewidth=1)
        ax.set(xscale="log", xlabel="operations per byte")
        ax.set_title(f"{on_threads(threads)}: {mean:.2f} (geomean)", fontsize=10, loc="left")
    axes[0].set_ylabel("cold / warm")
    axes[-1].legend(frameon=False, fontsize=8)
    return svg_text(figure)
