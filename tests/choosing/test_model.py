"""The model: estimates corrected by what was measured nearby, the same every time, and nothing known is no error."""

import itertools
import math

import numpy as np
import pytest
from problems import Known

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing import model, packaged, shipped
from layoutkit.choosing import table as cost
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.problem import Candidate
from layoutkit.choosing.ranking import rank as ranked

# Problems "point 3.5": they lie on a line; candidates "slow" and "fast" are counted as 1 s everywhere.
CANDIDATES = [Candidate(name, 1.0, lambda: None) for name in ("slow", "fast", "other")]


@model.parses("point")
def point(key):
    return Known(key, CANDIDATES, features=(float(key.split()[1]),))


def rank(key, ways):
    return ranked(Known(key, ways, features=(float(key.split()[1]),)))


def corrections(key, own=True):
    """Of the problem that a table would have under `key`; none is off where it has none."""
    found = model.problem_of(key, registry.isa())
    return model.corrections(found[0] if found else Known(key, ()), own)


table = cost.cost_table


@pytest.fixture(autouse=True)
def own_table(cache_dir, monkeypatch):
    monkeypatch.setattr(packaged, "read", lambda file: shipped.EMPTY)
    model._packaged.cache_clear()
    yield
    model._packaged.cache_clear()


def measured(at, **seconds):
    for name, s in seconds.items():
        table.record(f"point {at}", name, Cost(s, s, 0.0, 1))


def test_nothing_measured_is_counted():
    assert [c.seconds for c in rank("point 1", CANDIDATES)] == [1.0] * 3
    assert corrections("point 1")["slow"] == 1.0
    assert corrections("never described")["x"] == 1.0
    for key in ("conv", "conv x t1", "filter", "reorder 1x2 ab>ba x32 tx", "reorder", "conv n1 t0"):
        assert corrections(key)["x"] == 1.0, "nobody's key is no error"


SQUARE = "conv n1 c64 56x56 o64 k{} s{} p1+1,1+1 d1x1 g{} NHWC>NHWC f32 standard t{}"


@pytest.mark.parametrize("foreign", [
    SQUARE.format("3x3", "0x1", 1, 1), SQUARE.format("0x3", "1x1", 1, 1), SQUARE.format("3x3", "1x1", 0, 1),
    SQUARE.format("3x3", "1x1", 5, 1), SQUARE.format("3", "1x1", 1, 1), SQUARE.format("3x3", "1x1", 1, 0),
    SQUARE.format("3x3", "1x1", 1, "9" * 400), SQUARE.format("3x3", "1x1", 1, "-1"),
])  # fmt: skip
def test_a_problem_that_cannot_be_does_not_count(foreign):
    """A table written by hand, checksum and all, must not stop a plan."""
    table.record(foreign, "direct", Cost(1.0, 1.0, 0.0, 1))
    x, w = np.ones((1, 64, 56, 56), np.float32), np.ones((64, 64, 3, 3), np.float32)
    best = lk.plan(lk.conv2d, x, w, padding=1, threads=1).choices[0]
    assert best.source == "estimated" and 0 < best.seconds < 1
    for key in (foreign, "filter o64 c16 k3x3 g0 f32", "filter o64 c16 k-3x3 g1 f32", "reorder 0x2 ab>ba x32 t0"):
        assert corrections(key)["x"] > 0


def test_the_nearest_decide():
    measured(0.0, slow=4.0, fast=2.0)
    measured(100.0, slow=0.1, fast=0.5)
    near = {c.candidate.name: c.seconds for c in rank("point 1", CANDIDATES)}
    assert near["slow"] == pytest.approx(4.0, rel=0.02) and near["fast"] == pytest.approx(2.0, rel=0.02)
    assert rank("point 1", CANDIDATES)[0].candidate.name == "fast"
    assert rank("point 99", CANDIDATES)[0].candidate.name == "slow"
    assert rank("point 1", CANDIDATES)[0].basis == "nearest measured (1.0 away): point 0.0"


def test_who_was_never_measured_is_off_by_what_the_others_are():
    measured(0.0, slow=8.0, fast=2.0)
    assert corrections("point 0.5")["other"] == pytest.approx(math.sqrt(8.0 * 2.0))


def test_in_between_is_in_between():
    measured(0.0, fast=1.0)
    measured(2.0, fast=4.0)
    at = [corrections(f"point {x}")["fast"] for x in (0.25, 1.0, 1.75)]
    assert 1.0 < at[0] < at[1] < at[2] < 4.0 and at[1] == pytest.approx(2.0, rel=0.01)


def test_what_was_measured_here_outweighs_what_came_along(monkeypatch):
    costs = {"point 0.0": {"fast": Cost(16.0, 16.0, 0.0, 1)}}
    theirs = shipped.Shipped(shipped.dump(costs, {}, lambda key: {"fast": math.log(16.0)}))
    monkeypatch.setattr(packaged, "read", lambda file: theirs)
    model._packaged.cache_clear()
    assert corrections("point 0.5")["fast"] == pytest.approx(16.0, rel=0.005)
    measured(0.0, fast=1.0)
    assert corrections("point 0.5")["fast"] == pytest.approx(16.0 ** (1 / (1 + model.OWN_WEIGHT)), rel=0.005)
    assert corrections("point 0.5", own=False)["fast"] == pytest.approx(16.0, rel=0.005)
    before = lk.tuning("off")
    try:
        assert rank("point 0.5", CANDIDATES)[0].seconds == pytest.approx(16.0, rel=0.1)
    finally:
        lk.tuning(before)


def test_the_order_of_measuring_does_not_matter():
    found = set()
    for order in itertools.permutations([(0.0, 3.0), (1.0, 5.0), (1.5, 2.0)]):
        table._unsaved.clear()
        for at, seconds in order:
            measured(at, fast=seconds)
        found.add(corrections("point 0.75")["fast"])
    assert len(found) == 1


def test_a_damaged_table_of_the_package_is_said(monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setattr(packaged, "DATA", tmp_path)
    packaged.path_of("some", "amd-1-1").write_text("{}")
    assert packaged.read(packaged.file("none")) == {}
    with pytest.warns(RuntimeWarning, match="is not used"):
        assert packaged.read(packaged.file("some")) == {}


def test_a_candidate_of_another_kernel_goes_by_those_that_differ_in_that_only():
    isa = registry.isa()
    ways = [Candidate(name, 1.0, lambda: None) for name in (f"slow a_{isa}", f"slow b_{isa} via x", f"fast a_{isa}")]

    @model.parses("kin")
    def kin(key):
        return Known(key, ways, features=(0.0,))

    for c, seconds in zip(ways, (8.0, 4.0, 0.5)):
        table.record("kin 1", c.name, Cost(seconds, seconds, 0.0, 1))
    found = corrections("kin 1")
    for name, of in (("slow c", 8.0), ("slow c via x", 4.0), ("fast c", 0.5)):
        first, _, rest = name.partition(" c")
        assert found[f"{first} c_{isa}{rest}"] == pytest.approx(of, rel=0.05)
    assert found[f"other c_{isa}"] == pytest.approx(16 ** (1 / 3)), "what is known of all"
