"""Depthwise convolutions against the obvious loop, on every instruction set of the machine; see test_kernels.py."""

import harness
import numpy as np
import pytest
from kernel_rows import REAL, ROWS, reals
from oracle.guard import guarded

from layoutkit.convolutions.types import TYPES

STRIPS = [k for k in ROWS if k.family == "strips"]
DEPTHWISE_DOT = [k for k in ROWS if k.family == "depthwise_dot"]
READ_PARTS, READ_RUN, READ_PIECES = range(3)  # LK_READ_..
PLANE_STRIPS = [k for k in ROWS if k.family == "plane_strips"]


def in_memory(kernel, numbers):
    """Small whole numbers in the type of the elements of a row."""
    if kernel.types != "bf16":
        return numbers.astype(TYPES[kernel.types].src)
    return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


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
    stored = vectors * lanes if pads else channels
    x, w, bias = floats(high, wide, channels), floats(k, k, vectors * lanes), floats(vectors * lanes)
    w[..., channels:] = bias[channels:] = 0
    bottom = max(top, high - below)
    x[:top] = x[bottom:] = x[:, :left] = x[:, wide - right :] = 0
    inner = x[top:bottom, left : wide - right]
    want = np.zeros((rows, cols, stored), real) + (bias[:stored] if biased else 0)
    for a in range(k):
        for b in range(k):
            part = x[a : a + (rows - 1) * step + 1 : step, b : b + (cols - 1) * step + 1 : step]
            want[..., :channels] += part * w[a, b, :channels]
    limits = np.array((-2, 3), real) if rng.integers(2) else None
    want = want if limits is None else want.clip(*limits)
    w = np.moveaxis(w.reshape(k, k, vectors, lanes), 2, 0)
    sums = kernel.types not in REAL and bool(rng.integers(2))  # stored as they are
    inner, want = in_memory(kernel, inner), want if sums else in_memory(kernel, want)
    gx, gw, gb = (guarded(np.ascontiguousarray(v).reshape(-1).view(np.uint8), end) for v in (inner, w, bias))
    gy = guarded(np.full(want.nbytes, 0xA5, np.uint8), end)
    x_pixel, y_pixel = inner.itemsize * channels, want.itemsize * stored
    row = x_pixel * inner.shape[1]  # nothing lies around what is inside
    tail = channels % lanes
    harness.strips(
        kernel.name, x=gx.address - top * row - left * x_pixel, x_strides=(row, x_pixel), w=gw.address,
        bias=gb.address if biased else 0, y=gy.address, y_strides=(y_pixel * cols, y_pixel), rows=rows, cols=cols,
        step=step, inside=sum(1 << i for i in range(left, wide - right)), top=top, bottom=bottom, vectors=vectors,
        x_lanes=(1 << tail) - 1, y_lanes=(1 << (lanes if pads else tail)) - 1, wide=sums, far=rng.integers(2),
        clip=None if limits is None else limits.ctypes.data,
    )  # fmt: skip
    np.testing.assert_array_equal(gy.array.view(want.dtype).reshape(want.shape), want)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", DEPTHWISE_DOT, ids=lambda k: k.name)
