"""layoutkit.torch's functions against torch's: its own samples of convolutions, gradients of both orders, errors."""

import numpy as np
import pytest
from conftest import fewer
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import layoutkit.torch as lkt  # noqa: E402
from layoutkit.torch import operators  # noqa: E402
from layoutkit.torch.memory import FORMATS  # noqa: E402

RANKS = (1, 2, 3)
CONVOLUTIONS = [f"nn.functional.conv{t}{rank}d" for t in ("", "_transpose") for rank in RANKS]


def samples(name, dtype):
    """What torch tests its own operation with."""
    from torch.testing._internal.common_methods_invocations import op_db

    op = next(op for op in op_db if op.name == name)
    return op.op, list(op.sample_inputs("cpu", dtype, requires_grad=True))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_torchs_own_samples(name, dtype, some):
    theirs, found = samples(name, dtype)
    ours = lkt.conv_transpose if "transpose" in name else lkt.conv
    assert len(found) > 3
    rtol = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 5e-2}[dtype]
    for sample in some(found):
        results = []
        for function in (theirs, ours):
            tensors = [t.detach().clone().requires_grad_() if isinstance(t, torch.Tensor) else t
                       for t in (sample.input, *sample.args)]  # fmt: skip
            y = function(*tensors, **sample.kwargs)
            y.backward(torch.ones_like(y) + torch.arange(y.numel(), dtype=dtype).reshape(y.shape) % 3)
            leaves = [t for t in tensors if isinstance(t, torch.Tensor)]
            results.append([y, *(t.grad for t in leaves)])
        for want, got in zip(*results):
            torch.testing.assert_close(got, want, rtol=rtol, atol=rtol * want.detach().abs().max().item())


@st.composite
def convolutions(draw):
    rank = draw(st.sampled_from(RANKS))

    def each(lo, hi):
        return tuple(draw(st.integers(lo, hi)) for _ in range(rank))

    groups = draw(st.sampled_from([1, 1, 2, 3]))
    return dict(
        rank=rank, n=draw(st.integers(1, 2)), inputs=groups * draw(st.integers(1, 2)), groups=groups,
        outputs=groups * draw(st.integers(1, 2)), size=each(2, 4), kernel=each(1, 2), stride=each(1, 2),
        padding=each(0, 2), last=draw(st.booleans()), transposed=draw(st.booleans()),
    )  # fmt: skip


@given(convolutions())
@fewer(3)
def test_gradcheck(c):
    a, b = (c["inputs"], c["outputs"]) if c["transposed"] else (c["outputs"], c["inputs"])
    torch.manual_seed(0)
    x = torch.randn(c["n"], c["inputs"], *c["size"], dtype=torch.float64)
    if c["last"] and c["rank"] > 1:
        x = x.to(memory_format=FORMATS[c["rank"]])
    w = torch.randn(a, b // c["groups"], *c["kernel"], dtype=torch.float64)
    bias = torch.randn(c["outputs"], dtype=torch.float64)
    given = dict(stride=c["stride"], padding=c["padding"], groups=c["groups"])
    ours = lkt.conv_transpose if c["transposed"] else lkt.conv
    tensors = [t.requires_grad_() for t in (x, w, bias)]
    try:
        ours(*tensors, **given)
    except ValueError as error:
        assert "no output" in str(error) or "does not fit" in str(error)
        return
    assert torch.autograd.gradcheck(lambda *t: ours(*t, **given), tensors)
    assert torch.autograd.gradgradcheck(lambda *t: ours(*t, **given), tensors)


def test_any_strides_are_read_where_they_lie():
    x = torch.randn(2, 6, 10, 9)[:, ::2, 1:9:2].transpose(2, 3).requires_grad_()
    w = torch.randn(5, 3, 2, 2, requires_grad=True)
    want, got = torch.nn.functional.conv2d(x, w), lkt.conv(x, w)
    torch.testing.assert_close(got, want)
    dy = torch.randn(got.shape[1:]).expand_as(got)  # of no stride between images
    for a, b in zip(torch.autograd.grad(got, (x, w), dy), torch.autograd.grad(want, (x, w), dy)):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_only_gradients_that_are_asked_for_are_computed(monkeypatch):
    monkeypatch.setattr(operators, "conv_weight", None)
    x = torch.randn(1, 3, 5, 5, requires_grad=True)
    lkt.conv(x, torch.randn(2, 3, 3, 3)).sum().backward()
    assert x.grad is not None


def test_images_without_a_batch():
    x, w = torch.randn(3, 6, 6), torch.randn(4, 3, 3, 3)
    torch.testing.assert_close(lkt.conv(x, w), torch.nn.functional.conv2d(x, w))
    torch.testing.assert_close(
        lkt.convert(torch.nn.Conv2d(3, 4, 3)).requires_grad_(False)(x).shape, torch.Size([4, 4, 4])
    )


@pytest.mark.parametrize(
    ("x", "w", "message"),
    [
        (torch.ones(1, 3, 5, 5, dtype=torch.int32), torch.ones(2, 3, 3, 3), "input: expected floats on the CPU"),
        (torch.ones(1, 3, 5, 5), torch.ones(2, 3, 3, 3).double(), "weight is of torch.float64, input of torch.float32"),
        (torch.ones(3, 5), torch.ones(2, 3, 3, 3), "expected 3 or 4 axes"),
        (np.ones((1, 3, 5, 5)), torch.ones(2, 3, 3, 3), "input: expected a tensor, got ndarray"),
        (torch.ones(1, 3, 2, 2), torch.ones(2, 3, 3, 3), "does not fit"),
    ],
)
def test_errors_name_what_is_wrong(x, w, message):
    with pytest.raises((TypeError, ValueError), match=message):
        lkt.conv(x, w)


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_an_empty_batch(transposed):
    x, w, bias = torch.ones(0, 4, 5, 5), torch.ones(4, 4, 3, 3, requires_grad=True), torch.ones(4, requires_grad=True)
    y = (lkt.conv_transpose if transposed else lkt.conv)(x.requires_grad_(), w, bias)
    dx, dw, db = torch.autograd.grad(y.sum(), (x, w, bias))
    assert dx.shape == x.shape and dw.shape == w.shape and not dw.any() and not db.any()


def test_no_channels_give_the_bias():
    bias = torch.ones(2)
    y = lkt.conv(torch.ones(1, 0, 5, 5), torch.ones(2, 0, 3, 3), bias)
    torch.testing.assert_close(y, torch.ones(1, 2, 3, 3))
