"""Batch normalisation and pooling as functions: those of torch.nn.functional, by our kernels where large."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.nn import functional as theirs  # noqa: E402

import layoutkit.torch as lkt  # noqa: E402
from layoutkit.torch import functional  # noqa: E402

SIZES = "FROM_PLAIN", "FROM_POOLED"
NAMES = "max_pool2d", "max_pool3d", "avg_pool2d", "avg_pool3d"


@pytest.fixture(params=["by torch", "by our kernels"], autouse=True)
def way(request, monkeypatch):
    if request.param == "by our kernels":
        for name in SIZES:
            monkeypatch.setattr(functional, name, 0)
        return True
    return False


def outcome(function, x, *args, **attributes):
    """The result and the gradient of `x`, or the type of the error.

    The result alone where a window is of padding alone: of its gradient torch 2.13 writes beyond the memory of `x`.
    """
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_(x.is_floating_point())
    try:
        y = function(x, *args, **attributes)
    except Exception as error:
        return type(error)
    if not y.numel() or y.isneginf().any():
        return y
    return y, torch.autograd.grad(y, x, torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape))[0]


def same(got, want):
    if isinstance(want, type):
        assert got is want
        return
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


@st.composite
def pooled(draw):
    name = draw(st.sampled_from(NAMES))
    rank = int(name[-2])
    torch.manual_seed(draw(st.integers(0, 99)))
    shape = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(0, 5)) > 0)]  # without images
    x = torch.randn(*shape, draw(st.sampled_from((1, 3, 17))), *(draw(st.integers(1, 7)) for _ in range(rank)))
    x = x.to(draw(st.sampled_from((torch.float32, torch.float32, torch.float64))))
    if draw(st.booleans()):
        x = x.movedim(-1, 0).contiguous().movedim(0, -1)

    def number(lo, hi):
        return (
            draw(st.integers(lo, hi)) if draw(st.booleans()) else tuple(draw(st.integers(lo, hi)) for _ in range(rank))
        )

    a = {"kernel_size": number(1, 3), "padding": number(0, 1), "ceil_mode": draw(st.booleans())}
    if draw(st.booleans()):
        a["stride"] = number(1, 3)
    if name.startswith("max"):
        a["dilation"] = number(1, 2)
    else:
        a |= {"count_include_pad": draw(st.booleans()), "divisor_override": draw(st.sampled_from((None, None, 3)))}
    return name, x, a


@given(pooled())
def test_any_pooling(drawn):
    name, x, attributes = drawn
    same(outcome(getattr(lkt, name), x, **attributes), outcome(getattr(theirs, name), x, **attributes))


@given(st.integers(0, 99), st.integers(1, 3), st.sampled_from((1, 5)), st.booleans(), st.booleans(), st.booleans(),
       st.sampled_from((None, "relu", "relu6")), st.sampled_from((None, "alike", "one", "wider")))  # fmt: skip
def test_any_batch_norm(seed, rank, channels, training, affine, runs, activation, added):
    torch.manual_seed(seed)
    x = torch.randn(int(torch.randint(1, 4, ())), channels, *torch.randint(1, 5, (rank,)).tolist())
    add = {None: None, "alike": torch.randn_like(x), "one": torch.randn(1), "wider": torch.randn(x.shape).double()}[
        added
    ]

    def composed(x, *args, **kwargs):
        y = theirs.batch_norm(x, *args, **kwargs)
        y = y if add is None else y + add
        return y if activation is None else getattr(theirs, activation)(y)

    parameters = {"weight": torch.rand(channels), "bias": torch.randn(channels)} if affine else {}
    results = []
    for f, more in ((composed, {}), (lkt.batch_norm, {"add": add, "activation": activation})):
        running = [torch.arange(channels).float(), 1 + torch.arange(channels)] if runs or not training else [None, None]
        running = [None if t is None else t.float() for t in running]
        found = outcome(f, x, *running, training=training, momentum=0.3, **parameters, **more)
        results.append((found, running))
    (want, moved), (got, ours) = results
    same(got, want)
    for a, b in zip(ours, moved):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", [None, "relu", "relu6"])
def test_gradients_of_batch_norm_with_a_summand(activation):
    torch.manual_seed(3)
    x, add, w, dy = (torch.randn(shape) for shape in ((4, 6, 5, 5), (4, 6, 5, 5), (6,), (4, 6, 5, 5)))
    results = []
    for of in (torch.float64, torch.float32):
        x_, add_, w_ = (t.to(of).requires_grad_() for t in (x, add, w))
        if of == torch.float64:
            y = theirs.batch_norm(x_, None, None, w_, None, True) + add_
            y = y if activation is None else getattr(theirs, activation)(y)
        else:
            y = lkt.batch_norm(x_, None, None, w_, None, True, add=add_, activation=activation)
        y.backward(dy.to(of))
        results.append([t.double() for t in (y.detach(), x_.grad, add_.grad, w_.grad)])
    for got, want in zip(*results[::-1]):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    for wrong in ("gelu", ["relu"]):
        with pytest.raises(ValueError, match=r"activation .*: expected None, 'relu' or 'relu6'"):
            lkt.batch_norm(x, None, None, training=True, activation=wrong)


@pytest.mark.parametrize("given", ["input", "weight", "kernel", "class"])
def test_what_does_not_fit_is_told_by_torch(given):
    x = torch.randn(2, 3, 6, 6)
    with pytest.raises((TypeError, ValueError, RuntimeError)) as error:
        if given == "input":
            theirs.max_pool2d([1], 2)
        elif given == "weight":
            theirs.batch_norm(x, None, None, torch.ones(4), None, True)
        elif given == "kernel":
            theirs.avg_pool2d(x, "2")
        else:
            theirs.batch_norm(x[:1, :, :1, :1], None, None, training=True)
    with pytest.raises(type(error.value)):
        if given == "input":
            lkt.max_pool2d([1], 2)
        elif given == "weight":
            lkt.batch_norm(x, None, None, torch.ones(4), None, True)
        elif given == "kernel":
            lkt.avg_pool2d(x, "2")
        else:
            lkt.batch_norm(x[:1, :, :1, :1], None, None, training=True)


def network(f):
    def run(x):
        y = f.max_pool2d(f.batch_norm(x, None, None, training=True), 2)
        return f.avg_pool2d(y, 2).square().sum()

    return run


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_compiled_traced_transformed_and_of_subclasses():
    torch.manual_seed(0)
    x, ours, want = torch.randn(2, 3, 8, 8), network(lkt), network(theirs)

    class Named(torch.Tensor):
        pass

    close = {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(torch.compile(ours, backend="eager", fullgraph=True)(x), want(x), **close)
    torch.testing.assert_close(torch.func.grad(ours)(x), torch.func.grad(want)(x), **close)
    torch.testing.assert_close(torch.func.vmap(ours)(x[None]), torch.func.vmap(want)(x[None]), **close)
    torch.testing.assert_close(torch.fx.symbolic_trace(ours)(x), want(x), **close)
    assert type(lkt.max_pool2d(x.as_subclass(Named), 2)) is Named
    with torch.inference_mode():
        torch.testing.assert_close(ours(x), want(x), **close)
    assert lkt.max_pool2d(x.to("meta"), 2).shape == (2, 3, 4, 4)


def test_graphs_of_any_batch(way):
    model = lkt.convert(torch.nn.Sequential(torch.nn.BatchNorm2d(3), torch.nn.MaxPool2d(2), torch.nn.AvgPool2d(2)))
    x = torch.randn(3, 3, 8, 8)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("n", min=2)},))
    assert way == ("layoutkit.batch_norm.default" in {str(node.target) for node in program.graph.nodes})
    for batch in (x, torch.randn(4096, 3, 8, 8)):
        torch.testing.assert_close(program.module()(batch), model(batch), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "options", [{}, {"affine": False}, {"momentum": None}, {"track_running_stats": False}], ids=str
)
def test_modules_keep_the_statistics_of_torch(options):
    plain = torch.nn.BatchNorm2d(3, **options)
    ours = lkt.convert(torch.nn.BatchNorm2d(3, **options))
    for module in (plain, ours):
        for x in (torch.linspace(-1, 2, 216).reshape(2, 3, 6, 6), torch.arange(54.0).reshape(2, 3, 3, 3)):
            module(x)
    torch.testing.assert_close(dict(ours.named_buffers()), dict(plain.named_buffers()))
    for wrong in (torch.ones(1, 3, 1, 1), torch.ones(2, 3, 4), torch.ones(3), torch.ones(2, 4, 3, 3)):
        with pytest.raises((ValueError, RuntimeError)) as error:
            plain(wrong)
        with pytest.raises(type(error.value)):
            ours(wrong)


@pytest.mark.parametrize("function", ["batch_norm", "max_pool2d", "avg_pool2d"])
def test_arguments_that_torch_refuses_or_converts(function):
    """Whatever the size of the tensor: eps, momentum and flags of other values and types, statistics of inference."""
    ways = {
        "batch_norm": [
            dict(eps=0.0), dict(eps=-1.0), dict(eps=None), dict(training=1), dict(momentum=None), dict(momentum=1),
            dict(training=False, eps=0.0),
        ],
        "max_pool2d": [dict(kernel_size=2, ceil_mode=value) for value in ("x", None, 1)],
        "avg_pool2d": [dict(kernel_size=3, padding=1, count_include_pad=0), dict(kernel_size=2, ceil_mode="x")],
    }  # fmt: skip
    x = torch.randn(2, 3, 6, 7)

    def of_inference():
        with torch.inference_mode():
            return torch.ones(3), torch.ones(3)

    statistics = [
        lambda: (None, None), lambda: (torch.ones(3), torch.ones(3)), of_inference,
        lambda: (torch.zeros(1).expand(3), torch.ones(3)), lambda: (torch.ones(3, requires_grad=True), torch.ones(3)),
    ]  # fmt: skip
    for way in ways[function]:
        for made in statistics if function == "batch_norm" else [None]:
            results = []
            for module in (theirs, lkt):
                given = dict(way)
                if made is not None:
                    given = dict(zip(("running_mean", "running_var"), made()), training=True) | given
                results.append(outcome(getattr(module, function), x, **given))
            same(results[1], results[0])
