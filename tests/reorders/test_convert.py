import itertools
import re

import harness
import ml_dtypes
import numpy as np
import pytest
from conftest import NEST_ISAS, using_isa
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference
from oracle.guard import guarded
from strategies import laid_out, layouts

import layoutkit as lk
from layoutkit._core.nests.moves.convert import TYPES
from layoutkit._core.runtime import registry
from layoutkit.choosing.cache import plans
from layoutkit.reorders import convert

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = {k: np.dtype(v) for k, v in dict(
    f32="f4", f64="f8", f16="f2", bf16=BF16, s32="i4", s8="i1", u8="u1", s16="i2", u16="u2", u32="u4", s64="i8",
    bool="?", e4m3=ml_dtypes.float8_e4m3fn, e5m2=ml_dtypes.float8_e5m2, s4=ml_dtypes.int4, u4=ml_dtypes.uint4,
).items()}  # fmt: skip
INTEGERS = ("s32", "s8", "u8", "s16", "u16", "u32", "s64", "s4", "u4")
WIDE = ("f64", "s32", "u32", "s64")
PAIRS = list(itertools.product(DTYPES, DTYPES))
ANY = {"f32", "f64", "f16", "bf16", "s32", "s8", "u8"}  # the others are converted to and from f32 and f64 only, by rows


def pairs_of(kernel):
    """The types that a row is tried with."""
    known = [k for k in DTYPES if kernel.types == "f64" or k not in WIDE]
    return [(a, b) for a, b in itertools.product(known, known) if {a, b} <= ANY or {a, b} & {"f32", "f64"}]


ROWS = [k for k in registry.kernels("convert", all_isas=True) if k.isa in registry.isas()]


def hard_values(kind):
    """Every number of a type of 8 or 16 bits; of the others what is hard: ties, borders of all types, specials."""
    dtype = DTYPES[kind]
    if kind == "bool":
        return np.array([False, True, True])
    if dtype.itemsize < 4:
        return np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}").view(dtype)
    rng = np.random.default_rng(1)
    if kind in INTEGERS:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        near = [s * 2**k + d for k in range(64) for s in (-1, 1) for d in (-1, 0, 1)]
        many = [
            int(n) >> int(k)
            for n, k in zip(rng.integers(low, high, 500, dtype, endpoint=True), rng.integers(0, 60, 500))
        ]
        return np.array([n for n in (*near, low, high, *many) if low <= n <= high], dtype)
    ties = np.arange(-300, 300) / 2
    halves = np.arange(0, 2**16, dtype=np.uint16)
    with np.errstate(all="ignore"):
        sixteen = np.concatenate([halves.view(np.float16)[::7].astype("f8"), halves.view(BF16)[::7].astype("f8")])
        between = (sixteen[1:] + sixteen[:-1]) / 2  # ties of the narrow types
        eight = np.concatenate([np.arange(256, dtype=np.uint8).view(DTYPES[k]).astype("f8") for k in ("e4m3", "e5m2")])
        sixteen = np.concatenate([sixteen, np.sort(eight), (np.sort(eight)[1:] + np.sort(eight)[:-1]) / 2])
        borders = np.array(
            [
                464.0,
                465,
                61440,
                2.0**63,
                -(2.0**63),
                2**53 + 1.0,
                2.0**51 + 0.5,
                2.0**52 - 0.5,
                2.0**32,
                32767.5,
                65535.5,
                127.5,
                128.5,
                -128.5,
                255.5,
                2**31 - 1,
                2.0**31,
                -(2.0**31) - 0.5,
                65504,
                65520,
                65519.99,
            ]
        )
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 5e-324, 3.4e38, 3.5e38, 1e300, -1e300])
        many = np.concatenate([ties, sixteen, between, borders, special, rng.standard_normal(500) * 50])
        around = np.concatenate([many, np.nextafter(many, np.inf), np.nextafter(many, -np.inf)])
        return around.astype(dtype)


