"""results.md and the README's picture, from what was measured."""

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
PICTURE = "results-summary.svg"
UNITS = {PEAK: "%", DOT_PEAK: "%", COPY: "%", FASTER: "", LONGER: ""}


CHANNELS_LAST, PLAIN, MOVED, NUMPY = "torch, channels_last", "torch, NCHW", "torch", "numpy"
_OF_TORCH = {CHANNELS_LAST: "lk NHWC / torch NHWC", PLAIN: "lk NCHW / torch NCHW"}
SUMMARY = (  # the rows of the README's picture: what is told, its part, and its figures, by whom they are against
    ("ResNet-50", "torch-resnet50", _OF_TORCH),
    ("MobileNet-v2", "torch-mobilenet_v2", _OF_TORCH),
    ("VGG-16", "torch-vgg16", _OF_TORCH),
    ("ResNeXt-101", "torch-resnext101", _OF_TORCH),
    ("3-D U-Net", "torch-unet3d", _OF_TORCH),
    ("convolutions at random", "random", _OF_TORCH),
    ("reorders at random", "random", {MOVED: "lk out / torch out", NUMPY: "lk out / numpy out"}),
)


def summary(store: Mapping[str, dict]) -> list[tuple[str, dict[str, float]]]:
    """Rows of the README's picture, as far as they were measured: how many times as fast as whom."""
    rows = []
    for title, part, against in SUMMARY:
        values = {f.what.rpartition(": ")[2]: f.value for f in figures(store.get(part, {"figures": ()}))}
        if row := {whom: values[what] for whom, what in against.items() if what in values}:
            rows.append((title, row))
    return rows


def text(f: Figure) -> str:
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
    for name, part_results in there.items():
        circumstances.setdefault(part_results["measured"], []).append(name)
    for measured, names in circumstances.items():
        yield f"- {measured}" + (f": {', '.join(names)}" if len(circumstances) > 1 else "")
    yield "\n| part | what | figure | command |\n|---|---|---|---|"
    for name, part_results in there.items():
        for i, figure in enumerate(figures(part_results)):
            part, command = (name, f"`bench/{part_results['command']}`") if i == 0 else ("", "")
            yield f"| {part} | {figure.what} | {text(figure)} | {command} |"
    for file, title in pictures.items():
        yield f"\n![{title}]({file})"
    yield ""


def figures(results: Mapping) -> list[Figure]:
    """The figures of a stored part."""
    return [Figure(*f) for f in results["figures"]]


def draw(store: Mapping[str, dict], folder: Path) -> dict[str, str]:
    """Write the README's picture beside the page; returns its title by file name."""
    from layoutkit.bench.drawing import legend, new_figure, standalone, svg_text
    from layoutkit.pages import COLOURS, INK

    rows = summary(store)
    if not rows:
        return {}
    figure, ax = new_figure(4.6, 0.4 * len(rows))
    colours = dict(zip((CHANNELS_LAST, PLAIN, MOVED, NUMPY), COLOURS))
    for i, (_, row) in enumerate(rows):
        for k, (whom, value) in enumerate(row.items()):
            at = i + 0.36 * (k - (len(row) - 1) / 2)
            known = whom in ax.get_legend_handles_labels()[1]
            ax.barh(at, value, 0.32, color=colours[whom], label=None if known else whom, zorder=3)
            ax.text(value + 0.05, at, f"{value:.1f}", va="center", fontsize=8)
    ax.axvline(1, color=INK, linewidth=1)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_yticks(range(len(rows)), [title for title, _ in rows], fontsize=9)
    ax.set_xlabel("times as fast, one thread, geometric mean", fontsize=9)
    legend(ax, 4)
    title = "Speed against torch and numpy, times as fast"
    (folder / PICTURE).write_text(standalone(svg_text(figure, title)), encoding="utf-8")
    return {PICTURE: title}
