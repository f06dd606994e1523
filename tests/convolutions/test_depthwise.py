"""Depthwise: every layout and instruction set, ragged sizes, all strides, against the reference."""

import numpy as np
import pytest
from conftest import NEST_ISAS, WHOLE_ISAS, using_isa
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from oracle.guard import guarded
from strategies import activations, conv_types, in_proportion
from whole import inside, numbers, outside

import layoutkit as lk
from layoutkit._core.runtime import registry

CLASSES = {1: lk.Conv1d, 2: lk.Conv2d, 3: lk.Conv3d}


@st.composite
def problems(draw):
    rank = draw(st.sampled_from([1, 2, 2, 2, 3]))

    def each(values):
        return tuple(draw(values) for _ in range(rank))

    src = draw(activations(rank))
    wide = draw(st.just(()) | st.tuples(st.integers(30, 140))) if rank < 3 else ()  # several vectors of pixels
    square = draw(st.sampled_from([None, 3, 3, 3, 5, 7]))
    return dict(
        shape=(draw(st.integers(1, 2)), draw(st.integers(1, 40) | st.integers(60, 80)),
               *(each(st.integers(1, 20 if rank < 3 else 9))[: rank - len(wide)] + wide)),
        multiplier=draw(st.sampled_from([1, 1, 1, 2, 3, 17])),
        kernel=(square,) * rank if square else each(st.integers(1, 4)),
        stride=draw(st.just((1,) * rank) | st.just((2,) * rank) | st.just(each(st.integers(1, 3)))),
        dilation=draw(st.just((1,) * rank) | st.just(each(st.integers(1, 3)))),
        padding=draw(st.just(((1, 1),) * rank) | st.just(tuple(zip(each(st.integers(0, 5)), each(st.integers(0, 5)))))),
        src=src, dst=draw(st.just(src) | activations(rank)), bias=draw(st.booleans()),
        isa=draw(st.sampled_from(registry.isas())), threads=draw(st.integers(1, 3)),
        end=draw(st.sampled_from(["low", "high"])), types=draw(conv_types()),
    )  # fmt: skip


@given(problems())
def test_any_depthwise(c):
    spatial = zip(c["shape"][2:], c["padding"], c["dilation"], c["kernel"])
    assume(all(s + sum(p) >= d * (k - 1) + 1 for s, p, d, k in spatial))
    rng = np.random.default_rng(0)
    channels = c["shape"][1]
    x = numbers(rng, *c["shape"], dtype=c["types"].src)
    w = numbers(rng, channels * c["multiplier"], 1, *c["kernel"], dtype=c["types"].src)
    bias = numbers(rng, len(w), dtype=c["types"].src) if c["bias"] else None
    attributes = {k: c[k] for k in ("stride", "padding", "dilation")}
    want = reference.conv(x, w, bias, groups=channels, **attributes)
    src, dst = lk.Layout(c["src"]), lk.Layout(c["dst"])
    assume(in_proportion(src, x) and in_proportion(dst, want))
    held = inside(x, src, c["end"])
    out, expected = outside(want, dst, c["end"], c["types"].dst)
    with using_isa(c["isa"]):
        op = CLASSES[x.ndim - 2](w, bias, groups=channels, layout=src, out_layout=dst, algorithm="depthwise",
                                 threads=c["threads"], dtype=c["types"].dst, **attributes)  # fmt: skip
        np.testing.assert_array_equal(op(held, out, shape=x.shape), expected)


