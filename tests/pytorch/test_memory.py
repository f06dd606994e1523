"""The memory formats of results are those of torch."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import layoutkit.torch as lkt  # noqa: E402
from layoutkit.torch.memory import FORMATS  # noqa: E402


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("which", ["neither", "input", "weight"])
def test_memory_formats_are_those_of_torch(rank, transposed, which):
    form = FORMATS[rank]
    cls = getattr(torch.nn, f"Conv{'Transpose' * transposed}{rank}d")
    theirs = cls(8, 6, 3)
    x = torch.randn(2, 8, *[6] * rank)
    if which == "weight":
        theirs = theirs.to(memory_format=form)
    if which == "input":
        x = x.to(memory_format=form)
    ours = lkt.convert(copy.deepcopy(theirs))
    for mode in (torch.enable_grad, torch.no_grad):
        with mode():
            want, got = theirs(x), ours(x)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        assert got.stride() == want.stride()
    ours(x).sum().backward()
    assert ours.weight.grad.stride() == ours.weight.stride()


@st.composite
def tensors(draw, *shape):
    """A tensor of float32 in one of the formats, along extents of 1 maybe a part of one."""
    parts = (
        [1, 1, 3] if max(shape[1:]) > 1 else [1]
    )  # torch forgets the format of a part with one number for each image
    t = torch.randn([n * draw(st.sampled_from(parts)) if n == 1 else n for n in shape])
    if draw(st.booleans()):
        t = t.to(memory_format=torch.channels_last)
    return t[tuple(slice(n) for n in shape)]


@given(st.data())
def test_ambiguous_tensors_too(data):
    n, c, o, h, w, k, m = (
        data.draw(st.sampled_from(s)) for s in [(1, 2), (1, 3), (1, 4), (1, 5), (1, 5), (1, 3), (1, 3)]
    )
    transposed = data.draw(st.booleans())
    x, weight = data.draw(tensors(n, c, h, w)), data.draw(tensors(*((c, o) if transposed else (o, c)), k, m))
    theirs = torch.nn.functional.conv_transpose2d if transposed else torch.nn.functional.conv2d
    strides = []
    for function in (theirs, lkt.conv_transpose if transposed else lkt.conv):
        leaf = x.detach().requires_grad_()
        y = function(leaf, weight, padding=(k // 2, m // 2))
        # A single pixel is in both formats; which of their strides it has, depends on torch's algorithm.
        single = y.shape[2:].numel() == 1
        strides.append((y.stride()[: 2 if single else 4], torch.autograd.grad(y.sum(), leaf)[0].stride()))
    assert strides[0] == strides[1]
