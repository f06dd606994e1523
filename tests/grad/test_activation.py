"""Gradients of activations are the slopes of what convolutions apply."""

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
