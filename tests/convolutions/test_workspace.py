"""A workspace that was asked for beforehand: large enough, used, and the only memory of a call."""

import tracemalloc

import numpy as np
import pytest

import layoutkit as lk

CASES = {
    "direct": dict(w=(32, 16, 3, 3), padding=1, algorithm="direct"),
    "im2col": dict(w=(32, 16, 3, 3), padding=1, algorithm="im2col"),
    "winograd": dict(w=(32, 16, 3, 3), padding=1, algorithm="winograd"),
    "planes": dict(w=(32, 16, 3, 3), padding=1, algorithm="planes"),
    "folded": dict(w=(32, 16, 3, 3), padding=1, algorithm="folded"),
    "depthwise": dict(w=(16, 1, 3, 3), padding=1, groups=16, algorithm="depthwise"),
}
SHAPE = (2, 16, 40, 40)


@pytest.mark.parametrize("add", [None, "other", "out"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "nChw16c", "CHWN"])
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_allocated(name, layout, add):
    c = dict(CASES[name])
    rng = np.random.default_rng(0)
    w = rng.standard_normal(c.pop("w"), np.float32)
    op = lk.Conv2d(w, layout=layout, activation="relu", threads=2, **c)
    x = rng.standard_normal(lk.Layout(layout).physical_shape(SHAPE), np.float32)
    residual = rng.standard_normal(op(x).shape, np.float32) if add else None
    want = op(x, None, residual)
    out = residual.copy() if add == "out" else np.zeros_like(want)
    added = out if add == "out" else residual
    workspace = np.full(op.workspace(SHAPE, add=add is not None), 0xA5, np.uint8)
    small = np.zeros(max(0, op.workspace(SHAPE) - 65), np.uint8)
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"workspace of .* bytes, this call needs"):
        op(x, out, added, small)
    peaks = []
    for _ in range(3):  # other threads of this process may allocate meanwhile
        if add == "out":
            out[...] = residual
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        op(x, out, added, workspace)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    np.testing.assert_array_equal(out, want)
    assert min(peaks) < 8 << 10 < out.nbytes  # Python's own


def test_what_is_no_workspace():
    op = lk.Conv2d(np.ones((16, 16, 3, 3), np.float32), layout="NHWC")
    x = np.ones((1, 9, 9, 16), np.float32)
    out = op(x)
    for wrong in (bytearray(1 << 20), np.zeros((1 << 10, 1 << 10))[:, ::2]):
        with pytest.raises(TypeError, match="workspace must be a contiguous, writeable numpy array"):
            op(x, out, workspace=wrong)
    room = np.zeros(1 << 20, np.float32)
    with pytest.raises(ValueError, match="overlaps"):
        op(room[: x.size].reshape(x.shape), out, workspace=room)
