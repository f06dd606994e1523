"""Pooling of planes by its rows, against the obvious loop, between pages that cannot be touched."""

import harness
import numpy as np
import pytest
from conftest import WHOLE_ISAS, fewer
from hypothesis import given
from hypothesis import strategies as st
from oracle.guard import guarded

from layoutkit._core.runtime import registry

PIXELS = [k for k in registry.kernels(all_isas=True) if k.family == "pooling" and k.isa in WHOLE_ISAS]
REAL = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": np.uint16, "u8": np.uint8, "s8": np.int8}
X_ZERO, RATIO, Y_ZERO = 20, 0.375, 10  # of bytes
KERNELS = [k for k in registry.kernels(all_isas=True) if k.family == "plane_pooling" and k.isa in WHOLE_ISAS]
PLANE_BYTES = harness.SIZES["LK_PLANE_BYTES"]


def pooled(x, rows, cols, height, width, scales, factor):
    """Of planes; height and width are (taps, step, dilation, before); scales: None for the largest."""
    y = np.full((rows, cols), -np.inf if scales is None else 0, np.float32)
    for i, j in np.ndindex(y.shape):
        r, t = (at * s + np.arange(taps) * d - before for at, (taps, s, d, before) in ((i, height), (j, width)))
        window = x[:, r[(r >= 0) & (r < x.shape[1])]][..., t[(t >= 0) & (t < x.shape[2])]]
        if scales is None:
            y[i, j] = np.max(window, initial=-np.inf)
        else:
            y[i, j] = window.sum() * (factor * scales[0][i] * scales[1][j])
    return y


axes = st.tuples(st.sampled_from([1, 2, 3, 3, 4, 5, 9]), st.sampled_from([1, 1, 2, 2, 3, 7]),
                 st.sampled_from([1, 1, 1, 2, 3]), st.integers(-3, 6))  # fmt: skip

# Windows whose rows are combined in registers.
usual = st.builds(
    lambda window, dilation, rows, columns: ((*window, 1, rows), (*window, dilation, columns)),
    st.sampled_from([(2, 2), (3, 1), (3, 2)]), st.sampled_from([1, 1, 1, 3]), st.integers(-1, 2), st.integers(-1, 3),
)  # fmt: skip


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@given(st.tuples(st.just(1), st.integers(1, 50), st.sampled_from([1, 9, 17, 40, 90, 128, 1024])), usual,
       st.integers(1, 20), st.integers(1, 70), st.booleans(), st.sampled_from([0, 0, 1, 3]),
       st.integers(0, 99))  # fmt: skip
@fewer(3)
def test_usual_windows(kernel, end, shape, windows, rows, cols, means, special, seed):
    check(kernel, end, shape, *windows, rows, cols, means, special, seed)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@given(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(1, 90)), axes, axes, st.integers(1, 6),
       st.integers(1, 70), st.booleans(), st.sampled_from([0, 0, 1, 3]), st.integers(0, 99))  # fmt: skip
@fewer(3)
def test_pooling_of_planes(kernel, end, shape, height, width, rows, cols, means, special, seed):
    check(kernel, end, shape, height, width, rows, cols, means, special, seed)


def check(kernel, end, shape, height, width, rows, cols, means, special, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 10, shape).astype(np.float32)  # sums are exact
    for value in (np.nan, np.inf, -np.inf)[:special] if x.size and not means else ():
        x.flat[rng.integers(x.size, size=2)] = value
    scales = [2.0 ** rng.integers(-2, 3, n).astype(np.float32) for n in (rows, cols)] if means else None
    want = pooled(x, rows, cols, height, width, scales, 0.5)
    gx, gy = guarded(x.reshape(-1).view(np.uint8), end), guarded(np.full(want.nbytes, 0xA5, np.uint8), end)
    gs = [guarded(s.view(np.uint8), end) for s in scales or ()]
    span = (rows - 1) * height[1] + (height[0] - 1) * height[2] + 1
    scratch = guarded(np.zeros(span * PLANE_BYTES, np.uint8), end)
    offset = -scratch.address % PLANE_BYTES
    assert offset == 0 or end == "high"
    harness.run(
        kernel.name, "lk_plane_pooling", x=gx.address, x_depth=4 * shape[1] * shape[2], x_row=4 * shape[2],
        y=gy.address, y_row=4 * cols, depths=shape[0], rows=rows, cols=cols,
        **harness.pairs("row_taps row_step row_dilation row_before row_size", (*height, shape[1])),
        **harness.pairs("taps step dilation before size", (*width, shape[2])),
        row_scale=gs[0].address if means else None, scale=gs[1].address if means else None, factor=0.5,
        scratch=scratch.address,
    )  # fmt: skip
    np.testing.assert_array_equal(gy.array.view(np.float32).reshape(want.shape), want)


