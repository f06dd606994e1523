"""Gradients of activations are the slopes of what convolutions apply."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from random_cases.numbers import exact
from strategies import activations, in_proportion

import layoutkit as lk
from layoutkit.convolutions.types import TYPES
from layoutkit.grad.activation import DERIVATIVES

NUMBERS = {"clip": (-1.5, 2.0), "leaky_relu": (0.1,), "elu": (1.3,), "swish": (1.7,), "hardsigmoid": (0.2, 0.5)}


@pytest.mark.parametrize("name", [name for name, _ in DERIVATIVES])
def test_slopes_of_what_convolutions_apply(name):
    activation = (name, *NUMBERS[name]) if name in NUMBERS else name
    x = np.linspace(-7.0031, 7.0117, 1402)[None, None]  # no kink among them
    step = 1e-6
    of = lk.Conv1d(np.ones((1, 1, 1)), activation=activation)
    want = (of(x + step) - of(x - step)) / (2 * step)
    got = lk.grad.activation_input(x, np.full_like(x, 2.0), activation, layout="NCW")
    np.testing.assert_allclose(got, 2 * want, atol=1e-7)
    assert np.isfinite(lk.grad.activation_input(x * 1e30, x, activation, layout="NCW")).all()


INF = float("inf")
SLOPES = {  # at -Inf, just below 0, at 0, just above, at Inf
    "relu": (0, 0, 0, 1, 1), "relu6": (0, 0, 0, 1, 0), ("clip", -1.5, 2.0): (0, 1, 1, 1, 0),
    ("clip", 0.0, INF): (0, 0, 0, 1, 1), ("clip", -INF, INF): (1, 1, 1, 1, 1),
    ("leaky_relu", 0.25): (0.25, 0.25, 0.25, 1, 1),
    ("elu", 1.25): (0, 1.25, 1.25, 1, 1), "sigmoid": (0, 0.25, 0.25, 0.25, 0), "tanh": (0, 1, 1, 1, 0),
    "silu": (0, 0.5, 0.5, 0.5, 1), ("swish", 1.75): (0, 0.5, 0.5, 0.5, 1), ("swish", -1.75): (1, 0.5, 0.5, 0.5, 0),
    "mish": (0, 0.6, 0.6, 0.6, 1), "gelu_tanh": (0, 0.5, 0.5, 0.5, 1),
    "hardswish": (0, 0.5, 0.5, 0.5, 1), ("hardsigmoid", 0.25, 0.5): (0, 0.25, 0.25, 0.25, 0),
    "softplus": (0, 0.5, 0.5, 0.5, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", ["f32", "f64", "bf16", "f16"])
def test_slopes_where_a_type_ends(name):
    """They tend to these at Inf, where a product of 0 and Inf is met on the way; that of NaN is NaN."""
    dtype = np.dtype(TYPES[name].src)
    assert {activation[0] if isinstance(activation, tuple) else activation for activation in SLOPES} == {
        name for name, _ in DERIVATIVES
    }
    limits = ml_dtypes.finfo(dtype)
    ends = [limits.smallest_subnormal, limits.tiny, limits.max, INF]
    x = np.array([*(-v for v in ends), -0.0, 0.0, *ends, np.nan], dtype)
    bits = ("bfloat16", "bfloat16") if name == "bf16" else None
    for activation, (low, below, at, above, high) in SLOPES.items():
        want = [below, below, low, low, at, at, above, above, high, high, np.nan]
        got = lk.grad.activation_input(x, np.ones_like(x), activation, layout="a", dtype=bits)
        rtol = float(limits.eps) * 4
        np.testing.assert_allclose(exact(got), want, rtol=rtol, atol=rtol * 0.01, err_msg=str(activation))


@given(activations(2), activations(2), st.sampled_from(["f32", "f64", "bf16", "f16"]), st.integers(0, 2**32))
def test_any_layout(layout, grad_layout, name, seed):
    rng, types = np.random.default_rng(seed), TYPES[name]
    x, dy = (rng.integers(-3, 4, (2, 5, 4, 3)).astype(types.src) for _ in "xy")
    layout, grad_layout = lk.Layout(layout), lk.Layout(grad_layout)
    assume(in_proportion(layout, x) and in_proportion(grad_layout, x))
    bits = ("bfloat16", "bfloat16") if name == "bf16" else None
    got = lk.grad.activation_input(
        reference.to_physical(x, layout, np.nan), reference.to_physical(dy, grad_layout, np.nan), "relu",
        layout=layout, grad_layout=grad_layout, shape=x.shape, dtype=bits,
    )  # fmt: skip
    want = reference.to_physical(exact(dy) * (exact(x) > 0), layout, 0)
    np.testing.assert_array_equal(exact(got), want)


def test_it_may_be_written_over_what_it_reads():
    x, dy = np.array([-1, 2, 0, 3.0]), np.array([1, 2, 3, 4.0])
    assert lk.grad.activation_input(x, dy, "relu", layout="a", out=dy) is dy
    assert dy.tolist() == [0, 2, 0, 4]


@pytest.mark.parametrize("activation", ["gelu", ("clip", 1), ("relu", 2), ("leaky_relu", np.ones(3)), 3, ("add", 1)])
def test_others_are_refused_by_name(activation):
    with pytest.raises((ValueError, TypeError), match=r"grad.activation_input: activation .*expected 'relu'"):
        lk.grad.activation_input(np.ones(3), np.ones(3), activation, layout="a")
