"""Plans: how candidates are measured, ranked and explained, with clocks that are made up."""

import importlib
import itertools
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import layoutkit as lk
from layoutkit import machine
from layoutkit.cost import cost_table
from layoutkit.costfile import Cost
from layoutkit.plan import Candidate, Choice, Plan, measure, rank
from layoutkit.problem import ConvProblem
from layoutkit.routes import measure_routes, route_key

plan = importlib.import_module("layoutkit.plan")  # lk.plan is the function
keys = (f"test problem {i}" for i in itertools.count())


@pytest.fixture
def key(cache_dir):
    return next(keys)


@pytest.fixture
def tuning():
    """lk.tuning, set back after the test."""
    before = plan.mode()
    yield lk.tuning
    lk.tuning(before)


def candidate(name, estimate=1.0):
    return Candidate(name, estimate, lambda: name)


@pytest.fixture
def calm(monkeypatch):
    """No other work on the machine, or none that is noticed."""
    monkeypatch.setattr(machine, "waited", lambda: 0.0)


class Machine:
    """Runs candidates on a made-up clock: name -> seconds of each call, one after another, the last for ever."""

    def __init__(self, monkeypatch, **seconds):
        self.now, self.calls, self.seconds = 0.0, [], seconds
        self.disturbed = lambda: False  # does another process take the core during this call?
        self.waited = 0.0
        monkeypatch.setattr(plan.time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(machine, "waited", lambda: self.waited)

    def runner(self, name):
        def run():
            times = self.seconds[name]
            done = self.calls.count(name)
            self.now += times[min(done, len(times) - 1)] if isinstance(times, list) else times
            if self.disturbed():
                self.waited += 50.0
                self.now += 50.0
            self.calls.append(name)

        return run

    def measure(self, key, names, **kwargs):
        return measure(key, [candidate(n) for n in names], self.runner, **kwargs)


# ---- ranking

costs = st.dictionaries(st.sampled_from("abcdef"), st.floats(1e-9, 1.0), max_size=6)


@given(costs.filter(bool), costs, st.sampled_from(plan.MODES))
def test_measured_first_then_estimated_each_by_seconds(estimates, measured, mode):
    key = next(keys)
    for name, seconds in measured.items():
        cost_table.record(key, name, Cost(seconds, seconds, 0.0, 1))
    before = lk.tuning(mode)
    try:
        found = rank(key, [candidate(*item) for item in estimates.items()])
    finally:
        lk.tuning(before)
    known = {} if mode == "off" else measured
    want = sorted((n not in known, known.get(n, estimates[n])) for n in estimates)
    assert [(c.source == "estimated", c.seconds) for c in found] == want
    assert sorted(c.candidate.name for c in found) == sorted(estimates)


def test_a_frozen_table_decides_alike(key):
    ties = [candidate(n) for n in "cab"]
    assert [c.candidate.name for c in rank(key, ties)] == ["c", "a", "b"]
    for n in "abc":
        cost_table.record(key, n, Cost(1.0, 2.0, 0.0, 3))
    assert all(rank(key, ties) == rank(key, ties) for _ in range(10))


def test_tuning_gives_the_mode_before_and_refuses_others(tuning):
    before = tuning("off")
    assert tuning(before) == "off"
    with pytest.raises(ValueError, match="expected one of measure, estimate, off, got 'best'"):
        tuning("best")
    assert plan.mode() == before


# ---- measuring


def test_the_least_the_median_and_the_count(key, monkeypatch):
    m = Machine(monkeypatch, a=[9.0, 3.0, 1.0, 2.0], b=1.5)
    found = m.measure(key, "ab", budget=0)
    assert found == cost_table.costs(key) == {"a": Cost(1.0, 2.0, 1.0, 3), "b": Cost(1.5, 1.5, 0.0, 3)}
    assert m.calls.count("a") == 4, "one call to warm up, three timed"


def test_candidates_alternate_and_take_turns_at_being_first(key, monkeypatch):
    m = Machine(monkeypatch, a=1.0, b=1.0, c=1.0)
    m.measure(key, "abc", budget=100.0)
    rounds = ["".join(r) for r in zip(*[iter(m.calls[6:])] * 3)]
    assert rounds[:4] == ["bca", "cab", "abc", "bca"]


def test_the_hopeless_are_left_where_they_are(key, monkeypatch):
    m = Machine(monkeypatch, best=1.0, close=1.1, slow=1.9, hopeless=10.0)
    found = m.measure(key, ["hopeless", "slow", "close", "best"], budget=200.0)
    assert found["hopeless"].count == 1
    assert found["slow"].count < 10 < found["close"].count == found["best"].count


@pytest.mark.parametrize("budget", [5.0, 50.0])
def test_the_budget_holds(key, monkeypatch, budget):
    m = Machine(monkeypatch, a=1.0, b=1.0)
    m.measure(key, "ab", budget=budget)
    assert m.now - 4 <= budget + 2, "two calls of each before the first round, and the last round ends"
    assert m.now - 4 >= budget


def test_short_calls_are_timed_in_batches(key, monkeypatch):
    m = Machine(monkeypatch, a=1e-6)
    found = m.measure(key, "a", budget=0)
    assert found["a"].min == pytest.approx(1e-6)
    assert found["a"].count * plan.MIN_TIMING / 1e-6 <= len(m.calls) <= 5 * plan.MIN_TIMING / 1e-6


def test_disturbed_timings_do_not_count(key, monkeypatch):
    m = Machine(monkeypatch, a=1.0, b=2.0)
    m.disturbed = lambda: 4 <= len(m.calls) < 20 and len(m.calls) % 2 == 0  # the first rounds of b, or of a
    found = m.measure(key, "ab", budget=100.0)
    assert {n: (c.min, c.median) for n, c in found.items()} == {"a": (1.0, 1.0), "b": (2.0, 2.0)}


def test_a_disturbed_candidate_is_not_hopeless(key, monkeypatch):
    m = Machine(monkeypatch, good=1.0, bad=1.1)
    m.disturbed = lambda: m.calls.count("good") in (1, 2)  # its first timings
    found = m.measure(key, ["bad", "good"], budget=400.0)
    assert found["good"].min == pytest.approx(1.0) and found["good"].count > 10


def test_patience_with_a_busy_machine_ends(key, monkeypatch):
    m = Machine(monkeypatch, a=1.0, b=2.0)
    m.disturbed = lambda: True
    found = m.measure(key, "ab", budget=1000.0)
    assert found["a"].min == 51.0 and found["b"].min == 52.0, "the best there is"
    assert cost_table.costs(key) == found and key not in cost_table.problems()
    assert 2000 <= m.now - 310 <= 2400, "twice the budget"


def test_only_what_the_table_lacks(key, monkeypatch):
    m = Machine(monkeypatch, a=1.0, b=2.0)
    first = m.measure(key, "a", budget=0)
    m.calls.clear()
    assert m.measure(key, "a", budget=0) == first and not m.calls
    assert m.measure(key, "a", budget=0, again=True) == first and m.calls
    assert cost_table.costs(key)["a"].count == 2 * first["a"].count
    assert set(m.measure(key, "ab", budget=0)) == {"a", "b"}, "measured together: costs of one moment"


def test_waiting_for_a_core_is_noticed():
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
    try:
        before, start = machine.waited(), time.monotonic()
        while machine.waited() < before + 1e-3 and time.monotonic() < start + 20:
            sum(range(100_000))
        assert machine.waited() >= before + 1e-3
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


# ---- what is chosen


def small_conv(oc=13):
    x = np.ones((1, 5, 9, 9), np.float32)
    w = np.ones((oc, 5, 3, 3), np.float32)
    return x, w


def test_tuning_by_measuring_measures_on_first_use(cache_dir, tuning):
    x, w = small_conv()
    assert "decided by estimated cost" in lk.plan(lk.conv2d, x, w, threads=1).explain()
    tuning("measure")
    text = lk.plan(lk.conv2d, x, w, threads=1).explain()
    assert "decided by measured cost" in text and "estimated" not in text
    tuning("estimate")
    assert lk.plan(lk.conv2d, x, w, threads=1).explain() == text, "what was measured stays"
    tuning("off")
    assert "decided by estimated cost" in lk.plan(lk.conv2d, x, w, threads=1).explain()


def conv_problem(oc):
    L = lk.Layout("NCHW")
    return ConvProblem(1, 5, oc, (9, 9), (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, L, L)


def test_every_route_can_win_and_gives_the_same_result(cache_dir):
    x, w = small_conv(oc=14)
    found = measure_routes(conv_problem(14), 1, budget=0)
    op = lk.Conv2d(w, threads=1)
    want = op(x)
    for i, name in enumerate(found):
        cost_table.record(route_key(conv_problem(14), 1), name, Cost(1e-9 / (i + 1), 1.0, 0.0, 1))
        assert op.plan(x.shape).choices[0].candidate.name == name
        np.testing.assert_allclose(op(x), want, rtol=1e-6)


def test_a_frozen_table_is_bit_identical(cache_dir, calm):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 5, 9, 9), np.float32), rng.standard_normal((15, 5, 3, 3), np.float32)
    measure_routes(conv_problem(15), 1, budget=0)
    cost_table.save()
    want = lk.conv2d(x, w, threads=1)
    program = f"""
import numpy as np, layoutkit as lk
rng = np.random.default_rng(0)
x, w = rng.standard_normal((1, 5, 9, 9), np.float32), rng.standard_normal((15, 5, 3, 3), np.float32)
assert "decided by measured cost" in lk.plan(lk.conv2d, x, w, threads=1).explain()
assert lk.conv2d(x, w, threads=1).tobytes().hex() == "{want.tobytes().hex()}"
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("small", [False, True])
def test_a_reorder_is_explained_as_it_is_run(cache_dir, tuning, small):
    x = np.ones((1, 16, 8, 8) if small else (1, 64, 64, 64), np.float32)
    tuning("measure")
    lk.reorder(x, "NCHW", "NHWC", threads=2)
    tuning("estimate")
    text = lk.plan(lk.reorder, x, "NCHW", "NHWC", threads=2).explain()
    assert "decided by measured cost" in text
    assert f"x32 t{1 if small else 2}" in text


# ---- explaining


def test_explain_is_a_line_each_aligned():
    choices = [Choice(candidate("short"), 1e-6, "measured"), Choice(candidate("much longer"), 2.5e-6, "estimated")]
    assert Plan("problem", choices, ["note"]).explain().splitlines() == [
        "problem",
        "-> short              1.0 us  measured   1.00x",
        "   much longer        2.5 us  estimated   2.50x",
        "note",
        "decided by measured cost",
    ]
    assert Plan("problem", choices[:1]).explain().endswith("the only candidate")


def test_plan_names_what_it_can_plan():
    with pytest.raises(TypeError, match=r"has no plans; those that have: conv2d, reorder"):
        lk.plan(print)
