"""Thread pools of others: held while something is measured, told where they spoil it."""

import random
import threading
import time
from contextlib import ExitStack, suppress

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from layoutkit.choosing import blas_threads


def blas():
    return [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]


def test_blas_is_held_and_let_go():
    np.ones((2, 2)) @ np.ones((2, 2))
    before = blas()
    with blas_threads.single_threaded():
        assert all(n == 1 for n in blas())
    assert blas() == before


@pytest.fixture
def three():
    """numpy's BLAS with three threads, whatever the machine has; the limits afterwards must be these."""
    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(3, user_api="blas"):
        for library in ThreadpoolController().select(user_api="blas").lib_controllers:
            if hasattr(library, "clear_controlling_thread"):  # else no other thread could set a limit
                library.clear_controlling_thread(force=True)
        before = blas()
        assert 3 in before
        yield
        assert blas() == before


def test_within_a_thread_the_innermost_limit_holds(three):
    with blas_threads.limited(2):
        assert 2 in blas()
        with blas_threads.single_threaded():
            assert max(blas()) == 1
            with blas_threads.limited(4):
                assert 4 in blas()
            assert max(blas()) == 1
        assert 2 in blas()
    with pytest.raises(ZeroDivisionError), blas_threads.limited(1):
        assert max(blas()) == 1
        raise ZeroDivisionError


def test_between_threads_the_smallest_limit_holds(three):
    inside, over = threading.Barrier(2), threading.Barrier(2)

    def other():
        with blas_threads.limited(1):
            inside.wait(60)
            over.wait(60)

    thread = threading.Thread(target=other)
    with blas_threads.limited(2):
        thread.start()
        inside.wait(60)
        assert max(blas()) == 1
        with blas_threads.limited(3):
            assert max(blas()) == 1
        over.wait(60)
        thread.join()
        assert 2 in blas()


@pytest.mark.parametrize("seed", range(3))
def test_many_threads_that_come_and_go_leave_the_limit_as_it_was(three, seed):
    errors = []
    held = ThreadpoolController().select(user_api="blas")  # found once: that takes longer than all else here

    def work(rng):
        try:
            for _ in range(30):
                with suppress(ZeroDivisionError), ExitStack() as stack:
                    for _ in range(rng.randint(1, 3)):
                        n = rng.randint(1, 4)
                        stack.enter_context(
                            blas_threads.single_threaded() if rng.random() < 0.2 else blas_threads.limited(n)
                        )
                        assert max(p["num_threads"] for p in held.info()) <= 4
                        time.sleep(rng.random() * 1e-3)
                    if rng.random() < 0.3:
                        raise ZeroDivisionError
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(random.Random(16 * seed + i),)) for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
        assert not t.is_alive()
    assert not errors


@pytest.mark.parametrize("count", [0, 1, 2])
def test_two_openmp_runtimes_are_told(count, monkeypatch):
    class Controller:
        def info(self):
            one = {"user_api": "openmp", "prefix": "libgomp", "num_threads": 2}
            return [one] * count + [{"user_api": "blas", "prefix": "libopenblas", "num_threads": 2}]

    monkeypatch.setattr(blas_threads, "libraries", Controller)
    notes = blas_threads.notes()
    assert len(notes) == (count == 2)
    assert count < 2 or "2 OpenMP runtimes: libgomp (2 threads), libgomp (2 threads)" in notes[0]
