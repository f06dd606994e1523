"""Patterns of einops against numpy's reshape and transpose."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import layoutkit as lk


@st.composite
def patterns(draw):
    """(pattern, array, sizes, what numpy makes of it): any splits, order and merges, sometimes with an ellipsis."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    names = rng.sample("a b c d e f time_1 Xy".split(), rng.randint(1, 6))
    sizes = {name: rng.randint(1, 4) for name in names}

    def grouped(order):
        groups, rest = [], list(order)
        while rest:
            n = rng.randint(0, min(3, len(rest)))
            groups.append(rest[:n])
            rest = rest[n:]
        return groups

    def text(groups):
        one = [g[0] if len(g) == 1 and rng.random() < 0.5 else "1" if not g else f"({' '.join(g)})" for g in groups]
        return " ".join(one)

    left, right = grouped(names), grouped(rng.sample(names, len(names)))
    shape = [int(np.prod([sizes[n] for n in g])) for g in left]
    dtype = rng.choice([np.uint8, np.int16, np.float32, np.float64, np.complex128])
    x = np.arange(int(np.prod(shape))).astype(dtype).reshape(shape)
    order = [names.index(n) for g in right for n in g]
    want = x.reshape([sizes[n] for n in names]).transpose(order)
    want = want.reshape([int(np.prod([sizes[n] for n in g])) for g in right])
    return f"{text(left)} -> {text(right)}", x, sizes, want


@given(patterns(), st.booleans())
def test_patterns(case, reverse):
    pattern, x, sizes, want = case
    if reverse:  # any strides
        x = np.ascontiguousarray(x[..., ::-1])[..., ::-1] if x.ndim else x
    got = lk.rearrange(x, pattern, **sizes)
    assert got.flags.c_contiguous and got.dtype == x.dtype
    np.testing.assert_array_equal(got, want)


def test_ellipsis_and_sizes_that_follow():
    x = np.arange(48).reshape(2, 4, 6)
    np.testing.assert_array_equal(lk.rearrange(x, "... w -> w ..."), np.moveaxis(x, -1, 0))
    np.testing.assert_array_equal(lk.rearrange(x, "b ... -> ... b"), np.moveaxis(x, 0, -1))
    np.testing.assert_array_equal(lk.rearrange(x, "b (h k) w -> b k (h w)", k=2).shape, (2, 2, 12))


def test_tensors_stay_tensors_and_out_is_written():
    torch = pytest.importorskip("torch")
    x = np.arange(24, dtype=np.float32).reshape(1, 4, 2, 3)
    t = lk.rearrange(lk.Tensor(x, "NCHW").to("nChw2c"), "b c h w -> b h w c")
    assert isinstance(t, lk.Tensor)
    np.testing.assert_array_equal(t.array, x.transpose(0, 2, 3, 1))
    assert torch.equal(lk.rearrange(torch.from_numpy(x), "b c h w -> w c b h"), torch.from_numpy(x).permute(3, 1, 0, 2))
    out = np.empty((1, 2, 3, 4), np.float32)
    assert lk.rearrange(x, "b c h w -> b h w c", out=out) is out
    np.testing.assert_array_equal(out, x.transpose(0, 2, 3, 1))
    with pytest.raises(ValueError, match=r"out must be a contiguous array of shape \(1, 2, 3, 4\)"):
        lk.rearrange(x, "b c h w -> b h w c", out=out[..., ::-1])


@pytest.mark.parametrize(
    ("pattern", "sizes", "what"),
    [
        ("a b", {}, "expected one '->'"),
        ("a b -> b", {}, "'a' stands on one side only"),
        ("a a -> a", {}, "'a' stands twice"),
        ("a b -> a (b", {}, "not closed"),
        ("a b -> a b)", {}, "not opened"),
        ("a ((b)) -> a b", {}, "do not nest"),
        ("a ? -> a", {}, "expected an axis"),
        ("a (...) -> a ...", {}, "cannot be inside"),
        ("a b c -> c b a", {}, "the left side has 3 axes"),
        ("a (b c) -> a b c", {}, "the sizes of b and c are open"),
        ("a (b c) -> a b c", {"b": 4}, r"an axis of size 6 cannot be \(b = 4 x c = \?\)"),
        ("a b -> b a", {"a": 3}, r"an axis of size 2 cannot be \(a = 3\)"),
        ("a b -> b a", {"k": 3}, "k=3 is no axis"),
        ("a b -> b a", {"a": 2.5}, "expected an integer"),
        ("a b -> b a", {"a": -2}, "negative"),
        ("a 1 -> a", {}, "an axis of size 6 cannot be"),
    ],
)
def test_malformed_patterns_say_what(pattern, sizes, what):
    with pytest.raises(ValueError, match=what) as error:
        lk.rearrange(np.zeros((2, 6)), pattern, **sizes)
    assert repr(pattern) in str(error.value)
    with pytest.raises(TypeError, match="pattern"):
        lk.rearrange(np.zeros((2, 6)), 7)
