"""Kernels of quotients and remainders against whole numbers of Python, between pages that cannot be touched."""

import harness
import numpy as np
import pytest
from conftest import WHOLE_ISAS, fewer
from hypothesis import given
from hypothesis import strategies as st
from oracle.guard import guarded

from layoutkit._core.runtime import registry

DTYPES = {
    "s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16, "s32": np.int32, "u32": np.uint32,
    "s64": np.int64, "f32": np.float32,
}  # fmt: skip
KERNELS = [k for k in registry.kernels(all_isas=True) if k.family == "divide" and k.isa in WHOLE_ISAS]
QUOTIENT, REMAINDER, MODULO = range(3)


def of_integers(x, d, what):
    """A result of one element, of any size."""
    if d == 0:
        return 0
    quotient = abs(x) // abs(d) * (-1 if (x < 0) != (d < 0) else 1)
    rest = x - quotient * d
    return quotient if what == QUOTIENT else rest + d if what == MODULO and rest and (rest < 0) != (d < 0) else rest


def truth(x, d, what, dtype):
    if dtype == np.float32:
        with np.errstate(all="ignore"):
            return np.fmod(x.astype(np.float64), d.astype(np.float64)).astype(np.float32)
    bits = 8 * np.dtype(dtype).itemsize
    whole = [of_integers(int(a), int(b), what) % (1 << bits) for a, b in zip(*np.broadcast_arrays(x, d))]
    return np.array(whole, f"u{bits // 8}").view(dtype)


def drawn(rng, count, dtype):
    """Small numbers, those around the bounds of the type and of exact doubles, and any bits."""
    if dtype == np.float32:
        x = (rng.standard_normal(count) * 10.0 ** rng.integers(-2, 3, count)).astype(np.float32)
        bits = rng.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)
        x = np.where(
            rng.random(count) < 0.02 * rng.integers(0, 3), bits, np.where(rng.random(count) < 0.3, np.rint(x), x)
        )
        special = rng.choice(np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38]), count)
        return np.where(rng.random(count) < 0.02 * rng.integers(0, 3), special, x)
    of = np.iinfo(dtype)
    powers = [sign << bit for sign in (-1, 1) for bit in (31, 50, 51, 52, 53)]
    bounds = [n + k for n in (of.min, of.max, 0, *powers) for k in range(-2, 3)]
    bounds = np.array([n for n in bounds if of.min <= n <= of.max], dtype)
    any_bits = rng.integers(of.min, of.max, count, dtype, endpoint=True)
    small = np.where(
        rng.random(count) < 0.7, rng.integers(max(of.min, -99), 100, count), any_bits >> rng.integers(3, 13)
    )
    wide = np.where(rng.random(count) < 0.5, rng.choice(bounds, count), any_bits)
    return np.where(rng.random(count) < rng.choice([0, 0.01, 1]), wide, small).astype(dtype)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@fewer(2)
@given(
    st.integers(0, 1 << 30), st.integers(1, 140), st.sampled_from(["low", "high"]), st.integers(0, 2), st.integers(0, 2)
)
def test_every_element_is_exact(kernel, seed, count, end, what, single):
    rng, dtype = np.random.default_rng(seed), DTYPES[kernel.types]
    what = REMAINDER if dtype == np.float32 else what
    x, d = (drawn(rng, 1 if single == k else count, dtype) for k in (1, 2))
    held = [guarded(a.view(np.uint8), end) for a in (x, d, np.zeros(count, dtype))]
    at = {name: of.address for name, of in zip(("x", "d", "y"), held)}
    harness.run(kernel.name, "lk_divide", **at, count=count, what=what, one_x=single == 1, one_d=single == 2)
    got, want = held[2].array.view(dtype), truth(x, d, what, dtype)
    np.testing.assert_array_equal(got, want)
    if dtype == np.float32:
        np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[got == 0]))
