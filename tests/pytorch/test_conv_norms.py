"""A convolution and what normalises it, by parts of the images, are what torch makes of them one after another."""

import copy
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the extra torch")

from torch import nn  # noqa: E402

import layoutkit.torch as lkt  # noqa: E402
from layoutkit._core.nests.norms.batch_norm import BatchNorm  # noqa: E402
from layoutkit.torch import chosen, conv_norms, norms  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::layoutkit.SlowPathWarning")  # of few channels
FORMATS = {4: [torch.contiguous_format, torch.channels_last], 5: [torch.contiguous_format, torch.channels_last_3d]}


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch):
    """Of small tensors parts are made, too."""
    monkeypatch.setattr(conv_norms, "last_level_cache", lambda: 4096)
    monkeypatch.setattr(conv_norms, "FILTER_PARTS", 0)


def force(monkeypatch, forward, backward):
    """Let ways be these from now on, when nothing was tried before; returns them."""
    made = []
    monkeypatch.setattr(conv_norms, "_ways", conv_norms.Cache(chosen.MAX_KEPT))
    monkeypatch.setattr(chosen, "_choices", chosen.Cache(chosen.MAX_KEPT))

    class Ways(conv_norms._Ways):
        def __init__(self, *args):
            super().__init__(*args)
            self.forward.winner, self.backward.winner = forward, backward
            made.append(self)

    monkeypatch.setattr(conv_norms, "_Ways", Ways)
    return made


@given(st.data(), st.sampled_from([2, 3]), st.sampled_from([0.0, math.inf, 1.0]), st.booleans(), st.booleans(),
       st.integers(0, 1), st.integers(0, 1), st.integers(1, 2))  # fmt: skip
def test_any_parts(data, rank, limit, affine, added, forward, backward, threads):
    draw, each = data.draw, st.integers(1, 2)
    groups, n = draw(each), draw(st.integers(2, 9) | st.sampled_from([65, 130]))
    channels, outputs = (groups * draw(st.sampled_from([1, 2, 9])) for _ in range(2))
    kernel, stride, dilation = ([draw(st.integers(1, most)) for _ in range(rank)] for most in (3, 2, 2))
    padding = [draw(st.integers(0, 2)) for _ in range(rank)]
    size = [draw(st.integers(1, 12 if n < 10 else 5)) for _ in range(rank)]
    assume(all(s + 2 * p > d * (k - 1) for s, p, d, k in zip(size, padding, dilation, kernel)))
    torch.manual_seed(draw(st.integers(0, 1000)))
    form, of_filter = (draw(st.sampled_from(FORMATS[rank + 2])) for _ in range(2))
    x = torch.randn(n, channels, *size).to(memory_format=form)
    w = torch.randn(outputs, channels // groups, *kernel).to(memory_format=of_filter)
    a = *map(tuple, (stride, padding, dilation)), groups
    convolves = getattr(nn.functional, f"conv{rank}d")
    z = convolves(x, w, None, *a)
    assume(z.numel() > z.shape[1])
    ours = [x, w, *([torch.rand(outputs) + 0.5, torch.randn(outputs)] if affine else [])]
    ours += [torch.randn_like(z)] if added else []
    wide = [t.double().requires_grad_() for t in ours]
    ours = [t.requires_grad_(draw(st.booleans())) if i < 2 else t.requires_grad_() for i, t in enumerate(ours)]
    wanted = [i for i, t in enumerate(ours) if t.requires_grad]
    parameters = (lambda t: t[2:4]) if affine else lambda t: [None, None]
    add = (lambda t: t[-1]) if added else lambda t: None
    mean, variance = torch.randn(outputs), torch.rand(outputs)
    moved = mean.double(), variance.double()
    before = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        made = force(patch, forward, backward)
        torch.set_num_threads(threads)
        try:
            y = conv_norms.conv_batch_norm_by_kernel(
                ours[0], ours[1], mean, variance, *parameters(ours), 0.2, 0.1, limit, add(ours), a
            )
            if y is None:  # a single part, or nothing that was asked for
                assume(False)
            dy = torch.randn_like(y)
            got = torch.autograd.grad(y, [ours[i] for i in wanted], dy) if wanted else ()
        finally:
            torch.set_num_threads(before)
    assert len(made) == 1 and len(made[0].steps) > 1 and y.stride() == z.stride()
    exact = convolves(wide[0], wide[1], None, *a)
    want = norms.by_torch(exact, *parameters(wide), None, None, 0.1, limit, add(wide))
    torch.testing.assert_close(y.double(), want, rtol=1e-3, atol=1e-3)
    nn.functional.batch_norm(exact.detach(), *moved, None, None, True, 0.2, 0.1)
    torch.testing.assert_close((mean.double(), variance.double()), moved, rtol=1e-3, atol=1e-3)
    if limit and ((want < 1e-2) & (want > 0) | ((want - limit).abs() < 1e-2)).any():
        return  # at the kinks of a ReLU rounding decides
    check(got, torch.autograd.grad(want, [wide[i] for i in wanted], dy.double()) if wanted else ())


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding="same", bias=False), nn.BatchNorm2d(16, affine=False), nn.ReLU6(inplace=True),
        nn.Sequential(nn.Conv2d(16, 16, 1, groups=4, bias=False), nn.BatchNorm2d(16, track_running_stats=False)),
        nn.Conv2d(16, 8, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 1, bias=False, padding_mode="reflect"),
        nn.BatchNorm2d(8),
    )  # fmt: skip


