"""The operators as torch's own: what traces, compiles, exports and casts knows them."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import layoutkit.torch as lkt  # noqa: E402
from layoutkit.torch import direct  # noqa: E402
from layoutkit.torch.dispatching import dispatches_to_kernel  # noqa: E402
from layoutkit.torch.kept import kept_convolution  # noqa: E402

OPERATORS = torch.ops.layoutkit


def models():
    """A model of torch's convolutions, the same of ours, and an input."""
    from torch import nn

    torch.manual_seed(0)
    theirs = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 2, groups=8, padding="same"), nn.Conv2d(8, 16, 1, stride=2),
        nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Flatten(2), nn.Conv1d(8, 4, 3),
    )  # fmt: skip
    return theirs, lkt.convert(copy.deepcopy(theirs)), torch.randn(2, 3, 8, 8)


ATTRIBUTES = ([2, 1], [1, 1, 0, 1], [1, 2], 2, True)
CASES = {
    "conv": ((2, 4, 7, 6), (6, 2, 3, 2), (6,)),
    "conv_transpose": ((2, 6, 4, 5), (6, 2, 3, 2), (4,), [7, 6]),
    "conv_weight": ((2, 4, 7, 6), (2, 6, 4, 5), [3, 2]),
}


@pytest.mark.parametrize(
    ("name", "last"), [("conv", False), ("conv", True), ("conv_transpose", True), ("conv_weight", True)]
)
def test_opcheck(name, last):
    tensors = [torch.randn(s, requires_grad=True) if isinstance(s, tuple) else s for s in CASES[name]]
    torch.library.opcheck(getattr(OPERATORS, name).default, (*tensors, *ATTRIBUTES[:-1], last))


@pytest.mark.parametrize(("mode", "form"), [
    ("real", torch.contiguous_format), ("fake", torch.channels_last), ("symbolic", torch.channels_last),
], ids=str)  # fmt: skip
def test_make_fx(mode, form):
    _, model, x = models()
    x = x.to(memory_format=form)
    given = dict(model.named_parameters()) | dict(model.named_buffers())
    graph = make_fx(lambda p, x: torch.func.functional_call(model, p, (x,)), tracing_mode=mode)(given, x)
    assert (
        sum(node.target in (OPERATORS.conv.default, OPERATORS.conv_transpose.default) for node in graph.graph.nodes)
        == 5
    )
    torch.testing.assert_close(graph(given, 2 * x), model(2 * x))


def test_make_fx_of_gradients():
    x, w = torch.randn(1, 3, 5, 5), torch.randn(2, 3, 3, 3)

    def gradients(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        return torch.autograd.grad(lkt.conv(x, w).square().sum(), (x, w))

    graph = make_fx(gradients)(x, w)
    torch.testing.assert_close(graph(2 * x, w), gradients(2 * x, w))


def test_symbolic_trace():
    _, model, x = models()
    graph = torch.fx.symbolic_trace(model)
    assert sum(node.target in (lkt.conv, lkt.conv_transpose) for node in graph.graph.nodes) == 5
    torch.testing.assert_close(graph(x), model(x))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_models_have_no_graph_breaks(dynamic):
    _, model, x = models()
    compiled = torch.compile(copy.deepcopy(model), backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for given in (x, torch.cat([x, x])):
        gradients = []
        for m in (model, compiled):
            m.zero_grad()
            y = m(given)
            y.square().sum().backward()
            gradients.append((y, *(p.grad.clone() for p in m.parameters())))
        torch.testing.assert_close(*gradients)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))


