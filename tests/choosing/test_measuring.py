"""Measuring: what timings count, how candidates take turns, when it ends; with clocks that are made up."""

import importlib
import itertools
import os
import subprocess
import sys
import time

import pytest

import layoutkit as lk
from layoutkit.choosing import machine, measuring
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.measuring import Contest, first_use, measure
from layoutkit.cost import cost_table
from layoutkit.plan import Candidate

plan = importlib.import_module("layoutkit.plan")  # lk.plan is the function
keys = (f"test problem to measure {i}" for i in itertools.count())


@pytest.fixture
def key(cache_dir):
    return next(keys)


class Machine:
    """Runs candidates on a made-up clock: name -> seconds of each call, one after another, the last for ever."""

    def __init__(self, monkeypatch, **seconds):
        self.now, self.calls, self.seconds = 0.0, [], seconds
        self.disturbed = lambda: False  # does another process take the core during this call?
        self.waited = 0.0
        monkeypatch.setattr(measuring.time, "perf_counter", lambda: self.now)
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

    def measure(self, key, names, seconds):
        return measure(Contest(key, [Candidate(n, 1.0, lambda n=n: n) for n in names], lambda: self.runner), seconds)


def test_the_least_the_median_and_the_count(key, monkeypatch):
    m = Machine(monkeypatch, a=[9.0, 3.0, 1.0, 2.0], b=1.5)
    found = m.measure(key, "ab", seconds=0)
    assert found == cost_table.costs(key) == {"a": Cost(1.0, 2.0, 1.0, 3), "b": Cost(1.5, 1.5, 0.0, 3)}
    assert m.calls.count("a") == 4, "one call to warm up, three timed"


def test_candidates_alternate_and_take_turns_at_being_first(key, monkeypatch):
    m = Machine(monkeypatch, a=1.0, b=1.0, c=1.0)
    m.measure(key, "abc", seconds=100.0)
    rounds = ["".join(r) for r in zip(*[iter(m.calls[6:])] * 3)]
    assert rounds[:4] == ["bca", "cab", "abc", "bca"]


def test_the_hopeless_are_left_where_they_are(key, monkeypatch):
    m = Machine(monkeypatch, best=1.0, close=1.1, slow=1.9, hopeless=11.0)
    found = m.measure(key, ["hopeless", "slow", "close", "best"], seconds=200.0)
    assert found["hopeless"].count == 1
    assert found["slow"].count < 10 < found["close"].count == found["best"].count


def test_one_slow_timing_is_looked_at_again(key, monkeypatch):
    m = Machine(monkeypatch, good=1.0, unlucky=[1.0, 5.0, 1.05], slow=5.0)
    found = m.measure(key, ["good", "unlucky", "slow"], seconds=10.0)
    assert found["unlucky"].min == pytest.approx(1.05) and found["unlucky"].count == 3
    assert found["slow"].min == pytest.approx(5.0) and found["slow"].count == 2


@pytest.mark.parametrize("budget", [5.0, 50.0])
def test_the_budget_holds(key, monkeypatch, budget):
    m = Machine(monkeypatch, a=1.0, b=1.0)
    m.measure(key, "ab", seconds=budget)
    assert m.now - 4 <= budget + 2, "two calls of each before the first round, and the last round ends"
    assert m.now - 4 >= budget


def test_short_calls_are_timed_in_batches(key, monkeypatch):
    m = Machine(monkeypatch, a=1e-6)
    found = m.measure(key, "a", seconds=0)
    assert found["a"].min == pytest.approx(1e-6)
    assert found["a"].count * measuring.MIN_TIMING / 1e-6 <= len(m.calls) <= 5 * measuring.MIN_TIMING / 1e-6


def test_disturbed_timings_do_not_count(key, monkeypatch):
    m = Machine(monkeypatch, a=1.0, b=2.0)
    m.disturbed = lambda: 4 <= len(m.calls) < 20 and len(m.calls) % 2 == 0  # the first rounds of b, or of a
    found = m.measure(key, "ab", seconds=100.0)
    assert {n: (c.min, c.median) for n, c in found.items()} == {"a": (1.0, 1.0), "b": (2.0, 2.0)}


