"""Turns: so many threads at a time, in the order in which they ask."""

import threading
import time

import pytest

from layoutkit.graph.runtime.turns import Turns


def test_threads_come_in_the_order_in_which_they_ask():
    turns, order, inside = Turns(1), [], []

    def ask(n):
        with turns:
            inside.append(n)
            assert len(inside) == 1
            order.append(n)
            inside.remove(n)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(6)]
    with turns:
        for n, t in enumerate(threads):
            t.start()
            while len(turns._waiting) <= n:
                time.sleep(0.001)
    for t in threads:
        t.join()
    assert order == list(range(6))
    with turns:  # free again
        pass


def test_nobody_starves():
    turns, done, counts = Turns(2), threading.Event(), [0] * 5

    def work(n):
        while not done.is_set():
            with turns:
                counts[n] += 1
                time.sleep(0.001)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(5)]
    for t in threads:
        t.start()
    time.sleep(0.3)
    done.set()
    for t in threads:
        t.join()
    assert min(counts) > max(counts) / 3


def test_an_error_passes_the_turn_on():
    turns = Turns(1)
    with pytest.raises(KeyError):
        with turns:
            raise KeyError
    with turns:
        pass
