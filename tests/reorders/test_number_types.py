"""What numbers of each type become, against the packages that define the types."""

import itertools
import sys

import ml_dtypes
import numpy as np
import pytest
from conftest import NEST_ISAS, using_isa
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference

import layoutkit as lk
from layoutkit.reorders import convert

F8 = [np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)]
FOUR = [np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)]
WHOLE = [np.dtype(t) for t in ("i1", "u1", "i2", "u2", "i4", "u4", "i8")] + FOUR
BYTES = np.arange(256, dtype=np.uint8)
SIXTEEN = np.arange(2**16, dtype=np.uint16)


def turned(x, dtype, **given):
    return lk.reorder(x, "a", "a", dtype=dtype, **given)


def same_bits(got, want):
    """Equal bit for bit, NaNs too, but for their payload."""
    assert got.dtype == want.dtype
    nan = np.isnan(want.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), nan)
    bits = f"u{got.itemsize}"
    np.testing.assert_array_equal(got.view(bits)[~nan], want.view(bits)[~nan])
    top = 8 * got.itemsize - 1
    np.testing.assert_array_equal(got.view(bits)[nan] >> top, want.view(bits)[nan] >> top)  # signs


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize("dtype", F8, ids=str)
def test_f8_is_as_ml_dtypes_has_it(dtype, isa):
    """All numbers of f8, and all of 16 bits and many of 32 to f8: rounding, denormals, what is too large."""
    rng = np.random.default_rng(0)
    floats = [
        SIXTEEN.view(np.float16), SIXTEEN.view(ml_dtypes.bfloat16), rng.integers(0, 2**32, 400_000, "u4").view("f4"),
        (rng.standard_normal(100_000) * 10.0 ** rng.integers(-6, 6, 100_000)).astype("f4"),
    ]  # fmt: skip
    exact = np.sort(BYTES.view(dtype).astype("f4"))
    exact = exact[np.isfinite(exact)]
    ties = (exact[1:] + exact[:-1]) / 2
    floats.append(np.concatenate([exact, ties, *(np.nextafter(ties, np.float32(to)) for to in (9e9, -9e9))]))
    with using_isa(isa), np.errstate(all="ignore"):
        for real in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16):
            same_bits(turned(BYTES.view(dtype), real), BYTES.view(dtype).astype(real))
        for x in floats:
            same_bits(turned(x, dtype), x.astype("f4").astype(dtype))
            same_bits(turned(x.astype("f8"), dtype), reference.rounded(x.astype("f8"), dtype))
        for other in F8:
            same_bits(turned(BYTES.view(dtype), (dtype, other)), BYTES.view(dtype).astype("f4").astype(other))


def test_f8_of_doubles_is_rounded_once():
    x = np.array([1 + 2.0**-4 + 2.0**-40, 1 + 2.0**-4 - 2.0**-40, 464 + 2.0**-30, 464.0])
    assert turned(x, F8[0]).astype("f4")[:2].tolist() == [1.125, 1.0]
    assert np.isnan(turned(x, F8[0]).astype("f4")).tolist() == [False, False, True, False]


@pytest.mark.parametrize("isa", NEST_ISAS)
def test_integers_to_integers_are_exact_and_saturate(isa):
    """Of every pair of types, at the limits of every type, with zero points and without."""
    limits = sorted({n + d for dtype in WHOLE for n in reference.limits_of(dtype) for d in (-1, 0, 1)})
    for a, b in itertools.product(WHOLE, WHOLE):
        low, high = reference.limits_of(a)
        numbers = [n for n in (*limits, 2**53 + 1, -(2**53) - 1, 2**62 + 3) if low <= n <= high]
        x = np.array(numbers, np.int64).astype(a)
        low, high = reference.limits_of(b)
        for before, after in ((0, 0), (3, -5), (-(2**31), 2**31 - 1), (2**31 - 1, -(2**31))):
            want = np.array([min(max(n - before + after, low), high) for n in numbers], np.int64).astype(b)
            with using_isa(isa):
                got = turned(x, (a, b), zero_point=before, out_zero_point=after)
                np.testing.assert_array_equal(got.astype("i8"), want.astype("i8"))
                if before == after:
                    np.testing.assert_array_equal(turned(x, (a, b)).astype("i8"), want.astype("i8"))


