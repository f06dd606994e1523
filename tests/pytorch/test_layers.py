"""Batch normalisation and pooling: their operators as torch's own, and converted modules beside those of torch."""

import copy
import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.modules.module import register_module_forward_hook  # noqa: E402

import layoutkit.torch as lkt  # noqa: E402
from layoutkit.torch import functional, norms, pools  # noqa: E402

OPERATORS = torch.ops.layoutkit
TYPES = {torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 2e-2}
FORMATS = {3: [torch.contiguous_format], 4: [torch.contiguous_format, torch.channels_last],
           5: [torch.contiguous_format, torch.channels_last_3d]}  # fmt: skip


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch):
    """Small tensors, too, are computed here."""
    for name in ("FROM_PLAIN", "FROM_POOLED"):
        monkeypatch.setattr(functional, name, 0)


@st.composite
def tensors(draw, dtypes, pixels, channels=(1, 2, 3, 40, 150)):
    """A tensor of any rank and format, or a view of one."""
    shape = [draw(st.integers(1, 3)), draw(st.sampled_from(channels)), *draw(st.lists(pixels, min_size=1, max_size=3))]
    torch.manual_seed(draw(st.integers(0, 1000)))
    x = (2 * torch.randn(shape) + draw(st.sampled_from([0, 3]))).to(draw(st.sampled_from(dtypes)))
    x = x.contiguous(memory_format=draw(st.sampled_from(FORMATS[x.dim()])))
    return x[..., 1:] if draw(st.booleans()) and x.shape[-1] > 1 else x


@given(tensors(list(TYPES), st.integers(1, 9)), st.booleans(), st.booleans(), st.sampled_from([0.0, math.inf, 1.0]),
       st.sampled_from([None, torch.contiguous_format, torch.preserve_format]), st.integers(1, 2))  # fmt: skip
def test_any_batch_norm(x, fixed, affine, limit, added, threads):
    c, near = x.shape[1], TYPES[x.dtype]
    add = [] if added is None else [torch.randn_like(x, memory_format=added)]
    mean, variance = (torch.randn(c), torch.rand(c) + 0.5) if fixed else (None, None)
    parameters = [torch.rand(c) + 0.5, torch.randn(c)] if affine else []
    ours, wide = ([t.clone().to(to).requires_grad_() for t in (x, *parameters, *add)] for to in (None, torch.float64))
    ours[0] = x.requires_grad_()
    split = 1 + len(parameters)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    pad = [None] * (2 - len(parameters))
    if not fixed and x.numel() == c:
        return  # torch refuses it
    y = OPERATORS.batch_norm(*ours[:split], *pad, mean, variance, 0.1, limit, *ours[split:])[0]
    statistics = [None if t is None else t.double() for t in (mean, variance)]
    want = norms.by_torch(*wide[:split], *pad, *statistics, 0.1, limit, *wide[split:])
    torch.testing.assert_close(y.double(), want, rtol=near, atol=near)
    assert y.stride() == nn.functional.batch_norm(x, torch.zeros(c), torch.ones(c)).stride()
    dy = torch.randn_like(x)
    got = torch.autograd.grad(y, ours, dy)
    torch.set_num_threads(before)
    # At the kinks of a ReLU rounding decides.
    kinks = ((want < 10 * near) | ((want - limit).abs() < 10 * near)) if limit else torch.zeros_like(want, dtype=bool)
    if kinks.any():
        return
    for a, b in zip(got, torch.autograd.grad(want, wide, dy.double())):
        torch.testing.assert_close(a.double(), b, rtol=near, atol=near * (1 + b.abs().max().item()))