def test_depthwise_dot(kernel, end):
    rng = np.random.default_rng(1)
    most = 4 * kernel.lanes
    for channels in sorted({1, 15, 16, kernel.lanes, most - 1, most, *rng.integers(1, most, 3).tolist()}):
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
    valid, inside = rng.random(4 * quads) < 0.8, rng.random(columns) < 0.8
    order = None
    if channels < run and rng.integers(3) == 0:
        order = np.zeros((pieces, 16), np.int8)
        for k in range(pieces):
            order[k] = rng.integers(0, min(16, channels - 16 * k), 16)
    x[~valid] = zero
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
    at = np.arange(run // 16, dtype=np.int64) * 16
    sizes = np.clip(channels - at, 0, 16)
    mul, off = (v * rng.uniform(0.5, 1, run).astype(np.float32) for v in (rng.choice((1e-4, 0.01, 0.5)), 9))
    least, most = np.sort(rng.integers(0, 256, (2, run)), 0)
    out_zero, adds, shifts = int(rng.integers(-128, 256)), bool(rng.integers(2)), bool(rng.integers(2))
    if not shifts:
        out_zero, least[:], most[:] = 128 * signed, 0, 255
    readings = (READ_PARTS, READ_PIECES, READ_RUN)[: 2 + (channels == run)]
    reading = READ_PARTS if order is not None else rng.choice(readings)
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
        kernel.name, row=np.array([m.address if on else 0 for m, on in zip(memory, valid)], np.int64),
        column=np.where(inside, np.arange(columns) * channels, np.iinfo(np.int64).min), at=at, sizes=sizes,
        zero=gz.address, panel=panel.ctypes.data + -panel.ctypes.data % 64, w=gw.address,
        bias=gb.address if biased else 0, s=gy.address, s_at=s_at, s_strides=(item * cols * channels, item * channels),
        span=(columns, 0, columns, begin), taps=(step, apart), kw=kw, rows=rows, packed_rows=packed_rows, cols=cols,
        vectors=vectors, pieces=pieces, reading=reading, flip=0x80808080 if signed else 0,
        order=None if order is None else order.ravel(),
        lanes=(1 << channels % lanes) - 1, s_bytes=channels, s_size=sizes, s_whole=rng.integers(2), rounding=(
            mul[by_lane], off[by_lane] if adds else None, least, most, out_zero, 128 * signed, shifts
        ) if as_bytes else None,
    )  # fmt: skip
    got = gy.array.view((np.int8 if signed else np.uint8) if as_bytes else np.int32).reshape(want.shape)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", [k for k in DEPTHWISE_DOT if k.lanes > 4], ids=lambda k: k.name)
def test_depthwise_dot_of_shares_of_a_row(kernel, end):
    """A vector has the channels of several columns, which are read and stored apart; the last piece of each may have
    fewer."""
    rng, lanes, pieces = np.random.default_rng(2), kernel.lanes, kernel.lanes // 4
    lane = np.arange(4 * lanes).reshape(4, pieces, 4).transpose(1, 0, 2).ravel()
    for segments in (s for s in (1, 2, 4) if s <= pieces):
        each = pieces // segments  # of a share
        for rows, cols, step in 2 * ((1, 4, 1), (2, 5, 1), (1, 6, 2), (2, 1, 3)):
            columns, packed_rows = (cols - 1) * step + 3, int(rng.integers(rows, 3))
            channels = 16 * each - int(rng.choice((0, rng.integers(16))))
            sizes = np.clip(channels - 16 * (np.arange(pieces) % each), 0, 16)
            x = [guarded(rng.integers(0, 256, segments * columns * channels, np.uint8), end) for _ in range(4)]
            valid, inside = rng.random(4) < 0.8, rng.random((columns, segments)) < 0.8
            w = rng.integers(-128, 128, (3, 4, packed_rows, lanes, 4)).astype(np.int8)
            y = guarded(np.full(rows * segments * cols * channels, 0xA5, np.uint8), end)
            values = np.zeros((4, segments, columns, 16 * each), np.int64)
            values[..., :channels] = np.stack([v.array.reshape(segments, columns, channels) for v in x])
            values[~valid] = 77
            values[:, ~inside.T] = 77
            values = values.transpose(0, 2, 1, 3).reshape(4, columns, -1)
            want = np.zeros((rows, cols, 4 * lanes), np.int64)
            for r, j, b in np.ndindex(rows, cols, 3):
                want[r, j] += (values[:, j * step + b] * w[b, :, r].transpose(2, 0, 1).reshape(4, -1)[:, lane]).sum(0)
            want = np.rint(want.astype(np.float32) * np.float32(0.01)).clip(0, 255).astype(np.uint8)
            want = want.reshape(rows, cols, segments, 16 * each)[..., :channels].transpose(0, 2, 1, 3)
            at, share = np.arange(pieces) % each * 16, np.arange(pieces) // each
            column = np.arange(columns)[:, None] * channels + np.arange(segments) * columns * channels
            panel = np.zeros(columns * 16 * lanes + 64, np.uint8)
            gw, gz = (guarded(v.reshape(-1).view(np.uint8), end) for v in (w, np.full(4 * lanes, 77, np.uint8)))
            harness.depthwise_dot(
                kernel.name, row=np.array([v.address if on else 0 for v, on in zip(x, valid)], np.int64),
                column=np.where(inside, column, np.iinfo(np.int64).min).ravel(), at=at, sizes=sizes, pieces=pieces,
                zero=gz.address, panel=panel.ctypes.data + -panel.ctypes.data % 64, w=gw.address, bias=0, s=y.address,
                s_at=at + share * cols * channels, s_size=sizes, s_strides=(segments * cols * channels, channels),
                span=(columns, 0, columns, 0), taps=(step, 1), kw=3, rows=rows, packed_rows=packed_rows, cols=cols,
                vectors=4, reading=READ_PIECES, segments=segments, s_whole=False, s_bytes=sizes.sum(),
                rounding=(np.full(4 * lanes, 0.01), None, np.zeros(4 * lanes), np.full(4 * lanes, 255), 0, 0, False),
            )  # fmt: skip
            np.testing.assert_array_equal(y.array.reshape(want.shape), want)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", PLANE_STRIPS, ids=lambda k: k.name)
