"""Tests of filters do not run what others have kept."""

from layoutkit.choosing.repeats import calls


def pytest_runtest_setup(item):
    calls.clear()