def test_int64_beyond_the_exact_integers_of_doubles():
    """Computed in float64, as is said: rounded to it first where there is arithmetic, and saturated after it."""
    x = np.array([2**53 + 1, -(2**63), 2**63 - 1])
    assert turned(x, "i8", scale=1.0).tolist() == [2**53, -(2**63), 2**63 - 1]
    assert turned(x, "f8").tolist() == x.astype("f8").tolist()
    huge = np.array([1e300, -1e300, np.inf, np.nan, 2.0**63, 2.0**63 - 1024, 2.0**52 - 0.5, -(2.0**51) - 0.5])
    want = [2**63 - 1, -(2**63), 2**63 - 1, 0, 2**63 - 1, 2**63 - 1024, 2**52, -(2**51)]
    assert turned(huge, "i8").tolist() == want
    assert turned(huge, "u4").tolist() == [2**32 - 1, 0, 2**32 - 1, 0, *[2**32 - 1] * 3, 0]


def test_bool_is_whether_a_number_is_not_zero():
    x = np.array([0.0, -0.0, 1e-45, 0.4, np.nan, -np.inf], np.float32)
    assert turned(x, bool).tolist() == x.astype(bool).tolist() == [False, False, True, True, True, True]
    assert turned(np.array([0, 256, 2**40, -1]), bool).tolist() == [False, True, True, True]
    held = np.array([0, 1, 2, 255], np.uint8).view(bool)  # which numpy would not write
    assert turned(held, "f4", scale=3.0).tolist() == [0, 3, 3, 3]
    assert turned(held, "u1", scale=255).tolist() == [0, 255, 255, 255]
    assert turned(held, "i8").tolist() == [0, 1, 1, 1]
    assert turned(x, bool, zero_point=0.4).tolist() == [True, True, True, False, True, True]


@pytest.mark.parametrize("dtype", FOUR, ids=str)
def test_integers_of_four_bits_are_the_lower_half_of_a_byte(dtype):
    held = BYTES.view(dtype)
    assert turned(held, "i4").tolist() == held.astype("i4").tolist()
    assert turned(held, (dtype, dtype)).view("u1").tolist() == (BYTES & 15).tolist()
    x = np.array([-100.0, -8.5, -7.5, 0.5, 1.5, 7.5, 15.5, 99, np.nan], np.float32)
    want = np.nan_to_num(np.rint(x)).clip(*reference.limits_of(dtype)).astype("i4").astype(dtype)
    assert turned(x, dtype).view("u1").tolist() == want.view("u1").tolist()


def test_uint16_is_numbers_unless_a_pair_says_bfloat16(monkeypatch):
    x = np.array([0, 1, 0x3F80, 0xFFFF], np.uint16)
    assert turned(x, "f4").tolist() == [0, 1, 0x3F80, 0xFFFF]
    assert turned(x, ("uint16", "f4")).tolist() == [0, 1, 0x3F80, 0xFFFF]
    assert turned(x[2:3], ("bfloat16", "f4")).tolist() == [1]
    assert turned(x, ml_dtypes.bfloat16).tolist() == x.astype("f4").astype(ml_dtypes.bfloat16).tolist()
    for missing in (False, True):
        if missing:
            monkeypatch.setitem(sys.modules, "ml_dtypes", None)
        with pytest.raises(TypeError, match="whether it holds bits or numbers"):
            turned(x, "bfloat16")
        assert turned(x[2:3], ("uint16", "bfloat16")).view("u2").tolist() == [0x467E]  # 16256
        assert turned(x[2:3], ("bfloat16", "bfloat16")).view("u2").tolist() == [0x3F80]
    assert convert.types(np.dtype("u2"), "float32", "")[:2] == ("u16", "f32")


def test_zero_points_beyond_bool_are_taken_back_in_float64():
    x, old = np.array([-8], np.int8), np.array([True])
    for zero in (1_505_919_583, -(2**31)):
        got = lk.reorder(x, "A", "A", dtype=(np.int8, bool), out=old.copy(), out_zero_point=zero, beta=1)
        assert got[0] and reference.convert(x, np.dtype("?"), out_zero_point=zero, beta=1, old=old)[0]