def test_plane_strips(kernel, end):
    rng = np.random.default_rng(1)
    widths = {1, kernel.lanes - 1, kernel.lanes, kernel.lanes + 1, kernel.nr - 1, kernel.nr}
    for wide in (wide for wide in widths if wide <= kernel.nr):
        for rows in (1, 2, kernel.mr, kernel.mr + 3):
            for left, right, top, below in ((0, 0, 0, 0), (1, 2, 1, 0), (0, 1, 0, 1), (kernel.mr, kernel.mr, 3, 2)):
                for planes in (1, 2) if wide <= kernel.lanes else (1,):
                    for step in (1, 2):
                        some_planes(kernel, rng, planes, step, wide, rows, left, right, top, below, end)


def some_planes(kernel, rng, planes, step, wide, rows, left, right, top, below, end):
    lanes, real, k = kernel.lanes, reals(kernel), kernel.mr

    def floats(*shape):
        return rng.integers(-4, 5, shape).astype(real)  # sums are exact

    high, across = (step * (count - 1) + k for count in (rows, wide))
    x, w, bias = floats(planes, high, across), floats(planes, k, k), floats(planes, 1, 1)
    left = min(left, across - 1)
    right = min(right, across - 1 - left)
    top = min(top, high)
    bottom = max(top, high - below)
    x[:, :top] = x[:, bottom:] = x[..., :left] = x[..., across - right :] = 0
    biased, inner = rng.integers(2), x[:, top:bottom, left : across - right]
    want = np.zeros((planes, rows, wide), real) + (bias if biased else 0)
    for a in range(k):
        for b in range(k):
            read = x[:, a : a + step * (rows - 1) + 1 : step, b : b + step * (wide - 1) + 1 : step]
            want += read * w[:, a, b, None, None]
    limits = np.array((-20, 30), real) if rng.integers(2) else None
    want = want if limits is None else want.clip(*limits)
    vectors = -(-wide // lanes)
    load = np.arange(-(-k // step) * step)  # of a vector: of each tap, or the two vectors of each two taps
    column = step * lanes * np.arange(vectors)[:, None, None] + (load // step * step + load % step * lanes)[:, None]
    column = column + np.arange(lanes)
    valid = (left <= column) & (column < across - right)
    masks = (valid << np.arange(lanes)).sum(-1).astype(np.uint32)
    gx, gw, gb = (guarded(np.ascontiguousarray(v).reshape(-1).view(np.uint8), end) for v in (inner, w, bias))
    gy = guarded(np.full(want.nbytes, 0xA5, np.uint8), end)
    row = x.itemsize * inner.shape[2]  # nothing lies around what is inside
    harness.plane_strips(
        kernel.name, x=gx.address - top * row - left * x.itemsize, x_strides=(row * inner.shape[1], row), w=gw.address,
        bias=gb.address if biased else 0, y=gy.address, y_strides=(x.itemsize * wide * rows, x.itemsize * wide),
        planes=planes, step=step, far=rng.integers(2), rows=rows, top=top, bottom=bottom, x_lanes=masks,
        y_lanes=(1 << (wide - 1) % lanes + 1) - 1, masked=not valid.all(),
        clip=None if limits is None else limits.ctypes.data,
    )  # fmt: skip
    np.testing.assert_array_equal(gy.array.view(real).reshape(want.shape), want)
