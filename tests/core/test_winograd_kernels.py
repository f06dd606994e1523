"""The transforms of Winograd against the exact matrices, between guard pages, on every instruction set."""

import itertools

import harness
import numpy as np
import pytest
from oracle.guard import guarded

from layoutkit import winograd
from layoutkit._core.nests.convolutions import winograd_filter as nests
from layoutkit._core.runtime import registry
from layoutkit.convolutions import winograd_matrices
from layoutkit.convolutions.algorithms import winograd_packing as packing

ROWS = [k for k in registry.kernels(all_isas=True) if k.isa in registry.isas() and k.types != "s16"]
WORDS = [k for k in registry.kernels(all_isas=True) if k.isa in registry.isas() and k.types == "s16"]
CHANNELS = [(1, 1), (3, 3), (16, 16), (21, 21), (64, 64), (24, 8), (40, 8), (32, 16), (48, 16)]  # (channels, block)
EPS = {"f32": 2.0**-24, "bf16": 2.0**-8}


def rows(family):
    return [pytest.param(k, id=k.name) for k in ROWS if k.family == family]


def matrices(kernel):
    """BT and AT of both axes, and the kernel's table."""
    t = winograd_matrices.algorithm(kernel.nr)
    bt, at = winograd.as_array(t.BT), winograd.as_array(t.AT)
    one = np.ones((1, 1))
    table = np.array([float(x) for x in winograd.kernel_table(kernel.nr)], np.float32)
    return (bt if kernel.mr > 1 else one, bt), (at if kernel.mr > 1 else one, at), table


def in_memory(kernel, numbers):
    """Numbers as a row reads them; of bf16 the upper halves of floats, and those as they are."""
    if kernel.types == "f32":
        return numbers, numbers.astype(np.float64)
    bits = (numbers.view(np.uint32) >> 16).astype(np.uint16)
    return bits, as_written(kernel, bits)


