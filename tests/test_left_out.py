"""bench/left_out.py: problems of one table decided by another."""

import runpy
from pathlib import Path

import pytest

from layoutkit.choosing import packaged, shipped
from layoutkit.choosing.costfile import Cost

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture(scope="module")
def left_out():
    return runpy.run_path(str(BENCH / "left_out.py"))


def test_tables_decide_each_others_problems(left_out, capsys):
    tables = sorted(packaged.DATA.glob("costs-*.txt"), key=lambda path: path.stat().st_size)
    tables = [path for path in tables if "\nreorder " in path.read_text()][:2]  # the smallest
    assert left_out["main"]([str(path) for path in tables]) == 0
    told = capsys.readouterr().out
    assert told.count("problems with the table of") == 2
    for what in ("conv f32", "filter", "reorder"):
        assert told.count(what) == 2


def test_a_pick_costs_what_its_table_says(left_out, tmp_path):
    """Of two candidates, one of which the other table found twice as slow as estimated."""
    key = "reorder 1x64x56x56 NCHW>NHWC x32 t1"
    names = ["store allx64", "store allxall"]
    profile = packaged.read(packaged.file("portable")).machine["profile"]

    def machine(name, seconds, errors):
        costs = {key: {n: Cost(s, s, 0.0, 1) for n, s in zip(names, seconds)}}
        identity = {"isa": "portable", "caches": [32768, 1048576], "profile": profile}
        path = tmp_path / f"costs-{name}.txt"
        path.write_text(shipped.dump(costs, identity, lambda _: dict(zip(names, errors))))
        return left_out["Machine"](path)

    of, by = machine("of", (1e-5, 3e-5), (0.0, 0.0)), machine("by", (1e-5, 1e-5), (3.0, -3.0))
    ((found, ratio, pick, best),) = left_out["picks"](of, by)
    assert (found, pick, best) == (key, names[1], names[0])
    assert ratio == pytest.approx(3)
