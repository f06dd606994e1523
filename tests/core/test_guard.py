"""Locks and undone changes: what a signal would have to hit between two steps of Python is done to them directly."""

import threading

import pytest

from layoutkit._core.runtime.guard import Lock, Undone


def is_free(lock):
    """Whether another thread can have it."""
    found = []

    def work():
        try:
            with lock.held(0.01):
                found.append(True)
        except TimeoutError:
            found.append(False)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


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
    held, undone = lock.held(), Undone(lambda: done.append("do"), lambda: done.append("undo"))
    held.__enter__()
    undone.__enter__()
    assert not is_free(lock) and done == ["do"]
    del held, undone
    assert is_free(lock) and done == ["do", "undo"]


def test_what_never_began_is_not_left():
    lock, done = Lock(), []
    with lock.held():
        for never in (lock.held(), Undone(lambda: done.append("do"), lambda: done.append("undo"))):
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
        with Undone(do, undo):
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

    with pytest.raises(OSError, match="never"), Undone(lambda: None, undo):
        pass
