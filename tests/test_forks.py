"""Forks: in the child every call works, on one thread, whoever forked and whatever the parent's threads were doing."""

import functools
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import LONG

import layoutkit as lk

STRESS = Path(__file__).parents[1] / "stress"
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

# The second is fork(2) as C calls it: no handler of Python's runs.
FORKS = {"os.fork": "os.fork", "fork(2)": "ctypes.PyDLL(None).fork"}

PRELUDE = """
import ctypes, os, signal, sys, threading, traceback
import numpy as np, layoutkit as lk

def in_child(work):
    child = {fork}()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.alarm(20)  # a child that hangs is one that this ends
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)

x, w = np.ones((1, 64, 70, 66), np.float32), np.ones((32, 64, 3, 3), np.float32)
"""


def in_new_python(program, fork):
    """Run a program after the prelude in a process of its own; what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE.format(fork=FORKS[fork]) + textwrap.dedent(program)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    sys.stderr.write(done.stderr)  # pytest shows it where what follows fails
    return done.stdout.split()


@pytest.mark.parametrize("fork", FORKS)
def test_what_was_planned_for_two_threads_runs_on_one(fork):
    out = in_new_python(
        """
        op = lk.Conv2d(w, threads=2, algorithm="direct")
        blocked = lk.Conv2d(w, threads=2, algorithm="winograd")
        kept = lk.plan(lk.reorder, x, "NCHW", "nChw16c", threads=2).run
        y = np.empty((1, 4, 70, 66, 16), np.float32)

        def results():
            kept(x, y)
            yield y.copy()
            yield op(x)
            yield blocked(x)
            yield lk.reorder(x, "NCHW", "NHWC", threads=2)
            yield lk.reorder(x, "NCHW", "NHWC", dtype="f8", scale=2.0, threads=2)
            yield lk.conv2d(x, w, threads=2, algorithm="direct")

        want = list(results())
        assert len(os.listdir("/proc/self/task")) > 1

        def work():
            for got, expected in zip(results(), want, strict=True):
                np.testing.assert_array_equal(got, expected)
            assert lk.get_num_threads() == 1
            lk.plan(lk.reorder, x, "NCHW", "NHWC", threads=2).explain()  # measures the machine
            op.explain(x.shape)
            assert len(os.listdir("/proc/self/task")) == 1

        print(in_child(work))

        def grandchild():
            assert in_child(work) == 0

        print(in_child(grandchild))
        assert (op(x) == want[1]).all() and len(os.listdir("/proc/self/task")) > 1
        """,
        fork,
    )
    assert out == ["0", "0"]


@pytest.mark.parametrize("fork", FORKS)
def test_locks_that_other_threads_hold_do_not_hold_up_a_child(fork, cache_dir):
    out = in_new_python(
        """
        from layoutkit.choosing import unsaved
        from layoutkit.choosing.costfile import Cost

        held, forked = threading.Event(), threading.Event()
        merge = unsaved.merge

        def slow(into, other):
            if not held.is_set():
                held.set()
                assert forked.wait(60)
            merge(into, other)

        unsaved.merge = slow
        one = Cost(1.0, 1.0, 0.0, 1)
        thread = threading.Thread(target=lk.cost_table.record, args=("p", "c", one))
        thread.start()
        assert held.wait(60)  # the thread is in the middle of it, and has the lock

        def work():
            lk.cost_table.record("q", "c", one)
            assert lk.cost_table.costs("q") == {"c": one}
            lk.cost_table.load()
            lk.cost_table.save()

        print(in_child(work))
        forked.set()
        thread.join()
        assert lk.cost_table.costs("p") == {"c": one}
        """,
        fork,
    )
    assert out == ["0"]


def test_a_share_of_the_campaign():
    done = subprocess.run(
        [sys.executable, str(STRESS / "forks.py"), "--forks", "60" if LONG else "40", "--seconds", "15", "--json"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts.pop("forked") > 10 and counts.pop("rounds") > 100
    assert counts == {"failed": 0, "hung": 0, "failed_threads": 0}


def test_a_convolution_that_another_thread_is_planning_does_not_hold_up_a_child():
    out = in_new_python(
        """
        from layoutkit.convolutions.problem import ConvProblem

        held, forked = threading.Event(), threading.Event()

        class Slow(int):
            def __add__(self, other):
                held.set()
                assert forked.wait(60)
                return int(self) + other

        def out(size):
            plain = lk.Layout("NCW")
            return ConvProblem(1, 1, 1, (size,), (1,), (1,), ((0, 0),), (1,), 1, plain, plain).out

        thread = threading.Thread(target=out, args=(Slow(7),))
        thread.start()
        assert held.wait(60)

        def work():
            assert out(9) == (9,)

        print(in_child(work))
        forked.set()
        thread.join()
        """,
        "os.fork",
    )
    assert out == ["0"]


def test_no_attribute_is_cached_under_a_lock():
    """Before Python 3.12 all objects of a class share the lock of a cached_property, which a child may find held."""
    modules = [importlib.import_module(m.name) for m in pkgutil.walk_packages(lk.__path__, "layoutkit.")
               if not m.name.endswith("__main__")]  # fmt: skip
    classes = {c for module in modules for c in vars(module).values() if isinstance(c, type)}
    cached = [f"{c.__qualname__}.{name}" for c in classes if c.__module__.startswith("layoutkit")
              for name, value in vars(c).items() if isinstance(value, functools.cached_property)]  # fmt: skip
    assert len(classes) > 50 and not cached
