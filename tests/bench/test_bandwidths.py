"""The bandwidths that rooflines are drawn with."""

from layoutkit.bench.bandwidths import bandwidths
from layoutkit.choosing import machine
from layoutkit.choosing.limits import Limits


class Copies(Limits):
    """A machine whose copies of up to 1 MB are twice as fast, and whose memory is small."""

    def __init__(self, most):
        self.most = most

    def copy(self, moved, threads):
        if moved > self.most:
            raise MemoryError
        return threads * (2e9 if moved <= 1 << 20 else 1e9)


def test_memory_and_caches(monkeypatch):
    monkeypatch.setattr(machine, "caches", lambda: {1: 1 << 15, 2: 1 << 20, 3: 1 << 25})
    found = bandwidths(Copies(1 << 30), [1, 2])
    assert [(b["threads"], b["level"], b["rate"]) for b in found] == [
        (1, "memory", 1.0), (1, "L3", 1.0), (1, "L2", 2.0), (2, "memory", 2.0), (2, "L3", 2.0), (2, "L2", 4.0),
    ]  # fmt: skip
    assert found[0]["bytes"] >= 4 << 25 and found[2]["bytes"] < 1 << 20, "beyond the caches, and within"
    assert [b["level"] for b in bandwidths(Copies(1 << 25), [1])] == ["L3", "L2"], "what there is memory for"


def test_they_are_measured():
    assert all(0.01 < b["rate"] < 1e5 for b in bandwidths(Limits(), [1]))
