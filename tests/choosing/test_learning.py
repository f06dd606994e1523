"""Learning by use: calls try candidates, lose little, and end with the best."""

import os
import random
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from problems import Known

import layoutkit as lk
from layoutkit._core.nests.moves.reorder import Program
from layoutkit.choosing import learning
from layoutkit.choosing.cache import plans
from layoutkit.choosing.learning import Learner
from layoutkit.choosing.problem import Candidate, Choice
from layoutkit.choosing.table import cost_table
from layoutkit.reorders.learning import LearningCall
from layoutkit.reorders.problem import ReorderProblem
from layoutkit.reorders.program import program
from layoutkit.reorders.variants import VARIANTS


class Machine:
    """A clock that only calls move, and the ways to do a problem."""

    def __init__(self, monkeypatch, seconds, build_seconds=1e-4):
        self.now, self.faults, self.switches, self.ran = 0.0, 0, 0, []
        self.seconds, self._build_seconds, self._kept = seconds, build_seconds, {}
        clock = SimpleNamespace(perf_counter=lambda: self.now, thread_time=lambda: self.now)
        monkeypatch.setattr(learning, "time", clock)
        usage = SimpleNamespace(getrusage=lambda who: SimpleNamespace(
            ru_minflt=self.faults, ru_majflt=0, ru_nivcsw=self.switches))  # fmt: skip
        monkeypatch.setattr(learning, "resource", usage)

    def learner(self, threads=1, expected=1.0, problem=None):
        choices = [Choice(Candidate(name, expected, int), expected, "estimated") for name in self.seconds]
        return Learner(choices, self.build, threads, problem)

    def build(self, name):
        if name not in self._kept:
            self.now += self._build_seconds
            self._kept[name] = Runner(self, name)
        return self._kept[name]


class Runner:
    """Runs a candidate on a made-up machine."""

    def __init__(self, machine, name):
        self.machine, self.name = machine, name

    def __call__(self):
        self.machine.ran.append(self.name)
        self.machine.now += self.machine.seconds[self.name]

    def attempt(self, limit, slack, *ratios):
        seconds, share = self.machine.seconds[self.name], 2.0 ** -len(ratios)
        self.machine.ran.append(f"try {self.name}")
        for ratio in ratios:
            if seconds * share > ratio * share * limit + slack:
                self.machine.now += seconds * share
                return seconds * share, share
            share *= 2
        self.machine.now += seconds
        return seconds, 1.0


@pytest.mark.parametrize("threads", [1, 2])
def test_ten_calls_lose_less_than_a_tenth_and_more_do_too(monkeypatch, seed, threads):
    rng = random.Random(seed)
    for _ in range(300):
        pick = 10 ** rng.uniform(-4, -1)
        seconds = {f"{w} {i}": pick * 10 ** rng.uniform(-0.7, 1.5) for w in "abcde" for i in range(rng.randint(1, 4))}
        seconds[next(iter(seconds))] = pick
        machine = Machine(monkeypatch, seconds, rng.choice((1e-6, 1e-4, 1e-3)))
        learner, start = machine.learner(threads), machine.now
        for n in range(1, 1200):
            learner()
            assert machine.now - start <= pick * (n + 0.1 * max(10, n)), (seconds, machine.ran)
        assert learner.finished


def test_the_best_is_found_timed_and_kept(monkeypatch):
    machine = Machine(monkeypatch, {"a 1": 1.0, "a 2": 0.9, "b 1": 0.6, "b 2": 0.5, "c 1": 30.0, "d 1": 1.1})
    learner = machine.learner()
    for _ in range(20):
        learner()
    assert learner.finished and learner.best.name == learner.name == "b 2"
    assert machine.ran[:3] == ["a 1", "try b 1", "try c 1"], "one of each way first"
    assert machine.ran.count("b 2") >= 2 and "try a 2" not in machine.ran
    assert machine.ran[-1] == "b 2"
    told = learner.report()
    assert told.startswith("learnt by use in ") and "b 2 0.50x" in told and "c 1 given up at 30.0x" in told


@pytest.mark.parametrize("expected, known", [(1 / 7.9, True), (1 / 8.1, False)])
def test_what_a_disturbed_machine_shows_is_not_recorded(monkeypatch, cache_dir, expected, known):
    machine = Machine(monkeypatch, {"a 1": 1.0, "b 1": 0.5})
    problem = Known(f"disturbed {expected}", [])
    learner = machine.learner(expected=expected, problem=problem)
    for _ in range(20):
        learner()
    assert learner.finished and learner.name == "b 1", "which is faster is known all the same"
    assert bool(cost_table.costs(problem.key)) == known


def test_candidates_that_do_the_same_run_once(monkeypatch):
    machine = Machine(monkeypatch, {"a 1": 1.0, "b 1": 1.0, "c 1": 1.0})
    same = machine.build("b 1")
    machine._kept["c 1"] = same
    learner = machine.learner()
    for _ in range(9):
        learner()
    assert learner.finished and machine.ran.count("try b 1") == 1 and "try c 1" not in machine.ran