@given(
    tensors([torch.float32, torch.float64, torch.bfloat16, torch.float16], st.integers(3, 12), (1, 3, 17)), st.data()
)
def test_any_pooling(x, data):
    rank = x.dim() - 2
    kernel, stride, dilation = ([data.draw(st.integers(1, 3)) for _ in range(rank)] for _ in range(3))
    padding, flags = [data.draw(st.integers(0, k // 2)) for k in kernel], [data.draw(st.booleans()) for _ in range(2)]
    x = x.requires_grad_()
    calls = [(OPERATORS.max_pool, pools.max_by_torch, (kernel, stride, padding, dilation, flags[0])),
             (OPERATORS.avg_pool, pools.avg_by_torch, (kernel, stride, padding, *flags))]  # fmt: skip
    near = {"rtol": 3e-2, "atol": 3e-2} if x.dtype in (torch.bfloat16, torch.float16) else {}
    for ours, theirs, attributes in calls:
        try:
            want = theirs(x, *attributes)
        except RuntimeError:  # no outputs
            continue
        got = ours(x, *attributes)
        torch.testing.assert_close(got, want, **near)
        if rank < 3:  # of three torch loses channels_last in some
            assert got.stride() == want.stride()
        if want.isneginf().any():  # the gradient of a window of padding alone goes anywhere in torch, beyond memory too
            continue
        dy = torch.randn_like(want)
        torch.testing.assert_close(torch.autograd.grad(got, x, dy), torch.autograd.grad(want, x, dy), **near)


@pytest.mark.parametrize("form", FORMATS[4], ids=str)
def test_opcheck(form):
    x = torch.randn(2, 3, 8, 9).to(memory_format=form).requires_grad_()
    w, b = (torch.randn(3, requires_grad=True) for _ in range(2))
    torch.library.opcheck(OPERATORS.max_pool.default, (x, [3, 2], [2, 1], [1, 1], [1, 2], True))
    torch.library.opcheck(OPERATORS.avg_pool.default, (x, [3, 2], [2, 1], [1, 1], True, False))
    torch.library.opcheck(OPERATORS.batch_norm.default, (x, w, b, None, None, 1e-5, 1.0))
    torch.library.opcheck(OPERATORS.batch_norm.default, (x, w, b, None, None, 1e-5, 1.0, torch.rand_like(x)))
    torch.library.opcheck(OPERATORS.batch_norm.default, (x, w, None, torch.zeros(3), torch.ones(3), 1e-5, 0.0))


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
        nn.Sequential(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16, affine=False), nn.ReLU6()), nn.BatchNorm2d(16),
        nn.AvgPool2d(2), nn.Flatten(),
    )  # fmt: skip


@pytest.mark.parametrize("form", FORMATS[4], ids=str)
def test_a_converted_model_trains_alike(form):
    torch.manual_seed(0)
    theirs = network()
    ours = lkt.convert(copy.deepcopy(theirs))
    compiled = torch.compile(copy.deepcopy(ours), backend="aot_eager", fullgraph=True)
    x = torch.randn(4, 3, 16, 16).to(memory_format=form)
    for _ in range(2):
        results = [model(x) for model in (theirs, ours, compiled)]
        for model, y in zip((theirs, ours, compiled), results):
            model.zero_grad()
            y.square().sum().backward()
            torch.testing.assert_close(y, results[0], rtol=1e-3, atol=1e-3)
            for p, q in zip(model.parameters(), theirs.parameters()):
                torch.testing.assert_close(p.grad, q.grad, rtol=1e-2, atol=1e-2 * q.grad.abs().max().item() + 1e-2)
            for p, q in zip(model.buffers(), theirs.buffers()):
                torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
    program = torch.export.export(ours, (x,))
    names = {str(node.target) for node in program.graph.nodes}
    assert {"layoutkit.batch_norm.default", "layoutkit.conv.default"} <= names
    for model in (theirs, ours):
        model.eval()
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("form", FORMATS[4], ids=str)
@pytest.mark.parametrize("training", [False, True])
def test_a_converted_model_is_traced(form, training):
    torch.manual_seed(0)
    theirs = nn.Sequential(network(), nn.Unflatten(1, (16, -1)), nn.BatchNorm1d(16)).train(training)
    ours = torch.fx.symbolic_trace(lkt.convert(copy.deepcopy(theirs)))
    x = torch.randn(4, 3, 16, 16).to(memory_format=form)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-3, atol=1e-3)
    for name, buffer in theirs.named_buffers():
        torch.testing.assert_close(ours.get_buffer(name), buffer, rtol=1e-4, atol=1e-5)


class _OfAttributes(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.real)  # which torch.fx records as an object of a subclass of Proxy


@pytest.mark.parametrize("training", [False, True])
def test_batch_norms_of_attributes_are_traced(training):
    norm = lkt.convert(nn.Sequential(nn.BatchNorm2d(3)))[0].train(training)
    traced = torch.fx.symbolic_trace(_OfAttributes(norm))
    assert [node.op for node in traced.graph.nodes].count("call_module") == 1
    x = torch.randn(4, 3, 8, 8)
    torch.testing.assert_close(traced(x), norm(x))


def test_a_batch_norm_is_no_module_of_its_own_graph():
    norm = lkt.convert(nn.Sequential(nn.BatchNorm2d(3)))[0]
    with pytest.raises(torch.fx.proxy.TraceError):  # as with torch.nn
        torch.fx.symbolic_trace(norm)


def test_a_limit_that_results_have_rounded_stops_gradients():
    x = torch.randn(2, 3, 4, 4, dtype=torch.bfloat16, requires_grad=True)
    add = torch.full_like(x, 9, requires_grad=True)  # beyond the limit, which bfloat16 rounds down
    y = OPERATORS.batch_norm(x, None, None, None, None, 1e-5, 0.7, add)[0]
    y.sum().backward()
    assert (y == torch.tensor(0.7, dtype=torch.bfloat16)).all() and not add.grad.any()


def test_what_hooks_see_is_what_torch_computes():
    torch.manual_seed(0)
    theirs, seen = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()), []
    ours = lkt.convert(copy.deepcopy(theirs))
    x = torch.randn(2, 3, 4, 4)
    for model in (theirs, ours):
        for part in model:
            part.register_forward_hook(lambda module, given, y: seen.append(y.detach().clone()))
        model(x)
    torch.testing.assert_close(seen[2:], seen[:2])
    assert seen[2].min() < 0
    of_all, bare = [], lkt.convert(copy.deepcopy(nn.Sequential(nn.BatchNorm2d(3), nn.ReLU())))
    hook = register_module_forward_hook(lambda module, given, y: of_all.append(type(module).__name__))
    try:
        bare(x)
    finally:
        hook.remove()
    assert of_all == ["BatchNorm2d", "ReLU", "Sequential"]