def same(got, want):
    """Equal bit for bit, any NaN for a NaN."""
    assert got.dtype == want.dtype and got.shape == want.shape
    bits = f"u{got.itemsize}"
    wrong = got.view(bits) != want.view(bits)
    if got.dtype.kind not in "iub" and "int" not in got.dtype.name:
        with np.errstate(invalid="ignore"):
            wrong &= ~(np.isnan(got) & np.isnan(want))
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        raise AssertionError(f"{wrong.sum()} of {wrong.size}, first at {at}: {got[at]!r}, not {want[at]!r}")


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_every_hard_value(a, b, isa):
    x = hard_values(a)
    with using_isa(isa):
        got = lk.reorder(x, "a", "a", dtype=("bfloat16" if a == "bf16" else x.dtype, DTYPES[b]), threads=1)
    same(got, x if a == b and a not in ("s4", "u4") else reference.convert(x, DTYPES[b]))


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_every_hard_value_scaled_and_summed(a, b, isa):
    x = hard_values(a)
    old = np.random.default_rng(3).integers(0, 100, x.size).astype(DTYPES[b])
    for scale, zero, offset, alpha, beta in (
        (0.37, 3, None, 1, 0), (0.25, 0, 0.1, 1, 0), (-3.3, 11, -7.3, 0.7, 1), (None, 100, 0.5, -1.5, 0.3),
        (1 / 3, 0, 1e-3, 1, 0), (None, 0, -0.0, 1, 0),
    ):  # fmt: skip
        out = old.copy()
        with using_isa(isa):
            got = lk.reorder(
                x, "a", "a", dtype=DTYPES[b], scale=scale, zero_point=zero, offset=offset, alpha=alpha, beta=beta,
                out=out,
            )  # fmt: skip
        assert got is out
        same(got, reference.convert(x, DTYPES[b], scale, zero, 0, alpha, beta, old, offset))


@st.composite
def cases(draw):
    a, b = draw(st.sampled_from(PAIRS))
    src, shape = draw(laid_out(min_rank=1, most=900))
    rank = src.rank
    axis = draw(st.integers(-rank, rank - 1))
    channels = shape[axis]
    rng = np.random.default_rng(draw(st.integers(0, 999)))

    def parameter(values):
        return draw(st.sampled_from([None, values[0], np.array(values[:channels])]))

    zeros = rng.integers(0, 100, max(channels, 1))
    return dict(
        a=a, b=b, shape=shape, src=src, dst=draw(layouts(rank, rank, max_blocks=2)), axis=axis, rng=rng,
        scale=parameter(list(rng.uniform(0.01, 3, max(channels, 1)))),
        zero=parameter(list(map(int, zeros))),
        offset=parameter(list(rng.uniform(-9, 9, max(channels, 1)))),
        alpha=draw(st.sampled_from([1, 1, 0.5, -1.3])), beta=draw(st.sampled_from([0, 0, 1, 0.7])),
        isa=draw(st.sampled_from(registry.isas())), threads=draw(st.integers(1, 3)),
        end=draw(st.sampled_from(["low", "high"])), pad=draw(st.sampled_from([0, 1 if b == "bool" else 5])),
        steps=draw(st.lists(st.sampled_from([1, 1, 2, -1]), min_size=24, max_size=24)),
    )  # fmt: skip


def stored(real, kind):
    """Finite numbers, rounded and saturated."""
    if kind not in INTEGERS:
        return reference.rounded(real, DTYPES[kind])
    return reference.saturated(np.rint(real), DTYPES[kind])


def numbers(rng, shape, dtype):
    x = rng.standard_normal(shape) * 60
    low, high = reference.limits_of(dtype) if reference.is_integer(dtype) else (-128, 127)
    return x.clip(max(low, -500), min(high, 500)).astype(dtype)


def on_guard(array, end):
    buffer = guarded(np.ascontiguousarray(array).reshape(-1).view(np.uint8), end)
    return buffer.array.view(array.dtype).reshape(array.shape)


def stepped(array, steps):
    """The same values seen through steps on every axis of a larger array."""
    steps = steps[: array.ndim]
    room = np.zeros([n * abs(k) for n, k in zip(array.shape, steps)], array.dtype)
    seen = room[tuple(slice(None, None, k) for k in steps)]
    seen[...] = array
    return seen


def expected(c, x, old=None):
    """The physical result, by way of the logical tensors."""
    tensor = reference.to_logical(x, c["src"], c["shape"])
    before = None if old is None else reference.to_logical(old, c["dst"], c["shape"])
    made = reference.convert(
        tensor, DTYPES[c["b"]], c["scale"], c["zero"], c["axis"] % c["src"].rank, c["alpha"], c["beta"], before,
        c["offset"],
    )  # fmt: skip
    return reference.to_physical(made, c["dst"], c["pad"])


