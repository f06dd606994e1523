"""bench/results.py: its parts are commands that exist, what they write is read, and a page comes of it."""

import argparse
import json
import runpy
import sys
from pathlib import Path

import pytest
import results
from results_page import PICTURE, page, text
from results_parts import COPY, DOT_PEAK, FASTER, LONGER, PEAK, Figure, Part, parts

BENCH = Path(results.__file__).parent
PARTS = parts(7)
COMPARED = {"results": [{"ratios": {"lk NHWC / torch NHWC": r, "lk new / numpy new": 2 * r}} for r in (1.0, 4.0)]}
WRITTEN = {  # what the commands write, shortened; and the first figure that is read
    "shapes.py": (
        [{"kind": "groups", "layout": "NHWC", "count": n, "share": s} for n, s in ((3, 0.5), (1, 0.5), (4, 0.98))],
        ("NHWC", 0.7, PEAK, 0.5),
    ),
    "winograd.py": (
        [{"channels": 64, "size": size, "share": s} for size, s in ((14, 2.0), (224, 4.5), (7, 1.5))],
        ("from 14x14 on", 3.0, PEAK, 2.0),
    ),
    "reorder.py": (
        [{"case": case, "share": s} for case, s in (("large", 0.4), ("large", 0.9), ("odd", 0.1))],
        ("100 MB", 0.6, COPY, 0.4),
    ),
    "unseen.py": ([{"share": 0.9}, {"share": 0.1}], ("drawn at random", 0.3, COPY, 0.1)),
    "unseen_convs.py": (
        [{"group": group, "share": s} for group, s in (("dense", 0.9), ("dense", 0.1), ("3x3", 2.0))],
        ("drawn at random, dense", 0.3, PEAK, 0.1),
    ),
    "reproducible.py": ({"resnet50 NHWC": [1.0, 1.21], "random": [1.0]}, ("resnet50 NHWC", 1.1, LONGER, 1.21)),
    "networks.py": ([{"ratio": 1.0}, {"ratio": 4.0}], ("nine light networks", 2.0, FASTER, 1.0)),
    "compare.py": (COMPARED, ("lk NHWC / torch NHWC", 2.0, FASTER, 1.0)),
}


class Parsed(Exception):
    """The arguments of a command were read, and it goes no further."""


@pytest.mark.parametrize("name", PARTS)
def test_commands_take_their_arguments(name, monkeypatch):
    parse = argparse.ArgumentParser.parse_args

    def parse_and_stop(self, *args):
        parse(self, *args)
        raise Parsed

    script, *arguments = PARTS[name].command
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
    for more in ((), PARTS[name].quick):
        monkeypatch.setattr(sys, "argv", [script, *arguments, *more, "--json", "file.json"])
        with pytest.raises(Parsed):
            runpy.run_path(str(BENCH / script), run_name="__main__")


@pytest.mark.parametrize("name", PARTS)
def test_what_commands_write_is_read(name):
    part = PARTS[name]
    written, (what, value, unit, extreme) = WRITTEN[part.command[0]]
    first = next(iter(part.read(written)))
    of_dots = "--dtype" in part.command and unit != FASTER
    assert what in first.what and first.unit == (DOT_PEAK if of_dots else unit)
    assert first.value == pytest.approx(value) and first.extreme == extreme


def test_figures_in_words():
    assert text(Figure("x", 0.956, PEAK, 0.851)) == "96 % of the FMA peak, least 85 %"
    assert text(Figure("x", 1.003, LONGER, 1.02)) == "1.00 times as long, most 1.02"


def test_parts_that_are_not_measured_again_are_kept(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")

    def written(part: Part, quick: bool, seconds: float):
        data = WRITTEN[part.command[0]][0]
        figures = list(part.read(data))
        return {"command": " ".join(part.command), "measured": f"day {seconds:.0f}", "figures": figures}

    monkeypatch.setattr(results, "measured", written)
    assert results.main(["--folder", str(tmp_path), "--seed", "7"]) == 0
    monkeypatch.setattr(results, "measured", lambda *_: None)  # as if it came to no end
    assert results.main(["--folder", str(tmp_path), "--only", "winograd"]) == 1
    assert "not measured: winograd" in capsys.readouterr().err
    assert list(json.loads((tmp_path / "results.json").read_text())) == list(PARTS)
    text = (tmp_path / "results.md").read_text()
    for name, part in PARTS.items():
        assert f"| {name} |" in text and part.command[0] in text
    assert [file.name for file in tmp_path.glob("*.svg")] == [PICTURE] and f"({PICTURE})" in text


def test_without_figures_the_page_says_so():
    assert "Nothing was measured yet" in page({}, PARTS, {})


def test_a_command_that_takes_too_long_is_ended(tmp_path):
    assert results.measured(Part(("reorder.py",), (), list), False, 0.01) is None
