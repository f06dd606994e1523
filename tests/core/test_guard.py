"""Locks and undone changes: what a signal would have to hit between two steps of Python is done to them directly."""

import os
import signal
import threading
import time

import pytest

from layoutkit._core.runtime.guard import Lock, TemporaryChange, Turns


def is_free(lock):
    """Whether another thread can have it."""
    acquired = []

    def work():
        try:
            with lock.held(0.01):
                acquired.append(True)
        except TimeoutError:
            acquired.append(False)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return acquired[0]


@pytest.mark.parametrize("again", [False, True])
def test_a_lock_is_held_inside_and_free_after(again):
    lock = Lock(again)
    with lock.held():
        assert not is_free(lock)
        if again:
            with lock.held(0.01):
                pass
        else:
            with pytest.raises(TimeoutError, match=r"not free after 0.01 s"), lock.held(0.01):
                pass
        assert not is_free(lock)
    assert is_free(lock)
    with pytest.raises(ZeroDivisionError), lock.held():
        raise ZeroDivisionError
    assert is_free(lock)


def test_what_a_with_never_leaves_is_left_when_its_object_dies():
    lock, done = Lock(), []
    held, undone = lock.held(), TemporaryChange(lambda: done.append("do"), lambda: done.append("undo"))
    held.__enter__()
    undone.__enter__()
    assert not is_free(lock) and done == ["do"]
    del held, undone
    assert is_free(lock) and done == ["do", "undo"]


def test_what_never_began_is_not_left():
    lock, done = Lock(), []
    with lock.held():
        for never in (lock.held(), TemporaryChange(lambda: done.append("do"), lambda: done.append("undo"))):
            assert never
        del never
        assert not is_free(lock) and not done


@pytest.mark.parametrize("cuts", [0, 1, 20])
@pytest.mark.parametrize("fails", [False, True])
def test_a_change_is_undone_however_often_that_is_cut_short(cuts, fails):
    calls, undone = 0, 0

    def do():
        if fails:
            raise KeyboardInterrupt("do")

    def undo():
        nonlocal calls, undone
        calls += 1
        if calls <= cuts:
            raise KeyboardInterrupt(str(calls))
        undone += 1

    def work():
        with TemporaryChange(do, undo):
            assert not fails and not undone

    if cuts or fails:
        with pytest.raises(KeyboardInterrupt, match=str(cuts) if cuts else "do"):
            work()
    else:
        work()
    assert undone == 1 and calls == cuts + 1


def test_what_cannot_be_undone_is_said():
    def undo():
        raise OSError("never")

    with pytest.raises(OSError, match="never"), TemporaryChange(lambda: None, undo):
        pass


def test_turns_come_in_the_order_in_which_threads_ask():
    turns, order = Turns(1), []

    def ask(n):
        with turns.turn():
            order.append(n)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(6)]
    with turns.turn():
        for t in threads:
            t.start()
            time.sleep(0.02)
        assert order == []
    for t in threads:
        t.join()
    assert order == list(range(6))


@pytest.mark.parametrize("most", [1, 2, 5])
def test_as_many_threads_as_there_are_turns(most):
    turns, inside, seen, counts = Turns(most), [], [], [0] * 8
    begin = threading.Barrier(8)

    def work(n):
        begin.wait()
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            with turns.turn():
                inside.append(n)
                seen.append(len(inside))
                time.sleep(0.0005)
                inside.remove(n)
                counts[n] += 1

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert max(seen) <= most
    assert min(counts) > max(counts) / 4  # nobody starves


class Stop(Exception):
    """Of a signal."""


def test_a_signal_while_waiting_costs_no_turn():
    turns, held, leave = Turns(1), threading.Event(), threading.Event()

    def hold():
        with turns.turn():
            held.set()
            leave.wait(60)

    def stop(*_):
        raise Stop

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Stop), turns.turn():
            raise AssertionError("another thread has it")
    finally:
        signal.signal(signal.SIGALRM, before)
        leave.set()
        thread.join()
    with turns.turn():
        pass
    unleft = turns.turn()
    unleft.__enter__()
    del unleft  # a `with` that was not left
    with turns.turn():
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_turns_of_the_parent_do_not_hold_up_a_child():
    turns = Turns(1)
    with turns.turn():
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            with turns.turn():
                os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
