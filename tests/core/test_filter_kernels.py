"""Kernels of filters, which combine rows, against the obvious loop, between pages that cannot be touched."""

import harness
import numpy as np
import pytest
from conftest import fewer
from hypothesis import given
from hypothesis import strategies as st
from oracle.guard import guarded

from layoutkit._core.nests.moves.convert import TYPES
from layoutkit._core.runtime import registry
from layoutkit.ndimage.fixed import MOST_NUMBERS, fixed_of, pairs_of

DTYPES = {
    "u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16, "u32": np.uint32, "s32": np.int32,
    "f32": np.float32, "f64": np.float64, "u64": np.uint64, "s64": np.int64,
}  # fmt: skip
NARROW = ["u8", "s8", "u16", "s16", "f32"]
EACH, SUMS, DIFFERENCES, PLAIN, BAND, BAND_SUMS, BAND_DIFFERENCES = range(7)
LINE_SUMS, BAND_PAIRS, LINE_PAIRS = 9, 10, 11
NONE, MEAN, WHOLE, CAST = range(4)


def rows_of(family):
    """Kernels of a family, on every instruction set."""
    return [k for k in registry.kernels(all_isas=True) if k.family == family and k.isa in registry.isas()]


REALS = [k for k in rows_of("weigh") if k.types in ("f32", "f64")]
INTEGERS = [k for k in rows_of("weigh") if k.types not in ("f32", "f64")]


def guarded_rows(x, end):
    """Rows that end, or begin, at a page that cannot be touched: their addresses, and what holds them."""
    held = [guarded(row.view(np.uint8), end) for row in x]
    return np.array([h.address for h in held], np.int64), held


counts = st.integers(1, 70) | st.sampled_from([127, 128, 200, 257])
ends = st.sampled_from(["low", "high"])


def numbers(rng, shape, dtype, most=100):
    """Whole numbers that all types hold, mostly in the range of the type."""
    return rng.integers(0 if np.dtype(dtype).kind == "u" else -most, most + 1, shape).astype(dtype)