@given(cases())
def test_any_type_in_any_layout_to_any_other(c):
    x = reference.to_physical(numbers(c["rng"], c["shape"], DTYPES[c["a"]]), c["src"], 7)
    old = numbers(c["rng"], c["dst"].physical_shape(c["shape"]), DTYPES[c["b"]])
    want = expected(c, x, old)
    given = dict(
        shape=c["shape"], dtype=DTYPES[c["b"]], scale=c["scale"], zero_point=c["zero"], offset=c["offset"],
        axis=c["axis"], alpha=c["alpha"], beta=c["beta"], pad_value=c["pad"],
    )  # fmt: skip
    with using_isa(c["isa"]):
        out = on_guard(old, c["end"])
        same(lk.reorder(on_guard(x, c["end"]), c["src"], c["dst"], **given, threads=c["threads"], out=out), want)
        out = stepped(old, c["steps"])
        lk.reorder(stepped(x, c["steps"][12:]), c["src"], c["dst"], **given, out=out)
        same(out.copy(), want)


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize(("dtype", "zero"), [(np.uint8, 0), (np.uint8, 255), (np.int8, -128), (np.int8, 7)])
def test_halves_of_any_scale(isa, dtype, zero):
    """Quotients next to a half, by scales of all kinds: they decide to which integer a number rounds."""
    rng = np.random.default_rng(5)
    hard = np.array([2**23 + d for d in (1, 2, 3, 5, 2**15 + 1, 2**22 + 1)] + [3, 5, 7, 2**24 - 1])
    scales = np.concatenate([
        rng.uniform(1, 2, 300) * 2.0 ** rng.integers(-20, 20, 300), hard * 2.0**-30, -hard / 256, 1 / np.arange(3, 60),
    ]).astype(np.float32)  # fmt: skip
    halves = np.concatenate([np.arange(257) + 0.5, -np.arange(257) - 0.5])
    x = (halves * scales[:, None]).astype(np.float32)
    near = [x]
    for towards in (-np.inf, np.inf):
        moved = x
        for _ in range(2):
            moved = np.nextafter(moved, np.float32(towards))
            near.append(moved)
    special = np.float32([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-40, 0.0, -0.0])
    x = np.concatenate([*near, np.broadcast_to(special, (len(x), 8))], 1)
    by_products = [convert._product_rounds_alike(scale) for scale in scales[:, None]]
    assert any(by_products) and not all(by_products)
    for alone in (True, False):
        rows = np.flatnonzero(np.array(by_products) == alone)
        how = dict(scale=scales[rows], zero_point=zero)
        want = reference.convert(x[rows], dtype, **how, axis=0)
        with using_isa(isa):
            same(lk.reorder(x[rows], "ab", "ab", dtype=dtype, axis=0, **how), want)
            same(lk.reorder(x[rows[:3]], "ab", "ba", dtype=dtype, axis=0, scale=scales[rows[:3]], zero_point=zero),
                 np.ascontiguousarray(want[:3].T))  # fmt: skip
            same(lk.reorder(x[rows].T.copy(), "ba", "ba", dtype=dtype, axis=0, **how), np.ascontiguousarray(want.T))


