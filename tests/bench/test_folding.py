"""Text in so many columns."""

import io
import random

import made_up_run
import pytest

from layoutkit.bench import comparison, folding, report

RESULTS = made_up_run.results("tiny", "resnet50", "reorder-4d")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def words(lines):
    return sorted(word for line in lines for word in line.split())


def too_long(lines, width):
    return [line for line in lines if len(line) > width and len(line.split()) > 1]


@pytest.mark.parametrize("width", [80, 100, 200])
def test_reports_fit(width, seed):
    rng = random.Random(seed)
    for _ in range(5):
        some = rng.sample(RESULTS, rng.randint(1, 60))
        lines = list(report.lines(some, width))
        assert not too_long(lines, width)
        assert words(lines) == words(report.lines(some, 1000)), "nothing is cut"


def test_comparisons_fit():
    a, b = (
        {"machine": {"cpu": "x" * 50 * seed}, "results": [r.json() for r in made_up_run.results("tiny", seed=seed)]}
        for seed in (1, 2)
    )
    said = io.StringIO()
    folding.print_folded(comparison.lines(a, b), said, comparison.CONTINUED_COLUMN)
    lines = said.getvalue().splitlines()
    assert not too_long(lines, 80)
    assert {len(line) - len(line.lstrip()) for line in lines if line.startswith(9 * " ")} == {26}, "below the winners"
    assert words(lines) == words(comparison.lines(a, b))


def test_names_find_a_place():
    rows = [("", "  us", "winner"), ("short", "   1", "b" * 9), ("a longer title", "   2", "c d")]
    assert list(folding.table(rows, 30)) == [
        "                  us  winner",
        "  short            1",
        "bbbbbbbbb".rjust(30),
        "  a longer title   2  c d",
    ]
    assert list(folding.table(rows, 14)) == [
        "            us", "winner".rjust(14),
        "  short      1", "bbbbbbbbb".rjust(14),
        "  a longer", "    title",
        "             2", "c d".rjust(14),
    ]  # fmt: skip


def test_terminals_have_their_own_width(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "33")
    assert folding.columns(Terminal()) == 33
    assert folding.columns(io.StringIO()) == folding.columns(None) == 80
    said = Terminal()
    folding.print_folded(["one two\n" + "word " * 10], said)
    assert said.getvalue().splitlines() == ["one two", "word " * 5 + "word", "  " + "word " * 3 + "word"]
    folding.print_folded(["nobody hears this"], None)
    assert capsys.readouterr().out == ""
