"""Products of matrices against the obvious loop, on every instruction set of the machine; see test_kernels.py."""

import itertools

import harness
import numpy as np
import pytest
from kernel_rows import ROWS, reals
from oracle.guard import guarded

# Of integers: s16 below, others in test_tiles.py, test_integers.py and tools/harness.c.
GEMMS = [k for k in ROWS if k.family == "gemm" and k.types != "u8s8" and not k.tile.components]  # see test_tiles.py
LONG_SUM = 2, 2, 131, 130  # taps, blocks, kb, kb_last: more than tile units stage of A at a time


def units(kernel, numbers):
    """What a row multiplies, of numbers (.., unit): floats, or narrow numbers side by side in the bytes of one."""
    if kernel.kr == 1:
        return numbers[..., 0].astype(reals(kernel))
    assert kernel.types == "bf16"
    bits = numbers.astype(np.float32).view(np.uint32) >> 16
    return np.ascontiguousarray(bits.astype(np.uint16)).view(np.float32)[..., 0]


def bf16(numbers):
    """The bits of float32 numbers, bias_axis are no NaN, rounded to nearest even."""
    bits = numbers.astype(np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)


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
                windows = np.lib.stride_tricks.sliding_window_view(a.array.view(np.int16), 2 * k)
                panel = b.array.view(np.int16).reshape(k, kernel.nr, 2).swapaxes(1, 2).reshape(2 * k, -1)
                want = windows[::apart].astype(np.int64) @ panel
                for accumulate in (False, True):
                    harness.gemm_s16(
                        kernel.name, a=a.address, a_row=2 * apart, steps=k, b=b.address, ldb=kernel.nr,
                        c=c.address, c_row=4 * cols, rows=rows, cols=cols, accumulate=accumulate,
                    )  # fmt: skip
                    got = c.array.view(np.int32).reshape(rows, cols)
                    np.testing.assert_array_equal(got, (want[:, :cols] * (1 + accumulate)).astype(np.int32))


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", [k for k in ROWS if k.family == "gemm_groups"], ids=lambda k: k.name)
def test_gemm_groups(kernel, end):
    """Groups of 4, 8 and 16 channels side by side: sums, and bytes; nothing beyond the columns is read or written."""
    rng = np.random.default_rng(4)
    for rows in range(1, kernel.mr + 1):
        for units in (1, 2, 4):
            for cols in (4 * units, kernel.nr - 4 * units, kernel.nr):
                for rounds in {False, kernel.lanes > 4}:
                    if cols:
                        one_product_of_groups(kernel, rng, rows, units, cols, rounds, end)
        if kernel.lanes > 4:
            for cols in range(kernel.lanes, kernel.nr + 1, kernel.lanes):
                one_product_of_groups(kernel, rng, rows, 2, cols, True, end, apart=True)


