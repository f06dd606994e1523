"""Measuring: what timings count, how candidates take turns, when it ends; with clocks that are made up."""

import itertools
import os
import subprocess
import sys
import time

import pytest
from problems import Known

import layoutkit as lk
from layoutkit.choosing import machine, measuring
from layoutkit.choosing import tuning as modes
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.measuring import first_use, measure
from layoutkit.choosing.problem import Candidate
from layoutkit.choosing.table import cost_table

keys = (f"test problem to measure {i}" for i in itertools.count())


@pytest.fixture
def key(cache_dir):
    return next(keys)


class Machine:
    """Runs candidates on a made-up clock: name -> seconds of each call, one after another, the last for ever.

    Or a function that tells them, and may raise.
    """

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
            if callable(times):
                times = times()
            self.now += times[min(done, len(times) - 1)] if isinstance(times, list) else times
            if self.disturbed():
                self.waited += 50.0
                self.now += 50.0
            self.calls.append(name)

        return run

    def measure(self, key, names, seconds):
        return measure(Known(key, [Candidate(n, 1.0, lambda n=n: n) for n in names], lambda: self.runner), seconds)


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


def test_a_short_call_is_looked_at_again_however_slow_it_was(key, monkeypatch):
    m = Machine(monkeypatch, best=1e-6, disturbed=[1e-6, 40e-6, 0.9e-6], slow=[1e-4], long=[2e-3])
    found = m.measure(key, ["best", "disturbed", "slow", "long"], seconds=1e-3)
    assert found["disturbed"].min == pytest.approx(0.9e-6) and found["disturbed"].count == measuring.MIN_ROUNDS
    assert (found["slow"].count, found["long"].count) == (2, 1)


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
    assert (
        found["a"].count * measuring.MIN_TIMING_SECONDS / 1e-6
        <= len(m.calls)
        <= 5 * measuring.MIN_TIMING_SECONDS / 1e-6
    )


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
    assert cost_table.costs(key) == {} and cost_table.doubtful(key) == found and key not in cost_table.problems()
    assert 2000 <= m.now - 310 <= 2400, "twice the budget"


def test_fewer_clean_timings_than_it_takes_are_doubtful(key, monkeypatch):
    m = Machine(monkeypatch, a=1.0, b=1.1, slow=90.0)
    m.disturbed = lambda: m.calls.count("a") >= 3  # after two timings of it
    m.measure(key, ["a", "b", "slow"], seconds=100.0)
    assert set(cost_table.costs(key)) == {"slow"}, "out of the race: once is enough"
    assert {name: c.min for name, c in cost_table.doubtful(key).items()} == {"a": 1.0, "b": 1.1}


def test_timings_that_are_far_apart_are_followed_by_more(key, monkeypatch):
    m = Machine(monkeypatch, a=[1e-3, 3e-3, 3e-3, 1e-3] + [3e-3] * 30 + [1e-3])
    monkeypatch.setattr(measuring, "PATIENCE_SECONDS", 1.0)
    apart = m.measure(key, "a", seconds=0)["a"]
    assert apart.median < 1.5e-3 and apart.count > 60
    m = Machine(monkeypatch, a=3e-3)
    assert m.measure(key + "'", "a", seconds=0)["a"].count == 3


def no_room():
    raise MemoryError("for this one")


def fitting(m, key, names, builds=(), **estimates):
    """A problem on `m`; building those of `builds` fails."""

    def build(n):
        return no_room() if n in builds else n

    ways = [Candidate(n, estimates.get(n, 1.0), lambda n=n: build(n)) for n in names]
    return Known(key, ways, lambda: m.runner)


def after(calls, m, name):
    """Seconds of a call, until the memory does not suffice any more."""
    return lambda: 1.0 if m.calls.count(name) < calls else no_room()


@pytest.mark.parametrize("calls", [0, 1, 2, 3, 4, 9])
def test_what_does_not_fit_into_memory_is_left_out(key, monkeypatch, calls):
    m = Machine(monkeypatch, good=1.5)
    m.seconds["best"] = after(calls, m, "best")
    found = measure(fitting(m, key, ["best", "unbuilt", "good"], ["unbuilt"]), 20.0)
    assert set(found) == {"good"} == set(cost_table.costs(key)) and not cost_table.doubtful(key)
    assert m.calls.count("best") == calls, "and is not run again"