def test_export():
    _, model, x = models()
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("n")},))
    assert sum(node.target == OPERATORS.conv.default for node in program.graph.nodes) == 4
    for given in (x, torch.cat([x, x])):
        torch.testing.assert_close(program.module()(given), model(given))


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last], ids=str)
def test_tensors_of_meta_and_fake_ones_have_shapes_and_strides(form):
    x, w = torch.randn(2, 3, 6, 6).to(memory_format=form), torch.randn(4, 3, 3, 3)
    want = lkt.conv(x, w)
    got = lkt.conv(x.to("meta"), w.to("meta"))
    assert got.device.type == "meta" and got.shape == want.shape and got.stride() == want.stride()
    with torch._subclasses.FakeTensorMode():
        x = torch.empty(1, 3, 5, 5, device="cuda")
        with pytest.raises(TypeError, match="on cuda"):
            lkt.conv(x, x)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_what_stands_before_a_kernel_is_not_passed_by():
    x, w = torch.randn(1, 3, 5, 5), torch.randn(2, 3, 3, 3)
    torch.testing.assert_close(lkt.conv(torch._neg_view(x), w), lkt.conv(-x, w))
    torch.testing.assert_close(lkt.conv(x.to_sparse().to_dense(), w), lkt.conv(x, w))
    with torch.inference_mode():
        torch.testing.assert_close(lkt.conv(x, w), torch.nn.functional.conv2d(x, w), rtol=1e-4, atol=1e-4)

    class Named(torch.Tensor):
        pass

    assert type(lkt.conv(x.as_subclass(Named), w)) is Named


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(dtype):
    theirs, ours, x = models()
    results = []
    for model in (theirs, ours):
        with torch.autocast("cpu", dtype):
            y = model(x)
        y.square().sum().backward()
        results.append((y, *(p.grad for p in model.parameters())))
    for want, got in zip(*results):
        torch.testing.assert_close(got, want, rtol=0.1, atol=0.05 * want.detach().abs().max().item())


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("types", [
    (torch.float32,) * 3, (torch.float32, torch.bfloat16, torch.float32), (torch.float16, torch.float32, None),
    (torch.float64,) * 3, (torch.float64, torch.float32, None), (torch.float32, torch.float64, None),
], ids=str)  # fmt: skip
def test_autocast_of_each_type(rank, transposed, types):
    x, w, bias = (None if t is None else torch.ones(shape, dtype=t)
                  for shape, t in zip([(2, 4, *[5] * rank), (4, 4, *[3] * rank), (4,)], types))  # fmt: skip
    theirs = getattr(torch.nn.functional, f"conv{'_transpose' * transposed}{rank}d")
    with torch.autocast("cpu", torch.bfloat16):
        try:
            want = theirs(x, w, bias)
        except RuntimeError:
            with pytest.raises(TypeError):
                (lkt.conv_transpose if transposed else lkt.conv)(x, w, bias)
            return
        torch.testing.assert_close((lkt.conv_transpose if transposed else lkt.conv)(x, w, bias), want)


@pytest.mark.parametrize("size", [4, 40])
def test_below_autograd_there_is_no_graph(size):
    x, w = (torch.randn(s, requires_grad=True) for s in ((2, 8, size, size), (8, 8, 3, 3)))
    model = lkt.convert(torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()))
    calls = (lambda: lkt.conv(x, w), lambda: lkt.conv_transpose(x, w), lambda: model(x))
    for _ in range(3):
        assert all(call().requires_grad for call in calls)
        with torch._C._AutoDispatchBelowAutograd():
            assert not any(call().requires_grad for call in calls)


@pytest.mark.parametrize("size", [4, 40])
def test_inference_mode_takes_the_way_of_other_calls(size):
    x, w = torch.randn(2, 8, size, size), torch.randn(8, 8, 3, 3)
    layer = lkt.convert(torch.nn.Conv2d(8, 8, 3))
    parameters, want = list(layer.parameters()), [lkt.conv(x, w), lkt.conv_transpose(x, w), layer(x).detach()]
    with torch.inference_mode():
        for given in (x, x.clone()):
            assert dispatches_to_kernel(given, w) and kept_convolution(layer.eval(), given, *parameters) is not None
            assert size > 4 or direct.conv(given, w, None, 1, 0, 1, 1) is not None
            for got, like in zip((lkt.conv(given, w), lkt.conv_transpose(given, w), layer(given)), want):
                assert got.is_inference() and not got.requires_grad
                torch.testing.assert_close(got, like, rtol=1e-4, atol=1e-4)
        made = x.clone()
    with pytest.raises(RuntimeError, match="Inference tensors"):
        lkt.conv(made, w.requires_grad_())
    torch.testing.assert_close(lkt.conv(made, w.detach()), want[0], rtol=1e-4, atol=1e-4)
