"""Recursions of the second order across rows against the obvious sums, between pages that cannot be touched."""

import harness
import numpy as np
import pytest
from conftest import WHOLE_ISAS, fewer
from hypothesis import given
from hypothesis import strategies as st
from oracle.guard import guarded

from layoutkit._core.runtime import registry

SECTIONS = 8
KERNELS = [
    k
    for k in registry.kernels(all_isas=True)
    if k.family == "weigh" and k.isa in WHOLE_ISAS and k.types in ("f32", "f64")
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@fewer(3)
@given(st.integers(1, 3), st.integers(0, 40), st.booleans(), st.integers(0, 99), st.sampled_from(["low", "high"]))
def test_sections(kernel, sections, count, adds, seed, end):
    rng, dtype = np.random.default_rng(seed), np.dtype(np.float32 if kernel.types == "f32" else np.float64)
    rows = rng.integers(-9, 10, (2 + 2 * sections + 1, count)).astype(dtype)
    weight = rng.integers(-8, 9, (sections, 4)).astype(dtype) / 4  # sums are exact
    held = [guarded(row.view(np.uint8), end) for row in rows]
    at = np.array([h.address for h in held])
    if not adds:
        at[-1] = 0
    y = guarded(np.full(count * dtype.itemsize, 0xA5, np.uint8), end)
    harness.run(kernel.name, "lk_combine", x=at, y=y.address, taps=sections, count=count, kind=SECTIONS, weight=weight)
    total = rows[-1] * adds
    for k, w in enumerate(weight):
        last, second = rows[2 + 2 * k], rows[3 + 2 * k]
        state = w[0] * rows[0] + w[1] * rows[1] + w[2] * last + w[3] * second
        np.testing.assert_array_equal(held[2 + 2 * k].array.view(dtype), last)
        np.testing.assert_array_equal(held[3 + 2 * k].array.view(dtype), state)
        total = total + state
    np.testing.assert_array_equal(y.array.view(dtype), total)
