"""Means of pairs of elements of rows against the obvious sums, between pages that cannot be touched."""

import harness
import numpy as np
import pytest
from conftest import WHOLE_ISAS, fewer
from hypothesis import given
from hypothesis import strategies as st
from oracle.guard import guarded

from layoutkit._core.runtime import registry

DTYPES = {"u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16}
HALVES = 7
KERNELS = [
    k for k in registry.kernels(all_isas=True) if k.family == "weigh" and k.isa in WHOLE_ISAS and k.types in DTYPES
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@fewer(3)
@given(st.sampled_from([1, 2, 4]), st.integers(0, 140), st.integers(0, 99), st.sampled_from(["low", "high"]))
def test_halves(kernel, taps, count, seed, end):
    dtype = np.dtype(DTYPES[kernel.types])
    info, rng = np.iinfo(dtype), np.random.default_rng(seed)
    x = rng.integers(info.min, info.max + 1, (taps, 2 * count)).astype(dtype)
    x[:, ::7] = info.max if seed % 2 else info.min
    held = [guarded(row.view(np.uint8), end) for row in x]
    y = guarded(np.full(count * dtype.itemsize, 0xA5, np.uint8), end)
    harness.run(
        kernel.name,
        "lk_combine",
        x=np.array([h.address for h in held]),
        y=y.address,
        taps=taps,
        count=count,
        ahead_row=4096 * (taps - 1),
        kind=HALVES,
    )
    mean = x.astype(float).reshape(taps, count, 2).mean((0, 2))
    want = np.trunc(mean + np.copysign(0.5, mean)).astype(dtype)
    np.testing.assert_array_equal(y.array.view(dtype), want)
