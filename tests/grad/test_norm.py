"""Batch normalisation and its gradients, against float64 and differences."""

import numpy as np
import pytest
from conftest import using_isa
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from random_cases.numbers import exact
from strategies import activations, in_proportion

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.convolutions.types import TYPES
from layoutkit.grad import norm

EPS = {"f64": 1e-12, "f32": 2e-5, "f16": 2e-2, "bf16": 1.5e-1}  # of results of about 1


def plain(x, w, b, mean, variance, eps):
    axes = (0, *range(2, x.ndim))
    to = (1, -1, *[1] * (x.ndim - 2))
    m = x.mean(axes) if mean is None else mean
    v = x.var(axes) if variance is None else variance
    return (w * (v + eps) ** -0.5).reshape(to) * (x - m.reshape(to)) + b.reshape(to)


@st.composite
def problems(draw):
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    return dict(
        shape=(draw(st.integers(1, 3)), draw(st.integers(1, 20)), *(draw(st.integers(1, 5)) for _ in range(rank))),
        layout=draw(activations(rank)), grad_layout=draw(activations(rank)), training=draw(st.booleans()),
        types=draw(st.sampled_from([TYPES[name] for name in ("f32", "f64", "bf16", "f16")])),
        isa=draw(st.sampled_from(registry.isas())), threads=draw(st.integers(1, 3)), offset=draw(st.integers(0, 8)),
    )  # fmt: skip


