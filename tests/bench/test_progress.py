"""Progress: a bar on terminals, a line a minute elsewhere."""

import io
import sys
from types import SimpleNamespace

import pytest

from layoutkit.bench import progress

ITEMS = [SimpleNamespace(title=f"problem {i}") for i in range(10)]


class Stream(io.StringIO):
    """Standard error, maybe a terminal, whose reader may have gone."""

    def __init__(self, terminal=False, gone=False):
        super().__init__()
        self._terminal, self._gone = terminal, gone

    def isatty(self):
        return self._terminal

    def write(self, text):
        if self._gone:
            raise BrokenPipeError
        return super().write(text)


@pytest.fixture
def stderr(monkeypatch):
    def put(stream):
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    return put


@pytest.mark.parametrize("rich", [True, False])
def test_a_bar_on_a_terminal(rich, stderr, monkeypatch):
    if not rich:
        monkeypatch.setattr(progress, "HAS_RICH", False)
    stream = stderr(Stream(terminal=True))
    assert list(progress.track(ITEMS, len(ITEMS))) == ITEMS
    assert ITEMS[0].title in stream.getvalue()


def lines(stream, seconds):
    """What is told of items that take so long each."""
    now = iter(seconds * i for i in range(100))
    assert list(progress.track(ITEMS, len(ITEMS), lambda: next(now))) == ITEMS
    return stream.getvalue().splitlines()


def test_elsewhere_a_line_a_minute(stderr):
    assert lines(stderr(Stream()), 5) == [], "less than a minute"
    assert lines(stderr(Stream()), 25) == ["2/10 after 1 min: problem 2", "5/10 after 2 min: problem 5",
                                           "8/10 after 4 min: problem 8"]  # fmt: skip
    assert len(lines(stderr(Stream()), 3600)) == len(ITEMS)


def test_nobody_listens(stderr):
    assert lines(stderr(Stream(gone=True)), 100) == []
    stderr(None)
    assert list(progress.track(ITEMS, len(ITEMS))) == ITEMS