def stored(x, kernel):
    """Numbers that all types hold exactly, as a kernel takes them."""
    if kernel.types in ("u8", "s8"):
        return (x + X_ZERO).astype(REAL[kernel.types])
    if kernel.types == "bf16":
        return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return x.astype(REAL[kernel.types])


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", PIXELS, ids=lambda k: k.name)
@given(st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(1, 12), st.integers(1, 150)),
       st.sampled_from([(2, 2), (3, 1), (3, 2), (5, 1), (4, 1), (2, 1), (3, 4), (7, 2)]), st.sampled_from([1, 1, 1, 2]),
       st.integers(-1, 4), st.integers(1, 9), st.booleans(), st.sampled_from([0, 0, 1, 3]),
       st.integers(0, 99))  # fmt: skip
@fewer(3)
def test_pooling_of_pixels(kernel, end, shape, window, dilation, before, cols, means, special, seed):
    rng = np.random.default_rng(seed)
    most = 1 if means and kernel.types == "bf16" else 9  # sums are exact
    x = rng.integers(-most, most + 1, shape).astype(np.float32)
    reals = kernel.types not in ("u8", "s8")
    for value in (np.nan, np.inf, -np.inf)[:special] if x.size and not means and reals else ():
        x.flat[rng.integers(x.size, size=2)] = value
    scale = 2.0 ** rng.integers(-2, 3, cols)
    want = np.full((cols, shape[3]), 0 if means else -np.inf, np.float32)
    for j in range(cols):
        t = j * window[1] + np.arange(window[0]) * dilation - before
        part = x[:, :, t[(t >= 0) & (t < shape[2])]].reshape(-1, shape[3])
        want[j] = part.sum(0) * scale[j] / 2 if means else np.max(part, 0, initial=-np.inf)
    limits = np.iinfo(np.uint8 if reals else REAL[kernel.types])
    rounded = want if reals else np.clip(np.rint(want * RATIO) + Y_ZERO, limits.min, limits.max) - X_ZERO
    given_x, want = stored(x, kernel), stored(rounded, kernel)
    item = given_x.itemsize
    gx, gy = guarded(given_x.reshape(-1).view(np.uint8), end), guarded(np.full(want.nbytes, 0xA5, np.uint8), end)
    real = np.float64 if kernel.types == "f64" else np.float32
    gs = guarded(scale.astype(real).view(np.uint8), end)
    pixel = item * shape[3]
    pitches = harness.pairs("x_depth x_row x_col y_col", (pixel * shape[2] * shape[1], pixel * shape[2], pixel, pixel))
    harness.run(
        kernel.name, "lk_pooling", x=gx.address, y=gy.address, cols=cols, factor=0.5,
        x_zero=X_ZERO, ratio=RATIO, y_zero=Y_ZERO, **pitches, scale=gs.address if means else None,
        **harness.pairs("depths rows size count", shape),
        **harness.pairs("taps step dilation before", (*window, dilation, before)),
    )  # fmt: skip
    got = gy.array.view(want.dtype).reshape(want.shape)
    if kernel.types == "bf16":  # of which any is NaN
        got, want = ((a.astype(np.uint32) << 16).view(np.float32) for a in (got, want))
    np.testing.assert_array_equal(got, want)
