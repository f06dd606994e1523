"""Convolutions of integers: equal to the bit, whatever is drawn; what is refused; ONNX's own cases."""

import numpy as np
import pytest
from conftest import fewer, using_isa
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference
from random_cases import transposed
from random_cases.integers import case
from strategies import activations

import layoutkit as lk
from layoutkit._core.runtime import registry


@given(st.integers(0, 2**32))
@pytest.mark.filterwarnings("ignore:.*only slow ways")
def test_any_convolution_of_integers(seed):
    assert case(seed, 0) is None


@given(st.integers(0, 2**32))
@pytest.mark.filterwarnings("ignore:.*only slow ways")
def test_any_transposed_convolution(seed):
    """Of integers half of the time."""
    assert transposed.case(seed, 0) is None


@given(st.data())
@pytest.mark.filterwarnings("ignore:.*only slow ways")
@pytest.mark.parametrize("isa", registry.isas())
@fewer(2)
def test_bytes_are_made_in_registers(isa, data):
    """Of tiles of any size: ragged channels and rows, dense and blocked destinations with pads, short sums."""

    def draw(low, high):
        return data.draw(st.integers(low, high))

    src, dst = (data.draw(st.sampled_from((np.uint8, np.int8))) for _ in range(2))
    groups, ic, oc, size = draw(1, 2), draw(1, 40), draw(1, 140), (draw(1, 6), draw(1, 9))
    layout = data.draw(st.sampled_from(("NHWC", "nChw8c", "nChw16c", "nChw32c", "nChw64c")))
    kernel = data.draw(st.sampled_from((1, 1, 3)))
    limits, into = np.iinfo(src), np.iinfo(dst)
    rng = np.random.default_rng(draw(0, 2**32))
    x = rng.integers(limits.min, limits.max, (2, groups * ic, *size), src, endpoint=True)
    w = rng.integers(-128, 127, (groups * oc, ic, kernel, kernel), np.int8, endpoint=True)
    zero = draw(limits.min, limits.max)
    # above 0.5 products may be beyond what is done in registers; sums by powers of two meet ties
    power = data.draw(st.sampled_from((-20.0, -10.0, -6.0, -1.5, -1.0, 3.0)))
    scale = np.exp2(rng.uniform(power, power + 1, groups * oc) if draw(0, 1) else np.full(groups * oc, power))
    scale = np.float32(scale) * rng.choice(np.float32((1, -1)), groups * oc)
    bias = data.draw(st.sampled_from((None, np.int32, np.float32)))
    if bias is not None:
        bias = (rng.standard_normal(groups * oc) * 10.0 ** draw(0, 12 if bias == np.float32 else 4)).astype(bias)
    how = dict(
        scale=scale, activation=data.draw(st.sampled_from((None, "relu", ("clip", -3.5, 40.5), ("clip", 300.0, 1e30)))),
        out_zero_point=data.draw(st.sampled_from((0, 0, into.min, into.max, 3))),
    )  # fmt: skip
    padding = ((kernel // 2, kernel // 2),) * 2
    sums = reference.conv(x.astype(np.int64) - zero, w, None, (1, 1), padding, (1, 1), groups)
    want = reference.to_physical(reference.requantized(sums, bias, dst, **how), lk.Layout(layout))
    stored = reference.to_physical(x, lk.Layout(layout), pad_value=77)
    with using_isa(isa):
        got = lk.conv2d(
            stored, w, bias, shape=x.shape, layout=layout, padding=kernel // 2, groups=groups, zero_point=zero,
            dtype=(src, dst), threads=1, algorithm=data.draw(st.sampled_from(("auto", "im2col"))), **how,
        )  # fmt: skip
    np.testing.assert_array_equal(got, want)


@given(st.data())
@pytest.mark.filterwarnings("ignore:.*only slow ways")
@pytest.mark.parametrize("isa", registry.isas())
@fewer(2)
def test_groups_of_whole_units(isa, data):
    """Of 4, 8 and 16 channels, side by side in vectors, the last of which is not full."""

    def draw(low, high):
        return data.draw(st.integers(low, high))

    src = data.draw(st.sampled_from((np.uint8, np.int8)))
    depth, groups, size = data.draw(st.sampled_from((4, 8, 16))), draw(2, 20), (draw(1, 6), draw(1, 9))
    kernel, stride, dilation = (draw(1, 3), draw(1, 3)), draw(1, 2), draw(1, 2)
    padding = ((draw(2, 4), draw(2, 4)), (draw(2, 4), draw(2, 4)))
    dst, out = data.draw(st.sampled_from((np.uint8, np.int8, np.float32))), data.draw(activations(2))
    limits, channels = np.iinfo(src), depth * groups
    rng = np.random.default_rng(draw(0, 2**32))
    x = rng.integers(limits.min, limits.max, (draw(1, 2), *size, channels), src, endpoint=True)
    x = x[:, :: data.draw(st.sampled_from((1, -1)))]
    w = rng.integers(-128, 127, (channels, depth, *kernel), np.int8, endpoint=True)
    bias = data.draw(st.sampled_from((None, rng.integers(-999, 999, channels, np.int32))))
    zero, scale = draw(limits.min, limits.max), np.float32(2.0 ** -draw(1, 12)) * rng.uniform(0.5, 1, channels)
    scale = np.where(rng.integers(0, 50, channels), scale, 3).astype(np.float32)  # 3: not in registers
    narrow = dict(out_zero_point=draw(0, 9)) if dst != np.float32 else {}
    how = dict(scale=scale, activation=data.draw(st.sampled_from((None, "relu", ("clip", -3.5, 40.5)))), **narrow)
    sums = reference.conv(
        np.moveaxis(x, -1, 1).astype(np.int64) - zero, w, None, (stride,) * 2, padding, (dilation,) * 2, groups
    )
    want = np.moveaxis(reference.requantized(sums, bias, dst, **how), 1, -1)
    with using_isa(isa):
        got = lk.conv2d(
            x, w, bias, layout="NHWC", stride=stride, padding=padding, dilation=dilation, groups=groups,
            zero_point=zero, dtype=(src, dst), threads=draw(1, 2), algorithm="grouped", out_layout=out, **how,
        )  # fmt: skip
    np.testing.assert_array_equal(lk.reorder(got, out, "NHWC", shape=sums.shape), want)


@pytest.mark.parametrize("isa", registry.isas())
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_products_of_the_largest_numbers_do_not_saturate(isa, dtype):
    """Pairs of them are beyond int16, where vpmaddubsw stops."""
    limits = np.iinfo(dtype)
    for value in (limits.min, limits.max):
        for weight in (-128, 127):
            x, w = np.full((1, 3, 3, 64), value, dtype), np.full((40, 64, 3, 3), weight, np.int8)
            with using_isa(isa):
                y = lk.conv2d(x, w, layout="NHWC", padding=1, zero_point=value)
                assert (y == 0).all()
                assert (lk.conv2d(x, w, layout="NHWC") == 9 * 64 * value * weight).all()


X, W = np.ones((1, 4, 5, 5), np.uint8), np.ones((6, 4, 3, 3), np.int8)


@pytest.mark.parametrize(("given", "error", "match"), [
    (dict(x=X.astype("f4")), TypeError, "conv2d: x: expected dtype uint8, got float32"),
    (dict(x=X.astype("i1"), dtype=("uint8", "int32")), TypeError, "conv2d: x: expected dtype uint8, got int8"),
    (dict(zero_point=256), ValueError, "conv2d: zero_point must be an integer of 0 to 255, got 256"),
    (dict(zero_point=0.5), ValueError, "conv2d: zero_point must be an integer of 0 to 255, got 0.5"),
    (dict(scale=np.ones(6, "f4")), ValueError, "results of int32 are the sums: no scale, activation or zero point"),
    (dict(activation="relu"), ValueError, "results of int32 are the sums"),
    (dict(dtype="f4", out_scale=2), ValueError, "results of float32 have no out_scale and out_zero_point"),
    (dict(dtype="u1", out_scale=0), ValueError, "out_scale must be a finite number above 0, got 0"),
    (dict(dtype="i1", out_zero_point=128), ValueError, "out_zero_point must be an integer of -128 to 127, got 128"),
    (dict(dtype="i1", scale=np.ones(5, "f4")), ValueError, r"scale has shape \(5,\), expected \(6,\)"),
    (dict(dtype="i1", scale=np.ones(6)), TypeError, "scale: expected dtype float32, got float64"),
    (dict(dtype="i1", scale=float("nan")), ValueError, "scale must be finite, got nan"),
    (dict(bias=np.ones(6, "f4")), TypeError, "bias: expected dtype int32, got float32"),
    (dict(add=np.ones((1, 6, 3, 3), "i4")), ValueError, "conv2d: results of int32 are the sums: no add follows"),
    (dict(add=np.ones((1, 6, 3, 3), "i4"), dtype="u1"), TypeError, "conv2d: add: expected dtype uint8, got int32"),
    (dict(dtype="f8"), TypeError, "the result of a filter of int8 is int32 or float32 or uint8 or int8, not 'f8'"),
    (dict(w=W.astype("f4"), x=X.astype("f4"), zero_point=1), ValueError, "zero_point is of convolutions of integers"),
    (dict(w=W.astype("f4"), x=X.astype("f4"), zero_point=[0, 0]), ValueError, "zero_point is of convolutions of"),
])  # fmt: skip
@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d"])
def test_bad_input(given, error, match, name):
    arguments = dict(x=X, w=W) | given
    if name == "conv_transpose2d":
        arguments["w"] = arguments["w"].swapaxes(0, 1)
    with pytest.raises(error, match=match.replace("conv2d", name)):
        getattr(lk, name)(**arguments)


def test_a_kept_object_says_its_types():
    op = lk.Conv2d(W, dtype=("int8", "uint8"), scale=np.float32(0.5), out_zero_point=3, padding=1, zero_point=-1)
    y = op(X.astype(np.int8))
    sums = reference.conv(np.full(X.shape, 2), W, None, (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    np.testing.assert_array_equal(y, reference.requantized(sums, None, np.uint8, 0.5, out_zero_point=3))
    plan = op.plan(X.shape)
    assert "s8s8_u8" in plan.title and f" int8 NCHW -> uint8 NCHW with {len(W)} filters" in plan.words


ONNX_SCALES = np.float32(0.00369204697), np.float32(0.00172794575), np.float32(0.00162681262)


def test_qlinearconv_of_onnx():
    """A node case of the standard. Its filter of uint8, 0 with zero point 255, is -255: here two channels of int8."""
    x = np.array([
        [255, 174, 162, 25, 203, 168, 58], [15, 59, 237, 95, 129, 0, 64], [56, 242, 153, 221, 168, 12, 166],
        [232, 178, 186, 195, 237, 162, 237], [188, 39, 124, 77, 80, 102, 43], [127, 230, 21, 83, 41, 40, 134],
        [255, 154, 92, 141, 42, 148, 247],
    ], np.uint8).reshape(1, 1, 7, 7)  # fmt: skip
    x_scale, w_scale, y_scale = ONNX_SCALES
    w = np.array([-128, -127], np.int8).reshape(1, 2, 1, 1)
    y = lk.conv2d(np.repeat(x, 2, 1), w, dtype="u1", zero_point=132, scale=np.float32(x_scale * w_scale / y_scale),
                  out_zero_point=123)  # fmt: skip
    want = np.array([
        [0, 81, 93, 230, 52, 87, 197], [240, 196, 18, 160, 126, 255, 191], [199, 13, 102, 34, 87, 243, 89],
        [23, 77, 69, 60, 18, 93, 18], [67, 216, 131, 178, 175, 153, 212], [128, 25, 234, 172, 214, 215, 121],
        [0, 101, 163, 114, 213, 107, 8],
    ], np.uint8)  # fmt: skip
    np.testing.assert_array_equal(y[0, 0], want)


def test_convinteger_of_onnx():
    x = np.arange(2, 11, dtype=np.uint8).reshape(1, 1, 3, 3)
    w = np.ones((1, 1, 2, 2), np.int8)
    np.testing.assert_array_equal(lk.conv2d(x, w, zero_point=1)[0, 0], [[12, 16], [24, 28]])
    padded = [[1, 3, 5, 3], [5, 12, 16, 9], [11, 24, 28, 15], [7, 15, 17, 9]]
    np.testing.assert_array_equal(lk.conv2d(x, w, zero_point=1, padding=1)[0, 0], padded)


@pytest.mark.parametrize("isa", [isa for isa in registry.isas() if isa != "portable"])
@pytest.mark.parametrize("src, x", [(np.uint8, 255), (np.int8, 127), (np.int8, -128)])
@pytest.mark.parametrize("sign", (1, -1))
def test_winograd_is_exact_up_to_the_largest_sums_that_it_takes(isa, src, x, sign):
    """115 channels of 3x3 taps: 255 * 127 * 9 * 115 is just below 2^25; outputs at the edges have smaller sums."""
    image, w = np.full((1, 7, 9, 115), x, src), np.full((33, 115, 3, 3), sign * 127, np.int8)
    w[1::2] *= -1
    w[2, ::2] = 0
    with using_isa(isa):
        got = lk.conv2d(image, w, padding=1, layout="NHWC", algorithm="winograd", dtype=(src, np.int32))
    want = reference.conv(image.transpose(0, 3, 1, 2), w, None, (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    assert got.dtype == np.int32 and np.array_equal(got.transpose(0, 3, 1, 2), want)
    full = 9 * 115 * 127 * int(x) * sign
    assert got[0, 3, 4, 0] == full and abs(full) <= 2**25


@pytest.mark.parametrize("isa", [isa for isa in registry.isas() if isa != "portable"])
@pytest.mark.parametrize("channels, depth", [(113, 1), (230, 1), (60, 3), (115, 2)])
@pytest.mark.parametrize("dst, dilation", [("float32", (1, 1)), ("uint8", (2, 3))])
def test_winograd_in_parts_is_exact_beyond_the_range_of_one_transform(isa, channels, depth, dst, dilation):
    rng = np.random.default_rng(channels)
    image = rng.integers(0, 256, (2, depth + 1, 7, 10, channels)).astype(np.uint8)
    image[0] = 255
    w = np.full((33, channels, depth, 3, 3), 127, np.int8)
    w[1::3], w[2::3] = -128, rng.integers(-128, 128, w[2::3].shape)
    options = dict(padding=(0, *dilation), dilation=(1, *dilation), layout="NDHWC", zero_point=3,
                   scale=np.float32(2**-20), dtype=("uint8", dst))  # fmt: skip
    bias = rng.integers(-1000, 1000, 33).astype(np.int32)
    with using_isa(isa):
        for threads in (1, 2):
            op = lk.Conv3d(w, bias, algorithm="winograd", threads=threads, **options)
            assert "in parts" in op.explain((2, channels, depth + 1, 7, 10))
            want = lk.Conv3d(w, bias, algorithm="im2col", threads=threads, **options)(image)
            np.testing.assert_array_equal(op(image), want)


def test_winograd_is_not_for_larger_sums_that_are_not_rounded_but_others_are():
    image, w = np.full((1, 6, 6, 116), 255, np.uint8), np.full((8, 116, 3, 3), 127, np.int8)
    op = dict(padding=1, layout="NHWC", dtype=(np.uint8, np.int32))
    with pytest.raises(ValueError, match="algorithm 'winograd' is not for this filter"):
        lk.conv2d(image, w, algorithm="winograd", **op)
    assert lk.conv2d(image, w, **op)[0, 3, 3, 0] == 9 * 116 * 127 * 255
    assert "winograd" not in lk.Conv2d(w, **op).explain((1, 116, 6, 6))