def one_product_of_groups(kernel, rng, rows, units, cols, rounds, end, apart=False):
    depth, taps, flips = 4 * units, int(rng.integers(1, 6)), bool(rng.integers(2))
    a = rng.integers(-128 if flips else 0, 128 if flips else 256, (taps, rows, cols))
    b = rng.integers(-128, 128, (taps, kernel.nr // depth, depth, depth))  # group, output, input
    mask, bias = rng.integers(0, 2**rows, taps).astype(np.uint32), rng.integers(-9999, 9999, kernel.nr, np.int32)
    read = np.where(mask[:, None, None] >> np.arange(rows)[:, None] & 1, a + 128 * flips, 7)  # `zero`, flipped
    want = np.einsum("trgk,tgjk->rgj", read.reshape(taps, rows, -1, depth), b[:, : cols // depth]).reshape(rows, cols)
    want = (want + bias[:cols]).astype(np.int32)
    m, q, s = np.ogrid[:4, : kernel.lanes // 4, :4]
    column = 16 * q + {1: 4 * s + m, 2: 8 * (s % 2) + 2 * m + s // 2, 4: 4 * m + s}[units]
    column = np.ascontiguousarray(column.reshape(-1))
    packed = b.reshape(taps, -1, depth, units, 4).swapaxes(1, 2).astype(np.int8)
    rounding = None
    if rounds:
        mul, off = (rng.uniform(0, x, kernel.nr).astype(np.float32) for x in (0.01, 90))
        rounding = mul[column], off[column], [0] * 64, [200] * 64, 3, 0, True
        product = (want.astype(np.float32) * mul[:cols] + off[:cols]).astype(np.float32)
        want = (np.rint(product) + 3).clip(0, 200).astype(np.uint8)
    ga, gb = (guarded(x.reshape(-1).view(np.uint8), end) for x in (a.astype(np.uint8), packed))
    pitch = cols if rounds else 4 * kernel.nr
    gc = guarded(np.full(rows * pitch, 9, np.uint8), end)
    places = np.full(4, 1 << 40, np.int64)  # where nothing may be stored
    places[: -(-cols // kernel.lanes)] = np.arange(-(-cols // kernel.lanes)) * kernel.lanes
    if apart:
        rounding = *rounding[:6], True, True
        gc = guarded(np.full(rows * pitch, 9, np.uint8), end)
        places[: cols // kernel.lanes] = places[: cols // kernel.lanes][::-1].copy()
    zero = guarded(np.full(cols, 7 ^ 128 if flips else 7, np.uint8), end)
    harness.gemm_groups(
        kernel.name, a=ga.address, row=np.arange(rows, dtype=np.int64) * cols,
        tap=np.arange(taps, dtype=np.int64) * rows * cols, mask=mask, zero=zero.address, kb=units, kb_last=units,
        b=gb.address, bias_col=bias[column], c=gc.address, cols=cols, flip=0x80808080 if flips else 0,
        c_row=np.arange(rows, dtype=np.int64) * pitch, c_col=places, rounding=rounding,
    )  # fmt: skip
    got = (gc.array if rounds else gc.array.view(np.int32)).reshape(rows, -1)[:, :cols]
    if apart:
        got = got.reshape(rows, -1, kernel.lanes)[:, ::-1].reshape(rows, -1)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", GEMMS, ids=lambda k: k.name)
def test_gemm(kernel, end, some):
    lanes = kernel.lanes
    rng = np.random.default_rng(1)
    widths = sorted({1, lanes, kernel.nr - 1, kernel.nr, max(1, kernel.nr - lanes)})
    sums = *harness.cases("SUM_CASES"), LONG_SUM
    for rows, cols, each in some(itertools.product(range(1, kernel.mr + 1), widths, sums)):
        for split in {False, cols % (lanes // 2) == 0}:
            one_gemm(kernel, lanes, rng, rows, cols, *each, split, end)


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
    in_padding = bool(rng.integers(0, 2))
    mask = (rng.integers(0, 2**rows, taps) if in_padding else np.full(taps, 2**rows - 1)).astype(np.uint32)
    bias_col, bias_row = floats(width), floats(rows)
    bias_axis = rng.integers(0, 3)
    accumulate, resume = (False, False) if split else ((False, False), (True, False), (False, True))[rng.integers(0, 3)]
    narrow = kernel.types == "bf16" and not (split or accumulate or resume) and bool(rng.integers(0, 2))
    residual = narrow and not kernel.tile.peak.endswith("_tiles") and bool(rng.integers(0, 2))
    in_place = bool(rng.integers(0, 2))  # the residual is where C will be
    c = floats(rows, width)
    pads = int(rng.integers(0, cols)) if rng.integers(0, 2) else 0
    added = floats(rows, width)
    if accumulate:
        added[:, cols - pads :] = 0

    want = np.zeros((rows, width), np.float64)
    for t in range(taps):
        for i in range(rows):
            if mask[t] >> i & 1:
                want[i] += np.einsum("ku,kju->j", a_numbers[i, t].reshape(-1, kernel.kr)[:depth], b_numbers[t])
    if bias_axis == 1 and not resume:
        want += bias_col
    if bias_axis == 2 and not resume:
        want += bias_row[:, None]
    if resume:
        want += c
    if accumulate or residual:
        want += added
    clip = np.array((-20, 30), real) if rng.integers(0, 2) else None
    if clip is not None:
        want = want.clip(*clip)
    want[:, cols - pads :] = 0
    b[..., cols - pads : cols] = rng.choice([1, np.inf, np.nan], pads)  # which are not stored
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
    added = np.ascontiguousarray(added[:, :cols])
    gr = guarded((bf16(added) if narrow else added).view(np.uint8).reshape(-1), end)
    if (accumulate or residual) and in_place:
        gc.array[:] = gr.array
    size = a.itemsize * taps * blocks * kb
    zero = np.zeros(max(kb, last), a.dtype)
    tap = np.arange(taps, dtype=np.int64) * a.itemsize * blocks * kb
    steps = (tap[:, None] + a.itemsize * np.arange(last)).ravel() if blocks == 1 and rng.integers(0, 4) else None
    chunk, period = rng.integers(1, taps * depth + 2, 2)
    if rng.integers(0, 2):  # chunks follow one another evenly
        period = chunk * rng.integers(1, 4)
    harness.gemm(
        kernel.name, a=ga.address, row=np.arange(rows - 1, -1, -1, dtype=np.int64) * size, tap=tap, step=steps,
        mask=mask if in_padding or rng.integers(0, 2) else None, zero=zero.ctypes.data,
        blocks=blocks, block_stride=a.itemsize * kb, kb=kb, kb_last=last, b=gb.address, ldb=width,
        bias_col=gbc.address if bias_axis == 1 else 0, bias_row=gbr.address if bias_axis == 2 else 0,
        c=gc.address, c_row=c_row, c_col=c_col, c_split=split, accumulate=accumulate, cols=cols,
        clip=None if clip is None else clip.ctypes.data,
        prefetch_c=bool(rng.integers(0, 2)), pads=pads, resume=resume, narrow=narrow, residual=residual,
        residual_offset=gr.address - gc.address if (accumulate or residual) and not in_place else 0,
        chunks=(chunk, period),
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
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("kernel", GEMMS, ids=lambda k: k.name)
def test_gemm_of_negative_zeros(kernel, positive, accumulate, listed):
    for cols in (1, kernel.nr - 1, kernel.nr):
        real = reals(kernel)
        a, b = (units(kernel, np.full((*s, kernel.kr), x)) for s, x in (((kernel.mr, 9), -0.0), ((9, kernel.nr), 1.0)))
        c, bias = np.full((kernel.mr, cols), -0.0 if accumulate else 1, real), np.full(kernel.nr, -0.0, real)
        rows = np.arange(9, dtype=np.int64) * kernel.nr if listed and kernel.kr == 1 else None
        plain_gemm(kernel, a, b, c, bias, positive=positive, accumulate=accumulate, b_row=rows)
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
