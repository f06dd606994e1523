"""Every translation of an ATen operator gives what torch gives, and no operator of its graph stays torch's."""

from functools import cache
from math import prod

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn import functional as f  # noqa: E402

from layoutkit.torch.optimizing import Plan, optimize  # noqa: E402
from layoutkit.torch.translation import decompositions  # noqa: E402

ops = torch.ops.aten
T = torch.randn
taken_apart = cache(decompositions)  # torch takes a tenth of a second to list them


def planned(function, *inputs):
    """The plan of a function of tensors."""
    plain = torch.func.functionalize(lambda *given: function(*given))  # as torch.export does
    root = make_fx(plain, decomposition_table=taken_apart(), tracing_mode="fake")(*inputs)
    return Plan(root, "float32")


def check(function, *inputs, tolerance=2e-6):
    """One part, and torch's results, of its shapes and types."""
    plan = planned(function, *inputs)
    assert not plan.refused
    assert len(plan.parts) == 1
    with torch.no_grad():
        want, got = function(*inputs), plan(inputs)
    pairs = list(zip(want, got, strict=True)) if isinstance(want, (tuple, list)) else [(want, got)]
    assert pairs
    for a, b in pairs:
        assert a.shape == b.shape and a.dtype == b.dtype
        largest = float(a.double().abs().nan_to_num(0, 0, 0).max()) if a.numel() else 0.0
        torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance * max(largest, 1.0), equal_nan=True)


def positive(*shape):
    return torch.rand(*shape) + 0.5