@given(problems(), st.integers(0, 2**32))
@pytest.mark.filterwarnings("ignore:.*only slow ways")
def test_any_batch_norm(c, seed):
    rng, dtype = np.random.default_rng(seed), c["types"].src
    assume(np.prod(c["shape"]) // c["shape"][1] >= 8)  # the variance of few may be next to nothing
    x = (rng.standard_normal(c["shape"]) + c["offset"]).astype(dtype)
    dy = rng.standard_normal(c["shape"]).astype(dtype)
    w, b, m = (rng.standard_normal(x.shape[1]) for _ in range(3))
    v, eps = rng.random(x.shape[1]) + 0.5, 0.1
    layout, grad_layout = lk.Layout(c["layout"]), lk.Layout(c["grad_layout"])
    assume(in_proportion(layout, x) and in_proportion(grad_layout, x))
    given = (None, None) if c["training"] else (m, v)
    how = dict(mean=given[0], variance=given[1], eps=eps, layout=layout, shape=x.shape, threads=c["threads"],
               dtype=("bfloat16", "bfloat16") if c["types"].name == "bf16" else (dtype, dtype))  # fmt: skip
    near = EPS[c["types"].name] * (1 + c["offset"])
    px, pdy = reference.to_physical(x, layout, np.nan), reference.to_physical(dy, grad_layout, np.nan)
    with using_isa(c["isa"]):
        y = lk.batch_norm(px, w, b, **how)
        out = np.ones_like(px)
        dx, dw, db = lk.grad.batch_norm(px, pdy, w, grad_layout=grad_layout, out=out, **how)
    assert dx is out
    want = plain(exact(x), w, b, *given, eps)
    np.testing.assert_allclose(exact(y), reference.to_physical(want, layout, 0), rtol=near, atol=near)
    # The gradient along a random direction is a difference of values.
    direction, step = rng.standard_normal(x.shape), 1e-5
    values = [(plain(exact(x) + s * step * direction, w, b, *given, eps) * exact(dy)).sum() for s in (1, -1)]
    inner = (reference.to_logical(exact(dx), layout, x.shape) * direction).sum()
    size = np.abs(exact(dy)).sum() * 3
    assert abs(inner - (values[0] - values[1]) / (2 * step)) <= (near + 1e-6) * size
    for got, of in ((dw, (np.ones(1), np.zeros(1))), (db, (np.zeros(1), np.ones(1)))):
        ones = plain(exact(x), of[0], of[1], *given, eps)
        want = (exact(dy) * ones).sum((0, *range(2, x.ndim)))
        np.testing.assert_allclose(got, want, rtol=near, atol=near * x[:, 0].size)


def test_far_from_zero_the_variance_is_right():
    x = (np.random.default_rng(0).standard_normal((4, 3, 50, 50)) + 1e4).astype(np.float32)
    got = lk.batch_norm(x, eps=0)
    assert abs(got.std((0, 2, 3)) - 1).max() < 1e-3 and abs(got.mean((0, 2, 3))).max() < 1e-2


X = np.ones((2, 3, 4, 4), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: lk.batch_norm(X, np.ones(4)), ValueError, "batch_norm: weight: expected 3 numbers"),
        (lambda: lk.batch_norm(X, mean=np.ones(3)), ValueError, "expected both, or neither"),
        (lambda: lk.batch_norm(X, mean=np.ones(3), variance=-np.ones(3)), ValueError, "variance + eps is negative"),
        (lambda: lk.batch_norm(X[:0]), ValueError, "no elements to take the mean of"),
        (lambda: lk.batch_norm(X[:, :0]), ValueError, "batch_norm: x of shape (2, 0, 4, 4) has no channels"),
        (
            lambda: lk.batch_norm(X[:, :0, 0], mean=[], variance=[], layout="NCW"),
            ValueError,
            "batch_norm: x of shape (2, 0, 4)",
        ),
        (lambda: lk.grad.batch_norm(X[:, :0], X[:, :0]), ValueError, "grad.batch_norm: x of shape (2, 0, 4, 4) has no"),
        (
            lambda: lk.batch_norm(X.astype(int)),
            TypeError,
            "batch_norm: x: expected dtype float32, float64, float16 or bf",
        ),
        (lambda: lk.batch_norm(X.astype(complex)), TypeError, "got complex128; x.astype('float32') converts"),
        (lambda: lk.batch_norm(X[0, 0], layout="ab"), ValueError, "batch_norm: layout ab has 2 dimensions"),
        (lambda: lk.grad.batch_norm(X, X[:1]), ValueError, "grad.batch_norm: grad_output"),
        (lambda: lk.grad.batch_norm(X, X.astype(float)), TypeError, "grad_output is of float64"),
    ],
)
def test_errors_say_what_was_expected(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert message in str(raised.value)


@pytest.mark.parametrize("layout", ["NCW", "NCHW", "NDHWC", "NHWC", "nChw8c", "nCdhw16c", "NC4HW4"])
@pytest.mark.parametrize("types", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("training", [True, False])
def test_common_layouts_have_a_nest(layout, types, training, monkeypatch):
    """Views too: some channels of more, every second image."""
    monkeypatch.setattr(norm, "_by_convolutions", None)
    monkeypatch.setattr(norm, "_statistics", None)
    rng, of, kind = np.random.default_rng(7), lk.Layout(layout), TYPES[types]
    shape = (4, 16, *[5, 3, 4][: of.rank - 2])
    x, dy = (rng.standard_normal(shape).astype(kind.src) for _ in range(2))
    w, b, m, v = rng.standard_normal((4, 16))
    given = (None, None) if training else (m, v * v + 1)
    how = dict(mean=given[0], variance=given[1], eps=0.1, layout=of, threads=2,
               dtype=("bfloat16", "bfloat16") if types == "bf16" else None)  # fmt: skip
    px, pdy = (reference.to_physical(a, of, 0)[::2] for a in (x, dy))
    x, dy = exact(x)[::2], exact(dy)[::2]
    want = plain(x, w, b, *given, 0.1)
    y, out = lk.batch_norm(px, w, b, **how), np.zeros_like(px)
    dx, dw, db = lk.grad.batch_norm(px, pdy, w, out=out, **how)
    assert dx is out
    near = dict(rtol=EPS[types], atol=10 * EPS[types])
    np.testing.assert_allclose(reference.to_logical(exact(y), of, x.shape), want, **near)
    axes = (0, *range(2, x.ndim))
    by_channel = [
        a.reshape(1, -1, *[1] * (x.ndim - 2)) for a in (w, *(given if not training else (x.mean(axes), x.var(axes))))
    ]
    slope = by_channel[0] / np.sqrt(by_channel[2] + 0.1)
    normal = (x - by_channel[1]) / np.sqrt(by_channel[2] + 0.1)
    np.testing.assert_allclose(db, dy.sum(axes), **near)
    np.testing.assert_allclose(dw, (dy * normal).sum(axes), **near)
    if training:
        dy = dy - dy.mean(axes, keepdims=True) - normal * (dy * normal).mean(axes, keepdims=True)
    np.testing.assert_allclose(reference.to_logical(exact(dx), of, x.shape), slope * dy, **near)