def test_a_candidate_that_is_unfit_is_left_out(monkeypatch):
    machine = Machine(monkeypatch, {"a 1": 1.0, "b 1": 0.5})
    machine._kept.update({"a 1": None})
    learner = machine.learner()
    learner()
    assert machine.ran == ["b 1"]


def test_short_calls_do_not_learn(monkeypatch):
    machine = Machine(monkeypatch, {"a 1": 90e-6, "b 1": 1e-6}, 0.0)
    learner = machine.learner()
    for _ in range(9):
        learner()
    assert learner.finished and "try b 1" not in machine.ran


def test_calls_into_new_memory_are_not_compared(monkeypatch):
    class Faulting(Runner):
        def __call__(self):
            super().__call__()
            machine.faults += 1000

    machine = Machine(monkeypatch, {"a 1": 1.0, "b 1": 0.5})
    machine._kept["a 1"] = Faulting(machine, "a 1")
    learner = machine.learner()
    for _ in range(30):
        learner()
    assert not learner.finished and set(machine.ran) == {"a 1"} and "nothing yet" in learner.report()
    for _ in range(learning.MAX_CALLS):
        learner()
    assert learner.finished, "but not for ever"


def test_nothing_is_tried_while_other_work_has_the_cores(monkeypatch):
    class Disturbed(Runner):
        def __call__(self):
            super().__call__()
            machine.switches += 1

    machine = Machine(monkeypatch, {"a 1": 1.0, "b 1": 0.5})
    machine._kept["a 1"] = Disturbed(machine, "a 1")
    learner = machine.learner(threads=2)
    for _ in range(30):
        learner()
    assert set(machine.ran) == {"a 1"}
    machine._kept["a 1"] = None
    learner._pick.run.__class__ = Runner  # it is calm now
    for _ in range(30):
        learner()
    assert learner.finished and learner.name == "b 1"


def test_an_interrupted_call_changes_nothing(monkeypatch):
    class Interrupted(Runner):
        def attempt(self, *args):
            self.attempt = super().attempt
            raise KeyboardInterrupt

    machine = Machine(monkeypatch, {"a 1": 1.0, "b 1": 0.5, "c 1": 0.4})
    machine._kept["b 1"] = Interrupted(machine, "b 1")
    learner = machine.learner()
    learner()
    with pytest.raises(KeyboardInterrupt):
        learner()
    for _ in range(20):
        learner()
    assert learner.finished and learner.name == "c 1"


# ---- reorders


@pytest.fixture
def learns(cache_dir, monkeypatch):
    """Calls learn however short they are."""
    for name in ("MIN_EXPECTED_SECONDS", "MIN_SECONDS"):
        monkeypatch.setattr(learning, name, 0.0)
    monkeypatch.setattr(learning, "LOSS_SHARE", 1e6)
    cost_table.load()
    before = lk.tuning("learn")
    yield
    lk.tuning(before)


def drawn(rng):
    """Layouts and a shape of an array of at most 100 thousand elements."""
    rank = rng.randint(2, 4)
    letters = "abcd"[:rank]

    def layout():
        order = rng.sample(letters, rank)
        block = rng.choice((None, *letters))
        return "".join(x.upper() if x == block else x for x in order) + (
            f"{rng.choice((4, 16))}{block}" if block else ""
        )

    return layout(), layout(), tuple(rng.randint(1, int(60000 ** (1 / rank))) for _ in range(rank))


def learners():
    return [v for v in plans.values() if isinstance(v, Learner)]


def test_the_bits_are_the_same_while_calls_learn(learns, seed):
    rng = random.Random(seed)
    for _ in range(25):
        src, dst, shape = drawn(rng)
        bits, threads = rng.choice((8, 16, 32, 64)), rng.randint(1, 2)
        x = np.random.default_rng(rng.randrange(1 << 30)).integers(
            0, 99, lk.Layout(src).physical_shape(shape), f"u{bits // 8}"
        )
        lk.tuning("off")
        want = lk.reorder(x, src, dst, shape=shape, pad_value=7, threads=threads)
        lk.tuning("learn")
        out = np.empty_like(want)
        for i in range(14):
            out[...] = 99
            given = out if i % 3 else None
            y = lk.reorder(x, src, dst, shape=shape, pad_value=7, threads=threads, out=given)
            assert np.array_equal(y, want), (src, dst, shape, bits, threads, i)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", VARIANTS)