@given(
    channels=st.sampled_from([16, 32, 48, 64, 80, 96, 112, 128, 144]) | st.integers(1, 200)
    | st.builds(lambda runs, left: 64 * runs + left, st.integers(0, 2), st.integers(1, 31)),
    size=st.tuples(st.integers(1, 12), st.integers(1, 12) | st.integers(50, 120)),
    stride=st.sampled_from([1, 1, 2, 2, 3]), biased=st.sampled_from([0, 1, 2]), end=st.sampled_from(["low", "high"]),
    kernel=st.sampled_from([(3, 3), (3, 3), (3, 3), (2, 3), (4, 3), (1, 3), (5, 5)]),
    pads=st.tuples(*[st.tuples(*[st.integers(0, 2)] * 2)] * 2), src=st.sampled_from([np.uint8, np.int8]),
    dst=st.sampled_from([np.uint8, np.int8]), zeros=st.tuples(*[st.integers(-128, 255)] * 2),
    clipped=st.booleans(), power=st.floats(-14, 1), isa=st.sampled_from(registry.isas()), threads=st.integers(1, 3),
    layouts=st.tuples(*[st.sampled_from(["NHWC", "nChw16c", "nChw32c", "nChw64c"])] * 2),
    seed=st.integers(0, 2**32),
)  # fmt: skip
def test_bytes_of_bytes(
    channels, size, stride, kernel, pads, src, dst, zeros, biased, clipped, power, isa, threads, layouts, end, seed
):
    """Runs of channels, their ends as shares of the row, rows and columns of padding, all ways to store."""
    rng = np.random.default_rng(seed)
    assume(all(s + sum(p) >= k for s, p, k in zip(size, pads, kernel)))
    limits, most = np.iinfo(src), np.iinfo(dst)
    x_zero, y_zero = (min(max(z, i.min), i.max) for z, i in zip(zeros, (limits, most)))
    x = rng.integers(limits.min, limits.max, (2, channels, *size), src, endpoint=True)
    w = rng.integers(-128, 127, (channels, 1, *kernel), np.int8, endpoint=True)
    bias = (None, rng.integers(-9999, 9999, channels, np.int32), rng.normal(0, 50, channels).astype(np.float32))
    how = dict(scale=np.float32(np.exp2(rng.uniform(power - 1, power, channels))), out_zero_point=y_zero)
    if clipped:
        how["activation"] = ("clip", -3.0, 40.5)
    sums = reference.conv(x.astype(np.int64) - x_zero, w, None, (stride, stride), pads, (1, 1), channels)
    a, b = map(lk.Layout, layouts)
    expected = reference.to_physical(reference.requantized(sums, bias[biased], dst, **how), b)
    stored = reference.to_physical(x, a, pad_value=77)
    held = guarded(stored.reshape(-1).view(np.uint8), end).array.view(src).reshape(stored.shape)
    out = guarded(np.full(expected.size, 0xA5, np.uint8), end).array.view(dst).reshape(expected.shape)
    with using_isa(isa):
        got = lk.conv2d(
            held, w, bias[biased], groups=channels, stride=stride, padding=pads, layout=a, out_layout=b, shape=x.shape,
            out=out, threads=threads, algorithm="depthwise", dtype=(src, dst), zero_point=x_zero, **how,
        )  # fmt: skip
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("isa", registry.isas())
@pytest.mark.parametrize(("layout", "most"), [("NHWC", 144), ("nChw16c", 80), ("nChw64c", 80)])
def test_bytes_of_any_number_of_channels(isa, layout, most, seed):
    """The last run is whole or not, and nothing beyond it is read or written."""
    rng, layout = np.random.default_rng(seed), lk.Layout(layout)
    for channels in range(1, most):
        kernel, stride = (int(v) for v in rng.choice(((3, 1), (3, 2), (5, 1), (2, 1))))
        x = rng.integers(0, 255, (1, channels, 7, 6), np.uint8, endpoint=True)
        w = rng.integers(-128, 127, (channels, 1, kernel, kernel), np.int8, endpoint=True)
        sums = reference.conv(x.astype(np.int64), w, None, (stride,) * 2, ((1, 1),) * 2, (1, 1), channels)
        how = dict(scale=np.float32(0.004), out_zero_point=int(rng.integers(9)))
        expected = reference.to_physical(reference.requantized(sums, None, np.uint8, **how), layout)
        stored = reference.to_physical(x, layout, pad_value=77)
        held = guarded(stored.reshape(-1), "high").array.reshape(stored.shape)
        out = guarded(np.full(expected.size, 0xA5, np.uint8), "high").array.reshape(expected.shape)
        with using_isa(isa):
            got = lk.conv2d(
                held, w, groups=channels, stride=stride, padding=1, layout=layout, shape=x.shape, out=out,
                algorithm="depthwise", dtype=("uint8", "uint8"), **how,
            )  # fmt: skip
        np.testing.assert_array_equal(got, expected, err_msg=f"{channels} channels, {kernel}x{kernel}, stride {stride}")


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "nChw16c", "nChw8c"])
def test_threads_do_not_change_a_bit_and_no_channel_reaches_another(layout, isa):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 40, 61, 47), np.float32)
    w = rng.standard_normal((40, 1, 3, 3), np.float32)
    held, spoilt = (lk.reorder(a, "NCHW", layout) for a in (x, np.where(np.arange(40)[:, None, None] == 7, np.inf, x)))
    with using_isa(isa):
        one, *others, other = [
            lk.conv2d(a, w, padding=1, groups=40, layout=layout, threads=t, algorithm="depthwise")
            for a, t in ((held, 1), (held, 2), (held, 3), (held, 7), (spoilt, 1))
        ]
    for y in others:
        np.testing.assert_array_equal(one, y)
    one, other = (lk.reorder(y, layout, "NCHW", shape=x.shape) for y in (one, other))
    kept = np.arange(40) != 7
    np.testing.assert_array_equal(one[:, kept], other[:, kept])
    assert not np.isfinite(other[:, 7]).any(axis=(1, 2)).all()