@given(st.sampled_from([*WHOLE, *F8, np.dtype("?"), np.dtype("f4"), np.dtype("f8")]), st.data())
def test_two_sided_scales_in_blocks_of_any_dimensions(a, data):
    """(x - zero_point) * scale + offset, over out_scale, + out_zero_point: all of them, or some, of any types."""
    b = data.draw(st.sampled_from([*WHOLE, *F8, np.dtype("?"), np.dtype("f4"), np.dtype("f8")]))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=4, max_size=4)))
    axes = data.draw(st.permutations(range(4)))[: data.draw(st.integers(1, 3))]
    blocks = tuple(data.draw(st.sampled_from([1, 1, 2, 3, 4, 50])) for _ in axes)
    counts = tuple(-(-shape[d] // n) for d, n in zip(axes, blocks))
    how: dict = {"axis": tuple(d - 4 * data.draw(st.integers(0, 1)) for d in axes), "block_size": blocks}

    def some(name, draw):
        if data.draw(st.booleans()):
            how[name] = draw(counts if data.draw(st.booleans()) else None)

    some("scale", lambda n: rng.uniform(0.01, 3, n))
    some("out_scale", lambda n: rng.uniform(0.01, 3, n))
    some("offset", lambda n: rng.uniform(-9, 9, n))
    most = data.draw(st.sampled_from([5, 100, 70_000, 2**31]))
    some("zero_point", lambda n: rng.integers(-most, most, n))
    some("out_zero_point", lambda n: rng.integers(-most, most, n))
    how |= {"alpha": data.draw(st.sampled_from([1, 1, 0.5])), "beta": data.draw(st.sampled_from([0, 0, 1, 0.7]))}
    x = reference.convert(rng.standard_normal(shape) * 60, a)
    old = reference.convert(rng.standard_normal(shape) * 60, b)
    want = reference.convert(x, b, **how, old=old)
    src, dst = (data.draw(st.sampled_from(["NCHW", "NHWC", "nChw4c", "CHWN", "NCHW8h"])) for _ in range(2))
    out = reference.to_physical(old, lk.Layout(dst))
    with using_isa(data.draw(st.sampled_from(NEST_ISAS))):
        held = reference.to_physical(x, lk.Layout(src))
        got = lk.reorder(held, src, dst, shape=shape, dtype=(a, b), out=out, **how)
    same_bits(reference.to_logical(got, lk.Layout(dst), shape), want)


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize("of_channels", [False, True], ids=["one for all", "per channel"])
def test_every_choice_of_parameters(of_channels, isa, some, seed):
    """All subsets of the parameters, with alpha and beta or without, between types of every kind."""
    rng = np.random.default_rng(seed)
    shape, count = (3, 130), (3,) if of_channels else ()
    drawn = dict(
        scale=rng.uniform(0.1, 2, count), offset=rng.uniform(-9, 9, count), out_scale=rng.uniform(0.1, 2, count),
        zero_point=rng.integers(-8, 8, count), out_zero_point=rng.integers(-8, 8, count),
    )  # fmt: skip
    dtypes = [np.dtype(t) for t in ("f4", "f2", "f8", "i1", "u1", "i2", "i4", "i8", "?")]
    for a, b in some(itertools.product(dtypes, dtypes)):
        x, old = (reference.convert(rng.standard_normal(shape) * 60, t) for t in (a, b))
        for chosen in itertools.product((False, True), repeat=len(drawn)):
            how = {name: value for (name, value), taken in zip(drawn.items(), chosen) if taken}
            alpha, beta = rng.choice([(1, 0), (0.7, 0.3)])
            want = reference.convert(x, b, **how, axis=0, alpha=alpha, beta=beta, old=old)
            with using_isa(isa):
                out = old.copy()
                lk.reorder(x, "ab", "ab", dtype=(a, b), axis=0, alpha=alpha, beta=beta, out=out, **how)
            same_bits(out, want)


def test_dequantize_linear_of_onnx_in_blocks():
    """The formula of the operator: a scale and a zero point for every `block_size` elements along an axis."""
    rng = np.random.default_rng(0)
    q = rng.integers(0, 256, (4, 70), np.uint8)
    scale, zero = rng.uniform(0.01, 1, (4, 3)).astype("f4"), rng.integers(0, 256, (4, 3), np.uint8)
    each = np.arange(70) // 32
    want = (q.astype("f4") - zero[:, each].astype("f4")) * scale[:, each]
    how = dict(axis=(0, 1), block_size=(1, 32), scale=scale, zero_point=zero)
    np.testing.assert_array_equal(lk.reorder(q, "ab", "ab", dtype="f4", **how), want)
    np.testing.assert_array_equal(lk.reorder(q, "ab", "ba", dtype="f4", **how), want.T)
    np.testing.assert_array_equal(lk.reorder(want, "ab", "ab", dtype="u1", **how), q)  # and QuantizeLinear


def test_parameters_of_narrow_types():
    """Scales of f8 and zero points of four bits, as models in blocks of four bits have them."""
    rng = np.random.default_rng(0)
    q = rng.integers(0, 16, (2, 32)).astype(ml_dtypes.uint4)
    scale, zero = rng.uniform(0.1, 9, (2, 2)).astype(F8[0]), rng.integers(0, 16, (2, 2)).astype(ml_dtypes.uint4)
    each = np.arange(32) // 16
    want = (q.astype("f4") - zero.astype("f4")[:, each]) * scale.astype("f4")[:, each]
    how = dict(axis=(0, 1), block_size=(1, 16), scale=scale, zero_point=zero)
    np.testing.assert_array_equal(lk.reorder(q, "ab", "ab", dtype="f4", **how), want)


def test_requantization_from_one_scale_to_another():
    """round((q - zero_point) * scale / out_scale) + out_zero_point, by channel, and added to `out` in its steps."""
    rng = np.random.default_rng(0)
    q, old = rng.integers(-128, 128, (2, 5, 3, 4)).astype(np.int8), rng.integers(0, 256, (2, 5, 3, 4), np.uint8)
    scale, out_scale = np.float32(0.05), rng.uniform(0.02, 0.2, 5).astype("f4")
    zero, out_zero = rng.integers(-128, 128, 5), rng.integers(0, 256, 5)
    how = dict(scale=scale, zero_point=zero, out_scale=out_scale, out_zero_point=out_zero)
    c = [x.reshape(5, 1, 1) for x in (zero, scale / out_scale, out_zero)]
    steps = (q.astype("f4") - c[0].astype("f4")) * c[1]
    got = lk.reorder(q, "NCHW", "NHWC", dtype="u1", **how)
    np.testing.assert_array_equal(got, (np.rint(steps) + c[2]).clip(0, 255).transpose(0, 2, 3, 1))
    out = old.copy()
    lk.reorder(q, "NCHW", "NCHW", dtype="u1", beta=1, out=out, **how)
    np.testing.assert_array_equal(out, (np.rint(steps + (old - c[2].astype("f4"))) + c[2]).clip(0, 255))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (dict(scale=np.ones((2, 3)), axis=(0, 0)), "names a dimension twice"),
        (dict(scale=np.ones((2, 3)), axis=(0, 2)), "axis must be one of 2 dimensions, got 2"),
        (dict(scale=np.ones((2, 3)), axis=(0, 1)), r"of shape (4, 6), for axis (0, 1); got (2, 3)"),
        (dict(scale=np.ones(3), axis=1, block_size=4), "one number or 2, for axis 1 in blocks of 4; got (3,)"),
        (dict(scale=np.ones(2), axis=1, block_size=0), "must be one integer above 0 for each axis of 1, got 0"),
        (dict(scale=np.ones(2), axis=1, block_size=2.5), "got 2.5"),
        (dict(scale=np.ones(2), axis=1, block_size=(2, 2)), "got (2, 2)"),
        (dict(scale=np.ones((4, 2)), axis=(0, 1), block_size=4), "for each axis of (0, 1), got 4"),
        (dict(scale=np.ones(2), axis=(), dtype="i1"), "of shape (), for axis (); got (2,)"),
        (dict(scale=np.ones(2), axis=1, block_size=2**61), "one number or 1, for axis 1 in blocks of 23058430"),
        (dict(scale=np.ones(2), axis=1, block_size=2**70), "block_size must be one integer above 0"),
        (dict(out_scale=0.0), "out_scale must be finite and not 0"),
        (dict(out_scale=1e30, scale=1e-30), "scale / out_scale must be finite and not 0"),
        (dict(out_scale=1e-30, offset=1e30), "offset / out_scale must be finite"),
        (dict(out_zero_point=np.nan), "zero_point must be finite"),
        (dict(out_zero_point=0.5, dtype="i1"), "out_zero_point must be integers"),
    ],
)  # fmt: skip
def test_bad_parameters(given, says):
    with pytest.raises(ValueError) as raised:
        lk.reorder(np.ones((4, 6), np.float32), "ab", "ba", **given)
    assert says in str(raised.value)