def test_nothing_may_fit_into_memory(key, monkeypatch):
    m = Machine(monkeypatch)
    m.seconds = {"a": no_room, "b": no_room}
    assert measure(fitting(m, key, "ab"), 20.0) == measure(fitting(m, key, "ab", "ab"), 20.0) == {}
    assert measure(Known(key, [Candidate("a", 1.0, lambda: "a")], no_room), 20.0) == {}
    assert cost_table.costs(key) == cost_table.doubtful(key) == {}


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
    first_use(Known(key, [Candidate(n, s, lambda n=n: n) for n, s in estimates.items()], lambda: m.runner))
    return set(m.calls)


def test_the_best_few_are_measured_once_and_only_where_asked(key, monkeypatch, tuning):
    monkeypatch.setattr(measuring, "FIRST_USE_CANDIDATES", 3)
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
    monkeypatch.setattr(measuring, "FIRST_USE_CANDIDATES", 3)
    tuning("measure")
    m = Machine(monkeypatch, a=10.0, b=20.0, c=30.0, d=9.0, e=90.0)
    assert use(m, key, a=1.0, b=2.0, c=3.0, d=4.0, e=11.0) == set("abcd"), "e is thought to take longer than a took"
    assert min(cost_table.costs(key).items(), key=lambda item: item[1])[0] == "d"
    m.calls.clear()
    m.seconds = dict(a=2.0, b=2.1, c=3.1, d=1.0)
    assert use(m, key + " again", a=1.9, b=2.0, c=2.0, d=2.1) == set("abc"), "estimates that hold are believed"


def test_as_many_as_may_win_are_measured_a_few_at_a_time(key, monkeypatch, tuning):
    monkeypatch.setattr(measuring, "FIRST_USE_CANDIDATES", 2)
    tuning("measure")
    m = Machine(monkeypatch, a=50.0, b=60.0, c=70.0, d=40.0, e=41.0, f=4.2, g=9.0)
    assert use(m, key, a=1.0, b=1.1, c=2.0, d=2.1, e=3.0, f=4.0, g=9.0) == set("abcdef")
    assert measuring.rank(Known(key, [Candidate(n, 1.0, None) for n in "abcdef"]))[0].candidate.name == "f"


def test_one_that_took_many_times_what_was_thought_is_looked_at_again(key, monkeypatch, tuning):
    """Something else had the machine for a while, and nothing told so."""
    tuning("measure")
    m = Machine(monkeypatch, b=2.0, c=2.1)
    m.seconds["a"] = lambda: 30.0 if m.calls.count("b") < 4 else 1.0
    use(m, key, a=1.0, b=2.0, c=2.0)
    assert cost_table.costs(key)["a"].min == 1.0
    m = Machine(monkeypatch, a=30.0, b=2.0, c=2.1)
    use(m, key + " for good", a=1.0, b=2.0, c=2.0)
    assert cost_table.costs(key + " for good")["a"].min == 30.0, "said twice it is believed"


def test_a_disturbed_first_use_decides_nothing(key, monkeypatch, tuning):
    monkeypatch.setattr(measuring, "FIRST_USE_CANDIDATES", 3)
    tuning("measure")
    m = Machine(monkeypatch, a=1.0, b=2.0, c=3.0)
    m.disturbed = lambda: True
    assert use(m, key, a=3.0, b=2.0, c=1.0, d=4.0, e=5.0) == set("abc"), "and more of it would tell no more"
    ways = [Candidate(n, s, None) for n, s in dict(a=3.0, b=2.0, c=1.0).items()]
    assert [(c.candidate.name, c.source) for c in measuring.rank(Known(key, ways))] == [
        ("c", "estimated"), ("b", "estimated"), ("a", "estimated"),
    ]  # fmt: skip
    m.calls.clear()
    assert use(m, key, a=3.0, b=2.0, c=1.0, d=4.0, e=5.0) == set(), "not again and again"


def test_a_table_that_knows_other_names_only_is_no_answer(key, monkeypatch, tuning):
    cost_table.record(key, "of another build", Cost(1.0, 1.0, 0.0, 1))
    tuning("measure")
    assert use(Machine(monkeypatch, a=1.0, b=2.0), key, a=1.0, b=2.0) == {"a", "b"}


