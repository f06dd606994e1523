"""Every row of the registry against the obvious loop, on every instruction set that the machine has.

Buffers end at a page that cannot be touched, and begin after one: no kernel reads or writes outside.
"""

import harness
import numpy as np
import pytest
from conftest import EMULATED, WHOLE_ISAS, using_isa
from oracle import reference
from oracle.guard import guarded
from random_cases.numbers import exact, of_result

from layoutkit._core.nests.route import TENSOR, Epilogue, epilogue_pixels
from layoutkit._core.nests.winograd_filter import extent
from layoutkit._core.runtime import registry
from layoutkit.convolutions.types import TYPES

ROWS = [k for k in registry.kernels(all_isas=True) if k.isa in (*registry.isas(), *EMULATED)]
MOVES = [k for k in ROWS if k.family in ("transpose", "gather", "fill", "copy")]
# Of integers: s16 below, others in test_tiles.py, test_integers.py and tools/harness.c.
GEMMS = [k for k in ROWS if k.family == "gemm" and k.types != "u8s8"]
STRIPS = [k for k in ROWS if k.family == "strips"]
DEPTHWISE_DOT = [k for k in ROWS if k.family == "depthwise_dot"]
PLANE_STRIPS = [k for k in ROWS if k.family == "plane_strips"]
EPILOGUES = [k for k in ROWS if k.family == "epilogue" and not k.types.startswith("s32_")]  # those: test_integers.py
REAL = {"f32": np.float32, "f64": np.float64}


def reals(kernel):
    """The type of the sums of a row that convolves; of whole units, where it has such, they are the bytes."""
    return REAL[registry.TYPES[kernel.types][2]]


def as_held(kernel, numbers):
    """Small whole numbers as a row has them in memory."""
    if kernel.types != "bf16":
        return numbers.astype(TYPES[kernel.types].src)
    return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def units(kernel, numbers):
    """What a row multiplies, of numbers (.., unit): floats, or narrow numbers side by side in the bytes of one."""
    if kernel.kr == 1:
        return numbers[..., 0].astype(reals(kernel))
    assert kernel.types == "bf16"
    bits = numbers.astype(np.float32).view(np.uint32) >> 16
    return np.ascontiguousarray(bits.astype(np.uint16)).view(np.float32)[..., 0]


def bf16(numbers):
    """The bits of float32 numbers, which are no NaN, rounded to nearest even."""
    bits = numbers.astype(np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)


def test_every_instruction_set_has_every_family_or_adds_units_to_one_that_has():
    for isa in registry.isas():
        have = {k.family for k in ROWS if k.isa == isa}
        adds = 1 not in {k.kr for k in ROWS if k.isa == isa and k.family == "gemm"}
        units = {"bf16": {"winograd_in"}, "s16": {"gemm_s16", "winograd_in", "winograd_out"}, "u8s8": {"depthwise_dot"}}
        steps = [k for k in ROWS if k.isa == isa and k.family[:4] == "gemm" and k.kr > 1 and k.types == k.tile.peak]
        of_units = set().union(*(units[k.types] for k in steps))  # tiles are for products alone
        assert have == ({"gemm", "peak"} if adds else set(registry.FAMILIES) - {"depthwise_dot", "gemm_s16"}) | of_units
        assert adds == (isa not in WHOLE_ISAS)


LONG_SUM = 2, 2, 131, 130  # taps, blocks, kb, kb_last: more than tile units stage of A at a time


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", MOVES, ids=lambda k: k.name)
def test_move(kernel, end):
    w = int(kernel.types[1:]) // 8
    for n0, n1 in harness.cases("MOVE_CASES", t=max(kernel.mr, kernel.nr, 4)):
        for gap in (0, 3):  # elements between rows
            for stream in (False, True):
                rng = np.random.default_rng(n0 * 1000 + n1)
                if kernel.family == "transpose":  # source rows along i0, destination rows along i1
                    s, d = (w, (n0 + gap) * w), ((n1 + gap) * w, w)
                elif kernel.family == "gather":
                    s, d = ((n1 * 2 + gap) * w, 2 * w), (w, (n0 + gap) * w)
                else:
                    s, d = ((n1 + gap) * w, w), ((n1 + gap) * w, w)
                src_size = w if kernel.family == "fill" else (n0 - 1) * s[0] + (n1 - 1) * s[1] + w
                src = guarded(rng.integers(0, 256, src_size, np.uint8), end)
                dst = guarded(np.full((n0 - 1) * d[0] + (n1 - 1) * d[1] + w, 0xA5, np.uint8), end)
                want = np.array(dst.array)
                for i in range(n0):
                    for j in range(n1):
                        at = 0 if kernel.family == "fill" else i * s[0] + j * s[1]
                        to = i * d[0] + j * d[1]
                        want[to : to + w] = src.array[at : at + w]
                harness.move(kernel.name, src.address, dst.address, (n0, n1), s, d, stream=stream)
                np.testing.assert_array_equal(dst.array, want)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", [k for k in ROWS if k.family == "gemm_s16"], ids=lambda k: k.name)
