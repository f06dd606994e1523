"""Ranking: measured before estimated, both by seconds; doubted measurements; steps of candidates."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import Known

import layoutkit as lk
from layoutkit.choosing import tuning as modes
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.problem import Candidate, PackingStep
from layoutkit.choosing.ranking import DOUBT_RATIO, candidates_of
from layoutkit.choosing.ranking import rank as ranked
from layoutkit.choosing.table import cost_table

keys = (f"test ranking {i}" for i in itertools.count())


@pytest.fixture
def key(cache_dir):
    return next(keys)


def rank(key, ways):
    return ranked(Known(key, ways))


def candidate(name, estimate=1.0, steps=()):
    return Candidate(name, estimate, lambda: name, steps)


costs = st.dictionaries(st.sampled_from("abcdef"), st.floats(1e-9, 1.0), max_size=6)


@given(costs.filter(bool), costs, st.sampled_from(modes.MODES))
def test_measured_before_estimated_but_where_the_estimate_is_many_times_lower(estimates, measured, mode):
    key = next(keys)
    for name, seconds in measured.items():
        cost_table.record(key, name, Cost(seconds, seconds, 0.0, 1))
    before = lk.tuning(mode)
    try:
        found = rank(key, [candidate(*item) for item in estimates.items()])
    finally:
        lk.tuning(before)
    known = {} if mode == "off" else measured
    assert all(c.seconds == known.get(c.candidate.name, estimates[c.candidate.name]) for c in found)
    assert all((c.source == "measured") == (c.candidate.name in known) for c in found)
    for kind in ("measured", "estimated"):
        seconds = [c.seconds for c in found if c.source == kind]
        assert seconds == sorted(seconds)
    for a, b in itertools.combinations(found, 2):
        if a.source == "estimated" and b.source == "measured":
            assert DOUBT_RATIO * a.seconds <= b.seconds
        elif a.source == "measured" and b.source == "estimated":
            assert a.seconds <= DOUBT_RATIO * b.seconds
    assert sorted(c.candidate.name for c in found) == sorted(estimates)


def test_a_measurement_that_cannot_be_true_does_not_decide(key):
    """27 ms measured, in whatever moment, against 39 us that are thought."""
    cost_table.record(key, "measured", Cost(27e-3, 27e-3, 0.0, 3))
    ways = [candidate("measured", 40e-6), candidate("estimated", 39e-6), candidate("slow", 30e-3)]
    assert [c.candidate.name for c in rank(key, ways)] == ["estimated", "measured", "slow"]
    cost_table.record(key, "estimated", Cost(28e-3, 28e-3, 0.0, 3))
    assert [c.candidate.name for c in rank(key, ways)] == ["measured", "estimated", "slow"], "now both are known"


def test_disturbed_timings_bound_estimates_and_decide_nothing(key):
    for name in "ab":
        cost_table.record(key, name, Cost(2.0, 2.0, 0.0, 3), doubtful=True)
    found = rank(key, [candidate("a", 9.0), candidate("b", 1.5), candidate("c", 1.9)])
    assert [(c.candidate.name, c.seconds, c.source) for c in found] == [
        ("b", 1.5, "estimated"), ("c", 1.9, "estimated"), ("a", 2.0, "estimated"),
    ]  # fmt: skip
    cost_table.record(key, "a", Cost(1.8, 1.8, 0.0, 3))
    assert rank(key, [candidate("a", 9.0), candidate("b", 1.5)])[0].candidate.name == "a"


def test_a_frozen_table_decides_alike(key):
    ties = [candidate(n) for n in "cab"]
    assert [c.candidate.name for c in rank(key, ties)] == ["c", "a", "b"]
    for n in "abc":
        cost_table.record(key, n, Cost(1.0, 2.0, 0.0, 3))
    assert all(rank(key, ties) == rank(key, ties) for _ in range(10))


def test_a_candidate_with_steps_is_measured_when_all_of_it_is(key):
    packing = Known(f"{key} packing", [candidate("a"), candidate("b")])
    ways = [
        candidate("x", 2.0, (PackingStep(packing, "a", 3.0),)),
        candidate("y", 4.0, (PackingStep(packing, "b", 0.5),)),
    ]

    def found():
        return {c.candidate.name: (c.seconds, c.source) for c in rank(key, ways)}

    assert found() == {"x": (5.0, "estimated"), "y": (4.5, "estimated")}
    cost_table.record(key, "x", Cost(1.0, 1.0, 0.0, 3))
    assert found() == {"x": (4.0, "estimated"), "y": (4.5, "estimated")}, "its packing was not measured"
    assert rank(key, ways)[0].basis == "its packing was not measured"
    cost_table.record(packing.key, "a", Cost(2.0, 2.0, 0.0, 3))
    assert found() == {"x": (3.0, "measured"), "y": (4.5, "estimated")}


def test_some_candidates_are_ranked_if_asked_for(key):
    problem = Known(key, [candidate("a", 3.0), candidate("b", 2.0), candidate("c", 1.0)])
    assert [c.candidate.name for c in ranked(problem, candidates_of(problem)[:2])] == ["b", "a"]


def test_the_basis_tells_how_it_was_measured(key):
    cost_table.record(key, "a", Cost(1.0, 2.0, 0.5, 7))
    assert rank(key, [candidate("a")])[0].basis == "7 timings +-25.0%"
