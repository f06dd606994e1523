"""``torch.compile(backend="layoutkit")``: without gradients, with them, when parameters change, shapes that vary."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from layoutkit.torch.backend import backend  # noqa: E402


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.SiLU(), nn.Conv2d(16, 8, (3, 1), 1, "same", groups=4),
        nn.ConvTranspose2d(8, 8, 3, 2, 1, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip


def close(got, want):
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5 * max(1.0, float(want.abs().max())))


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()


@torch.no_grad()
def test_inference():
    model, x = network().eval(), torch.randn(2, 3, 16, 16)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    close(compiled(x), model(x))
    model[0].weight.mul_(2)  # constants are looked at again
    model[1].running_mean.add_(1)
    close(compiled(x), model(x))
    model[0].weight.data.mul_(2)
    close(compiled(x), model(x))
    for shape in ((3, 3, 16, 24), (4, 3, 20, 24), (5, 3, 12, 40)):  # from the second on, extents are symbols
        other = torch.randn(shape)
        close(compiled(other), model(other))


def test_training():
    model = network().train()
    reference = copy.deepcopy(model)
    compiled, x = torch.compile(model, backend=backend, fullgraph=True), torch.randn(2, 3, 16, 16)
    for each in (compiled, reference):
        each(x).square().sum().backward()
    largest = max(float(p.grad.abs().max()) for p in reference.parameters())
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5 * largest)
    close(model[1].running_var, reference[1].running_var)
    with torch.no_grad():  # statistics of the batch norm are updated
        close(compiled(x), reference(x))
    close(model[1].running_var, reference[1].running_var)


@torch.no_grad()
def test_what_stays_torchs():
    def function(x):
        return torch.sort(torch.relu(x) @ x.T + 1, dim=0).values.exp() * 2

    x = torch.randn(5, 6)
    close(torch.compile(function, backend=backend)(x), function(x))


def test_options():
    with pytest.raises(Exception, match="takes no options"):
        torch.compile(network().eval(), backend=backend, options={"speed": 2})(torch.randn(1, 3, 16, 16))


def test_models_made_in_inference_mode():
    with torch.inference_mode():
        model, x = torch.nn.Linear(4, 3).eval(), torch.randn(2, 4)
        compiled = torch.compile(model, backend=backend)
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
            model.weight.mul_(2)