def test_strided_arrays():
    rng = np.random.default_rng(0)
    big = rng.standard_normal((4, 40, 30, 48), np.float32)
    w = rng.standard_normal((24, 1, 3, 3), np.float32)
    x = big[::2, ::-1, 3:23, 5:29]  # NHWC: rows backwards, pixels apart
    want = reference.conv(x.transpose(0, 3, 1, 2), w, None, (1, 1), ((1, 1), (1, 1)), (1, 1), 24)
    room = np.zeros((2, 40, 20, 50), np.float32)
    for out in (None, room[..., 1:25], room[..., ::2][..., :24]):
        got = lk.conv2d(x, w, padding=1, layout="NHWC", out=out, groups=24, algorithm="depthwise")
        np.testing.assert_allclose(got.transpose(0, 3, 1, 2), want, rtol=1e-4, atol=1e-4)
    blocked = rng.standard_normal((1, 3, 12, 40, 8), np.float32)[:, :, :, ::2]  # nChw8c: pixels apart
    want = reference.conv(reference.to_logical(blocked, lk.Layout("nChw8c"), (1, 24, 12, 20)), w, None, (1, 1),
                          ((1, 1), (1, 1)), (1, 1), 24)  # fmt: skip
    got = lk.conv2d(blocked, w, padding=1, layout="nChw8c", groups=24, algorithm="depthwise")
    np.testing.assert_allclose(reference.to_logical(got, lk.Layout("nChw8c"), want.shape), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "nChw16c", "nChw8c"])
def test_it_is_chosen_untuned_and_an_empty_batch_is_one(layout):
    op = lk.Conv2d(np.ones((64, 1, 3, 3), np.float32), padding=1, groups=64, layout=layout)
    assert "-> depthwise" in op.explain((1, 64, 56, 56))
    shape = lk.Layout(layout).physical_shape((0, 64, 5, 5))
    assert op(np.ones(shape, np.float32)).shape == shape


@pytest.mark.parametrize(
    ("oc", "ic", "groups", "says"),
    [(8, 8, 4, "8 input channels in 4 groups are not one channel a group"), (8, 8, 1, "in 1 groups")],
)
def test_what_is_not_depthwise_says_why(oc, ic, groups, says):
    with pytest.raises(ValueError, match=f"algorithm 'depthwise' cannot do it: .*{says}"):
        lk.conv2d(np.ones((1, ic, 9, 9), np.float32), np.ones((oc, ic // groups, 3, 3), np.float32), groups=groups,
                  algorithm="depthwise")  # fmt: skip


@pytest.mark.parametrize("groups", [1, 8, 40])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_kept_filter_is_packed_anew_for_another_instruction_set(groups, transposed):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 9, 9, 40), np.float32), rng.standard_normal((40, 40 // groups, 3, 3), np.float32)
    kind = lk.ConvTranspose2d if transposed else lk.Conv2d
    op, found = kind(w, groups=groups, layout="NHWC"), []
    for isa in (*registry.isas(), *registry.isas()):
        with using_isa(isa):
            lk.tuning(lk.tuning("estimate"))  # what was decided is decided again
            found.append(op(x))
    for y in found[1:]:
        np.testing.assert_allclose(y, found[0], atol=2e-3)


@pytest.mark.parametrize("size", [(9, 1), (1, 9), (1, 1)])
@pytest.mark.parametrize("kernel", [3, 5, 7])
def test_a_stride_of_two_with_a_single_row_or_column_of_results(kernel, size):
    rng = np.random.default_rng(0)
    shape = tuple(2 * (n - 1) + kernel for n in size)
    x, w = (rng.integers(-4, 5, s).astype(np.float32) for s in ((1, 3, *shape), (3, 1, kernel, kernel)))
    want = reference.conv(x, w, None, (2, 2), ((0, 0), (0, 0)), (1, 1), 3)
    for isa in registry.isas():
        with using_isa(isa):
            for layout in ("NHWC", "nChw16c"):
                got = lk.Conv2d(w, groups=3, stride=2, layout=layout, algorithm="depthwise")(
                    reference.to_physical(x, lk.Layout(layout)), shape=x.shape
                )
                np.testing.assert_array_equal(reference.to_logical(got, lk.Layout(layout), want.shape), want)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_results_have_the_same_bits_on_all_instruction_sets(dtype, step):
    """Denormal results as well, which an instruction that rounds to bfloat16 takes for zeros."""
    rng = np.random.default_rng(step)
    low, high = (-134, -118) if dtype == "bfloat16" else (-20, 0)
    x = rng.standard_normal((1, 40, 9, 10)) * np.exp2(rng.integers(low, high, (1, 40, 1, 1)))
    x[0, 0, 4, 4], x[0, 1, 4, 4], x[0, 2, 4, 5] = np.nan, np.inf, -np.inf
    w = rng.standard_normal((40, 1, 3, 3))
    x, w = (lk.reorder(a.astype(np.float32), "NCHW", "NHWC", dtype=dtype) for a in (x, w))
    found = []
    for isa in {registry.isa(), *(isa for isa in WHOLE_ISAS if isa != "portable")}:  # that lacks FMA
        with using_isa(isa):
            y = lk.conv2d(
                x, w, layout="NHWC", filter_layout="OHWI", padding=1, stride=step, groups=40, algorithm="depthwise",
                dtype=(dtype, dtype),
            )  # fmt: skip
        found.append(np.asarray(y).view(np.uint16))
    exponents = found[0] & (0x7F80 if dtype == "bfloat16" else 0x7C00)
    assert ((exponents == 0) & (found[0] & 0x7FFF != 0)).any()
    for bits in found[1:]:
        np.testing.assert_array_equal(bits, found[0])