@st.composite
def pictures(draw):
    """A batch of images of few channels, the numbers of (x / 255 - mean) / std, and what runs where."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    height = draw(st.one_of(st.integers(1, 40), st.just(300)))  # the latter of several tiles
    shape = draw(st.integers(1, 3)), height, draw(st.integers(1, 90)), draw(st.integers(1, 6))
    mean, std = rng.uniform(0.3, 0.6, shape[3]), rng.uniform(0.1, 0.4, shape[3])
    return dict(
        image=rng.integers(0, 256, shape, np.uint8), scale=1 / (255 * std), offset=-mean / std,
        real=draw(st.sampled_from([np.float32, np.float32, np.float16, BF16])),
        isa=draw(st.sampled_from(registry.isas())), threads=draw(st.integers(1, 3)),
        start=draw(st.integers(0, 70)), streams=draw(st.booleans()),
    )  # fmt: skip


def begins(array, start):
    """A copy of `array` that begins `start` elements past a line."""
    room = lk.empty((array.size + start,), "a", array.dtype)[start:]
    room[...] = array.reshape(-1)
    return room.reshape(array.shape)


@given(pictures())
def test_pictures_to_planes_and_back(c):
    """One call each way, in whatever memory; rounded after the product and after the sum, the same as numpy."""
    image, scale, offset = c["image"], np.float32(c["scale"]), np.float32(c["offset"])
    planes = np.ascontiguousarray((image.astype(np.float32) * scale + offset).transpose(0, 3, 1, 2))
    want, how = reference.rounded(planes, c["real"]), dict(scale=c["scale"], offset=c["offset"], threads=c["threads"])
    with pytest.MonkeyPatch.context() as patch, using_isa(c["isa"]):
        if c["streams"]:
            patch.setattr(convert, "last_level_cache", lambda: 0)
            plans.clear()
        out = begins(np.zeros(want.shape, want.dtype), c["start"])
        same(lk.reorder(begins(image, c["start"]), "NHWC", "NCHW", dtype=c["real"], out=out, **how), want)
        back = begins(np.zeros_like(image), c["start"])
        lk.reorder(begins(planes, c["start"]), "NCHW", "NHWC", dtype=np.uint8, out=back, **how)
        same(back, image)
        noisy = planes + np.random.default_rng(0).standard_normal(planes.shape, np.float32)
        got = lk.reorder(noisy, "NCHW", "NHWC", dtype=np.uint8, **how)
        steps = (noisy.transpose(0, 2, 3, 1) - offset) / scale
        same(got, np.rint(steps).clip(0, 255).astype(np.uint8))
        if c["streams"]:
            plans.clear()


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize(("a", "b"), [("f32", "bf16"), ("bf16", "f32"), ("s8", "f32"), ("f32", "u8"), ("s32", "f16")])
def test_tiles_of_every_size(a, b, isa):
    """Whole tiles, ragged ones, and what two threads share, with a scale per channel."""
    rng = np.random.default_rng(0)
    for shape in ((2, 40, 33, 31), (1, 3, 90, 91), (1, 257, 9, 70)):
        x = numbers(rng, shape, DTYPES[a])
        scale = rng.uniform(0.1, 2, shape[1])
        want = reference.convert(x, DTYPES[b], scale)
        for src, dst in itertools.product(("NCHW", "NHWC", "nChw16c", "CHWN"), repeat=2):
            with using_isa(isa):
                held = reference.to_physical(x, lk.Layout(src))
                got = lk.reorder(held, src, dst, shape=shape, dtype=DTYPES[b], scale=scale, threads=2)
            same(got, reference.to_physical(want, lk.Layout(dst)))


def test_streaming_stores(monkeypatch):
    monkeypatch.setattr(convert, "last_level_cache", lambda: 0)
    plans.clear()
    for (a, b), isa in itertools.product([("f32", "bf16"), ("s8", "f32"), ("f64", "u8")], registry.isas()):
        test_tiles_of_every_size(a, b, isa)
    plans.clear()


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", ROWS, ids=lambda k: k.name)
def test_rows_touch_nothing_else(kernel, end, some, seed):
    known = pairs_of(kernel)
    real = np.dtype({"f32": np.float32, "f64": np.float64}[kernel.types])
    rng = np.random.default_rng(seed)
    for (a, b), n0, n1, gap in some(itertools.product(known, (1, 3, 70), (1, 7, 16, 64, 1025), (0, 5))):
        if n0 == 70 and n1 > 16:
            continue
        x = numbers(rng, (n0, n1 + gap), DTYPES[a])
        room = numbers(rng, (n0, n1 + gap), DTYPES[b])
        factor, shift = rng.uniform(0.5, 2, n1).astype(real), rng.uniform(-2, 2, n1).astype(real)
        product = x[:, :n1].astype(real) * factor + shift
        want = room.copy()
        want[:, :n1] = stored(product, b)
        last = (n0 - 1) * (n1 + gap) + n1  # behind it there is nothing
        src = guarded(x.reshape(-1)[:last].view(np.uint8), end)
        mul, off = guarded(factor.view(np.uint8), end), guarded(shift.view(np.uint8), end)
        dst = guarded(room.reshape(-1)[:last].view(np.uint8), end)
        harness.convert(
            kernel.name, TYPES[a], TYPES[b], src.address, dst.address, (n0, n1),
            ((n1 + gap) * x.itemsize, x.itemsize), ((n1 + gap) * room.itemsize, room.itemsize), p=(0, 1),
            mul=mul.address, off=off.address, stream=bool(rng.integers(2)),
        )  # fmt: skip
        same(dst.array.view(DTYPES[b]), want.reshape(-1)[:last])


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", ROWS, ids=lambda k: k.name)
def test_rows_of_interleaved_sides(kernel, end, some, seed):
    """Pixels to planes and back, gaps between pixels and between planes, blocks of every length."""
    known = pairs_of(kernel)
    real = np.dtype({"f32": np.float32, "f64": np.float64}[kernel.types])
    rng = np.random.default_rng(seed)
    for (a, b), n0, n1, gap in some(itertools.product(known, (1, 3, 4, 16), (2, 17, 200, 1500), (0, 3))):
        if n1 == 1500 and (a, b) not in (("u8", "f32"), ("f32", "u8"), ("f64", "u8"), ("f32", "bf16"), ("s8", "f64")):
            continue
        factor = rng.uniform(0.5, 2, n0).astype(real)
        mul = guarded(factor.view(np.uint8), end)
        for planes_first in (False, True):
            x = numbers(rng, (n0, n1 + gap) if planes_first else (n1, n0 + gap), DTYPES[a])
            room = numbers(rng, (n1, n0 + gap) if planes_first else (n0, n1 + gap), DTYPES[b])
            rows = x[:, :n1] if planes_first else x[:, :n0].T
            made = stored(rows.astype(real) * factor[:, None], b)
            want = room.copy()
            if planes_first:
                want[:, :n0] = made.T
            else:
                want[:, :n1] = made
            src = guarded(np.ascontiguousarray(x).reshape(-1)[: x.size - gap].view(np.uint8), end)
            s, d = (array.strides if first else array.strides[::-1]
                    for array, first in ((x, planes_first), (room, not planes_first)))  # fmt: skip
            dst = guarded(room.reshape(-1)[: room.size - gap].view(np.uint8), end)
            harness.convert(
                kernel.name, TYPES[a], TYPES[b], src.address, dst.address, (n0, n1), s, d, p=(1, 0), mul=mul.address,
                stream=bool(rng.integers(2)),
            )  # fmt: skip
            same(dst.array.view(DTYPES[b]), want.reshape(-1)[: want.size - gap])


def test_threads_do_not_change_a_bit():
    x = np.random.default_rng(0).standard_normal((2, 67, 40, 41), np.float32)
    scale = np.random.default_rng(1).uniform(0.1, 1, 67)
    one = lk.reorder(x, "NCHW", "NHWC", dtype="f2", scale=scale, threads=1)
    same(lk.reorder(x, "NCHW", "NHWC", dtype="f2", scale=scale, threads=2), one)


def test_bfloat16_bits_in_uint16():
    x = np.random.default_rng(0).standard_normal((1, 4, 3, 3), np.float32)
    bits = lk.reorder(x, "NCHW", "NHWC", dtype="bfloat16").view(np.uint16)
    same(bits, x.transpose(0, 2, 3, 1).astype(BF16).view(np.uint16))
    back = lk.reorder(bits, "NHWC", "NCHW", dtype=("bfloat16", np.float32))
    same(back, x.astype(BF16).astype(np.float32))


def test_onnx_quantize_linear():
    """The example of the operator's own description: rounding to even, saturation, zero points per channel."""
    x = np.array([0.0, 2.0, 4.0, 1000.0, -254.0, -1000.0], np.float32)
    assert lk.reorder(x, "a", "a", dtype="u1", scale=2.0, zero_point=128).tolist() == [128, 129, 130, 255, 1, 0]
    q = np.array([0, 3, 128, 255], np.uint8)
    assert lk.reorder(q, "a", "a", dtype="f4", scale=2.0, zero_point=128).tolist() == [-256, -250, 0, 254]