UNARY = {
    "abs": T,
    "ceil": T,
    "cos": T,
    "cosh": T,
    "erf": T,
    "exp": T,
    "floor": T,
    "neg": T,
    "relu": T,
    "sigmoid": T,
    "sign": T,
    "sin": T,
    "sinh": T,
    "tan": lambda *s: torch.rand(*s),
    "tanh": T,
    "round": T,
    "atan": T,
    "asinh": T,
    "sqrt": positive,
    "rsqrt": positive,
    "log": positive,
    "reciprocal": positive,
    "acosh": lambda *s: positive(*s) + 1,
    "acos": lambda *s: torch.rand(*s) - 0.5,
    "asin": lambda *s: torch.rand(*s) - 0.5,
    "atanh": lambda *s: torch.rand(*s) - 0.5,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    torch.manual_seed(1)
    check(getattr(torch, name), UNARY[name](2, 3, 5), tolerance=1e-5)


FUNCTIONS = {
    "silu": f.silu,
    "gelu": f.gelu,
    "gelu_tanh": lambda x: f.gelu(x, approximate="tanh"),
    "hardswish": f.hardswish,
    "hardsigmoid": f.hardsigmoid,
    "mish": f.mish,
    "leaky_relu": lambda x: f.leaky_relu(x, 0.2),
    "elu": lambda x: f.elu(x, 0.7),
    "celu": lambda x: f.celu(x, 0.7),
    "selu": f.selu,
    "softplus": f.softplus,
    "relu6": f.relu6,
    "hardtanh": lambda x: f.hardtanh(x, -0.5, 0.25),
    "clamp": lambda x: x.clamp(-0.5, 0.25),
    "clamp_min": lambda x: x.clamp(min=0.1),
    "clamp_max": lambda x: x.clamp(max=0.1),
    "softsign": f.softsign,
    "prelu": lambda x: f.prelu(x, torch.full((3,), 0.3)),
    "prelu_1": lambda x: f.prelu(x, torch.full((1,), 0.3)),
    "softmax": lambda x: f.softmax(x, 1),
    "log_softmax": lambda x: f.log_softmax(x, -1),
    "mean": lambda x: x.mean((1, 2)),
    "mean_all": lambda x: x.mean(),
    "sum": lambda x: x.sum(-1, keepdim=True),
    "sum_all": lambda x: x.sum(),
    "amax": lambda x: x.amax(1),
    "amin": lambda x: x.amin((0, 2)),
    "var": lambda x: x.var(1),
    "std": lambda x: x.std((1, 2), correction=0),
    "argmax": lambda x: x.argmax(1),
    "max": lambda x: tuple(x.max(2)),
    "topk": lambda x: tuple(x.topk(2, 2)),
    "cumsum": lambda x: x.cumsum(1),
    "pow": lambda x: x**2,
    "pow_half": lambda x: x.abs() ** 0.5,
    "base": lambda x: 2.0**x,
    "rsub": lambda x: 1 - x,
    "add_alpha": lambda x: torch.add(x, x, alpha=2),
    "sub_number": lambda x: x - 0.5,
    "where": lambda x: torch.where(x > 0, x, -2 * x),
    "masked_fill": lambda x: x.masked_fill(x < 0, 7.0),
    "compare": lambda x: ((x < 0.5) & (x >= -0.5)) | ~(x != x) ^ (x <= 0),
    "equal": lambda x: (x == x.round()).float(),
    "logical": lambda x: torch.logical_not(torch.logical_and(x > 0, x < 1)),
    "maximum": lambda x: torch.maximum(x, -x),
    "to": lambda x: x.to(torch.int64) + 1,
    "double": lambda x: x.double() * 3,
    "mixed": lambda x: (x > 0) * x + torch.arange(5),
    "reshape": lambda x: x.reshape(6, -1),
    "flatten": lambda x: x.flatten(1),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(0, -1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "expand": lambda x: x.unsqueeze(0).expand(4, -1, -1, -1) + 1,
    "repeat": lambda x: x.repeat(2, 1, 1, 3),
    "cat": lambda x: torch.cat([x, 2 * x], 1),
    "stack": lambda x: torch.stack([x, 2 * x], -1),
    "split": lambda x: [p + 1 for p in x.split([2, 3], 2)],
    "split_even": lambda x: [p * 2 for p in x.split(2, -1)],
    "chunk": lambda x: [p * 2 for p in x.chunk(2, 1)],
    "unbind": lambda x: [p * 2 for p in x.unbind(1)],
    "select": lambda x: x[:, -1] * 2,
    "slice": lambda x: x[:, 1:, ::2] + 0,
    "empty": lambda x: x[:, 3:] + 0,
    "flip": lambda x: x.flip(1, 2),
    "roll": lambda x: x.roll(1, 2),
    "gather": lambda x: x.index_select(2, torch.tensor([1, 0, 4])),
    "pad": lambda x: f.pad(x, (1, 2, 0, 1), value=3.0),
    "crop": lambda x: f.pad(x, (-1, 0)),
    "dropout": lambda x: f.dropout(x, 0.5, False) + 1,
    "reflect": lambda x: f.pad(x, (2, 1), mode="reflect"),
    "replicate": lambda x: f.pad(x, (2, 1), mode="replicate"),
    "same": lambda x: x,
    "twice": lambda x: (x + 1, x, x + 1),
    "constant": lambda x: (torch.arange(3), x * 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    torch.manual_seed(2)
    check(FUNCTIONS[name], T(2, 3, 5))


def W(*shape):
    """Weights, the same for torch and for the trace."""
    return torch.linspace(-3, 3, prod(shape)).reshape(shape).sin()


IMAGES = {
    "conv": lambda x: f.conv2d(x, W(4, 6, 3, 3), W(4), 2, 1),
    "conv_groups": lambda x: f.conv2d(x, W(4, 3, 3, 2), None, 1, (1, 0), 2, 2),
    "transposed": lambda x: f.conv_transpose2d(x, W(6, 4, 3, 3), W(4), 2, 1, 1),
    "unshuffle": lambda x: f.pixel_unshuffle(x, 2),
    "max_pool": lambda x: f.max_pool2d(x, 3, 2, 1),
    "max_pool_ceil": lambda x: f.max_pool2d(x, 3, 2, ceil_mode=True),
    "avg_pool": lambda x: f.avg_pool2d(x, 3, 2, 1),
    "avg_pool_inside": lambda x: f.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "adaptive": lambda x: f.adaptive_avg_pool2d(x, 1),
    "adaptive_4": lambda x: f.adaptive_avg_pool2d(x, 4),
    "nearest": lambda x: f.interpolate(x, scale_factor=2),
    "nearest_size": lambda x: f.interpolate(x, (5, 13)),
    "bilinear": lambda x: f.interpolate(x, scale_factor=1.5, mode="bilinear"),
    "corners": lambda x: f.interpolate(x, (11, 5), mode="bilinear", align_corners=True),
    "bicubic": lambda x: f.interpolate(x, (16, 12), mode="bicubic"),
    "shuffle": lambda x: f.pixel_shuffle(x[:, :4], 2),
    "channel_shuffle": lambda x: f.channel_shuffle(x, 3),
    "batch_norm": lambda x: f.batch_norm(x, W(6), W(6).abs() + 0.5, W(6), W(6)),
    "batch_norm_plain": lambda x: f.batch_norm(x, torch.zeros(6), torch.ones(6)),
    "group_norm": lambda x: f.group_norm(x, 3, W(6), W(6)),
    "group_norm_plain": lambda x: f.group_norm(x, 2),
    "instance_norm": lambda x: f.instance_norm(x[:1]),
    "layer_norm": lambda x: f.layer_norm(x, (8, 8), W(8, 8), W(8, 8)),
    "layer_norm_plain": lambda x: f.layer_norm(x, (8,)),
    "linear": lambda x: f.linear(x, W(5, 8), W(5)),
    "matmul": lambda x: x @ x.transpose(-1, -2),
    "attention": lambda x: f.scaled_dot_product_attention(x, x, x),
    "mask": lambda x: f.scaled_dot_product_attention(x, x, x, torch.ones(8, 8, dtype=torch.bool).tril()),
    "reflect": lambda x: f.pad(x, (1, 2, 3, 0), mode="reflect"),
    "replicate": lambda x: f.pad(x, (1, 2, 3, 0), mode="replicate"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images(name):
    torch.manual_seed(3)
    check(IMAGES[name], T(2, 6, 8, 8), tolerance=2e-5)


INTEGERS = {
    "rsqrt": torch.rsqrt,
    "round": torch.round,
    "cumsum of a number": lambda x: x.sum().cumsum(0),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name):
    check(INTEGERS[name], torch.arange(1, 7).reshape(2, 3).to(torch.int8))


REFUSED = {
    "a number that the type has not": lambda x: (x + -1, x < 300, x.clamp(-1, 1)),
    "sign of bool": lambda x: torch.sign(x > 2),
    "resize": lambda x: f.interpolate(x, size=(7, 9), mode="bilinear"),
    "conv": lambda x: f.conv2d(x, x),
    "softmax": lambda x: x.double().sum().softmax(0),
    "topk": lambda x: tuple(x.sum().topk(1)),
    "argmax": lambda x: x.sum().argmax(-1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    x = torch.randint(0, 9, (1, 1, 5, 5), dtype=torch.uint8)
    plan = planned(REFUSED[name], x)
    assert plan.refused
    torch.testing.assert_close(plan([x]), REFUSED[name](x), rtol=0, atol=0)


@pytest.mark.parametrize("factors", [(2.3, 1.1), (2.3, 2.3), (1.2, 1.7)])
def test_nearest_by_factors_that_give_the_size_or_twice_it(factors):
    check(lambda x: f.interpolate(x, scale_factor=factors), T(1, 2, 3, 7))


@pytest.mark.parametrize("is_bool", [False, True])
def test_attention_of_rows_without_keys(is_bool):
    mask = torch.ones(5, 6, dtype=torch.bool)
    mask[2] = False
    if not is_bool:
        mask = torch.where(mask, 0.5, -float("inf"))
    check(lambda *given: f.scaled_dot_product_attention(*given), T(2, 4, 5, 8), T(2, 4, 6, 8), T(2, 4, 6, 8), mask)


def test_addmm_without_bias():
    bias = torch.tensor([float("nan"), 1.0])
    check(lambda *given: torch.addmm(*given, beta=0), bias, T(3, 4), T(4, 2))


def test_products_of_moved_products():
    """The first product writes its result as it is moved; the second reads no tensor between."""
    check(lambda a, b, c: (a @ b).transpose(0, 1).reshape(10, 8) @ c, T(4, 5, 6), T(4, 6, 4), T(8, 8))


def test_multihead_attention_with_weights():
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval().requires_grad_(False)
    optimized = optimize(Attention(attention).eval())
    x = T(2, 5, 8)
    for got, want in zip(optimized(x), attention(x, x, x), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


class Attention(torch.nn.Module):
    """Of a tensor to itself."""

    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, x):
        return self.attention(x, x, x)
