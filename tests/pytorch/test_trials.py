"""A converted model runs the faster of two ways, and either gives its results."""

import time

import pytest

torch = pytest.importorskip("torch", reason="the extra torch")
import layoutkit as lk  # noqa: E402
import layoutkit.torch  # noqa: E402
from layoutkit.torch import kept, trials  # noqa: E402


def work(seconds):
    """Of one thread it is work that is timed, not waiting."""
    start = time.thread_time()
    while time.thread_time() < start + seconds:
        pass


def slow(result):
    def way():
        work(0.002)
        return result

    return way


@pytest.mark.parametrize("threads", [1, 2])
def test_the_faster_one_stays(monkeypatch, threads):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    for ways, winner in (((slow(0), lambda: 1), 1), ((lambda: 0, slow(1)), 0)):
        trial = trials.Trial()
        got = [trial.call(*ways) for _ in range(2 * trials.ROUNDS + 3)]
        assert got == [0, 1] * trials.ROUNDS + [winner] * 3 and trial.winner == winner


def test_one_that_fails_loses():
    def fails():
        raise NotImplementedError

    trial = trials.Trial()
    assert [trial.call(lambda: 0, fails) for _ in range(3)] == [0] * 3
    with pytest.raises(NotImplementedError):
        trials.Trial().call(fails, fails)


@pytest.mark.parametrize("faster", ["_ours", "_torchs"])
def test_results_and_packed_filters(monkeypatch, faster):
    slower = {"_ours": "_torchs", "_torchs": "_ours"}[faster]
    original = getattr(kept.Kept, slower)
    monkeypatch.setattr(kept.Kept, slower, lambda self, x: (work(0.02), original(self, x))[1])
    layer = layoutkit.torch.convert(torch.nn.Conv2d(4, 8, 3, padding="same", dilation=2).eval())
    x, before = torch.randn(2, 4, 6, 7), torch.get_num_threads()
    torch.set_num_threads(1)  # several may wait for each other on a busy machine
    with torch.no_grad():
        want = torch.nn.functional.conv2d(x, layer.weight, layer.bias, padding="same", dilation=2)
        for _ in range(2 * trials.ROUNDS + 1):
            torch.testing.assert_close(layer(x), want, rtol=1e-4, atol=1e-5)
        (trial,) = kept._kept[layer]._trials.values()
        assert trial.winner == (faster == "_torchs")
        assert len(kept._kept[layer]._convolutions) == (faster == "_ours")
        layer.weight.mul_(2)
        torch.testing.assert_close(layer(x) - want, want - layer.bias[:, None, None], rtol=1e-4, atol=1e-5)
    torch.set_num_threads(before)


def test_reproducible_is_ours(monkeypatch):
    monkeypatch.setattr(kept.Kept, "_torchs", None)
    layer = layoutkit.torch.convert(torch.nn.Conv2d(4, 8, 3).eval())
    before = lk.reproducible(True)
    try:
        with torch.no_grad():
            for _ in range(3):
                layer(torch.ones(1, 4, 5, 5))
    finally:
        lk.reproducible(before)