def test_explain():
    said = lk.plan(lk.reorder, X, "NCHW", "nChw16c", dtype="i1", scale=0.5).explain()
    assert said.startswith("reorder of (1, 20, 4, 5) float32 to int8 NCHW -> nChw16c on 1 thread\n")
    assert "\n-> converted float32 to int8 " in said


X = np.ones((1, 20, 4, 5), np.float32)
OUT = np.ones((1, 4, 5, 20), np.int8)


@pytest.mark.parametrize(
    ("array", "given", "error", "says"),
    [
        (X, dict(dtype="u8"), TypeError, "converts float32, float64"),
        (X.astype(">f4"), dict(dtype="i1"), TypeError, "byte order"),
        (X.astype("u2"), dict(dtype="bfloat16"), TypeError, 'dtype=("bfloat16", "bfloat16") or ("uint16", "bfloat16")'),
        (X, dict(dtype=("f8", "f4")), TypeError, "the array is of dtype float32, dtype= says f8"),
        (X, dict(dtype="nonsense"), TypeError, "dtype 'nonsense' is none"),
        (X, dict(dtype="i1", scale=0.0), ValueError, "scale must be finite and not 0"),
        (X, dict(dtype="i1", scale=1e-60), ValueError, "not 0 as float32"),
        (X, dict(dtype="i1", scale=np.inf), ValueError, "scale must be finite"),
        (X, dict(dtype="i1", scale="x"), TypeError, "scale must be numbers"),
        (X, dict(dtype="i1", scale=np.ones(19)), ValueError, "one number or 20, for axis 1; got (19,)"),
        (X, dict(dtype="i1", scale=np.ones(20), axis=4), ValueError, "axis must be one of 4 dimensions, got 4"),
        (X, dict(dtype="i1", zero_point=2**31), ValueError, "integers of -2147483648 to 2147483647, got [2147483648]"),
        (
            X,
            dict(dtype="i1", zero_point=1.0),
            ValueError,
            "zero_point must be integers of -2147483648 to 2147483647, got",
        ),
        (X, dict(dtype="f2", zero_point=np.inf), ValueError, "zero_point must be finite as float32"),
        (X, dict(offset=np.nan), ValueError, "offset must be finite as float32"),
        (X, dict(dtype="i1", offset=np.ones(3)), ValueError, "offset must be one number or 20"),
        (X, dict(dtype="i1", beta=1), ValueError, "beta=1 adds to out, and there is none"),
        (X, dict(dtype="i1", alpha=np.nan), ValueError, "alpha must be a finite number"),
        (X, dict(dtype="i1", out=OUT.astype("u1")), ValueError, "dtype int8, got"),
        (X, dict(dtype="i1", out=OUT[:, :3]), ValueError, "shape (1, 4, 5, 20)"),
    ],
)
def test_bad_input(array, given, error, says):
    with pytest.raises(error, match=re.escape(says)):
        lk.reorder(array, "NCHW", "NHWC", **given)


