"""Gradients of biases, in any layout and type."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from random_cases.numbers import exact
from strategies import activations, conv_types, in_proportion

import layoutkit as lk


@given(st.data(), st.integers(1, 3), conv_types(), st.sampled_from([0, 1, 2]), st.integers(1, 3))
def test_any_bias(data, rank, types, beta, threads):
    layout = data.draw(activations(rank))
    shape = tuple(data.draw(st.integers(0 if axis == 0 else 1, 9)) for axis in range(rank + 2))
    rng = np.random.default_rng(0)
    dy, old = (rng.integers(-4, 5, n).astype(dtype) for n, dtype in ((shape, types.src), (shape[1], types.dst)))
    assume(in_proportion(layout, dy))
    sums = exact(dy).sum((0, *range(2, rank + 2)))
    given = dict(layout=layout, shape=shape, dtype=types.dst, threads=threads)
    bias = getattr(lk.grad, f"conv{rank}d_bias")
    held = reference.to_physical(dy, layout, np.nan)
    np.testing.assert_array_equal(bias(held, **given), sums.astype(types.dst))
    out = old.copy()
    assert bias(held, out=out, beta=beta, **given) is out
    np.testing.assert_array_equal(out, (sums + beta * exact(old)).astype(types.dst))


def test_errors_name_what_is_wrong():
    with pytest.raises(TypeError, match=r"grad.conv2d_bias: grad_output of int8: integers have no gradients"):
        lk.grad.conv2d_bias(np.ones((1, 2, 3, 3), np.int8))
    with pytest.raises(ValueError, match=r"grad.conv2d_bias: layout"):
        lk.grad.conv2d_bias(np.ones((1, 2, 3), np.float32), layout="NCW")
    with pytest.raises(ValueError, match="out must have shape"):
        lk.grad.conv2d_bias(np.ones((1, 2, 3, 3), np.float32), out=np.ones(3, np.float32))
