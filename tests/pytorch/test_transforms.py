"""The transforms of torch.func: gradients, batches, tangents, and those of one another, as torch's convolutions."""

import pytest

torch = pytest.importorskip("torch")

from torch.autograd import forward_ad  # noqa: E402
from torch.func import functional_call, grad, hessian, jvp, vmap  # noqa: E402
from torch.nn import functional  # noqa: E402

import layoutkit.torch as lt  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own tangents use it

CASES = {
    "conv": (lt.conv, functional.conv2d, (6, 2, 3, 3), {"stride": 2, "padding": 1, "groups": 2}),
    "transposed": (
        lt.conv_transpose,
        functional.conv_transpose2d,
        (4, 3, 3, 3),
        {"stride": 2, "padding": 1, "groups": 2, "output_padding": 1},
    ),
}


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def close(got, want):
    torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-11)


@pytest.fixture(params=CASES)
def case(request):
    torch.manual_seed(0)
    ours, theirs, shape, attributes = CASES[request.param]

    def of(function):
        return lambda x, w, b: function(x, w, b, **attributes)

    return of(ours), of(theirs), (drawn(2, 4, 7, 6), drawn(*shape), drawn(6))


def total(function):
    return lambda *tensors: function(*tensors).sin().sum()


def test_gradients(case):
    ours, theirs, tensors = case
    every = (0, 1, 2)
    close(grad(total(ours), every)(*tensors), grad(total(theirs), every)(*tensors))


def test_second_derivatives(case):
    ours, theirs, (x, w, b) = case
    x = x[:1, :, :2, :3].contiguous()
    close(*[hessian(lambda w, of=of: total(of)(x, w, b))(w) for of in (ours, theirs)])


@pytest.mark.parametrize("of", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_tangents(case, of):
    ours, theirs, tensors = case

    def at(function):
        def some(*given):
            every = list(tensors)
            for i, tensor in zip(of, given):
                every[i] = tensor
            return function(*every)

        points = tuple(tensors[i] for i in of)
        return jvp(some, points, tuple(p + 1 for p in points))

    close(at(ours), at(theirs))


@pytest.mark.parametrize("needs_grad", [False, True])
def test_dual_numbers(case, needs_grad):
    ours, theirs, (x, w, b) = case
    found = []
    for of in (ours, theirs):
        with forward_ad.dual_level():
            weight = w.clone().requires_grad_(needs_grad)
            y = forward_ad.unpack_dual(of(forward_ad.make_dual(x, x + 1), weight, b))
            found.append((y.primal.detach(), y.tangent.detach()))
    close(*found)


@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, None), (None, None, 0), (1, 2, 1), (0, 0, None)], ids=str)
def test_batches(case, axes):
    ours, theirs, tensors = case
    given = [t if axis is None else torch.stack([t, 2 * t, -t], axis) for t, axis in zip(tensors, axes)]
    close(vmap(ours, axes)(*given), vmap(theirs, axes)(*given))


def test_gradients_of_each_sample(case):
    ours, theirs, (x, w, b) = case
    samples = torch.stack([x, x + 1, -x])
    axes = (0, None, None)
    close(*[vmap(grad(total(of), (0, 1)), axes)(samples, w, b) for of in (ours, theirs)])


def test_models():
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.ConvTranspose2d(4, 2, 2, 2)
    ).double()
    x, found = drawn(2, 3, 8, 8), []
    for each in (model, lt.convert(model)):
        found.append(
            grad(lambda p, of=each: functional_call(of, p, (x,)).square().sum())(dict(each.named_parameters()))
        )
    close(found[1], found[0])