def test_a_disturbed_candidate_is_not_hopeless(key, monkeypatch):
    m = Machine(monkeypatch, good=1.0, bad=1.1)
    m.disturbed = lambda: m.calls.count("good") in (1, 2)  # its first timings
    found = m.measure(key, ["bad", "good"], seconds=400.0)
    assert found["good"].min == pytest.approx(1.0) and found["good"].count > 10


def test_patience_with_a_busy_machine_ends(key, monkeypatch):
    m = Machine(monkeypatch, a=1.0, b=2.0)
    m.disturbed = lambda: True
    found = m.measure(key, "ab", seconds=1000.0)
    assert found["a"].min == 51.0 and found["b"].min == 52.0, "the best there is"
    assert cost_table.costs(key) == found and key not in cost_table.problems()
    assert 2000 <= m.now - 310 <= 2400, "twice the budget"


def test_measured_again_counts_together(key, monkeypatch):
    m = Machine(monkeypatch, a=1.0)
    first = m.measure(key, "a", seconds=0)
    assert m.measure(key, "a", seconds=0) == first
    assert cost_table.costs(key)["a"].count == 2 * first["a"].count


# ---- on first use


@pytest.fixture
def tuning(monkeypatch):
    """lk.tuning, set back after the test; nothing is saved at exit."""
    monkeypatch.setattr(type(cost_table), "save_at_exit", lambda self: None)
    before = lk.tuning("estimate")
    yield lk.tuning
    lk.tuning(before)


def use(m, key, **estimates):
    first_use(Contest(key, [Candidate(n, s, lambda n=n: n) for n, s in estimates.items()], lambda: m.runner))
    return set(m.calls)


def test_the_best_few_are_measured_once_and_only_where_asked(key, monkeypatch, tuning):
    monkeypatch.setattr(measuring, "FEW", 3)
    m = Machine(monkeypatch, a=1.0, b=2.0, c=3.0, d=4.0, e=5.0)
    estimates = dict(e=5.0, d=4.0, c=3.0, b=2.0, a=1.0)
    assert use(m, key, **estimates) == set()
    tuning("off")
    assert use(m, key, **estimates) == set()
    tuning("measure")
    assert use(m, key, **estimates) == {"a", "b", "c"}
    m.calls.clear()
    assert use(m, key, **estimates) == set(), "the table has it now"


def test_what_may_beat_the_best_few_is_measured_too(key, monkeypatch, tuning):
    monkeypatch.setattr(measuring, "FEW", 3)
    tuning("measure")
    m = Machine(monkeypatch, a=10.0, b=20.0, c=30.0, d=9.0, e=90.0)
    assert use(m, key, a=1.0, b=2.0, c=3.0, d=4.0, e=11.0) == set("abcd"), "e is thought to take longer than a took"
    assert min(cost_table.costs(key).items(), key=lambda item: item[1])[0] == "d"
    m.calls.clear()
    m.seconds = dict(a=2.0, b=2.1, c=3.1, d=1.0)
    assert use(m, key + " again", a=1.9, b=2.0, c=2.0, d=2.1) == set("abc"), "estimates that hold are believed"


def test_the_budget_is_kept(key, monkeypatch, tuning):
    m = Machine(monkeypatch, a=1.0, b=1.0)
    tuning("measure", budget=9.0)
    assert use(m, key, a=1.0, b=1.0) == set(), "five runs of each would take ten seconds"
    tuning("measure", budget=12.0)
    assert use(m, key, a=1.0, b=1.0) == {"a", "b"}
    assert 0 <= plan.budget() < 5
    assert use(m, key + "'", a=1.0, b=1.0) == {"a", "b"} and not cost_table.costs(key + "'")
    with pytest.raises(ValueError, match=r"budget is seconds for 'measure', got 1\.0 for 'estimate'"):
        tuning("estimate", budget=1.0)
    with pytest.raises(ValueError, match="budget"):
        tuning("measure", budget=-1.0)


def test_the_only_candidate_is_not_measured(key, monkeypatch, tuning):
    tuning("measure")
    assert use(Machine(monkeypatch, a=1.0), key, a=1.0) == set()


# ---- the machine


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