def test_one_slow_measurement_in_the_table_does_not_stop_the_others(key, monkeypatch, tuning):
    cost_table.record(key, "a", Cost(27.0, 27.0, 0.0, 3))
    tuning("measure")
    m = Machine(monkeypatch, a=1.0, b=1.5)
    assert use(m, key, a=1.0, b=1.2) == {"a", "b"}
    assert cost_table.costs(key)["a"].min == 1.0


@pytest.mark.parametrize("fails", ["", "a", "ab", "abc"])
def test_first_use_where_the_memory_does_not_suffice(key, monkeypatch, tuning, fails):
    tuning("measure")
    m = Machine(monkeypatch, a=1.0, b=2.0, c=3.0)
    problem = fitting(m, key, "abc", fails)
    first_use(problem)
    assert set(cost_table.costs(key)) == set("abc") - set(fails)
    m.calls.clear()
    first_use(problem)
    assert not m.calls
    first_use(Known(key + "'", problem.candidates(), no_room))
    assert not cost_table.costs(key + "'")


def test_a_table_that_is_loaded_is_looked_at_anew(key, monkeypatch, tuning):
    tuning("measure")
    m = Machine(monkeypatch, a=1.0, b=2.0)
    assert use(m, key, a=1.0, b=2.0) == {"a", "b"}
    cost_table.save()
    empty = cost_table.path.with_name("empty.json")
    monkeypatch.setattr(cost_table, "_saved", {cost_table.path: {}})
    cost_table.export(empty)
    cost_table.load(empty)
    m.calls.clear()
    assert use(m, key, a=1.0, b=2.0) == {"a", "b"}


def test_the_budget_is_kept(key, monkeypatch, tuning):
    m = Machine(monkeypatch, a=1.0, b=1.0)
    tuning("measure", budget=9.0)
    assert use(m, key, a=1.0, b=1.0) == set(), "five runs of each would take ten seconds"
    tuning("measure", budget=12.0)
    assert use(m, key, a=1.0, b=1.0) == {"a", "b"}
    assert 0 <= modes.budget() < 5
    assert use(m, key + "'", a=1.0, b=1.0) == {"a", "b"} and not cost_table.costs(key + "'")
    with pytest.raises(ValueError, match=r"budget is seconds for 'measure', got 1\.0 for 'estimate'"):
        tuning("estimate", budget=1.0)
    with pytest.raises(ValueError, match="budget"):
        tuning("measure", budget=-1.0)


def test_the_only_candidate_is_not_measured(key, monkeypatch, tuning):
    tuning("measure")
    assert use(Machine(monkeypatch, a=1.0), key, a=1.0) == set()


# ---- the machine


@pytest.mark.alone
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


LIMITED = """
import os, resource, sys
import numpy as np, layoutkit as lk
from layoutkit.choosing import machine
machine.waited = lambda: 0.0
x, w = np.ones((1, 64, 192, 192), np.float32), np.ones((64, 64, 3, 3), np.float32)
op = lk.Conv2d(w, padding=1, threads=1, accuracy="strict")
out, moved = np.empty((1, 64, 192, 192), np.float32), np.empty((1, 192, 192, 64), np.float32)
def use():
    op(x, out=out)
    lk.reorder(x, "NCHW", "NHWC", out=moved, threads=1)
lk.tuning("measure")
first = lk.Conv2d(np.ones((8, 4, 3, 3), np.float32), threads=1)(np.ones((1, 4, 8, 8), np.float32))
lk.tuning("estimate")
use()
pages = int(open("/proc/self/statm").read().split()[0])
for megabytes in map(int, sys.argv[1:]):
    if os.fork():
        status = os.wait()[1]
        assert status == 0, (megabytes, status)
        continue
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (megabytes << 20),) * 2)
    out[:] = moved[:] = 0
    lk.tuning("measure")
    use()
    assert (out[0, 0, 5, 5], moved.sum()) == (64 * 9, x.size)
    print(len(lk.cost_table.problems()), flush=True)
    os._exit(0)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
def test_measuring_never_needs_more_memory_than_there_is(cache_dir):
    megabytes = [2, 12, 24, 40, 200]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, megabytes)], capture_output=True, text=True, env=os.environ | {
            "LAYOUTKIT_CACHE_DIR": str(cache_dir), "LAYOUTKIT_READ_ONLY": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    measured = [int(line) for line in done.stdout.split()]
    assert len(measured) == len(megabytes) and min(measured) >= 1 and measured[-1] >= 3
