"""Div and Mod against numpy: all types, shapes that are broadcast, views, divisors of 0."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutkit._core.nests.pointwise.divide import Divide
from layoutkit.graph.operators import OPERATORS

TYPES = "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "float16"


def of_numpy(op, fmod, x, d):
    with np.errstate(all="ignore"):
        if op == "Mod":
            return (np.fmod if fmod else np.mod)(x, d)
        if x.dtype.kind == "f":
            return np.divide(x, d)
        return np.floor_divide(x - np.fmod(x, d) if x.dtype.kind == "i" else x, d)


def numbers(rng, shape, dtype):
    if np.dtype(dtype).kind == "f":
        return (rng.standard_normal(shape) * 3).astype(dtype)
    of = np.iinfo(dtype)
    x = rng.integers(max(of.min, -9), 10, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.1, rng.choice(np.array([of.min, of.max], dtype), shape), x)


@given(
    st.integers(0, 1 << 30),
    st.sampled_from(TYPES),
    st.sampled_from([("Div", 0), ("Mod", 0), ("Mod", 1)]),
    st.integers(1, 2),
)
def test_as_numpy(seed, dtype, op, threads):
    op, fmod = op
    rng, rank = np.random.default_rng(seed), int(np.random.default_rng(seed).integers(0, 5))
    fmod = fmod or np.dtype(dtype).kind == "f"
    shape = rng.choice([0, 1, 2, 3, 70], rank, p=[0.04, 0.16, 0.3, 0.3, 0.2])
    given = []
    for _ in range(2):  # of one element along some axes, of fewer axes, and no copy of its own
        own = [n if rng.random() < 0.8 else min(n, 1) for n in shape][rng.integers(0, 2) * rank // 2 :]
        x = numbers(rng, [n * s for n, s in zip(own, rng.integers(1, 3, rank))], dtype)
        x = x[tuple(slice(None, None, -(-m // max(n, 1)) or 1) for n, m in zip(own, x.shape))]
        given.append(x.T.copy().T if rng.random() < 0.3 else x)
    want = of_numpy(op, fmod, *given)
    (got,) = OPERATORS[op].run(given, {"op": op, "fmod": int(fmod), "threads": threads})
    np.testing.assert_array_equal(got, want, strict=True)
    out = np.empty(want.shape[::-1], dtype).T
    (to,) = OPERATORS[op].run(given, {"op": op, "fmod": int(fmod), "threads": threads}, [out])
    np.testing.assert_array_equal(to, want)


@pytest.mark.parametrize("shape", [(3, 50000), (70000, 3), (2, 300, 300)])
@pytest.mark.parametrize("threads", [1, 2])
def test_several_tasks(shape, threads):
    rng = np.random.default_rng(1)
    x, d = rng.integers(-99, 99, shape), rng.integers(-9, 9, shape[-1])
    for a, b in ((x, d), (d, x), (x, x[..., :1]), (x, d[:1])):
        (got,) = OPERATORS["Div"].run([a, b], {"op": "Div", "threads": threads})
        np.testing.assert_array_equal(got, of_numpy("Div", 0, a, b))


def test_what_cannot_be_divided_is_refused():
    x = np.ones((2, 6), np.int32)
    with pytest.raises(TypeError, match="quotient of int32 and int64"):
        Divide(x, x.astype(np.int64), x.copy(), "quotient", 1)
    with pytest.raises(TypeError, match="quotient of float32"):
        Divide(*[x.astype(np.float32)] * 3, "quotient", 1)
    with pytest.raises(ValueError, match="strides"):
        Divide(x[:, ::2], x[:, :3], np.empty((2, 3), np.int32), "modulo", 1)
    with pytest.raises(ValueError, match="in C order"):
        Divide(x, x, x.copy("F"), "modulo", 1)