def step(model, x):
    """The output, all gradients and statistics of a step of training."""
    model.zero_grad()
    y = model(x)
    y.square().sum().backward()
    return [t.detach().clone() for t in (y, *(p.grad for p in model.parameters()), *model.buffers())]


def check(got, want, near=1e-3):
    """Equal but for roundings of the largest number of each tensor."""
    assert len(got) == len(want)
    for a, b in zip(got, want):
        torch.testing.assert_close(a.to(b.dtype), b, rtol=near, atol=near * (1 + b.abs().max().item()))


@pytest.mark.parametrize("form", FORMATS[4], ids=str)
@pytest.mark.parametrize("ways", [(1, 1), (0, 1), (1, 0), (None, None)])
def test_sequential(monkeypatch, form, ways):
    torch.manual_seed(0)
    theirs = network()
    ours, x = lkt.convert(copy.deepcopy(theirs)), torch.randn(70, 3, 12, 10).to(memory_format=form)
    made = force(monkeypatch, *ways)
    for _ in range(10 if ways == (None, None) else 2):
        check(step(ours, x), step(theirs, x))
    assert len(made) == 3 and all(len(w.steps) > 1 for w in made)  # all but those with a bias and another padding
    assert all(w.forward.winner is not None and w.backward.winner is not None for w in made)
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-3, atol=1e-3)
    assert len(made) == 3


def test_what_hooks_see_is_what_torch_computes(monkeypatch):
    made, x = force(monkeypatch, 1, 1), torch.randn(70, 3, 12, 10)
    for hooked in range(3):
        theirs, seen = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU()), []
        ours = lkt.convert(copy.deepcopy(theirs))
        for model in (theirs, ours):
            model[hooked].register_forward_hook(lambda module, given, y, seen=seen: seen.append(y.detach().clone()))
            model(x)
        torch.testing.assert_close(seen[1], seen[0], rtol=1e-4, atol=1e-4)
        assert len(made) == (hooked == 2)  # of the ReLU alone: what comes before it is one operation


class Doubling(lkt.Conv2d):
    def forward(self, input):
        return 2 * super().forward(input)


def test_modules_of_users_are_called(monkeypatch):
    made, x = force(monkeypatch, 1, 1), torch.randn(70, 3, 12, 10)
    first, norm = nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8, momentum=None)
    doubled = Doubling(3, 8, 3, bias=False)
    doubled.load_state_dict(first.state_dict())
    ours = lkt.convert(nn.Sequential(doubled, copy.deepcopy(norm)))
    check(step(ours, x), step(nn.Sequential(copy.deepcopy(doubled), norm), x))
    frozen = nn.Sequential(first, nn.BatchNorm2d(8), nn.ReLU())
    frozen[1].eval()
    ours = lkt.convert(copy.deepcopy(frozen))
    check(step(ours, x), step(frozen, x))
    with torch.no_grad():
        lkt.convert(nn.Sequential(copy.deepcopy(first), nn.BatchNorm2d(8)))(x)
    assert not made
    with pytest.raises(ValueError, match="channels"):
        lkt.convert(nn.Sequential(copy.deepcopy(first), nn.BatchNorm2d(8)))(torch.randn(70, 4, 12, 10))


