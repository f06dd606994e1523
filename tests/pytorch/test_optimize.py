"""Whole models of torch as compiled programs: results, formats, several shapes, and what is refused."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import layoutkit.torch as lt  # noqa: E402


def network():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.SiLU(), nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.ReLU6(),
        nn.ConvTranspose2d(16, 8, 2, 2), nn.MaxPool2d(2), nn.GroupNorm(2, 8), nn.GELU(),
    )  # fmt: skip
    return model.eval()


def close(got, want):
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5 * float(want.abs().max()))


@pytest.mark.parametrize("channels_last", [False, True])
@torch.no_grad()
def test_network(channels_last):
    model, x = network(), torch.randn(2, 3, 20, 24)
    if channels_last:
        x = x.to(memory_format=torch.channels_last)
    want = model(x)
    optimized = lt.optimize(model, x)
    got = optimized(x)
    close(got, want)
    assert got.stride() == want.stride()
    assert "1 part(s)" in optimized.explain()
    steps = [line.split()[0] for line in optimized.explain().splitlines() if line.endswith(")")]
    assert steps.count("Conv") == 2  # norms and activations are within them
    assert not {"BatchNormalization", "Swish", "Clip"} & set(steps)
    other = torch.randn(1, 3, 18, 40)
    close(optimized(other), model(other))


class Structured(nn.Module):
    """Arguments by keyword, results in a dict, recurrent layers, a number among the arguments."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(8)
        self.first = nn.GRU(8, 5, 2, batch_first=True, bidirectional=True)
        self.second = nn.LSTM(10, 6, bias=False)

    def forward(self, x, times, shift=None):
        y, h = self.first(self.norm(x) * times)
        z, (_, c) = self.second(y if shift is None else y + shift)
        return {"z": z, "states": [h, c], "times": times}


@torch.no_grad()
def test_structures():
    torch.manual_seed(1)
    model = Structured().eval()
    optimized = lt.optimize(model)
    for args, kwargs in [
        ((torch.randn(2, 7, 8), 3), {}), ((torch.randn(3, 4, 8),), {"times": 2, "shift": torch.randn(10)}),
        ((torch.randn(2, 7, 8), 4), {}),
    ]:  # fmt: skip
        want, got = model(*args, **kwargs), optimized(*args, **kwargs)
        close(got["z"], want["z"])
        for a, b in zip(got["states"], want["states"], strict=True):
            close(a, b)
        assert got["times"] == want["times"]


class Sorting(nn.Module):
    """An operator without a translation between others."""

    def __init__(self):
        super().__init__()
        self.conv, self.linear = nn.Conv1d(4, 8, 3), nn.Linear(8, 8)

    def forward(self, x):
        y = torch.sort(torch.relu(self.conv(x)).exp() + 1, dim=-1).values
        return torch.sigmoid(self.linear(y.transpose(1, 2)) * 2), y


@torch.no_grad()
def test_what_stays_torchs():
    torch.manual_seed(2)
    model, x = Sorting().eval(), torch.randn(2, 4, 9)
    optimized = lt.optimize(model, x)
    for got, want in zip(optimized(x), model(x), strict=True):
        close(got, want)
    assert "2 part(s)" in optimized.explain()
    assert "torch runs aten.sort" in optimized.explain()


@torch.no_grad()
def test_random_numbers_are_drawn_anew():
    class Noisy(nn.Module):
        def forward(self, x):
            return x + torch.rand(3)

    optimized = lt.optimize(Noisy().eval(), torch.zeros(3))
    assert not torch.equal(optimized(torch.zeros(3)), optimized(torch.zeros(3)))


@torch.no_grad()
def test_buffers_that_change():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            self.count.add_(1)
            return torch.relu(self.linear(x)) * self.count + 1

    torch.manual_seed(3)
    model, x = Counting().eval(), torch.randn(2, 4)
    ours = copy.deepcopy(model)
    optimized = lt.optimize(ours, x)
    assert ours.count == 0
    for _ in range(3):
        close(optimized(x), model(x))
        assert ours.count == model.count


@torch.no_grad()
def test_narrow_products():
    model, x = network(), torch.randn(1, 3, 32, 32)
    want = model(x)
    got = lt.optimize(model, x, dtype=torch.bfloat16)(x)
    assert got.dtype == torch.float32
    assert 1e-6 < float((got - want).abs().max() / want.abs().max()) < 0.05