def test_bad_out_leaves_it_alone():
    room = np.ones(1600, np.float32)
    x, out = room[:400].reshape(1, 20, 4, 5), room.view(np.int8)[400:800].reshape(1, 4, 5, 20)
    with pytest.raises(ValueError, match="overlaps an input"):
        lk.reorder(x, "NCHW", "NHWC", dtype="i1", out=out)
    out = OUT.copy()
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        lk.reorder(X, "NCHW", "NHWC", dtype="i1", out=out)
    assert (room == 1).all()


@given(laid_out(min_rank=1), st.sampled_from(["i1", "u1"]), st.data())
def test_compensation(case, dtype, data):
    layout, shape = case
    axis = data.draw(st.integers(-layout.rank, layout.rank - 1))
    w = numbers(np.random.default_rng(0), shape, np.dtype(dtype))
    held = reference.to_physical(w, layout, 77)  # pads do not count
    got = lk.compensation(held, layout, axis, shape=shape)
    others = tuple(d for d in range(layout.rank) if d != axis % layout.rank)
    same(got, w.astype(np.int32).sum(axis=others, dtype=np.int32))


def test_compensation_takes_a_zero_point_out():
    rng = np.random.default_rng(0)
    x, w = rng.integers(0, 256, (1, 5, 6, 6)), rng.integers(-128, 128, (7, 5, 3, 3)).astype(np.int8)
    args = None, (1, 1), [(0, 0), (0, 0)], (1, 1), 1
    want = reference.conv(x - 31, w, *args)
    sums = lk.compensation(lk.reorder(w, "OIHW", "OIhw4i8o4i"), "OIhw4i8o4i", shape=w.shape)
    np.testing.assert_array_equal(reference.conv(x, w, *args) - 31 * sums.reshape(1, -1, 1, 1), want)


@pytest.mark.parametrize(
    ("w", "axis", "error", "says"),
    [
        (np.ones((2, 3, 1, 1), np.int32), 0, TypeError, "expected int8 or uint8, got int32"),
        (np.ones((2, 3, 1, 1), np.int8), 4, ValueError, "axis must be one of 4 dimensions, got 4"),
        (np.broadcast_to(np.int8(1), (1, 2**24, 1, 1)), 0, ValueError, "may not fit int32"),
    ],
)
def test_compensation_of_what_has_none(w, axis, error, says):
    with pytest.raises(error, match=says):
        lk.compensation(w, axis=axis)