@pytest.mark.parametrize("kernel", REALS, ids=lambda k: k.name)
@fewer(3)
@given(st.integers(1, 9), counts, st.sampled_from([EACH, SUMS, DIFFERENCES, PLAIN]), st.data(), ends)
def test_weigh(kernel, taps, count, kind, data, end):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    real = DTYPES[kernel.types]
    element = data.draw(st.sampled_from(NARROW if kernel.types == "f32" else [*DTYPES][:8]))
    taps += kind in (SUMS, DIFFERENCES) and taps % 2 == 0
    x = numbers(rng, (taps, count), DTYPES[element])
    weight = rng.integers(-8, 9, taps) / 4  # sums are exact
    wide = x.astype(np.float64)
    if kind == PLAIN:
        want = wide.sum(0)
    elif kind == EACH:
        want = (weight[:, None] * wide).sum(0)
    else:
        sign = 1 if kind == SUMS else -1
        want = weight[0] * wide[0]
        for i in range(taps // 2):
            want = want + weight[1 + i] * (wide[1 + 2 * i] + sign * wide[2 + 2 * i])
    how = data.draw(st.sampled_from([NONE, MEAN, CAST] + [WHOLE] * (kind == PLAIN)))
    size, to = 1.0, data.draw(st.sampled_from(["u8", "s8", "u16", "s16", "u32", "s32"]))
    if how in (MEAN, WHOLE):
        size = float(rng.integers(1, 20))
        wide = want
        want = (want.astype(real) * (real(1) / real(size))).astype(np.float64)
        want = np.trunc(wide.astype(real) / real(size)).astype(np.float64) if how == WHOLE else want
    elif how == CAST:
        want = np.trunc(want).astype(np.int64).astype(DTYPES[to]).astype(np.float64)
    at, _held = guarded_rows(x, end)
    y = guarded(np.full(count * np.dtype(real).itemsize, 0xA5, np.uint8), end)
    harness.run(
        kernel.name, "lk_combine", x=at, y=y.address, taps=taps, count=count, weight=weight.astype(real), kind=kind,
        element=TYPES[element], end=how, to=TYPES[to], size=size, stream=data.draw(st.booleans()), ahead=at[0],
    )  # fmt: skip
    np.testing.assert_array_equal(y.array.view(real), want.astype(real))


@pytest.mark.parametrize("kernel", REALS, ids=lambda k: k.name)
@fewer(3)
@given(
    st.integers(1, 9), counts, st.integers(1, 4), st.booleans(), st.data(), ends, st.integers(BAND, BAND_DIFFERENCES)
)
def test_band(kernel, taps, count, rows, mean, data, end, kind):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    real = np.dtype(DTYPES[kernel.types])
    element = data.draw(st.sampled_from(NARROW if kernel.types == "f32" else [*DTYPES][:8]))
    x = numbers(rng, (taps + rows - 1, count), DTYPES[element])
    taps -= kind in (BAND_SUMS, BAND_DIFFERENCES) and taps % 2 == 0
    weight = given = rng.integers(-8, 9, taps) / 4  # sums are exact
    if kind != BAND:
        half = taps // 2
        given, pairs = weight[half:].copy(), weight[:half]
        given[1:] = pairs
        weight[half + 1 :] = pairs[::-1] * (1 if kind == BAND_SUMS else -1)
    x = x[: taps + rows - 1]
    want = np.stack([(weight[:, None] * x[r : r + taps].astype(np.float64)).sum(0) for r in range(rows)])
    want = (want.astype(real) * (real.type(1) / real.type(7))) if mean else want.astype(real)
    at, _held = guarded_rows(x, end)
    pitch = count * real.itemsize + 64
    y = guarded(np.full((rows - 1) * pitch + count * real.itemsize, 0xA5, np.uint8), end)
    harness.run(
        kernel.name, "lk_combine", x=at, y=y.address, taps=taps, count=count, weight=given.astype(real), kind=kind,
        element=TYPES[element], rows=rows, y_row=pitch, end=MEAN if mean else NONE, size=7, ahead=at[0],
    )  # fmt: skip
    for r in range(rows):
        row = y.array[r * pitch : r * pitch + count * real.itemsize].view(real)
        np.testing.assert_array_equal(row, want[r])
    assert all((y.array[r * pitch + count * real.itemsize : (r + 1) * pitch] == 0xA5).all() for r in range(rows - 1))


@pytest.mark.parametrize("kernel", REALS, ids=lambda k: k.name)
@fewer(3)
@given(st.integers(0, 20), st.integers(1, 3), counts, st.sampled_from([SUMS, DIFFERENCES, PLAIN]), st.data(), ends)
def test_windows_along_a_row(kernel, half, unit, count, kind, data, end):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    real = np.dtype(DTYPES[kernel.types])
    weight = rng.integers(-8, 9, 1 + half) / 4  # sums are exact
    x = numbers(rng, (1, count + 2 * half * unit), real)
    middle = x[0, half * unit :][:count].astype(np.float64) * weight[0]
    want, places = middle, [half]
    for t in range(half):
        a, b = (x[0, p * unit :][:count].astype(np.float64) for p in (t, 2 * half - t))
        want, places = want + weight[1 + t] * (a + b if kind == SUMS else a - b), [*places, t, 2 * half - t]
    if kind == PLAIN:
        places = range(1 + 2 * half)
        want = sum(x[0, p * unit :][:count].astype(np.float64) for p in places)
    (row,), _held = guarded_rows(x, end)
    at, y = row + np.array(places) * unit * real.itemsize, np.zeros(count, real)
    harness.run(
        kernel.name, "lk_combine", x=at, y=y, taps=len(at), count=count, weight=weight.astype(real), kind=kind,
        element=TYPES[kernel.types],
    )  # fmt: skip
    np.testing.assert_array_equal(y, want.astype(real))


@pytest.mark.parametrize("kernel", REALS, ids=lambda k: k.name)
def test_doubles_are_those_of_c_without_fma(kernel):
    if kernel.types != "f64":
        return
    rng = np.random.default_rng(3)
    x, weight = rng.standard_normal((7, 100)), rng.standard_normal(7)
    want = weight[0] * x[0]
    for t in range(1, 7):
        want = want + weight[t] * x[t]
    y = np.empty(100)
    at = np.array([row.ctypes.data for row in x])
    harness.run(kernel.name, "lk_combine", x=at, y=y, taps=7, count=100, weight=weight, kind=EACH, element=TYPES["f64"])
    np.testing.assert_array_equal(y, want)


def check_integers(kernel, x, weight, kind, fixed, end, stream=False):
    """Sums of integers against those of doubles that are cast."""
    (taps, count), dtype = x.shape, x.dtype
    wide = x.astype(np.float64)
    sums = weight[0] * wide[0]
    for i in range(1, len(weight)):
        number = wide[i]
        if kind != EACH:
            number = wide[2 * i - 1] + wide[2 * i] if kind == SUMS else wide[2 * i - 1] - wide[2 * i]
        sums = sums + weight[i] * number
    at, _held = guarded_rows(x, end)
    y = guarded(np.full(count * dtype.itemsize, 0xA5, np.uint8), end)
    harness.run(
        kernel.name, "lk_combine", x=at, y=y.address, taps=taps, count=count, weight=weight, kind=kind, end=CAST,
        size=1, element=TYPES[kernel.types], to=TYPES[kernel.types], fixed=fixed.words, fraction=fixed.fraction,
        doubt=fixed.doubt, stream=stream, ahead=at[0],
    )  # fmt: skip
    np.testing.assert_array_equal(y.array.view(dtype), np.trunc(sums).astype(np.int64).astype(dtype))


@pytest.mark.parametrize("kernel", INTEGERS, ids=lambda k: k.name)
@fewer(3)
@given(st.integers(1, 19), counts, st.sampled_from([EACH, SUMS, DIFFERENCES]), st.data(), ends)
def test_weigh_integers(kernel, taps, count, kind, data, end):
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    dtype = np.dtype(DTYPES[kernel.types])
    taps += kind != EACH and taps % 2 == 0
    info = np.iinfo(dtype)
    flat = data.draw(st.sampled_from([(), (0,), (0, 1)]))  # along these axes: sums are near whole numbers, many or few
    x = rng.integers(info.min, info.max, [1 if i in flat else m for i, m in enumerate((taps, count))], endpoint=True)
    x = np.ascontiguousarray(np.broadcast_to(x, (taps, count)), dtype)
    n = taps if kind == EACH else (taps + 1) // 2
    weight = rng.random(n) + 0.1
    if data.draw(st.booleans()):
        weight *= rng.choice([-1, 1], n)
    if data.draw(st.booleans()):
        weight = np.round(weight * 4) / data.draw(st.sampled_from([1, 2, 4]))  # all sums are exact
    else:
        weight /= abs(weight).sum() * (1 if kind == EACH else 2)
        weight[0] *= 1 if kind == EACH else 2  # of a constant row the sum is near that
    fixed = fixed_of(kind, weight, dtype)
    assert fixed is not None
    check_integers(kernel, x, weight, kind, fixed, end, data.draw(st.booleans()))


@pytest.mark.parametrize("kernel", [k for k in INTEGERS if k.types in ("u8", "u16")], ids=lambda k: k.name)
@fewer(3)
@given(st.integers(0, 9) | st.just(127), counts, st.integers(1, 5), st.booleans(), st.data(), ends)
def test_smooth_bands(kernel, half, count, rows, line, data, end):
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    dtype = np.dtype(DTYPES[kernel.types])
    weight = mirrored(rng, half, data)
    fixed = fixed_of(SUMS, weight, dtype)
    if fixed and fixed.smooth:  # not e.g. one weight of 1
        kind = LINE_SUMS if line and dtype == np.uint8 else BAND_SUMS
        check_windows(kernel, weight, fixed, kind, (count, rows), rng, data, end)


@pytest.mark.parametrize("kernel", [k for k in INTEGERS if k.types in ("u16", "s16")], ids=lambda k: k.name)
@fewer(2)
@given(st.integers(1, 12) | st.sampled_from([40, 127]), counts, st.integers(1, 6), st.booleans(), st.data(), ends)
def test_pairs_of_words(kernel, half, count, rows, line, data, end):
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    weight = mirrored(rng, half, data)
    if data.draw(st.booleans()):  # sums that are negative, or do not fit
        weight *= rng.choice([-1, 1], half + 1) * data.draw(st.sampled_from([0.01, 1, 1.5, 7]))
    fixed = pairs_of(weight, np.dtype(DTYPES[kernel.types]))
    if fixed is not None:  # not where sums are exact, or often in doubt
        check_windows(kernel, weight, fixed, LINE_PAIRS if line else BAND_PAIRS, (count, rows), rng, data, end)


def test_what_is_made_of_pairs():
    gaussian = np.exp(-(np.arange(7) ** 2) / 8.0)
    gaussian /= 2 * gaussian.sum() - 1
    for dtype, natural in ((np.uint16, 1), (np.int16, 0)):
        for weight in (gaussian, -gaussian):
            fixed = pairs_of(weight, np.dtype(dtype))
            assert fixed.pairs and fixed.doubt and fixed.words[2] == (natural and weight is gaussian)
        assert pairs_of(np.array([0.5, 0.25]), np.dtype(dtype)) is None  # exact
        assert pairs_of(np.full(70, 1 / 139), np.dtype(dtype)) is None  # often in doubt
        for weight in (np.array([np.nan, 1]), np.array([np.inf, 1]), np.array([1e30, 1]), np.zeros(3)):
            assert pairs_of(weight, np.dtype(dtype)) is None
    assert pairs_of(gaussian, np.dtype(np.uint8)) is None


def mirrored(rng, half, data):
    """Weights of a middle and of pairs around it, some of them 0."""
    weight = rng.random(half + 1) + 0.1
    weight /= 2 * weight.sum() - weight[0]  # of a constant window the sum is near that
    if data.draw(st.booleans()):
        weight[1:][::2] = 0
    return weight


def check_windows(kernel, weight, fixed, kind, size, rng, data, end):
    """Sums of mirrored windows, of rows or along one, against those of doubles that are cast."""
    (count, rows), half, dtype = size, len(weight) - 1, np.dtype(DTYPES[kernel.types])
    info, taps, line = np.iinfo(dtype), 2 * half + 1, kind in (LINE_SUMS, LINE_PAIRS)
    shape = (1, count + 2 * half) if line else (taps + rows - 1, count)
    x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    for value in (0, info.min, info.max):  # parts that are constant: sums are near whole numbers
        x[:, rng.random(x.shape[1]) < data.draw(st.sampled_from([0, 0.1, 0.9]))] = value
    if data.draw(st.booleans()):
        x[..., : count // 2 + half] = data.draw(st.sampled_from([0, 1, 77, info.min, info.max]))
    at, _held = guarded_rows(x, end)
    wide = x.astype(np.float64)
    rows = 1 if line else rows
    size = count * dtype.itemsize
    pitch = size + data.draw(st.sampled_from([0, -size % 64]))  # where rows are aligned alike
    y = guarded(np.full((rows - 1) * pitch + size, 0xA5, np.uint8), end)
    harness.run(
        kernel.name, "lk_combine", x=at, y=y.address, taps=taps, count=count, weight=weight, end=CAST, size=1,
        rows=rows, kind=kind, element=TYPES[kernel.types], to=TYPES[kernel.types],
        y_row=pitch, fixed=fixed.words, fraction=fixed.fraction, doubt=fixed.doubt, ahead=at[0],
        stream=data.draw(st.booleans()),
    )  # fmt: skip
    for r in range(rows):
        window = [wide[0, t : t + count] if line else wide[r + t] for t in range(taps)]
        want = weight[0] * window[half]
        for t in range(half):
            want = want + weight[t + 1] * (window[t] + window[taps - 1 - t])
        found = y.array[r * pitch : r * pitch + size].view(dtype)
        np.testing.assert_array_equal(found, np.trunc(want).astype(np.int64).astype(dtype))


@pytest.mark.parametrize("kind", [EACH, SUMS, DIFFERENCES])
@pytest.mark.parametrize("kernel", INTEGERS, ids=lambda k: k.name)
def test_the_largest_sums_of_integers(kernel, kind):
    dtype = np.dtype(DTYPES[kernel.types])
    info, taps = np.iinfo(dtype), MOST_NUMBERS if kind == EACH else 2 * MOST_NUMBERS - 1
    most = min((1 << 30) // (taps << 8 * dtype.itemsize), (1 << 15) - 4) - 1  # of the high word of a weight
    ends = np.array([info.min, info.max])
    rows = np.arange(taps)[:, None]
    x = ends[np.concatenate([rows * 0, rows * 0 + 1, rows % 2, 1 - rows % 2], 1).repeat(32, 1)].astype(dtype)
    for low in (-32768, 32767):  # of the low word: the least and the largest
        weight = np.full(MOST_NUMBERS, (most + low / 65536) * 2.0**-14)
        for signed in (weight, -weight):
            fixed = fixed_of(kind, signed, dtype)
            assert fixed is not None and fixed.doubt and fixed.fraction == 14
            assert (abs(fixed.words.view(np.int16).reshape(-1, 2, 2)[:, 1].astype(int)) >= 32767).all()
            check_integers(kernel, x, signed, kind, fixed, "high")
    assert fixed_of(kind, np.full(MOST_NUMBERS + 1, 0.1 / taps), dtype) is None


@pytest.mark.parametrize("kernel", INTEGERS, ids=lambda k: k.name)
def test_sums_in_doubt_are_those_of_c_without_fma(kernel):
    for weight, column in (([0.7, -1], (10, 6)), ([-1, 0.7], (6, 10))):
        weight, x = np.array(weight), np.zeros((2, 200), DTYPES[kernel.types])
        x[:, 3] = x[:, 100] = column  # 0.7 * 10 is rounded up to 7; few sums are in doubt
        check_integers(kernel, x, weight, EACH, fixed_of(EACH, weight, x.dtype), "high")


@pytest.mark.parametrize("kernel", [k for k in INTEGERS if k.types in ("u8", "u16")], ids=lambda k: k.name)
@fewer(3)
@given(counts, st.data(), ends)
def test_means_of_integers(kernel, count, data, end):
    dtype = np.dtype(DTYPES[kernel.types])
    most = harness.SIZES["LK_MOST_BYTES" if dtype == np.uint8 else "LK_MOST_WORDS"]
    size = data.draw(st.integers(1, 9) | st.integers(1, most))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    most = data.draw(st.sampled_from([3, 255, np.iinfo(dtype).max]))
    x = rng.integers(most - min(most, data.draw(st.integers(0, 300))), most, (size, count), endpoint=True).astype(dtype)
    at, _held = guarded_rows(x, end)
    y = guarded(np.full(count * dtype.itemsize, 0xA5, np.uint8), end)
    harness.run(
        kernel.name, "lk_combine", x=at, y=y.address, taps=size, count=count, kind=PLAIN, end=WHOLE, size=size,
        element=TYPES[kernel.types], stream=data.draw(st.booleans()), ahead=at[0],
    )  # fmt: skip
    np.testing.assert_array_equal(y.array.view(dtype), x.astype(np.int64).sum(0) // size)


@pytest.mark.parametrize("kernel", rows_of("fold"), ids=lambda k: k.name)
@fewer(3)
@given(st.integers(1, 9), counts, st.integers(0, 4), st.booleans(), st.data(), ends)
def test_fold(kernel, taps, count, rows, largest, data, end):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    dtype = DTYPES[kernel.types]
    x = numbers(rng, (taps + max(rows, 1) - 1, count), dtype)
    if x.dtype.kind == "f":
        for value in (np.nan, np.inf, -np.inf)[: data.draw(st.integers(0, 3))]:
            x[rng.random(x.shape) < data.draw(st.sampled_from([0.05, 0.7]))] = value
    want = np.stack([(np.fmax if largest else np.fmin).reduce(x[r : r + taps], 0) for r in range(max(rows, 1))])
    at, _held = guarded_rows(x, end)
    pitch = want[0].nbytes + data.draw(st.sampled_from([0, -want[0].nbytes % 64]))  # where rows are aligned alike
    y = guarded(np.full((len(want) - 1) * pitch + want[0].nbytes, 0xA5, np.uint8), end)
    harness.run(
        kernel.name, "lk_combine", x=at, y=y.address, taps=taps, count=count, kind=int(largest), rows=rows, y_row=pitch,
        ahead=at[0], stream=data.draw(st.booleans()),
    )  # fmt: skip
    for r, row in enumerate(want):
        np.testing.assert_array_equal(y.array[r * pitch : r * pitch + row.nbytes].view(dtype), row)


@pytest.mark.parametrize("kernel", rows_of("rank"), ids=lambda k: k.name)
@fewer(3)
@given(st.integers(1, 9), counts, st.data(), ends)
def test_rank(kernel, taps, count, data, end):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    dtype = DTYPES[kernel.types]
    x = numbers(rng, (taps, count), dtype)
    if x.dtype.kind == "f":
        for value in (np.nan, -np.nan, np.inf, -np.inf, -0.0)[: data.draw(st.integers(0, 5))]:
            x[rng.random(x.shape) < 0.2] = value
    network = np.array([(j, j + 1) for i in range(taps) for j in range(taps - 1 - i)], np.int32).reshape(-1, 2)
    rank = data.draw(st.integers(0, taps - 1))
    at, _held = guarded_rows(x, end)
    y = guarded(np.full(count * x.itemsize, 0xA5, np.uint8), end)
    scratch = np.empty(taps * 2 * 64 + 64, np.uint8)
    harness.run(
        kernel.name, "lk_combine", x=at, y=y.address, taps=taps, count=count, network=network, steps=len(network),
        rank=rank, scratch=scratch.ctypes.data + -scratch.ctypes.data % 64,
    )  # fmt: skip
    np.testing.assert_array_equal(y.array.view(dtype), np.sort(x, 0)[rank])


@pytest.mark.parametrize("kernel", rows_of("rank"), ids=lambda k: k.name)
@fewer(3)
@given(
    counts | st.sampled_from([2049, 3000]), st.sampled_from([(3, 3), (5, 5), (9, 3)]), st.sampled_from([1, 1, 3, 700]),
    st.data(), ends,
)  # fmt: skip
def test_medians_of_columns(kernel, count, box, unit, data, end):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    dtype, (taps, width) = np.dtype(DTYPES[kernel.types]), box
    rows = data.draw(st.integers(0, 5)) if taps == 3 else 1
    length, results = count + (width - 1) * unit, max(1, rows)
    most = data.draw(st.sampled_from([1, 100]))  # zeros and ones show every order
    x = numbers(rng, (taps + results - 1, length), dtype, most)
    if dtype.kind == "f":
        for value in (np.nan, np.inf, -np.inf)[: data.draw(st.integers(0, 3))]:
            x[rng.random(x.shape) < 0.1] = value
    at, _held = guarded_rows(x, end)
    size = count * dtype.itemsize
    pitch = size + data.draw(st.sampled_from([0, -size % 64]))  # where rows are aligned alike
    y = guarded(np.full((results - 1) * pitch + size, 0xA5, np.uint8), end)
    scratch = np.empty((taps + 1) * (length * dtype.itemsize + 128) + 64, np.uint8)
    harness.run(
        kernel.name, "lk_combine", x=at, y=y.address, taps=taps, steps=width, count=count, unit=unit, kind=1,
        stream=data.draw(st.booleans()), ahead=at[0], rows=rows, y_row=pitch,
        scratch=scratch.ctypes.data + -scratch.ctypes.data % 64,
    )  # fmt: skip
    windows = np.lib.stride_tricks.sliding_window_view(x, (taps, length), (0, 1))[:, 0]
    for r, window in enumerate(windows):
        places = np.stack([window[:, k * unit : k * unit + count] for k in range(width)]).reshape(-1, count)
        found = y.array[r * pitch : r * pitch + size].view(dtype)
        np.testing.assert_array_equal(found, np.sort(places, 0)[taps * width // 2])


@pytest.mark.parametrize("kernel", rows_of("rank"), ids=lambda k: k.name)
@fewer(3)
@given(counts, st.integers(1, 300), st.integers(0, 99), st.sampled_from([1, 100]), ends)
def test_windows_that_slide(kernel, count, taps, seed, most, end):
    rng, dtype = np.random.default_rng(seed), np.dtype(DTYPES[kernel.types])
    x, rank = numbers(rng, count + taps - 1, dtype, most), int(rng.integers(taps))
    if dtype.kind == "f":
        for value in (np.nan, np.inf, -np.inf)[: seed % 4]:
            x[rng.random(x.shape) < 0.1] = value
    held, y = guarded(x.view(np.uint8), end), guarded(np.full(count * dtype.itemsize, 0xA5, np.uint8), end)
    scratch = np.empty((len(x) + taps) * dtype.itemsize + 3 * 64, np.uint8)
    harness.run(
        kernel.name, "lk_combine", x=np.array([held.address]), y=y.address, taps=taps, count=count, kind=2, rank=rank,
        scratch=scratch.ctypes.data + -scratch.ctypes.data % 64,
    )  # fmt: skip
    windows = np.lib.stride_tricks.sliding_window_view(x, taps)
    np.testing.assert_array_equal(y.array.view(dtype), np.sort(windows, -1)[:, rank])


@pytest.mark.parametrize("kernel", rows_of("widen") + rows_of("cast"), ids=lambda k: k.name)
@fewer(3)
@given(counts, st.data(), ends)
def test_widen_and_cast(kernel, count, data, end):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    real = DTYPES[kernel.types]
    element = data.draw(st.sampled_from(NARROW if kernel.types == "f32" else [*DTYPES][:8]))
    dtype = DTYPES[element]
    x = numbers(rng, count, dtype)
    want = x.astype(real)
    if kernel.family == "cast":
        x, want = rng.integers(-300, 600, count).astype(real), None
        x += real(0.75) * np.sign(x)
        want = x.astype(dtype) if np.dtype(dtype).kind == "f" else np.trunc(x).astype(np.int64).astype(dtype)
    held, y = guarded(x.view(np.uint8), end), guarded(np.full(want.nbytes, 0xA5, np.uint8), end)
    harness.run(kernel.name, "lk_cast_row", x=held.address, y=y.address, count=count, element=TYPES[element])
    np.testing.assert_array_equal(y.array.view(want.dtype), want)


@pytest.mark.parametrize("kernel", rows_of("round"), ids=lambda k: k.name)
@fewer(3)
@given(
    counts, st.sampled_from(["u8", "s8", "u16", "s16"]), st.sampled_from([0, 0.01, 0.125]), st.sampled_from([0, 2**-9]),
    st.integers(0, 99), ends,
)  # fmt: skip
def test_round(kernel, count, element, doubt, slope, seed, end):
    limits = np.iinfo(DTYPES[element])
    x = np.random.default_rng(seed).integers(limits.min * 8, limits.max * 8, count).astype(np.float32) / 8
    held, y = guarded(x.view(np.uint8), end), guarded(np.full(count * limits.bits // 8, 0xA5, np.uint8), end)
    places, found = guarded(np.zeros(4 * count, np.uint8), end), np.zeros(1, np.int64)
    harness.run(
        kernel.name, "lk_round_row", x=held.address, y=y.address, count=count, element=TYPES[element], doubt=doubt,
        slope=slope, doubtful=places.address, found=found.ctypes.data,
    )  # fmt: skip
    np.testing.assert_array_equal(y.array.view(limits.dtype), np.trunc(x + np.copysign(0.5, x)))
    near = np.flatnonzero(abs(abs(x) % 1 - 0.5) <= doubt + slope * abs(x)) if doubt else []
    np.testing.assert_array_equal(places.array.view(np.int32)[: found[0]], near)


@pytest.mark.parametrize("kernel", rows_of("sample"), ids=lambda k: k.name)
@fewer(3)
@given(
    st.integers(1, 4), st.sampled_from([0, 1, 3]), st.integers(1, 40) | st.sampled_from([255, 256, 263, 300]),
    st.integers(0, 999), ends, st.booleans(), st.booleans(),
)  # fmt: skip
def test_sample(kernel, rank, order, count, seed, end, line, own):
    rng = np.random.default_rng(seed)
    order = min(order, 1) if kernel.types not in ("f32", "f64") else order
    size = rng.integers(1, 9, rank)
    x = rng.integers(-9, 9, size).astype(DTYPES[kernel.types])
    points = rng.integers(-8, 40, (rank, count)) / 4.0
    points = np.clip(points, 0, (size - 1)[:, None])
    lines, number = np.zeros((rank, 2)), int(rng.integers(5))
    if line:  # from one point of the array to another
        ends = rng.integers(0, size, (2, rank)) / 1.0
        lines[:, 1] = np.trunc((ends[1] - ends[0]) * 1024 / max(1, count - 1)) / 1024
        lines[:, 0] = ends[0] - number * lines[:, 1]
        points = lines[:, :1] + (number + np.arange(count)) * lines[:, 1:]
    margin = harness.SIZES["LK_SAMPLE_MARGIN"]
    near = [np.clip(np.arange(-margin, n + margin), 0, n - 1) for n in size]
    offsets = [at * (s // x.itemsize) for at, s in zip(near, x.strides)]
    want = np.zeros(count)
    for i in range(count):
        value = x.astype(np.float64)
        for at, table in zip(points[:, i], near):  # along the first axis that is left
            below = int(np.floor(at + (0.5 if order == 0 else 0)))
            y, z = at - below, 1 - (at - below)
            w = {0: [1], 1: [1 - y, y]}.get(order) or [
                z**3 / 6, (y * y * (y - 2) * 3 + 4) / 6, (z * z * (z - 2) * 3 + 4) / 6, y**3 / 6]  # fmt: skip
            value = sum(w[t] * value[table[below + margin - (order == 3) + t]] for t in range(len(w)))
        want[i] = value
    item = x.itemsize if own else 8
    gx, gy = guarded(x.reshape(-1).view(np.uint8), end), guarded(np.full(item * count, 0xA5, np.uint8), end)
    at = [guarded(row.view(np.uint8), end) for row in points]
    tables = np.array([o.ctypes.data for o in offsets]), np.array([a.address for a in at])
    harness.run(
        kernel.name, "lk_sample", x=gx.address, offset=tables[0].ctypes.data, at=tables[1].ctypes.data, size=size,
        y=gy.address, own=own, count=count, rank=rank, order=order, number=number,
        line=lines.ctypes.data if line else 0,
    )  # fmt: skip
    if own and x.dtype.kind != "f":  # sums are exact, or of points that have fewer bits
        np.testing.assert_array_equal(gy.array.view(x.dtype), np.trunc(want).astype(np.int64).astype(x.dtype))
    else:
        np.testing.assert_allclose(gy.array.view(x.dtype if own else float), want, atol=1e-5 if own else 1e-11)
