"""Every row of the registry against the obvious loop, on every instruction set that the machine has.

Buffers end at a page that cannot be touched, and begin after one: no kernel reads or writes outside.
"""

import math

import numpy as np
import pytest
from conftest import using_isa
from guard import guarded

from layoutkit._core import harness, registry
from layoutkit._core.route import Epilogue, epilogue_pixels
from layoutkit._core.winograd import extent

ROWS = [k for k in registry.kernels(all_isas=True) if k.isa in registry.isas()]
MOVES = [k for k in ROWS if k.family in ("transpose", "gather", "fill", "copy")]
SUMS = (1, 1, 7, 7), (3, 2, 4, 3), (2, 1, 8, 8), (1, 3, 16, 1), (3, 1, 2, 2), (1, 1, 21, 21)  # taps, blocks, kb, last
GEMMS = [k for k in ROWS if k.family == "gemm"]
STRIPS = [k for k in ROWS if k.family == "strips"]
PLANE_STRIPS = [k for k in ROWS if k.family == "plane_strips"]
EPILOGUES = [k for k in ROWS if k.family == "epilogue"]
REAL = {"f32": np.float32, "f64": np.float64}


def reals(kernel):
    """The type of all elements of a row that convolves."""
    (element,) = set(registry.TYPES[kernel.types])
    return REAL[element]


def sizes(tile):
    """Aligned, 1 x n, m x 1 and ragged around a tile of `tile`."""
    t = max(tile, 4)
    return [(t, t), (2 * t, 3 * t), (1, 2 * t), (2 * t, 1), (1, 1), (t + 1, 2 * t - 1), (3 * t - 1, t + 3)]


def test_every_instruction_set_has_every_family():
    for isa in registry.isas():
        have = {k.family for k in ROWS if k.isa == isa}
        assert have == set(registry.FAMILIES)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", MOVES, ids=lambda k: k.name)