def test_layers_are_copied_saved_and_shared():
    torch.manual_seed(0)
    plain = network()
    ours, x = lkt.convert(copy.deepcopy(plain)), torch.randn(2, 3, 16, 16)
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    others = [copy.deepcopy(ours), torch.load(file, weights_only=False)]
    back, again = network(), lkt.convert(network())
    back.load_state_dict(ours.state_dict())
    again.load_state_dict(plain.state_dict())
    want = plain(x)
    for model in (ours, *others, back, again):
        torch.testing.assert_close(model(x), want, rtol=1e-3, atol=1e-3)
    relu = nn.ReLU()
    shared = nn.Sequential(nn.BatchNorm2d(3), relu, nn.BatchNorm2d(3), relu)
    torch.testing.assert_close(lkt.convert(copy.deepcopy(shared))(x), shared(x), rtol=1e-4, atol=1e-4)
    assert type(ours[:2]) is type(ours) and list(ours.state_dict()) == list(plain.state_dict())
    meta = ours.to("meta")(x.to("meta"))
    assert meta.shape == want.shape and meta.device.type == "meta"


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_gradients_of_gradients_and_transforms_are_those_of_torch():
    torch.manual_seed(0)
    theirs = nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False), nn.ReLU(), nn.MaxPool2d(2), nn.AvgPool2d(2))
    ours, x = lkt.convert(copy.deepcopy(theirs)), torch.randn(4, 3, 8, 8)

    def penalty(model):
        given = x.clone().requires_grad_()
        (dx,) = torch.autograd.grad(model(given).square().sum(), given, create_graph=True)
        return torch.autograd.grad(dx.square().sum(), [given, *model.parameters()])

    torch.testing.assert_close(penalty(ours), penalty(theirs), rtol=1e-3, atol=1e-3)
    for call in (lambda m: torch.func.jvp(m, (x,), (x.cos(),)), lambda m: torch.func.vmap(m)(torch.stack([x, 2 * x]))):
        torch.testing.assert_close(call(ours), call(theirs), rtol=1e-3, atol=1e-3)


def test_what_is_not_computed_here_is_that_of_torch():
    x = torch.randn(2, 3, 6, 6)
    for module, x_of in [
        (nn.MaxPool2d(2, return_indices=True), x), (nn.AvgPool2d(2, divisor_override=3), x), (nn.MaxPool2d(2), x[0]),
        (nn.BatchNorm2d(3, momentum=None), x), (nn.BatchNorm1d(3), x[:, :, 0, 0]),
        (nn.BatchNorm2d(3).double(), x.double()),
    ]:  # fmt: skip
        torch.testing.assert_close(lkt.convert(copy.deepcopy(module))(x_of), module(x_of))
    for module, x_of in [
        (nn.MaxPool2d(2, padding=2), x),
        (nn.BatchNorm2d(4), x),
        (nn.BatchNorm2d(3), x[:1, :, :1, :1]),
    ]:
        with pytest.raises(Exception) as theirs:
            module(x_of)
        with pytest.raises(type(theirs.value)):
            lkt.convert(copy.deepcopy(module))(x_of)
    with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
        model, x = network(), torch.randn(2, 3, 16, 16)
        assert lkt.convert(copy.deepcopy(model))(x).dtype == model(x).dtype


@pytest.mark.parametrize(
    ("shape", "dtype", "statistics"),
    [((2, 3, 4), torch.float64, (0, 0)), ((5,), torch.float32, (0, 0)), ((2, 3, 4), torch.float32, (3, 0))],
)
def test_what_the_operator_refuses_is_told(shape, dtype, statistics):
    mean, variance = (torch.ones(n) if n else None for n in statistics)
    with pytest.raises(TypeError, match="layoutkit::batch_norm"):
        OPERATORS.batch_norm(torch.ones(shape, dtype=dtype), None, None, mean, variance, 1e-5, 0.0)
    with pytest.raises(TypeError, match=r"add of torch.float32 and shape \(2, 3, 1\), expected"):
        OPERATORS.batch_norm(torch.ones(2, 3, 4), None, None, None, None, 1e-5, 0.0, torch.ones(2, 3, 1))


@pytest.mark.parametrize("shape", [(0, 3, 2, 2), (2, 0, 2, 2), (2, 3, 0, 2), (0, 3)])
@pytest.mark.parametrize("given", [False, True])
def test_nothing_is_normalised(shape, given):
    statistics = (torch.ones(shape[1]),) * 2 if given else (None, None)
    y, _, _ = OPERATORS.batch_norm(torch.ones(shape), None, None, *statistics, 1e-5, 0.0)
    assert y.shape == shape