def test_gemm_s16(kernel, end):
    """Rows of A equally far apart, whole vectors of columns, sums that wrap around."""
    rng = np.random.default_rng(0)
    for rows in range(1, kernel.mr + 1):
        for cols in range(kernel.lanes, kernel.nr + 1, kernel.lanes):
            for k, apart in ((1, 2), (2, 7), (5, 10), (64, 200)):
                a, b = (
                    guarded(rng.integers(-(2**15), 2**15, n, np.int16).view(np.uint8), end)
                    for n in ((rows - 1) * apart + 2 * k, k * kernel.nr * 2)
                )
                c = guarded(np.full(rows * cols, 7, np.int32).view(np.uint8), end)
                held = np.lib.stride_tricks.sliding_window_view(a.array.view(np.int16), 2 * k)[::apart].astype(np.int64)
                want = held @ b.array.view(np.int16).reshape(k, kernel.nr, 2).swapaxes(1, 2).reshape(2 * k, -1)
                for accumulate in (False, True):
                    harness.gemm_s16(
                        kernel.name, a=a.address, a_row=2 * apart, steps=k, b=b.address, ldb=kernel.nr,
                        c=c.address, c_row=4 * cols, rows=rows, cols=cols, accumulate=accumulate,
                    )  # fmt: skip
                    got = c.array.view(np.int32).reshape(rows, cols)
                    np.testing.assert_array_equal(got, (want[:, :cols] * (1 + accumulate)).astype(np.int32))


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", GEMMS, ids=lambda k: k.name)
def test_gemm(kernel, end):
    lanes = kernel.lanes
    rng = np.random.default_rng(1)
    for rows in range(1, kernel.mr + 1):
        for cols in sorted({1, lanes, kernel.nr - 1, kernel.nr, max(1, kernel.nr - lanes)}):
            for taps, blocks, kb, last in (*harness.cases("SUM_CASES"), LONG_SUM):
                for split in {False, cols % (lanes // 2) == 0}:
                    one_gemm(kernel, lanes, rng, rows, cols, taps, blocks, kb, last, split, end)


def one_gemm(kernel, lanes, rng, rows, cols, taps, blocks, kb, last, split, end):
    real = reals(kernel)
    item = np.dtype(real).itemsize

    def floats(*shape):
        return rng.integers(-4, 5, shape).astype(real)  # sums are exact

    depth = (blocks - 1) * kb + last
    width = -(-cols // lanes) * lanes
    a_numbers = rng.integers(-4, 5, (rows, taps, blocks, kb, kernel.kr))
    b_numbers = rng.integers(-4, 5, (taps, depth, width, kernel.kr))
    a, b = units(kernel, a_numbers), units(kernel, b_numbers)
    mask = rng.integers(0, 2**rows, taps).astype(np.uint32)
    bias_col, bias_row = floats(width), floats(rows)
    which = rng.integers(0, 3)
    accumulate, resume = (False, False) if split else ((False, False), (True, False), (False, True))[rng.integers(0, 3)]
    narrow = kernel.types == "bf16" and not (split or accumulate or resume) and bool(rng.integers(0, 2))
    c = floats(rows, width)
    pads = int(rng.integers(0, cols)) if rng.integers(0, 2) else 0
    if accumulate:
        c[:, cols - pads :] = 0

    want = np.zeros((rows, width), np.float64)
    for t in range(taps):
        for i in range(rows):
            if mask[t] >> i & 1:
                want[i] += np.einsum("ku,kju->j", a_numbers[i, t].reshape(-1, kernel.kr)[:depth], b_numbers[t])
    if which == 1 and not resume:
        want += bias_col
    if which == 2 and not resume:
        want += bias_row[:, None]
    if accumulate or resume:
        want += c
    clip = np.array((-20, 30), real) if rng.integers(0, 2) else None
    if clip is not None:
        want = want.clip(*clip)
    want[:, cols - pads :] = 0
    b[..., cols - pads : cols] = rng.choice([1, np.inf, np.nan], pads)  # whatever is summed there
    want = np.where(np.arange(width) < cols, want, c).astype(real)
    if narrow:
        real, item = np.uint16, 2
        c, want = np.zeros((rows, width), np.uint16), bf16(want)

    # rows in memory last to first; behind the last block there is nothing that may be read
    ga = guarded(a[::-1].reshape(-1)[: a.size - (kb - last)].view(np.uint8), end)
    gb, gbc, gbr = (guarded(x.reshape(-1).view(np.uint8), end) for x in (b, bias_col, bias_row))
    step = lanes // 2 if split else lanes
    if split:  # half vectors in reverse order: each lands where c_col says
        halves = np.arange(width // step)[::-1]
        stored = c.reshape(rows, -1, step)[:, halves]
        gc = guarded(np.ascontiguousarray(stored).reshape(-1).view(np.uint8), end)
        c_col = np.array([item * step * h for h in halves], np.int64)
    else:
        gc = guarded(np.ascontiguousarray(c[:, :cols]).reshape(-1).view(np.uint8), end)
        c_col = np.arange(0, item * width, item * lanes, dtype=np.int64)
    c_row = np.arange(rows, dtype=np.int64) * item * (width if split else cols)
    size = a.itemsize * taps * blocks * kb
    zero = np.zeros(max(kb, last), a.dtype)
    harness.gemm(
        kernel.name, a=ga.address, row=np.arange(rows - 1, -1, -1, dtype=np.int64) * size,
        tap=np.arange(taps, dtype=np.int64) * a.itemsize * blocks * kb, mask=mask, zero=zero.ctypes.data,
        blocks=blocks, block_stride=a.itemsize * kb, kb=kb, kb_last=last, b=gb.address, ldb=width,
        bias_col=gbc.address if which == 1 else 0, bias_row=gbr.address if which == 2 else 0,
        c=gc.address, c_row=c_row, c_col=c_col, c_split=split, accumulate=accumulate, cols=cols,
        clip=None if clip is None else clip.ctypes.data,
        prefetch_c=bool(rng.integers(0, 2)), pads=pads, resume=resume, narrow=narrow,
        chunks=rng.integers(1, taps * depth + 2, 2),
    )  # fmt: skip
    got = gc.array.view(real)
    if split:
        got = got.reshape(rows, -1, step)[:, np.argsort(halves)].reshape(rows, width)
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_array_equal(got.reshape(rows, cols), want[:, :cols])


def plain_gemm(kernel, a, b, c, bias, **how):
    """C of one tap and one block: the rows of `a`, those of `b` in the order of b_row, if that is given."""
    rows, depth, (width, cols) = len(a), a.shape[1], (b.shape[1], c.shape[1])
    lanes, zero = kernel.lanes, np.zeros(depth, a.dtype)
    harness.gemm(
        kernel.name, a=a.ctypes.data, row=np.arange(rows, dtype=np.int64) * a.itemsize * depth,
        tap=np.zeros(1, np.int64), zero=zero.ctypes.data, kb=depth, kb_last=depth, b=b.ctypes.data, ldb=width,
        bias_col=bias.ctypes.data, c=c.ctypes.data, c_row=np.arange(rows, dtype=np.int64) * c.itemsize * cols,
        c_col=np.arange(0, c.itemsize * width, c.itemsize * lanes, dtype=np.int64), cols=cols, **how,
    )  # fmt: skip


@pytest.mark.parametrize("kernel", GEMMS, ids=lambda k: k.name)
def test_gemm_with_rows_of_b_anywhere(kernel):
    if kernel.kr > 1:
        return  # nobody asks it for that
    lanes = kernel.lanes
    rng = np.random.default_rng(2)
    for rows in range(1, kernel.mr + 1):
        for cols in sorted({1, lanes, kernel.nr - 1, kernel.nr}):
            for depth in (1, 2, 3, 4, 5, 6, 8, 11):
                width = -(-cols // lanes) * lanes
                numbers = [rng.integers(-4, 5, (*s, kernel.kr)) for s in ((rows, depth), (2 * depth, width))]
                a, b = (units(kernel, x) for x in numbers)
                c, bias = (rng.integers(-4, 5, s).astype(reals(kernel)) for s in ((rows, cols), width))
                at, resume = rng.permutation(2 * depth)[:depth], bool(rng.integers(2))
                sums = np.einsum("iku,kju->ij", numbers[0], numbers[1][at])[:, :cols]
                want = sums + (c if resume else bias[:cols])
                limits = np.array((-20, 30), a.dtype) if rng.integers(2) else None
                clip = None if limits is None else limits.ctypes.data
                plain_gemm(kernel, a, b, c, bias, resume=resume, clip=clip, b_row=at.astype(np.int64) * width,
                           chunks=rng.integers(1, depth + 2, 2))  # fmt: skip
                np.testing.assert_array_equal(c, want if limits is None else want.clip(*limits))


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("kernel", GEMMS, ids=lambda k: k.name)
def test_gemm_of_negative_zeros(kernel, positive, listed):
    for cols in (1, kernel.nr - 1, kernel.nr):
        real = reals(kernel)
        a, b = (units(kernel, np.full((*s, kernel.kr), x)) for s, x in (((kernel.mr, 9), -0.0), ((9, kernel.nr), 1.0)))
        c, bias = np.ones((kernel.mr, cols), real), np.full(kernel.nr, -0.0, real)
        rows = np.arange(9, dtype=np.int64) * kernel.nr if listed and kernel.kr == 1 else None
        plain_gemm(kernel, a, b, c, bias, positive=positive, b_row=rows)
        from_zero = kernel.tile.peak.endswith("_tiles")
        assert (c == 0).all() and (np.signbit(c) == (not (positive or from_zero))).all()


@pytest.mark.parametrize("depth", [2, 9])  # the last steps of long sums are done by rows
@pytest.mark.parametrize("kernel", [k for k in GEMMS if k.types == "bf16"], ids=lambda k: k.name)
def test_gemm_rounds_sums_to_nearest_even(kernel, depth):
    rng = np.random.default_rng(3)
    for cols in (1, kernel.nr - 1, kernel.nr):
        for tie in (0, 0x8000, 0x7FFF, 0x8001):  # of the bits that are left out
            bits = rng.integers(0, 2**16, kernel.nr, np.uint32) << 16 | tie
            bits[bits & 0x7F800000 == 0] = 0  # denormal numbers may count as 0
            bias = bits.view(np.float32)
            a, b = (units(kernel, np.zeros((*s, kernel.kr))) for s in ((kernel.mr, depth), (depth, kernel.nr)))
            positive, chunks = bool(rng.integers(2)), rng.integers(1, depth + 2, 2)
            c = np.ones((kernel.mr, cols), np.uint16)
            plain_gemm(kernel, a, b, c, bias, positive=positive, narrow=True, chunks=chunks)
            want = np.where((bias == 0) & positive, 0, bf16(bias))
            number = ~np.isnan(bias[:cols])
            np.testing.assert_array_equal(c[:, number], np.broadcast_to(want[:cols][number], (kernel.mr, number.sum())))
            assert (c[:, ~number] & 0x7FFF > 0x7F80).all()


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("isa", WHOLE_ISAS)
def test_extent(isa, end):
    rng = np.random.default_rng(1)
    for rows in (1, 2, 7):
        for count in (*range(1, 40), 97):
            w = (rng.standard_normal((rows, count)) * 2.0 ** rng.integers(-149, 100, (rows, 1))).astype(np.float32)
            w[rng.random(rows) < 0.3] = 0
            if rng.integers(0, 4) == 0:
                w[rng.integers(rows), rng.integers(count)] = rng.choice([np.inf, -np.inf, np.nan, -np.nan])
            inside = guarded(w.reshape(-1).view(np.uint8), end).array.view(np.float32).reshape(w.shape)
            peaks = abs(w).max(1).view(np.int32)  # as bits: their order has Inf and NaN last
            want = np.array([min(peaks[peaks > 0], default=0), max(peaks)], np.int32).view(np.float32)
            with using_isa(isa):
                np.testing.assert_array_equal(extent(inside), want)
    w = rng.standard_normal((1200, 2 << 10)).astype(np.float32)  # several threads look at so many
    for row in (0, 599, 1199):
        some = w.copy()
        some[row], some[1199 - row, 7] = 1e-30, -100
        for threads in (1, 2, 3, 9):
            assert extent(some, threads) == (np.float32(1e-30), 100)
    assert extent(np.ones((0, 3), np.float32)) == extent(np.ones((3, 0), np.float32)) == (0, 0)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", STRIPS, ids=lambda k: k.name)
def test_strips(kernel, end):
    rng = np.random.default_rng(1)
    most = 1 if kernel.mr == 3 else kernel.mr
    for cols in range((kernel.nr + 1) // 2 if kernel.mr == 3 else 1, kernel.nr + 1):
        for step, rows in harness.cases("STRIP_CASES"):
            for left, right, top, below in harness.cases("BORDER_CASES", most=most):
                one_strip(kernel, rng, cols, step, rows, left, right, top, below, end)


def one_strip(kernel, rng, cols, step, rows, left, right, top, below, end):
    lanes, real, k = kernel.lanes, reals(kernel), kernel.mr
    most = 4 if kernel.types in REAL else 1  # so that sums are exact, as results too

    def floats(*shape):
        return rng.integers(-most, most + 1, shape).astype(real)

    high, wide = (rows - 1) * step + k, (cols - 1) * step + k
    left, right = min(left, wide), min(right, max(0, wide - left))
    channels, biased = int(rng.integers(1, 3 * lanes + 1)), rng.integers(2)
    vectors, pads = -(-channels // lanes), int(rng.integers(2))  # the lanes behind the last channel: written or not
    held = vectors * lanes if pads else channels
    x, w, bias = floats(high, wide, channels), floats(k, k, vectors * lanes), floats(vectors * lanes)
    w[..., channels:] = bias[channels:] = 0
    bottom = max(top, high - below)
    x[:top] = x[bottom:] = x[:, :left] = x[:, wide - right :] = 0
    inner = x[top:bottom, left : wide - right]
    want = np.zeros((rows, cols, held), real) + (bias[:held] if biased else 0)
    for a in range(k):
        for b in range(k):
            part = x[a : a + (rows - 1) * step + 1 : step, b : b + (cols - 1) * step + 1 : step]
            want[..., :channels] += part * w[a, b, :channels]
    limits = np.array((-2, 3), real) if rng.integers(2) else None
    want = want if limits is None else want.clip(*limits)
    w = np.moveaxis(w.reshape(k, k, vectors, lanes), 2, 0)
    sums = kernel.types not in REAL and bool(rng.integers(2))  # stored as they are
    inner, want = as_held(kernel, inner), want if sums else as_held(kernel, want)
    gx, gw, gb = (guarded(np.ascontiguousarray(v).reshape(-1).view(np.uint8), end) for v in (inner, w, bias))
    gy = guarded(np.full(want.nbytes, 0xA5, np.uint8), end)
    x_pixel, y_pixel = inner.itemsize * channels, want.itemsize * held
    row = x_pixel * inner.shape[1]  # nothing lies around what is inside
    tail = channels % lanes
    harness.strips(
        kernel.name, x=gx.address - top * row - left * x_pixel, x_strides=(row, x_pixel), w=gw.address,
        bias=gb.address if biased else 0, y=gy.address, y_strides=(y_pixel * cols, y_pixel), rows=rows, cols=cols,
        step=step, inside=sum(1 << i for i in range(left, wide - right)), top=top, bottom=bottom, vectors=vectors,
        x_lanes=(1 << tail) - 1, y_lanes=(1 << (lanes if pads else tail)) - 1, wide=sums,
        clip=None if limits is None else limits.ctypes.data,
    )  # fmt: skip
    np.testing.assert_array_equal(gy.array.view(want.dtype).reshape(want.shape), want)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", DEPTHWISE_DOT, ids=lambda k: k.name)
def test_depthwise_dot(kernel, end):
    rng = np.random.default_rng(1)
    for channels in sorted({1, 15, 16, kernel.lanes, 4 * kernel.lanes - 1, 4 * kernel.lanes}):
        for rows in (1, 2):
            for cols in (1, 2, 3, 4, 5, 7, 8):
                for bytes_too in {False, kernel.lanes > 4}:
                    for _ in range(9 if channels == 4 * kernel.lanes else 2):
                        one_tile_of_depthwise_dot(kernel, rng, channels, rows, cols, bytes_too, end)


def one_tile_of_depthwise_dot(kernel, rng, channels, rows, cols, as_bytes, end):
    lanes, run = kernel.lanes, 4 * kernel.lanes
    quads, kw, step, apart, begin = (int(rng.integers(a, b)) for a, b in ((1, 4), (1, 5), (1, 3), (1, 3), (0, 2)))
    if rng.integers(2):  # what has code of its own
        quads, kw, apart = 1, 3, 1
    packed_rows, signed, biased = int(rng.integers(rows, 3)), bool(rng.integers(2)), bool(rng.integers(2))
    columns = begin + (cols - 1) * step + (kw - 1) * apart + 1
    dtype = np.dtype(np.int8 if signed else np.uint8)
    limits = np.iinfo(dtype)
    zero, pieces = int(rng.integers(limits.min, limits.max + 1)), -(-channels // 16)
    x = rng.integers(limits.min, limits.max + 1, (4 * quads, columns, channels)).astype(dtype)
    if rng.integers(2):
        x[...] = rng.choice((limits.min, limits.max), x.shape)
    w = np.zeros((quads, kw, 4, packed_rows, lanes, 4), np.int8)
    w[...] = rng.choice((rng.integers(-128, 128), -128, 127), w.shape)
    bias = rng.integers(-999, 999, run).astype(np.int32)
    memory = [guarded(row.reshape(-1).view(np.uint8), end) for row in x]
    there, inside = rng.random(4 * quads) < 0.8, rng.random(columns) < 0.8
    order = None
    if channels < run and rng.integers(2):
        order = np.zeros((pieces, 16), np.int8)
        for k in range(pieces):
            order[k] = rng.integers(0, min(16, channels - 16 * k), 16)
    x[~there] = zero
    x[:, ~inside] = zero
    wide = np.zeros((*x.shape[:2], run), np.int64)
    wide[..., :channels] = x
    if order is not None:
        wide[..., : 16 * pieces] = wide[..., (order + 16 * np.arange(pieces)[:, None]).ravel()]
    wide += 128 * signed  # as the flipped bit makes them
    # channel 16 a + 4 v + i is lane 4 a + i of vector v
    lane = np.arange(run).reshape(4, lanes // 4, 4).transpose(1, 0, 2).ravel()
    want = np.zeros((rows, cols, run), np.int64) + (bias[lane] if biased else 0)
    for r in range(rows):
        weights = w[:, :, :, r].transpose(0, 4, 1, 2, 3).reshape(4 * quads, kw, run)[..., lane]
        for j in range(cols):
            for b in range(kw):
                want[r, j] += (wide[:, begin + step * j + apart * b] * weights[:, b]).sum(0)
    want = want[..., :channels]
    panel = np.zeros(quads * columns * 4 * run + 64, np.uint8)
    at = np.arange(pieces, dtype=np.int64) * 16
    sizes = np.minimum(16, channels - at)
    mul, off = (v * rng.uniform(0.5, 1, run).astype(np.float32) for v in (rng.choice((1e-4, 0.01, 0.5)), 9))
    least, most = np.sort(rng.integers(0, 256, (2, run)), 0)
    out_zero, adds, shifts = int(rng.integers(-128, 256)), bool(rng.integers(2)), bool(rng.integers(2))
    if not shifts:
        out_zero, least[:], most[:] = 128 * signed, 0, 255
    whole = 1 if channels == run and order is None else 0
    by_lane = np.argsort(lane)
    vectors, item = -(-channels // lanes), 1 if as_bytes else 4
    if as_bytes:
        product = want.astype(np.float32) * mul[:channels] + (off[:channels] if adds else np.float32(0))
        want = (np.rint(product).astype(np.int64) + out_zero).clip(least[:channels], most[:channels]) ^ 128 * signed
        want = want.astype(np.uint8).view(dtype)
    gw, gb, gz = (guarded(v.reshape(-1).view(np.uint8), end) for v in (w, bias, np.full(run, zero, dtype)))
    gy = guarded(np.full(item * rows * cols * channels, 0xA5, np.uint8), end)
    s_at = at if as_bytes else np.arange(vectors, dtype=np.int64) * 4 * lanes
    harness.depthwise_dot(
        kernel.name, row=np.array([m.address if on else 0 for m, on in zip(memory, there)], np.int64),
        column=np.where(inside, np.arange(columns) * channels, np.iinfo(np.int64).min), at=at, sizes=sizes,
        zero=gz.address, panel=panel.ctypes.data + -panel.ctypes.data % 64, w=gw.address,
        bias=gb.address if biased else 0, s=gy.address, s_at=s_at, s_strides=(item * cols * channels, item * channels),
        span=(columns, 0, columns, begin), taps=(step, apart), kw=kw, rows=rows, packed_rows=packed_rows, cols=cols,
        vectors=vectors, whole=whole, flip=0x80808080 if signed else 0, order=None if order is None else order.ravel(),
        lanes=(1 << channels % lanes) - 1, s_bytes=channels, rounding=(
            mul[by_lane], off[by_lane] if adds else None, least, most, out_zero, 128 * signed, shifts
        ) if as_bytes else None,
    )  # fmt: skip
    got = gy.array.view((np.int8 if signed else np.uint8) if as_bytes else np.int32).reshape(want.shape)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", [k for k in DEPTHWISE_DOT if k.lanes > 4], ids=lambda k: k.name)
def test_depthwise_dot_of_shares_of_a_row(kernel, end):
    """A vector has the channels of several columns, which are read and stored apart."""
    rng, lanes, pieces = np.random.default_rng(2), kernel.lanes, kernel.lanes // 4
    lane = np.arange(4 * lanes).reshape(4, pieces, 4).transpose(1, 0, 2).ravel()
    for segments in (s for s in (1, 2, 4) if s <= pieces):
        for rows, cols, step in ((1, 4, 1), (2, 5, 1), (1, 6, 2), (2, 1, 3)):
            channels, columns = 16 * pieces // segments, (cols - 1) * step + 3
            x = [guarded(rng.integers(0, 256, segments * columns * channels, np.uint8), end) for _ in range(4)]
            there, inside = rng.random(4) < 0.8, rng.random((columns, segments)) < 0.8
            w = rng.integers(-128, 128, (3, 4, 2, lanes, 4)).astype(np.int8)
            y = guarded(np.full(rows * segments * cols * channels, 0xA5, np.uint8), end)
            values = np.stack([v.array.reshape(segments, columns, channels) for v in x]).astype(np.int64)
            values[~there] = 77
            values[:, ~inside.T] = 77
            values = values.transpose(0, 2, 1, 3).reshape(4, columns, -1)
            want = np.zeros((rows, cols, 4 * lanes), np.int64)
            for r, j, b in np.ndindex(rows, cols, 3):
                want[r, j] += (values[:, j * step + b] * w[b, :, r].transpose(2, 0, 1).reshape(4, -1)[:, lane]).sum(0)
            want = np.rint(want.astype(np.float32) * np.float32(0.01)).clip(0, 255).astype(np.uint8)
            want = want.reshape(rows, cols, segments, channels).transpose(0, 2, 1, 3)
            at = np.arange(pieces) % (pieces // segments) * 16
            share = np.arange(pieces) // (pieces // segments)
            column = np.arange(columns)[:, None] * channels + np.arange(segments) * columns * channels
            panel = np.zeros(columns * 16 * lanes + 64, np.uint8)
            gw, gz = (guarded(v.reshape(-1).view(np.uint8), end) for v in (w, np.full(4 * lanes, 77, np.uint8)))
            harness.depthwise_dot(
                kernel.name, row=np.array([v.address if on else 0 for v, on in zip(x, there)], np.int64),
                column=np.where(inside, column, np.iinfo(np.int64).min).ravel(), at=at, sizes=np.full(pieces, 16),
                zero=gz.address, panel=panel.ctypes.data + -panel.ctypes.data % 64, w=gw.address, bias=0, s=y.address,
                s_at=at + share * cols * channels, s_strides=(segments * cols * channels, channels),
                span=(columns, 0, columns, 0), taps=(step, 1), kw=3, rows=rows, packed_rows=2, cols=cols, vectors=4,
                whole=2, segments=segments, s_whole=False, s_bytes=4 * lanes,
                rounding=(np.full(4 * lanes, 0.01), None, np.zeros(4 * lanes), np.full(4 * lanes, 255), 0, 0, False),
            )  # fmt: skip
            np.testing.assert_array_equal(y.array.reshape(want.shape), want)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", PLANE_STRIPS, ids=lambda k: k.name)
def test_plane_strips(kernel, end):
    rng = np.random.default_rng(1)
    for wide in {1, kernel.lanes - 1, kernel.lanes, kernel.lanes + 1, kernel.nr - 1, kernel.nr}:
        for rows in (1, 2, kernel.mr, kernel.mr + 3):
            for left, right, top, below in ((0, 0, 0, 0), (1, 2, 1, 0), (0, 1, 0, 1), (kernel.mr, kernel.mr, 3, 2)):
                for planes in (1, 2) if wide <= kernel.lanes else (1,):
                    some_planes(kernel, rng, planes, wide, rows, left, right, top, below, end)


def some_planes(kernel, rng, planes, wide, rows, left, right, top, below, end):
    lanes, real, k = kernel.lanes, reals(kernel), kernel.mr

    def floats(*shape):
        return rng.integers(-4, 5, shape).astype(real)  # sums are exact

    x, w, bias = floats(planes, rows + k - 1, wide + k - 1), floats(planes, k, k), floats(planes, 1, 1)
    _, high, across = x.shape
    left = min(left, across - 1)
    right = min(right, across - 1 - left)
    top = min(top, high)
    bottom = max(top, high - below)
    x[:, :top] = x[:, bottom:] = x[..., :left] = x[..., across - right :] = 0
    biased, inner = rng.integers(2), x[:, top:bottom, left : across - right]
    want = np.zeros((planes, rows, wide), real) + (bias if biased else 0)
    for a in range(k):
        for b in range(k):
            want += x[:, a : a + rows, b : b + wide] * w[:, a, b, None, None]
    limits = np.array((-20, 30), real) if rng.integers(2) else None
    want = want if limits is None else want.clip(*limits)
    vectors = -(-wide // lanes)
    column = np.arange(vectors * lanes).reshape(vectors, 1, lanes)
    read = column + np.arange(k)[:, None]
    there = (column < wide) & (left <= read) & (read < across - right)
    masks = (there << np.arange(lanes)).sum(-1).astype(np.uint32)
    gx, gw, gb = (guarded(np.ascontiguousarray(v).reshape(-1).view(np.uint8), end) for v in (inner, w, bias))
    gy = guarded(np.full(want.nbytes, 0xA5, np.uint8), end)
    row = x.itemsize * inner.shape[2]  # nothing lies around what is inside
    harness.plane_strips(
        kernel.name, x=gx.address - top * row - left * x.itemsize, x_strides=(row * inner.shape[1], row), w=gw.address,
        bias=gb.address if biased else 0, y=gy.address, y_strides=(x.itemsize * wide * rows, x.itemsize * wide),
        planes=planes, rows=rows, top=top, bottom=bottom, x_lanes=masks,
        y_lanes=(1 << (wide - 1) % lanes + 1) - 1, masked=not there.all(),
        clip=None if limits is None else limits.ctypes.data,
    )  # fmt: skip
    np.testing.assert_array_equal(gy.array.view(real).reshape(want.shape), want)


# Chains of steps: names, their numbers, what their operand is.
CHAINS = [
    [(name, numbers, None)] for name, numbers in (
        ("clip", (-1, 2)), ("silu", ()), ("gelu", ()), ("gelu_tanh", ()), ("hardswish", ()), ("elu", (0.5,)),
        ("tanh", ()), ("sigmoid", ()), ("softplus", ()), ("abs", ()), ("square", ()), ("exp", ()), ("round", ()),
        ("mish", ()), ("swish", (1.25,)), ("hardsigmoid", (0.25, 0.5)), ("hardswish_of", (0.25, 0.5)),
        ("linear", (0.25, -0.5)), ("pow", (0.5, 2, 1, 1)), ("erf", ()), ("celu", (0.5,)), ("softsign", ()), ("neg", ()),
        ("sign", ()), ("floor", ()), ("ceil", ()), ("thresholded_relu", (0.5,)), ("shrink", (0.25, 0.5)),
    )
] + [
    [(name, numbers, kind)] for name, numbers in (
        ("prelu", ()), ("add", ()), ("mul", ()), ("max", ()), ("min", ()), ("sum", (0.5,)), ("sub", ()), ("rsub", ()),
    ) for kind in ("number", "channel", TENSOR)
] + [
    [("abs", (), None), ("sqrt", (), None), ("linear", (1, 0.5), None), ("log", (), None)],
    [("add", (), TENSOR), ("clip", (-2, 3), None), ("mul", (), "channel"),
     ("sum", (2,), TENSOR), ("max", (), "number")],
]  # fmt: skip


def stepped(step, operand, x):
    """A step of an epilogue on x (.., channels), in float64."""
    name, numbers, _ = step
    binary = {"prelu": lambda: np.where(x < 0, x * operand, x), "add": lambda: x + operand, "mul": lambda: x * operand,
              "sub": lambda: x - operand, "rsub": lambda: operand - x,
              "max": lambda: np.maximum(x, operand), "min": lambda: np.minimum(x, operand),
              "sum": lambda: x + numbers[0] * operand}  # fmt: skip
    if name in binary:
        return binary[name]()
    if name == "pow":
        numbers = numbers[:2]
    form = (name.removesuffix("_of"), *numbers)
    return reference.activate(x.reshape(1, 1, -1), form).reshape(x.shape)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", EPILOGUES, ids=lambda k: k.name)
@pytest.mark.parametrize("chain", CHAINS, ids=lambda c: "-".join(f"{name}{of or ''}" for name, _, of in c))
def test_epilogue(chain, kernel, end):
    rng, real, types = np.random.default_rng(2), reals(kernel), TYPES[kernel.types]
    allowed = 32 * np.finfo(real).eps
    for count in (1, 3, 4, 15, 16, 17, 40, 1100):
        for residual in (False, True):
            x = rng.normal(0, 3, (2, count)).clip(-5, 5).astype(real)  # e^10 is in range of f16
            add = rng.normal(0, 3, (2, count)).clip(-5, 5).astype(types.dst)
            inputs = [guarded(a.ravel().view(np.uint8), end) for a in (x, add)]
            sums, onto = (b.array.view(a.dtype).reshape(2, count) for b, a in zip(inputs, (x, add)))
            y = guarded(np.zeros(2 * count, types.dst).view(np.uint8), end).array.view(types.dst).reshape(2, count)
            narrow = types.dst != real
            steps, tensors = [], []
            want = x.astype(np.float64) + (exact(add) if residual else 0)
            for step in chain:
                name, numbers, kind = step
                shape, of = {"number": (1, real), "channel": (count, real), TENSOR: ((2, count), types.dst)}.get(
                    kind, (0, real))  # fmt: skip
                made = rng.normal(0, 1, shape).astype(of)
                operand = guarded(made.ravel().view(np.uint8), end).array.view(of).reshape(shape)
                if kind == TENSOR:
                    tensors.append(operand)
                steps.append((name, np.array(numbers, real), TENSOR if kind == TENSOR else operand if kind else None))
                want = stepped(step, exact(operand), want)
            with using_isa(kernel.isa):
                args = (y, onto if residual else None, sums) if narrow else (sums, onto if residual else None)
                epilogue_pixels(kernel.types, Epilogue(steps, tensors), *args)
            got = exact(y) if narrow else sums
            assert (abs(got - want) <= allowed * (1 + abs(want)) + of_result(types, want)).all()
            np.testing.assert_array_equal(onto, add)


@pytest.mark.parametrize("kernel", [k for k in EPILOGUES if k.types in ("f16", "bf16")], ids=lambda k: k.name)
def test_every_narrow_number_and_those_between_are_rounded_to_nearest_even(kernel):
    types = TYPES[kernel.types]
    held = np.arange(1 << 16, dtype=np.uint16).view(types.dst)
    with np.errstate(all="ignore"):
        wide = exact(held)
        steps = wide.view(np.uint32)[:, None] + np.uint32([0, 1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001])
        sums = steps.astype(np.uint32).view(np.float32)
        y = np.zeros(sums.shape, types.dst)
        with using_isa(kernel.isa):
            epilogue_pixels(kernel.types, Epilogue(), y, None, sums)
        np.testing.assert_array_equal(exact(y), exact(sums.astype(types.dst)))
        onto = np.zeros((1, held.size), types.dst)
        with using_isa(kernel.isa):  # the residual is widened
            epilogue_pixels(kernel.types, Epilogue(), onto, held[None], np.zeros(onto.shape, np.float32))
        np.testing.assert_array_equal(exact(onto)[0], wide)
