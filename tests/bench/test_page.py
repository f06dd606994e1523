"""The page of a run: pictures, each with its numbers, in one file."""

import re
from html import unescape

import made_up_run
import pytest

from layoutkit import pages
from layoutkit.bench import page

pytest.importorskip("matplotlib")

from layoutkit.bench import drawing, gains, heat, roofline, shares
from layoutkit.bench.policies import Policy

RUN = made_up_run.run("tiny", "reorder-4d")


def only(run, kind):
    return run | {"results": [r for r in run["results"] if r["kind"] == kind]}


def test_every_picture_has_a_name_and_its_numbers():
    found = list(page.pictures(RUN))
    assert len(found) == 5
    text = page.page(RUN)
    for picture in found:
        assert picture.drawings and picture.rows
        assert {len(row) for row in picture.rows} == {len(picture.head)}
        for svg in picture.drawings:
            assert svg in text
            assert re.search(r' role="img" aria-label="[^"]{9,}"', svg) and "<title>" in svg and "<text" in svg
        for cell in picture.rows[-1]:
            assert f">{cell}" in unescape(text)
    assert not any(word in text for word in ("<link", "<script", "src=", "@import")), "nothing is fetched or run"
    ids = re.findall(r' id="([^"]+)"', text)
    assert all(f"#{one}" in text for one in ids), "no others"


def test_colours_follow_the_screen():
    svg = roofline.picture(RUN).drawings[0]
    assert pages.INK not in svg and pages.COLOURS[0] not in svg.replace(f"(--c0, {pages.COLOURS[0]})", "")
    names = set(re.findall(r"var\(--(\w+)", page.page(RUN)))
    light, dark = pages.THEME.splitlines()
    assert "prefers-color-scheme: dark" in dark
    for name in names:
        assert f"--{name}: " in light and f"--{name}: " in dark
        assert light.partition(f"--{name}: ")[2][:7] != dark.partition(f"--{name}: ")[2][:7]
    assert pages.THEME in drawing.standalone(svg)


def test_slopes_meet_the_roof(monkeypatch):
    drawn = []
    monkeypatch.setattr(roofline, "svg_text", lambda figure, label: drawn.append(figure.axes[0]) or "")
    roofline.picture(RUN)
    roofline.picture(RUN | {"results": [r | {"bytes": 1000 * r["bytes"]} for r in RUN["results"]]})
    assert len(drawn) == 4
    for ax in drawn:
        peak, *slopes = ax.lines
        roof = peak.get_ydata()[0]
        assert len(slopes) == 3
        for (x0, x1), (y0, y1) in (line.get_data() for line in slopes):
            assert y1 == roof and y1 / y0 == pytest.approx(x1 / x0)
            assert ax.get_xlim()[0] <= x0 < x1 / 2 and x1 < ax.get_xlim()[1] / 2, "well within the picture"
            assert ax.get_ylim()[0] <= y0
        assert peak.get_xdata()[0] == min(line.get_xdata()[1] for line in slopes)
    roofline.picture(RUN | {"bandwidths": []})
    assert len(drawn[-1].lines) == 1, "runs of before have the roof only"


def test_cells_have_one_size(monkeypatch):
    drawn = []
    monkeypatch.setattr(heat, "svg_text", lambda figure, label, min_scale: drawn.append((figure, min_scale)) or "")
    found = heat.picture(RUN)
    *panels, _ = drawn
    cells = {tuple((figure.get_size_inches() / len(figure.axes[0].get_xticks())).round(6)) for figure, _ in panels}
    assert len(panels) == 2 and len(cells) == 1 and {min_scale for _, min_scale in drawn} == {1.0}
    assert not any("b" in row[0] and row[0].islower() for row in found.rows), "filters go one way only"


def test_many_layers_are_in_the_table_at_least(monkeypatch):
    monkeypatch.setattr(shares, "MAX_LAYERS", 2)
    found = shares.picture(RUN)
    assert "2 of 4 layers" in found.drawings[0]
    assert len(found.rows) == len(only(RUN, "conv")["results"])
    assert made_up_run.LONG_LAYERS[0] in {row[0] for row in found.rows}


def test_policies_are_drawn_and_listed(monkeypatch):
    monkeypatch.setattr(gains, "MAX_CURVES", 1)
    found = gains.picture(only(RUN, "conv"))
    (drawn,) = found.drawings
    assert f"always {found.rows[0][1]}" in drawn and f"always {found.rows[1][1]}" not in drawn
    assert [float(row[4]) for row in found.rows] == sorted(float(row[4]) for row in found.rows)


@pytest.mark.parametrize("low, high, ticks", [
    (1, 2, [1, 1.5, 2]), (0.98, 9, [1, 1.5, 2, 3, 5, 7]), (3, 120, [5, 10, 20, 50, 100]),
    (0.3, 700, [0.3, 1, 3, 10, 30, 100, 300]), (1, 1e5, [1, 10, 100, 1e3, 1e4, 1e5]),
    (1, 1e20, [10.0**i for i in range(0, 21, 3)]),
])  # fmt: skip
def test_ticks_are_few_and_round(low, high, ticks):
    assert drawing.ratio_ticks(low, high) == pytest.approx(ticks)


def test_pages_of_little():
    assert "<svg" not in page.page({"results": [], "machine": None})
    assert "<u>" not in page.folded("<u>", ["<u>"], [["<u>"]])
    hostile = page.page({"suite": "<script>", "results": [], "notes": ["<b>"], "machine": {"cpu": "<i>"}})
    assert "<script>" not in hostile and "<b>" not in hostile and "<i>" not in hostile


@pytest.mark.parametrize(("count", "curve"), [(2, False), (12, True)])
def test_two_points_are_no_curve(monkeypatch, count, curve):
    drawn = []
    monkeypatch.setattr(gains, "svg_text", lambda figure, label: drawn.extend(figure.axes[0].lines[:-1]) or "")
    gains._panel("reorders", [Policy("a", None, count, tuple(1.0 + i for i in range(count)))])
    assert [line.get_linestyle() != "None" for line in drawn] == [curve]
    assert [line.get_marker() in ("None", None) for line in drawn] == [curve]
