"""Integers near and beyond what offsets can say: right, or a ValueError; nothing in between."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference

import layoutkit as lk
from layoutkit.bench.listed import text_cases
from layoutkit.convolutions.problem import MAX_SIZE, ConvProblem

BEYOND = [2**31, 2**31 + 1, 2**32 + 1, 2**62, 2**63, 10**30]
KINDS = {"dense": (1, 4), "depthwise": (8, 8), "grouped": (2, 8)}  # groups, input channels
CLASSES = {1: lk.Conv1d, 2: lk.Conv2d, 3: lk.Conv3d}


@pytest.mark.parametrize("value", BEYOND)
@pytest.mark.parametrize("name", ["stride", "padding", "dilation", "groups"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_beyond_the_limit_is_refused_by_name(kind, name, value):
    groups, channels = KINDS[kind]
    x, w = np.ones((1, channels, 5, 5), np.float32), np.ones((8, channels // groups, 1, 1), np.float32)
    given = value if name == "groups" else (1, value)
    with pytest.raises(ValueError, match=f"{name}.*{MAX_SIZE}"):
        lk.conv2d(x, w, **{"groups": groups, name: given})


@pytest.mark.parametrize("algorithm", ["auto", "direct", "im2col", "depthwise", "planes", "folded"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "nChw8c"])
@pytest.mark.parametrize("attributes", [
    dict(stride=(1, MAX_SIZE), padding=((0, 0), (0, 7))), dict(dilation=(MAX_SIZE, MAX_SIZE)),
    dict(stride=(MAX_SIZE, MAX_SIZE), padding=((0, 0), (1, MAX_SIZE - 9))), dict(stride=(1, 2**16 + 1)),
    dict(stride=(1, MAX_SIZE), padding=((1, 1), (MAX_SIZE, 0))),
])  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_within_is_right(kind, attributes, layout, algorithm):
    groups, channels = KINDS[kind]
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-4, 5, s).astype(np.float32) for s in ((2, channels, 5, 7), (8, channels // groups, 1, 1)))
    op = lk.Conv2d(w, layout=layout, algorithm=algorithm, accuracy="strict", groups=groups, **attributes)
    full = dict(stride=(1, 1), padding=((0, 0), (0, 0)), dilation=(1, 1)) | attributes
    want = reference.conv(x, w, None, groups=groups, **full)
    try:
        got = op(reference.to_physical(x, lk.Layout(layout)))
    except ValueError as refusal:
        assert algorithm != "auto" and "cannot do it" in str(refusal)
        return
    np.testing.assert_array_equal(reference.to_logical(got, lk.Layout(layout), want.shape), want)


def test_a_padded_copy_out_of_proportion_is_no_candidate():
    w = np.ones((4, 4, 3, 3), np.float32)
    op = lk.Conv2d(w, stride=2**20, padding=2**20)
    names = " ".join(c.candidate.name for c in op.plan((1, 4, 9, 9)).choices)
    assert "planes" not in names and "blas" not in names and "folded" not in names
    with pytest.raises(ValueError, match=r"cannot do it: .*padded copy of the input would take"):
        lk.Conv2d(w, stride=(2**20, 1), padding=2**20, algorithm="planes").plan((1, 4, 9, 9))


NUMBERS = st.sampled_from([*BEYOND, MAX_SIZE, 2**20, 0, 1, 3])


@given(st.lists(NUMBERS, min_size=2, max_size=2), NUMBERS, NUMBERS, st.booleans())
def test_lines_of_a_list_are_right_or_refused(stride, padding, dilation, depthwise):
    channels = "c16 5x5 o16 k1x3" if depthwise else "c4 5x5 o6 k1x3"
    text = (f"conv n1 {channels} s{stride[0]}x{stride[1]} p0+0,{padding}+{padding} d1x{dilation} "
            f"g{16 if depthwise else 1} NHWC>NHWC f32 strict")  # fmt: skip
    try:
        (case,) = text_cases([text], "here", ["NHWC"], [1])
    except ValueError:
        return
    p = ConvProblem.parse(text)
    assert all(n <= MAX_SIZE for n in (*p.stride, *p.dilation)) and case is not None


def test_arrays_whose_strides_reach_too_far():
    x = np.lib.stride_tricks.as_strided(np.ones(1, np.float32), (1, 1, 1, 2), (4, 4, 4, 2**50))
    with pytest.raises(ValueError, match=r"beyond 2\*\*62 bytes"):
        lk.conv2d(x, np.ones((1, 1, 1, 1), np.float32), padding=((0, 0), (MAX_SIZE, 0)), stride=(1, MAX_SIZE))


def test_an_output_beyond_64_bits_is_refused():
    op = lk.Conv2d(np.ones((4, 4, 1, 1), np.float32), padding=2**30)
    with pytest.raises(ValueError, match=r"beyond 2\*\*62 bytes"):
        op.plan((1, 4, 9, 9))