@torch.no_grad()
def test_parameters_are_constants_and_copies_run():
    model, x = network(), torch.randn(1, 3, 8, 8)
    want = model(x)
    optimized = lt.optimize(model, x)
    assert not list(optimized.parameters())
    for other in (copy.deepcopy(optimized), pickle.loads(pickle.dumps(optimized))):
        close(other(x), want)
    model[0].weight.zero_()
    close(optimized(x), want)


def test_gradients_are_refused():
    optimized = lt.optimize(network())
    with pytest.raises(RuntimeError, match="no gradients"):
        optimized(torch.randn(1, 3, 8, 8, requires_grad=True))
    assert not optimized(torch.randn(1, 3, 8, 8)).requires_grad


def test_models_that_cannot_be_exported():
    class Deciding(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(RuntimeError, match="takes it in pieces"):
        lt.optimize(Deciding().eval(), torch.ones(3))


def test_calls_that_torch_refuses_have_its_errors():
    optimized = lt.optimize(network())
    with pytest.raises(RuntimeError, match="to have 3 channels, but got 2 channels"):
        optimized(torch.zeros(1, 2, 8, 8))
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        optimized()
    with pytest.raises(TypeError, match="an argument is of ndarray: expected tensors"):
        optimized(torch.zeros(1, 3, 8, 8).numpy())


def test_arguments():
    with pytest.raises(TypeError, match=r"expected a torch\.nn\.Module, got function"):
        lt.optimize(test_arguments)
    with pytest.raises(ValueError, match=r"model\.eval"):
        lt.optimize(network().train())
    with pytest.raises(ValueError, match=r"dtype torch\.int8"):
        lt.optimize(network(), dtype=torch.int8)
    with pytest.raises(TypeError, match="meta"):
        lt.optimize(network(), torch.zeros(1, 3, 8, 8, device="meta"))


class Function(nn.Module):
    """A model of a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def compiled(function):
    return lt.optimize(Function(function).eval())


def same(got, want):
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5, equal_nan=True)


@torch.no_grad()
def test_numbers_of_other_types_are_other_arguments():
    optimized, x = compiled(torch.mul), torch.arange(3)
    for number in (1, True, 1.0, 0, -0.0, float("nan")):
        same(optimized(x, number), x * number)


@torch.no_grad()
def test_results_that_are_constants_may_be_written_to():
    optimized = compiled(lambda x: (x + 1, torch.arange(3)))
    for _ in range(2):
        found = optimized(torch.zeros(2))[1]
        assert found.tolist() == [0, 1, 2]
        found += 5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64, torch.uint16])
@torch.no_grad()
def test_arguments_without_a_translation_are_passed_on(dtype):
    x, other = torch.ones(3), torch.ones(3).to(dtype)
    y, z = compiled(lambda x, other: (x + 1, other))(x, other)
    same(y, x + 1)
    assert z is other
    same(compiled(lambda x, other: x + 1)(x, other), x + 1)


@torch.no_grad()
def test_all_results_of_an_operator():
    x = torch.randn(1, 2, 6, 6)
    for function in (
        lambda x: nn.functional.max_pool2d(x, 2, return_indices=True),
        lambda x: torch.native_dropout(x, 0.5, False),
        lambda x: torch.native_layer_norm(x, (6,), None, None, 1e-5),
    ):
        for got, want in zip(compiled(function)(x), function(x), strict=True):
            same(got, want)


@torch.no_grad()
def test_autocast():
    model, x = nn.Linear(4, 4).eval(), torch.randn(2, 4)
    optimized = lt.optimize(model)
    for enabled in (False, True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            assert optimized(x).dtype == model(x).dtype


def test_threads():
    model = nn.Linear(4, 4).eval().requires_grad_(False)
    optimized = lt.optimize(model)
    inputs = [torch.randn(n, 4) for n in range(1, 4)] * 3
    wanted = [model(x) for x in inputs]  # torch.export changes a model while it looks at it
    with ThreadPoolExecutor(4) as pool:
        for got, want in zip(pool.map(optimized, inputs), wanted):
            same(got, want)
