import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference

import layoutkit as lk
from layoutkit.convolutions.winograd_pieces import axis_pieces


@st.composite
def axes(draw, most=16):
    kernel, stride = draw(st.integers(1, most)), draw(st.integers(1, 5))
    dilation = draw(st.integers(1, 4)) if stride == 1 else 1
    return kernel, stride, dilation, draw(st.sampled_from([1, 2])) if stride == 2 else 1


@given(axes(), st.integers(0, 2**32))
def test_pieces_sum_up_to_the_filter(c, seed):
    kernel, stride, dilation, _ = c
    axis = axis_pieces(*c)
    assert sorted(k for piece in axis.taps for k in piece) == list(range(kernel))
    rng = np.random.default_rng(seed)
    outputs = int(rng.integers(1, 9))
    w = rng.integers(-9, 9, kernel)
    x = np.zeros(stride * (outputs - 1) + axis.last + 1, int)
    used = stride * (outputs - 1) + dilation * (kernel - 1) + 1
    x[:used] = rng.integers(-9, 9, used)
    want = [sum(w[k] * x[stride * i + dilation * k] for k in range(kernel)) for i in range(outputs)]
    by_piece = np.zeros(outputs, int)
    for piece, offset in zip(axis.taps, axis.offsets):
        for i in range(outputs):
            by_piece[i] += sum(w[k] * x[axis.scale * i + offset + axis.step * t] for t, k in enumerate(piece))
    assert by_piece.tolist() == want


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [(3, 3), (5, 5), (4, 4), (7, 7), (1, 5)])
def test_one_operation_for_all_sizes(kernel, stride):
    """Its packed filter is that of every size, those of a single output along an axis among them."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((40, 48, *kernel)).astype(np.float32)
    op = lk.Conv2d(w, stride=stride, layout="NHWC", algorithm="winograd", threads=1)
    for size in ((30, 31), kernel, (kernel[0] + 1, 20), (20, kernel[1]), (30, 31)):
        x = rng.standard_normal((1, 48, *size)).astype(np.float32)
        got = lk.reorder(op(lk.reorder(x, "NCHW", "NHWC")), "NHWC", "NCHW")
        want = reference.conv(x, w, None, (stride,) * 2, ((0, 0),) * 2, (1, 1), 1)
        assert np.linalg.norm(got - want) <= 1e-5 * np.linalg.norm(want)