def as_written(kernel, numbers):
    """The numbers that a row has written."""
    if kernel.types == "f32":
        return numbers.astype(np.float64)
    return (numbers.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def sandwich(left, x, right):
    return np.einsum("ia,jb,abc->ijc", left, right, x)


def by_block(x, block):
    """(i, j, channels) with the blocks outermost: (blocks, i, j, block)."""
    i, j, c = x.shape
    return np.ascontiguousarray(x.reshape(i, j, c // block, block).transpose(2, 0, 1, 3))


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", rows("winograd_in"))
def test_in(kernel, end):
    (bh, bw), _, table = matrices(kernel)
    nh, nw = len(bh), len(bw)
    lanes, item = kernel.lanes, 4 // kernel.kr
    rng = np.random.default_rng(0)
    for channels, block in CHANNELS:
        for inside in (
            (0, nh, 0, nw), (0, nh, 1, nw - 1), (nh // 3, nh, 0, 2), (0, 0, 0, nw), (nh - 1, nh, nw - 1, nw),
        ):  # fmt: skip
            r0, r1, c0, c1 = inside
            image, numbers = in_memory(kernel, rng.standard_normal((r1 - r0, c1 - c0, channels)).astype(np.float32))
            stored = guarded(by_block(image, block).reshape(-1).view(np.uint8), end)
            row, col, gap = item * block * (c1 - c0), item * block, item * block * (c1 - c0) * (r1 - r0)
            width = -(-channels // lanes) * lanes
            v = guarded(np.full(nh * nw * width * item, 255, np.uint8), end)
            at = stored.address - r0 * row - c0 * col
            harness.winograd_in(
                kernel.name, src=at % 2**64, strides=(row, col), inside=inside, channels=channels, block=block,
                block_stride=gap, v=v.address, v_stride=width, table=table.ctypes.data,
            )  # fmt: skip
            d = np.zeros((nh, nw, channels))
            d[r0:r1, c0:c1] = numbers
            got = as_written(kernel, v.array.view(image.dtype)).reshape(nh, nw, width)
            bound = (4 * (nh + nw) * EPS["f32"] + (kernel.kr > 1) * EPS["bf16"]) * sandwich(abs(bh), abs(d), abs(bw))
            assert (abs(got[..., :channels] - sandwich(bh, d, bw)) <= bound).all()
            if kernel.kr > 1:  # what completes a unit is a number
                assert not got[..., channels:].any()


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", rows("winograd_out"))
def test_out(kernel, end):
    _, (ah, aw), table = matrices(kernel)
    (mh, nh), (mw, nw) = ah.shape, aw.shape
    lanes = kernel.lanes
    rng = np.random.default_rng(0)
    for channels, block in CHANNELS:
        for height, wide in {(mh, mw), (1, 1), (mh, mw - 1), (max(1, mh - 1), mw)}:
            for with_bias in (False, True):
                width = -(-channels // lanes) * lanes
                m = rng.standard_normal((nh, nw, width)).astype(np.float32)
                bias = rng.standard_normal(channels).astype(np.float32)
                gm = guarded(m.reshape(-1).view(np.uint8), end)
                gb = guarded(bias.view(np.uint8), end)
                y = guarded(np.full(height * wide * channels, np.nan, np.float32).view(np.uint8), end)
                harness.winograd_out(
                    kernel.name, m=gm.address, m_stride=width, dst=y.address, strides=(4 * block * wide, 4 * block),
                    rows=height, cols=wide, channels=channels, block=block, block_stride=4 * block * wide * height,
                    bias=gb.address if with_bias else 0, table=table.ctypes.data,
                )  # fmt: skip
                m = m[..., :channels].astype(np.float64)
                b = bias * float(with_bias)
                got = y.array.view(np.float32)
                want = by_block((sandwich(ah, m, aw) + b)[:height, :wide], block).reshape(-1)
                bound = 4 * (nh + nw) * EPS["f32"] * (sandwich(abs(ah), abs(m), abs(aw)) + abs(b))[:height, :wide]
                assert (abs(got - want) <= by_block(bound, block).reshape(-1)).all()


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", rows("winograd_filter"))
def test_filter(kernel, end):
    rng = np.random.default_rng(0)
    for m in winograd_matrices.TILES:
        g = winograd_matrices.factors(m)
        for gh, count in ((g, 16), (g, 11), (np.ones((1, 1)), 1)):
            taps = gh.shape[1] * 3
            w = rng.standard_normal((count, taps)).astype(np.float32)
            gw = guarded(w.reshape(-1).view(np.uint8), end)
            u = guarded(np.full(len(gh) * len(g) * 16, np.nan, np.float32).view(np.uint8), end)
            harness.winograd_filter(
                kernel.name, w=gw.address, w_stride=taps, count=count, width=16, gh=gh, gw=g, u=u.address, u_stride=16
            )
            want = np.zeros((len(gh), len(g), 16))
            want[..., :count] = sandwich(gh, w.reshape(count, gh.shape[1], 3).transpose(1, 2, 0).astype(float), g)
            np.testing.assert_array_max_ulp(u.array.view(np.float32), want.astype(np.float32).reshape(-1), 1)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", rows("winograd_expand"))
def test_expand(kernel, end):
    rng = np.random.default_rng(0)
    for m, taps, channels, vectors in itertools.product(winograd.PAIRS, (1, 3), (1, 3), (1, 2)):
        width, n = vectors * kernel.lanes, m + 2
        g = winograd.as_array(winograd.paired(m).G)
        gh = g if taps == 3 else np.ones((1, 1))
        w = rng.standard_normal((channels, taps, 3, width)).astype(np.float32)
        stored = guarded(w.reshape(-1).view(np.uint8), end)
        u = guarded(np.full(len(gh) * n * channels * width, np.nan, np.float32).view(np.uint8), end)
        table = np.array(winograd.expanding_table(m), np.float32)
        harness.winograd_expand(
            kernel.name, w=stored.address, channels=channels, width=width, n=n, rows=taps, table=table, u=u.address,
            u_stride=channels * width,
        )  # fmt: skip
        got = u.array.view(np.float32).reshape(len(gh), n, channels, width)
        want, size = (np.einsum("ia,jb,cabo->ijco", f(gh), f(g), f(w.astype(np.float64))) for f in (np.array, abs))
        steps = winograd_matrices.EXPANDED_STEPS * (1 + (taps == 3))
        assert (abs(got - want) <= steps * EPS["f32"] * size).all()


def integer_matrices():
    """BT, G times 4, 6, 6, 24, 24, 1, and AT times 24 / these."""
    t = winograd.transform(4, 3, [0, 1, -1, 2, -2])
    by = [4, 6, 6, 24, 24, 1]
    t = winograd.rescale(t, by)
    at = [[24 * x for x in row] for row in t.AT]
    assert all(x.denominator == 1 for matrix in (t.BT, t.G, at) for row in matrix for x in row)
    return tuple(winograd.as_array(matrix, np.int64) for matrix in (t.BT, t.G, at))


def test_the_scaled_filter_is_that_of_the_algorithm():
    side = packing.TILE_SIDE
    found = packing.integer_tile(np.eye(3, dtype=np.int16), np.empty((side, 3), np.int16))
    np.testing.assert_array_equal(abs(integer_matrices()[1]), abs(found))


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", [k for k in WORDS if k.family == "winograd_in"], ids=lambda k: k.name)
def test_in_of_integers(kernel, end):
    bt, n, lanes = integer_matrices()[0], 6, 2 * kernel.lanes
    rng = np.random.default_rng(0)
    for channels, block in ((1, 1), (3, 3), (16, 16), (45, 45), (64, 64), (48, 16), (64, 32)):
        for r0, r1, c0, c1 in ((0, n, 0, n), (0, n, 1, n - 1), (2, n, 0, 2), (0, 0, 0, n), (n - 1, n, n - 1, n)):
            flip, pad = int(rng.integers(2)) * 128, int(rng.integers(256))
            image = rng.integers(0, 256, (r1 - r0, c1 - c0, channels), np.uint8)
            image[..., ::2] = 255 * rng.integers(0, 2, image[..., ::2].shape)  # the largest results
            stored = guarded(by_block(image, block).reshape(-1), end)
            width = -(-channels // lanes) * lanes
            v = guarded(np.full(n * n * width, 99, np.int16).view(np.uint8), end)
            row, col, gap = block * (c1 - c0), block, block * (c1 - c0) * (r1 - r0)
            harness.winograd_in(
                kernel.name, src=(stored.address - r0 * row - c0 * col) % 2**64, strides=(row, col),
                inside=(r0, r1, c0, c1), channels=channels, block=block, block_stride=gap, v=v.address,
                v_stride=width, table=0, pad=pad, flip=flip,
            )  # fmt: skip
            d = np.full((n, n, channels), pad ^ flip, np.int64)
            d[r0:r1, c0:c1] = image ^ np.uint8(flip)
            got = v.array.view(np.int16).reshape(n, n, width)[..., :channels]
            np.testing.assert_array_equal(got, np.einsum("ia,jb,abc->ijc", bt, bt, d))


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", [k for k in WORDS if k.family == "winograd_out"], ids=lambda k: k.name)
def test_out_of_integers(kernel, end):
    """From the products of a tile, modulo 2^32, to its sums, the largest among them, and any bias."""
    bt, g, _ = integer_matrices()
    rng, m, lanes = np.random.default_rng(0), 4, kernel.lanes
    for channels, block in CHANNELS:
        if block not in (channels, 8, 16):
            continue
        d, w = rng.integers(0, 256, (6, 6, 30, channels)), rng.integers(-128, 128, (3, 3, 30, channels))
        d[..., 0], w[..., 0] = 255, rng.choice((-1, 1)) * (2**25 // (255 * 270))  # the largest sums
        windows = np.lib.stride_tricks.sliding_window_view(d, (3, 3), (0, 1))
        sums = np.einsum("ijkcab,abkc->ijc", windows, w)
        assert abs(sums).max() < 2**25
        of_channels = np.einsum("ia,jb,abkc->ijkc", bt, bt, d) * np.einsum("ia,jb,abkc->ijkc", g, g, w)
        width = -(-channels // lanes) * lanes
        products = np.zeros((6, 6, width), np.int32)
        products[..., :channels] = of_channels.sum(2).astype(np.int32)
        bias = rng.integers(-(2**31), 2**31, channels, np.int32)
        for height, wide in ((m, m), (1, 1), (m, m - 1), (m - 1, m)):
            gm, gb = (guarded(a.reshape(-1).view(np.uint8), end) for a in (products, bias))
            y = guarded(np.zeros(height * wide * channels, np.int32).view(np.uint8), end)
            harness.winograd_out(
                kernel.name, m=gm.address, m_stride=width, dst=y.address, strides=(4 * block * wide, 4 * block),
                rows=height, cols=wide, channels=channels, block=block, block_stride=4 * block * wide * height,
                bias=gb.address, table=0,
            )  # fmt: skip
            want = (sums + bias).astype(np.int32)[:height, :wide]
            np.testing.assert_array_equal(y.array.view(np.int32), by_block(want, block).reshape(-1))


@pytest.mark.parametrize("table", [np.ones((2, 2)), np.ones((2, 3), np.float32).T], ids=["type", "order"])
def test_tables_of_another_type_or_order_are_refused(table):
    with pytest.raises(ValueError, match="not in C order, or of float"):
        nests.extent(table)
