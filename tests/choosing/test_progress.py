"""Progress: a line on a terminal after two seconds, gone at the end, and nothing elsewhere."""

import io
import sys

import numpy as np
import pytest

import layoutkit as lk
from layoutkit.choosing import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())  # by the test itself: pytest puts its own between fixtures and tests
    return sys.stderr


@pytest.fixture
def clock(monkeypatch):
    """Each look at the clock is a second later."""
    now = iter(range(1000))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(now)))


def test_nothing_is_said_of_what_is_short_and_elsewhere(monkeypatch):
    screen = terminal(monkeypatch)
    with progress.shown("a"):
        progress.step("b")
    progress.step("outside")
    assert screen.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(progress, "AFTER_SECONDS", 0.0)
    with progress.shown("a"):
        progress.step("b")
    assert sys.stderr.getvalue() == ""


def test_what_is_long_is_shown_and_cleared(monkeypatch, clock):
    screen = terminal(monkeypatch)
    with progress.shown("planning"):
        for i in range(4):
            with progress.shown("inner"):
                progress.step(f"part {i}")
    shown = [line.strip() for line in screen.getvalue().split("\r") if line.strip()]
    assert shown == [f"planning: {i + 1} s, step {i + 1}, part {i}" for i in (1, 2, 3)]
    assert screen.getvalue().endswith(" \r") and max(map(len, screen.getvalue().split("\r"))) < 200


def test_a_terminal_that_is_gone_stops_nothing(monkeypatch, clock):
    gone = Terminal()
    monkeypatch.setattr(sys, "stderr", gone)
    with progress.shown("a"):
        gone.close()
        for _ in range(4):
            progress.step("b")
    with progress.shown("closed"):
        progress.step("c")


def test_measuring_on_first_use_says_which_problem(cache_dir, monkeypatch):
    screen = terminal(monkeypatch)
    monkeypatch.setattr(progress, "AFTER_SECONDS", 0.0)
    before = lk.tuning("measure")
    try:
        with progress.shown("tuning"):
            lk.reorder(np.zeros((1, 33, 57, 31), np.float32), "NCHW", "NHWC", threads=1)
    finally:
        lk.tuning(before)
    assert "measuring reorder 1x33x57x31 NCHW>NHWC x32 t1" in screen.getvalue()
