"""In training each convolution is computed by the faster of two ways, and any mixture of them gives torch's results."""

import copy
import itertools

import pytest

torch = pytest.importorskip("torch", reason="the extra torch")
import layoutkit as lk  # noqa: E402
import layoutkit.torch as lkt  # noqa: E402
from layoutkit.memory.pool import pool  # noqa: E402
from layoutkit.torch import chosen, direct, kernels, modules, small, trials  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_was_tried(monkeypatch):
    monkeypatch.setattr(chosen, "_choices", chosen.Cache(chosen.MAX_KEPT))
    monkeypatch.setattr(direct, "TINY_FLOPS", 0)  # for which there is nothing to try
    small.calls.kept.clear()


def layers(**attributes):
    theirs = torch.nn.Conv2d(4, 6, 3, **{"stride": 2, "padding": (1, 0), "groups": 2} | attributes)
    return theirs, lkt.convert(copy.deepcopy(theirs))


def results(layer, x):
    """The output and all gradients."""
    x = x.detach().requires_grad_()
    y = layer(x)
    return y, *torch.autograd.grad(y.square().sum(), (x, *layer.parameters()))


def count(monkeypatch):
    """The names of our kernels that are called from now on."""
    called = []
    for name in ("conv", "conv_transpose", "conv_weight"):
        kernel = getattr(kernels, name)
        monkeypatch.setattr(kernels, name, lambda *args, name=name, f=kernel: (called.append(name), f(*args))[1])
    return called


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last], ids=str)
def test_any_mixture_gives_torchs_results(monkeypatch, form):
    called = count(monkeypatch)
    theirs, ours = layers()
    x = torch.randn(2, 4, 8, 7).to(memory_format=form)
    want = results(theirs, x)
    results(ours, x)
    (choice,) = chosen._choices.values()
    for winners in itertools.product((0, 1), repeat=3):
        for trial, winner in zip((choice.forward, choice.input, choice.weight), winners):
            trial.winner = winner
        called.clear()
        torch.testing.assert_close(results(ours, x), want, rtol=1e-4, atol=1e-4)
        names = "conv", "conv_transpose", "conv_weight"
        assert sorted(called) == sorted(name for name, winner in zip(names, winners) if not winner)
        assert choice.is_torchs() == all(winners)
    assert "Convolution" in type(ours(x.requires_grad_()).grad_fn).__name__  # nothing of Python is left


def test_they_take_turns(monkeypatch):
    called = count(monkeypatch)
    theirs, ours = layers()
    x = torch.randn(2, 4, 8, 7)
    want = results(theirs, x)
    for _ in range(2 * trials.ROUNDS):
        torch.testing.assert_close(results(ours, x), want, rtol=1e-4, atol=1e-4)
    assert sorted(called) == sorted(("conv", "conv_transpose", "conv_weight") * trials.ROUNDS)
    (choice,) = chosen._choices.values()
    assert None not in (choice.forward.winner, choice.input.winner, choice.weight.winner)


def test_gradients_that_never_come_decide_nothing():
    theirs, ours = layers()
    x = torch.randn(2, 4, 8, 7)
    ours(x)
    (choice,) = chosen._choices.values()
    choice.forward.winner = 1
    for _ in range(chosen.PATIENCE - 1):
        assert "Chosen" in type(ours(x).grad_fn).__name__
    ours(x).sum().backward()  # here is one
    for _ in range(chosen.PATIENCE):
        assert "Chosen" in type(ours(x).grad_fn).__name__
    choice.weight.winner = 0  # the way that a gradient lost stays
    for _ in range(chosen.PATIENCE):
        assert "Chosen" in type(ours(x).grad_fn).__name__
    choice.weight.winner = None
    assert "Chosen" not in type(ours(x).grad_fn).__name__
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("training", [True, False])
def test_tiny_layers_try_nothing(monkeypatch, training):
    monkeypatch.setattr(direct, "TINY_FLOPS", 1 << 16)
    theirs, ours = (layer.train(training) for layer in layers())
    x = torch.randn(2, 4, 8, 7)
    with torch.set_grad_enabled(training):
        ours(x)
        for name in ("chosen_convolution", "kept_convolution"):
            monkeypatch.setattr(modules, name, lambda *_: pytest.fail("it is chosen again"))
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)
        with torch.no_grad():  # other weights
            for layer in (theirs, ours):
                layer.weight.mul_(2)
                layer.bias.data = layer.bias.data + 1
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)
    for a, b in zip(results(ours, x), results(theirs, x)):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_gradients_of_gradients():
    theirs, ours = layers()
    x = torch.randn(2, 4, 8, 7)
    found = []
    for layer in (theirs, ours, ours):
        given = x.detach().requires_grad_()
        (dx,) = torch.autograd.grad(layer(given).pow(3).sum(), given, create_graph=True)
        found.append(torch.autograd.grad(dx.square().sum(), (given, layer.weight)))
    for got in found[1:]:
        torch.testing.assert_close(got, found[0], rtol=1e-3, atol=1e-3)


def test_other_strides_lose(monkeypatch):
    theirs, ours = layers()
    x = torch.randn(2, 4, 8, 7)
    monkeypatch.setitem(chosen.TORCHS, 2, lambda *args: theirs(x).detach().to(memory_format=torch.channels_last))
    for _ in range(3):
        y = ours(x)
    assert y.is_contiguous() and next(iter(chosen._choices.values())).forward.winner == 0


def test_nothing_is_tried_where_bits_must_not_change():
    _, ours = layers()
    x, before = torch.randn(2, 4, 8, 7), lk.reproducible(True)
    try:
        assert torch.equal(ours(x), ours(x))
    finally:
        lk.reproducible(before)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(ours(x), ours(x))
    finally:
        torch.use_deterministic_algorithms(False)
    ours.double()(x.double())
    assert not chosen._choices


@pytest.mark.parametrize("change", ["stride", "weight", "input"])
def test_errors_are_those_of_the_function(change):
    _, ours = layers()
    x = torch.randn(2, 4, 8, 7)
    if change == "stride":
        ours.stride = [2, 2]
        assert ours(x).shape == (2, 6, 4, 3)
        return
    if change == "weight":
        ours.weight = torch.nn.Parameter(ours.weight.detach().double())
    else:
        x = x[:, :3]
    with pytest.raises((TypeError, ValueError), match=r"layoutkit\.torch\.conv2d"):
        ours(x)


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last], ids=str)
def test_large_results_return_to_the_pool(form):
    x = torch.randn(2, 1, 512, 1024).to(memory_format=form)
    w = torch.randn(2, 1, 1, 1, requires_grad=True)
    y = lkt.conv(x, w)
    assert y.is_contiguous(memory_format=form) and not y._is_view()
    before = pool.free_bytes
    z = torch.relu_(y)
    torch.testing.assert_close(z, torch.relu(torch.nn.functional.conv2d(x, w)))
    z.sum().backward()
    assert w.grad is not None
    del y, z
    assert pool.free_bytes >= before + (8 << 20)