def test_gradients_of_gradients(monkeypatch):
    force(monkeypatch, 1, 1)
    x, w = torch.randn(70, 3, 5, 4, dtype=torch.float64), torch.randn(5, 3, 3, 3, dtype=torch.float64)
    add = torch.rand(70, 5, 5, 4, dtype=torch.float64) + 3

    def penalty(norm, *tensors):
        tensors = [t.detach().requires_grad_() for t in tensors]
        y = norm(*tensors)
        first = torch.autograd.grad(y.square().sum(), tensors, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), tensors)

    def ours(x, w, add):
        return lkt.conv_batch_norm(x, w, None, None, padding=1, training=True, add=add, activation="relu")

    def theirs(x, w, add):
        z = nn.functional.conv2d(x, w, padding=1)
        return nn.functional.relu(nn.functional.batch_norm(z, None, None, training=True) + add)

    want = penalty(theirs, x, w, add)
    got = penalty(ours, *(t.float() for t in (x, w, add)))
    check(got, want, 1e-2)


@pytest.mark.parametrize("training", [True, False])
def test_the_function(monkeypatch, training):
    made = force(monkeypatch, 1, 1)
    x, w, add = torch.randn(70, 3, 8, 6), torch.randn(8, 3, 3, 3, requires_grad=True), torch.randn(70, 8, 4, 3)
    ones, zeros = torch.ones(8), torch.zeros(8)
    options = dict(stride=2, padding=1, training=training)
    got = lkt.conv_batch_norm(x, w, zeros.clone(), ones.clone(), ones, zeros, **options, add=add, activation="relu6")
    z = nn.functional.conv2d(x, w, None, 2, 1)
    want = nn.functional.relu6(nn.functional.batch_norm(z, zeros.clone(), ones.clone(), ones, zeros, training) + add)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    assert len(made) == training
    for wrong in (dict(activation="silu"), dict(stride=0), dict(stride=(1, 0)), dict(padding=-1), dict(groups=0)):
        with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
            lkt.conv_batch_norm(x, w, None, None, **options | wrong)
    with pytest.raises((RuntimeError, ValueError)):
        lkt.conv_batch_norm(x, w, None, None, **options, add=add[:, :3])


def test_graphs_of_a_model_are_whole(monkeypatch):
    made = force(monkeypatch, 1, 1)
    model, x = lkt.convert(network()), torch.randn(70, 3, 12, 10)
    other = copy.deepcopy(model)
    whole = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(whole(x), other(x), rtol=1e-3, atol=1e-3)
    assert len(made) == 3  # of the other


@pytest.mark.parametrize("last", [False, True])
def test_the_nest_takes_whole_units(last):
    import numpy as np

    x = np.random.default_rng(0).standard_normal((130, 3, 5, 1)[:4] if not last else (130, 1, 5, 3)).astype(np.float32)
    mean, variance = np.empty(3), np.empty(3)
    y = np.empty_like(x)
    norm = BatchNorm("f32", x, y, None, None, mean, variance, 1e-5, 2)
    unit = 1 if last else conv_norms.images_of_unit(5, 130)
    steps = range(0, 130, unit)
    for first in steps:
        norm.measure(first, min(first + unit, 130))
    norm.combine()
    for first in steps:
        end = min(first + unit, 130)
        norm.apply(first, end, y[first:end])
    over = (0, 1, 2) if last else (0, 2, 3)
    want = (x - x.mean(over, keepdims=True)) / np.sqrt(x.var(over, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)
    for first, end in ((-1, 4), (0, 131), (8, 4)) + (() if last else ((1, 64), (0, 63))):
        with pytest.raises(ValueError, match="images"):
            norm.measure(first, end)
    with pytest.raises(ValueError, match="for images"):
        norm.apply(0, unit, y[: unit + 1] if unit < 130 else y[:3])
    nothing = BatchNorm("f32", x[:0], y[:0], None, None, mean, variance, 1e-5, 2)
    nothing.run(), nothing.measure(0, 0), nothing.combine(), nothing.apply(0, 0)
    with pytest.raises(ValueError, match="images"):
        nothing.measure(0, 1)
    with pytest.raises(ValueError, match="nowhere"):
        BatchNorm("f32", x, None, None, None, mean, variance, 1e-5, 2).apply(0, unit)


def test_a_module_that_is_none_is_called_as_ever():
    model = lkt.convert(nn.Sequential(nn.ReLU()))
    model.add_module("none", None)
    with pytest.raises(TypeError, match="NoneType"):
        model(torch.zeros(2, 3, 4, 4))
