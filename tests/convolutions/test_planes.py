"""Planes: which rows of the padded input a tap sums, and when taps and channels fold into one loop."""

from dataclasses import replace
from math import gcd

import numpy as np
import pytest
from conftest import using_isa
from conv_problems import conv_problems
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference
from whole import numbers

import layoutkit as lk
from layoutkit import Layout
from layoutkit._core.runtime import registry
from layoutkit.convolutions.algorithms.planes import FEW_CHANNELS, LINE_BYTES, Planes
from layoutkit.convolutions.task import ConvTask
from layoutkit.convolutions.types import F32

PIXELS = {
    1: [Layout("NCW"), Layout("bac")], 2: [Layout("NCHW"), Layout("bacd")], 3: [Layout("NCDHW"), Layout("bacde")],
}  # fmt: skip
CLASSES = {1: lk.Conv1d, 2: lk.Conv2d, 3: lk.Conv3d}


def run(p, x, w, isa="", threads=1):
    with using_isa(isa or registry.isa()):
        op = CLASSES[len(p.size)](
            w, stride=p.stride, padding=p.padding, dilation=p.dilation, groups=p.groups, layout=p.src, out_layout=p.dst,
            algorithm="planes", threads=threads,
        )  # fmt: skip
        return reference.to_logical(op(reference.to_physical(x, p.src)), p.dst, p.dst_shape)


def supported(p):
    """`p` with what planes ask for: more than one tap."""
    p = replace(p, accuracy="standard", zeros=False, types=F32 if p.types.integers else p.types.wide)
    return replace(p, kernel=(*p.kernel[:-1], 2), dilation=(*p.dilation[:-1], 1)) if p.taps == 1 else p


@given(conv_problems(layouts=PIXELS, per_group=(1, 40)), st.sampled_from(registry.isas()), st.integers(1, 3), st.data())
def test_a_tap_sums_the_rows_that_it_reads(p, isa, threads, data):
    """Filters of a single 1 show the padded input, shifted: which rows, of which channel, and zeros for the padding."""
    p = supported(p)
    if not p.fits:
        return
    assert Planes().supports(p) is None
    x = numbers(np.random.default_rng(0), *p.src_shape, dtype=p.types.src)
    depth, per_group = p.ic // p.groups, p.oc // p.groups
    w = np.zeros((p.oc, depth, *p.kernel), p.types.filter)
    chosen = [(data.draw(st.integers(0, depth - 1)), *(data.draw(st.integers(0, k - 1)) for k in p.kernel))
              for _ in range(min(p.oc, 6))]  # fmt: skip
    padded = np.pad(x, ((0, 0), (0, 0), *p.padding))
    want = np.zeros(p.dst_shape, np.float32)
    for o in range(p.oc):
        c, *taps = chosen[o % len(chosen)]
        w[(o, c, *taps)] = 1
        reads = (slice(k * d, k * d + (n - 1) * s + 1, s) for k, d, n, s in zip(taps, p.dilation, p.out, p.stride))
        want[:, o] = padded[(slice(None), o // per_group * depth + c, *reads)]
    np.testing.assert_array_equal(run(p, x, w, isa, threads), want)


@pytest.mark.parametrize("channels", [1, FEW_CHANNELS, FEW_CHANNELS + 1])
def test_few_channels_fold(channels):
    """Rows of all channels lie beside one another, each begins with a line, and the sums are the same."""
    p = lk.convolutions.problem.ConvProblem(
        2, channels, 5, (6, 7), (3, 3), (1, 1), ((1, 2), (0, 1)), (1, 1), 1, Layout("NCHW"), Layout("NCHW")
    )
    found = Planes().padded(p, None)
    images, high, wide = 2 * channels, 9, 8
    if channels <= FEW_CHANNELS:
        images, pitch = 2, -(-4 * wide // LINE_BYTES) * LINE_BYTES
        assert sum(found.row) == pitch and found.rows == (channels, 6 * channels, 2 * channels)
        assert found.strides == (9 * channels * pitch, pitch, channels * pitch, 4)
    else:
        assert found.strides == (4 * channels * high * wide, 4 * high * wide, 4 * wide, 4)
        assert found.rows == (1, 6, 2) and found.row == (0, 28, 4)
    assert (found.n, found.behind) == (images, LINE_BYTES)
    rng = np.random.default_rng(0)
    x, w = numbers(rng, *p.src_shape), numbers(rng, 5, channels, 3, 3)
    want = reference.conv(x, w, None, p.stride, p.padding, p.dilation, 1)
    np.testing.assert_array_equal(run(p, x, w), want)


def test_a_stride_reads_phases():
    """Even columns, then odd ones, each from the zeros that are before them; one zero too many is left out."""
    p = lk.convolutions.problem.ConvProblem(
        2, 3, 5, (6, 7), (3, 3), (1, 2), ((1, 2), (1, 1)), (1, 1), 1, Layout("NCHW"), Layout("NCHW")
    )
    found = Planes().padded(p, None)
    assert found.problem.src == Layout("abcD2d") and found.problem.padding == ((0, 0), (-1, 0))
    assert found.row == (4, 16, LINE_BYTES - 20) and found.rows == (6, 36, 12)
    image, line = 9 * 6 * LINE_BYTES, 6 * LINE_BYTES
    assert found.strides == (image, 2 * LINE_BYTES, line, 4, LINE_BYTES)


@given(conv_problems(layouts=PIXELS))
def test_a_padded_input_is_read_in_any_case(p):
    found = Planes().padded(supported(p), None)
    assert found is not None and found.behind == LINE_BYTES


@pytest.mark.parametrize(("change", "why"), [
    (dict(kernel=(1, 1)), "one tap"),
    (dict(padding=((0, 0), (-1, 0))), "leaves out inputs"), (dict(src=Layout("NHWC")), "input layout"),
    (dict(dst=Layout("nChw8c")), "output layout"),
    ({"stride": (1, 65), "padding": ((0, 0), (70, 70))}, "a stride of 65 along the width"),
])  # fmt: skip
def test_what_planes_do_not_take_says_why(change, why):
    p = lk.convolutions.problem.ConvProblem(
        1, 8, 8, (6, 7), (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, Layout("NCHW"), Layout("NCHW")
    )
    assert Planes().supports(p) is None
    assert why in Planes().supports(replace(p, **change))


@pytest.mark.parametrize("sizes", [
    "90x90 o4 k7x7 s1x1 p3+3,3+3 d1x1", "30x30 o4 k3x3 s1x1 p1+1,1+1 d1x1", "126x126 o4 k3x3 s1x1 p1+1,1+1 d1x1",
    "4x14x14 o4 k3x3x3 s1x1x1 p1+1,1+1,1+1 d1x1x1", "62x61 o4 k3x3 s2x2 p1+1,1+1 d1x1",
])  # fmt: skip
def test_planes_are_not_all_in_the_same_sets_of_the_cache(sizes):
    """Those whose bytes with padding are a multiple of 4096 would be, or nearly so."""
    layout = "NCDHW" if sizes.count("+") == 3 else "NCHW"
    p = ConvTask.parse(f"conv n1 c64 {sizes} g1 {layout}>{layout} f32 standard t1").problem
    assert gcd(Planes().padded(p, None).strides[1], 4096) <= 512
    rng = np.random.default_rng(0)
    x, w = numbers(rng, *p.src_shape), numbers(rng, p.oc, p.ic, *p.kernel)
    want = reference.conv(x, w, None, p.stride, p.padding, p.dilation, p.groups)
    np.testing.assert_array_equal(run(p, x, w), want)