def test_an_attempt_is_all_or_a_share(name, threads):
    src, dst, shape = lk.Layout("NCHW"), lk.Layout("nhwC16c"), (3, 35, 40, 41)
    x = np.arange(3 * 35 * 40 * 41, dtype=np.uint32).reshape(shape)
    want = lk.reorder(x, src, dst)
    run = program(ReorderProblem(src, dst, shape, 4, threads).transfer(), name, bytes(4))
    y = np.full_like(want, 9)
    seconds, share = run.attempt(x, y, threads, 1e3, 0.0, *learning.RATIOS)
    assert share == 1 and seconds > 0 and np.array_equal(y, want)
    y[...] = 9
    seconds, share = run.attempt(x, y, threads, 1e-12, 0.0, *learning.RATIOS)
    assert 0 < share <= 1
    if share < 1:
        assert (y == 9).mean() > (1 - share) / 2
    run(x, y, threads)
    assert np.array_equal(y, want)


def test_boxes_learn_too(learns, seed):
    x = np.arange(2 * 48 * 30 * 30, dtype=np.float32).reshape(2, 48, 30, 30)
    out = np.zeros((2, 3, 30, 30, 16), np.float32)
    for _ in range(14):
        out[...] = -1
        lk.reorder(x[:, :20], "NCHW", "nChw16c", out=out, at=(0, 5, 0, 0))
        assert np.array_equal(lk.reorder(out, "nChw16c", "NCHW")[:, 5:25], x[:, :20])
        assert (out[:, 2] == -1).all()


def settled(x, out, src="NCHW", dst="NHWC", calls=60):
    for _ in range(calls):
        lk.reorder(x, src, dst, out=out, threads=1)


def test_what_was_learnt_is_kept_told_and_saved_only_where_asked(learns, cache_dir, monkeypatch):
    monkeypatch.setattr(cost_table, "_saves_at_exit", False)  # whatever tests before this recorded
    # other work on this machine is no reason not to learn
    calm = SimpleNamespace(getrusage=lambda who: SimpleNamespace(ru_minflt=0, ru_majflt=0, ru_nivcsw=0))
    monkeypatch.setattr(learning, "resource", calm)
    monkeypatch.setattr(learning, "DOUBT_RATIO", float("inf"))
    x = np.ones((2, 48, 70, 70), np.float32)
    out = lk.empty((2, 48, 70, 70), "NHWC")
    generation = cost_table.generation
    settled(x, out)
    (learner,) = learners()[-1:]
    assert learner.finished, learner.report()
    assert cost_table.generation == generation, "other plans stay"
    text = lk.plan(lk.reorder, x, "NCHW", "NHWC", out=out, threads=1).explain()
    assert "\nlearnt by use in " in text and "decided by measured cost: " in text
    plan = lk.plan(lk.reorder, x, "NCHW", "NHWC", out=out, threads=1)
    assert plan.choices[0].candidate.name == learner.name and f"{learner.report()}\n" in plan.explain(verbose=True)
    runs = [b.run for b in plans.values() if hasattr(b, "physical") and b.physical == out.shape]
    assert learner.best in runs and not any(isinstance(run, LearningCall) for run in runs), "nothing stays between"
    assert isinstance(learner.best, Program)
    assert not cost_table._saves_at_exit and not list(cache_dir.iterdir())
    assert learner.name in cost_table.costs("reorder 2x48x70x70 NCHW>NHWC x32 t1")


SAVES = """
import numpy as np, layoutkit as lk
from layoutkit.choosing import learning
learning.MIN_EXPECTED_SECONDS = learning.MIN_SECONDS = 0.0
learning.LOSS_SHARE = 1e6
assert lk.tuning() == "learn"
ASK
x, out = np.ones((2, 48, 70, 70), np.float32), lk.empty((2, 48, 70, 70), "NHWC")
for _ in range(60):
    lk.reorder(x, "NCHW", "NHWC", out=out, threads=1)
"""


@pytest.mark.parametrize("ask", ["", "lk.cost_table.save_at_exit()"])
def test_saved_at_exit_only_where_asked(tmp_path, ask):
    env = {k: v for k, v in os.environ.items() if k != "LAYOUTKIT_TUNING"} | {"LAYOUTKIT_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", SAVES.replace("ASK", ask)], check=True, env=env)
    assert bool(list(tmp_path.glob("costs-*"))) == bool(ask)


@pytest.mark.parametrize("mode", ["estimate", "off"])
def test_other_modes_do_not_learn(learns, mode):
    lk.tuning(mode)
    plans.clear()
    settled(np.ones((2, 48, 70, 70), np.float32), lk.empty((2, 48, 70, 70), "NHWC"), calls=3)
    assert not learners()


def test_small_calls_get_nothing_between(cache_dir):
    before = lk.tuning("learn")
    try:
        plans.clear()
        settled(np.ones((2, 8, 7, 7), np.float32), lk.empty((2, 8, 7, 7), "NHWC"), calls=3)
        assert not learners()
    finally:
        lk.tuning(before)


def test_threads_learn_together(learns):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 1000, (4, 64, 40, 40), np.int32)
    want = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    wrong = []

    def work():
        out = np.empty_like(want)
        for _ in range(40):
            out[...] = 0
            lk.reorder(x, "NCHW", "NHWC", out=out, threads=1)
            wrong.extend([1] * (not np.array_equal(out, want)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