def test_move(kernel, end):
    w = int(kernel.types[1:]) // 8
    for n0, n1 in sizes(max(kernel.mr, kernel.nr)):
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
@pytest.mark.parametrize("kernel", GEMMS, ids=lambda k: k.name)
def test_gemm(kernel, end):
    lanes = kernel.lanes
    rng = np.random.default_rng(1)
    for rows in range(1, kernel.mr + 1):
        for cols in sorted({1, lanes, kernel.nr - 1, kernel.nr, max(1, kernel.nr - lanes)}):
            for taps, blocks, kb, last in SUMS:
                for split in {False, cols % (lanes // 2) == 0}:
                    one_gemm(kernel, lanes, rng, rows, cols, taps, blocks, kb, last, split, end)


def one_gemm(kernel, lanes, rng, rows, cols, taps, blocks, kb, last, split, end):
    real = reals(kernel)
    item = np.dtype(real).itemsize

    def floats(*shape):
        return rng.integers(-4, 5, shape).astype(real)  # sums are exact

    a = floats(rows, taps, blocks, kb)
    depth = (blocks - 1) * kb + last
    width = -(-cols // lanes) * lanes
    b = floats(taps, depth, width)
    mask = rng.integers(0, 2**rows, taps).astype(np.uint32)
    bias_col, bias_row = floats(width), floats(rows)
    which = rng.integers(0, 3)
    accumulate, resume = (False, False) if split else ((False, False), (True, False), (False, True))[rng.integers(0, 3)]
    c = floats(rows, width)
    pads = int(rng.integers(0, cols)) if rng.integers(0, 2) else 0
    if accumulate:
        c[:, cols - pads :] = 0

    want = np.zeros((rows, width), np.float64)
    for t in range(taps):
        for i in range(rows):
            if mask[t] >> i & 1:
                want[i] += a[i, t].reshape(-1)[:depth] @ b[t]
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
    size = item * taps * blocks * kb
    zero = np.zeros(max(kb, last), real)
    harness.gemm(
        kernel.name, a=ga.address, row=np.arange(rows - 1, -1, -1, dtype=np.int64) * size,
        tap=np.arange(taps, dtype=np.int64) * item * blocks * kb, mask=mask, zero=zero.ctypes.data,
        blocks=blocks, block_stride=item * kb, kb=kb, kb_last=last, b=gb.address, ldb=width,
        bias_col=gbc.address if which == 1 else 0, bias_row=gbr.address if which == 2 else 0,
        c=gc.address, c_row=c_row, c_col=c_col, c_split=split, accumulate=accumulate, cols=cols,
        clip=None if clip is None else clip.ctypes.data,
        prefetch_c=bool(rng.integers(0, 2)), pads=pads, resume=resume,
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
    lanes, item, zero = kernel.lanes, a.itemsize, np.zeros(depth, a.dtype)
    harness.gemm(
        kernel.name, a=a.ctypes.data, row=np.arange(rows, dtype=np.int64) * item * depth, tap=np.zeros(1, np.int64),
        zero=zero.ctypes.data, kb=depth, kb_last=depth, b=b.ctypes.data, ldb=width,
        bias_col=bias.ctypes.data, c=c.ctypes.data, c_row=np.arange(rows, dtype=np.int64) * item * cols,
        c_col=np.arange(0, item * width, item * lanes, dtype=np.int64), cols=cols, **how,
    )  # fmt: skip


@pytest.mark.parametrize("kernel", GEMMS, ids=lambda k: k.name)
def test_gemm_with_rows_of_b_anywhere(kernel):
    lanes = kernel.lanes
    rng = np.random.default_rng(2)
    for rows in range(1, kernel.mr + 1):
        for cols in sorted({1, lanes, kernel.nr - 1, kernel.nr}):
            for depth in (1, 2, 3, 4, 5, 6, 8, 11):
                width = -(-cols // lanes) * lanes
                a, b, c, bias = (
                    rng.integers(-4, 5, s).astype(reals(kernel))
                    for s in ((rows, depth), (2 * depth, width), (rows, cols), width)
                )
                at, resume = rng.permutation(2 * depth)[:depth], bool(rng.integers(2))
                want = (a @ b[at])[:, :cols] + (c if resume else bias[:cols])
                limits = np.array((-20, 30), a.dtype) if rng.integers(2) else None
                clip = None if limits is None else limits.ctypes.data
                plain_gemm(kernel, a, b, c, bias, resume=resume, clip=clip, b_row=at.astype(np.int64) * width)
                np.testing.assert_array_equal(c, want if limits is None else want.clip(*limits))


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("kernel", GEMMS, ids=lambda k: k.name)
def test_gemm_of_negative_zeros(kernel, positive, listed):
    for cols in (1, kernel.nr - 1, kernel.nr):
        real = reals(kernel)
        a, b = np.full((kernel.mr, 9), -0.0, real), np.ones((9, kernel.nr), real)
        c, bias = np.ones((kernel.mr, cols), real), np.full(kernel.nr, -0.0, real)
        rows = np.arange(9, dtype=np.int64) * kernel.nr if listed else None
        plain_gemm(kernel, a, b, c, bias, positive=positive, b_row=rows)
        assert (c == 0).all() and (np.signbit(c) == (not positive)).all()


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("isa", registry.isas())
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
    assert extent(np.ones((0, 3), np.float32)) == extent(np.ones((3, 0), np.float32)) == (0, 0)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", STRIPS, ids=lambda k: k.name)
def test_strips(kernel, end):
    rng = np.random.default_rng(1)
    most = 1 if kernel.mr == 3 else kernel.mr
    for cols in range((kernel.nr + 1) // 2 if kernel.mr == 3 else 1, kernel.nr + 1):
        for step, rows in ((1, 1), (1, 2), (1, 4), (1, 9), (2, 1), (2, 2), (2, 5)):
            for left, right, top, below in ((0, 0, 0, 0), (1, 0, 1, 0), (0, 1, 0, 1), (1, 1, 1, 1), (most, most, 3, 2)):
                one_strip(kernel, rng, cols, step, rows, left, right, top, below, end)


def one_strip(kernel, rng, cols, step, rows, left, right, top, below, end):
    lanes, real, k = kernel.lanes, reals(kernel), kernel.mr

    def floats(*shape):
        return rng.integers(-4, 5, shape).astype(real)  # sums are exact

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
    w = np.moveaxis(w.reshape(k, k, vectors, lanes), 2, 0)
    gx, gw, gb = (guarded(np.ascontiguousarray(v).reshape(-1).view(np.uint8), end) for v in (inner, w, bias))
    gy = guarded(np.full(want.nbytes, 0xA5, np.uint8), end)
    x_pixel, y_pixel = x.itemsize * channels, x.itemsize * held
    row = x_pixel * inner.shape[1]  # nothing lies around what is inside
    tail = channels % lanes
    harness.strips(
        kernel.name, x=gx.address - top * row - left * x_pixel, x_strides=(row, x_pixel), w=gw.address,
        bias=gb.address if biased else 0, y=gy.address, y_strides=(y_pixel * cols, y_pixel), rows=rows, cols=cols,
        step=step, inside=sum(1 << i for i in range(left, wide - right)), top=top, bottom=bottom, vectors=vectors,
        x_lanes=(1 << tail) - 1, y_lanes=(1 << (lanes if pads else tail)) - 1,
    )  # fmt: skip
    np.testing.assert_array_equal(gy.array.view(real).reshape(want.shape), want)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", PLANE_STRIPS, ids=lambda k: k.name)
def test_plane_strips(kernel, end):
    rng = np.random.default_rng(1)
    for wide in {1, kernel.lanes - 1, kernel.lanes, kernel.lanes + 1, kernel.nr - 1, kernel.nr}:
        for rows in (1, 2, kernel.mr, kernel.mr + 3):
            for left, right, top, below in ((0, 0, 0, 0), (1, 2, 1, 0), (0, 1, 0, 1), (kernel.mr, kernel.mr, 3, 2)):
                one_plane(kernel, rng, wide, rows, left, right, top, below, end)


def one_plane(kernel, rng, wide, rows, left, right, top, below, end):
    lanes, real, k = kernel.lanes, reals(kernel), kernel.mr

    def floats(*shape):
        return rng.integers(-4, 5, shape).astype(real)  # sums are exact

    x, w, bias = floats(rows + k - 1, wide + k - 1), floats(k, k), floats(1)
    high, across = x.shape
    left = min(left, across - 1)
    right = min(right, across - 1 - left)
    top = min(top, high)
    bottom = max(top, high - below)
    x[:top] = x[bottom:] = x[:, :left] = x[:, across - right :] = 0
    biased, inner = rng.integers(2), x[top:bottom, left : across - right]
    want = np.zeros((rows, wide), real) + (bias if biased else 0)
    for a in range(k):
        for b in range(k):
            want += x[a : a + rows, b : b + wide] * w[a, b]
    vectors = -(-wide // lanes)
    column = np.arange(vectors * lanes).reshape(vectors, 1, lanes)
    read = column + np.arange(k)[:, None]
    there = (column < wide) & (left <= read) & (read < across - right)
    masks = (there << np.arange(lanes)).sum(-1).astype(np.uint32)
    gx, gw, gb = (guarded(np.ascontiguousarray(v).reshape(-1).view(np.uint8), end) for v in (inner, w, bias))
    gy = guarded(np.full(want.nbytes, 0xA5, np.uint8), end)
    row = x.itemsize * inner.shape[1]  # nothing lies around what is inside
    harness.plane_strips(
        kernel.name, x=gx.address - top * row - left * x.itemsize, x_row=row, w=gw.address,
        bias=gb.address if biased else 0, y=gy.address, y_row=x.itemsize * wide, rows=rows, top=top, bottom=bottom,
        x_lanes=masks, y_lanes=(1 << (wide - 1) % lanes + 1) - 1, masked=not there.all(),
    )  # fmt: skip
    np.testing.assert_array_equal(gy.array.view(real).reshape(want.shape), want)


ACTIVATIONS = {  # name: the function, in float64
    "clip": lambda x, slope: np.clip(x, -1, 2),
    "prelu": lambda x, slope: np.where(x < 0, slope * x, x),
    "silu": lambda x, slope: x / (1 + np.exp(-x)),
    "gelu": lambda x, slope: x * np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x.ravel()]).reshape(x.shape),
    "gelu_tanh": lambda x, slope: x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "hardswish": lambda x, slope: x * np.clip(x + 3, 0, 6) / 6,
}


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", EPILOGUES, ids=lambda k: k.name)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_epilogue(name, kernel, end):
    rng, real = np.random.default_rng(2), reals(kernel)
    allowed = 32 * np.finfo(real).eps
    for count in (1, 3, 4, 15, 16, 17, 40):
        for residual in (False, True):
            x, add = (rng.normal(0, 3, (2, count)).astype(real) for _ in range(2))
            slope = rng.random(count, real) if name == "prelu" else np.array((-1, 2), real)
            buffers = [guarded(a.ravel().view(np.uint8), end) for a in (x, add)]
            y, onto = (b.array.view(real).reshape(2, count) for b in buffers)
            with using_isa(kernel.isa):
                epilogue_pixels(kernel.types, Epilogue(name, slope), y, onto if residual else None)
            want = ACTIVATIONS[name](x.astype(np.float64) + (add if residual else 0), slope)
            np.testing.assert_allclose(y, want, rtol=allowed, atol=allowed)
            np.testing.assert_array_equal(onto, add)