@pytest.mark.parametrize("isa", registry.isas())
@pytest.mark.parametrize("channels", [1, 3, 17, 48, 63, 64, 65, 100, 128, 192, 500, 1024, 1088, 1089, 1500])
@pytest.mark.parametrize("src, dst", [("float32", "int8"), ("uint8", "float32"), ("float32", "float32")])
def test_scales_and_zero_points_by_channel_along_rows(isa, channels, src, dst):
    """Rows of any length, parameters along them: repeated for short rows, met anew by each of long ones."""
    rng = np.random.default_rng(channels)
    x = rng.integers(0, 100, (1, 7, 5, channels)).astype(src)
    scale = np.exp2(rng.integers(-2, 3, channels)).astype(np.float32)
    zero = rng.integers(-9, 9, channels) if dst == "int8" else rng.integers(0, 200, channels)
    side = "out_" if dst == "int8" else ""
    if dst == "int8":
        want = np.clip(np.rint(x / scale) + zero, -128, 127).astype(dst)
    else:
        want = (x.astype(np.float32) - zero) * scale
    with using_isa(isa):
        for layout in ("NHWC", "NCHW", "HWNC"):
            how = {f"{side}scale": scale, f"{side}zero_point": zero}
            got = lk.reorder(x, "NHWC", layout, dtype=dst, axis=1, **how)
            assert np.array_equal(lk.reorder(got, layout, "NHWC"), want)


IMAGE = np.arange(120, dtype=np.uint8).reshape(1, 4, 10, 3)
AGAIN = [
    dict(dtype="float32", scale=[0.5, 2.0, 0.25], zero_point=[1, 2, 3]), dict(region=[None, None, (1, 3), (2, 9)]),
    dict(dtype="float32", scale=(0.5, 2.0, 0.25)), dict(region=(None, None, slice(1, 3), slice(2, 9)), dtype="int16"),
    dict(dtype="float32", offset=np.array([0.5, 2.0, 0.25]), shape=[1, 3, 4, 10]),
]  # fmt: skip


@pytest.mark.parametrize("given", AGAIN)
def test_a_call_is_planned_once(given):
    lk.reorder(IMAGE, "NHWC", "NCHW", **given)  # the cost table is there from now on
    plans.clear()
    before = plans.made
    want = lk.reorder(IMAGE, "NHWC", "NCHW", **given)
    made = plans.made
    assert made > before
    for _ in range(2):
        np.testing.assert_array_equal(lk.reorder(IMAGE, "NHWC", "NCHW", **given), want)
    assert plans.made == made


def test_numbers_in_lists_and_tuples_count_by_type_and_sign():
    for kind in (list, tuple):
        lk.reorder(IMAGE, "NHWC", "NCHW", dtype="float32", zero_point=kind([1, 2, 3]))
        with pytest.raises(ValueError, match="zero_point must be integers"):
            lk.reorder(IMAGE, "NHWC", "NCHW", dtype="float32", zero_point=kind([1.0, 2.0, 3.0]))
        zeros = np.full((1, 1, 1, 3), -0.0, np.float32)
        for offset in (0.0, -0.0):
            got = lk.reorder(zeros, "NHWC", "NCHW", dtype="float64", offset=kind([offset] * 3))
            assert np.signbit(got).all() == np.signbit(offset)
    few = list(range(4))
    first = lk.reorder(IMAGE, "NHWC", "NCHW", dtype="float32", scale=few[1:])
    few[1:] = 4, 5, 6  # a list that has changed
    assert not np.array_equal(first, lk.reorder(IMAGE, "NHWC", "NCHW", dtype="float32", scale=few[1:]))


def test_what_can_change_is_read_each_time():
    class Scales:
        def __init__(self):
            self.values = np.array([1.0, 2.0, 4.0])

        def __array__(self, dtype=None, copy=None):
            return self.values

    scales = Scales()
    want = lk.reorder(IMAGE, "NHWC", "NCHW", dtype="float32", scale=scales)
    scales.values *= 2
    np.testing.assert_array_equal(lk.reorder(IMAGE, "NHWC", "NCHW", dtype="float32", scale=scales), 2 * want)
