"""The transforms of Winograd against the exact matrices, between guard pages, on every instruction set."""

import numpy as np
import pytest
from guard import guarded

from layoutkit import winograd
from layoutkit._core import harness, registry

ROWS = [k for k in registry.kernels(all_isas=True) if k.isa in registry.isas()]
CHANNELS = [(1, 1), (3, 3), (16, 16), (21, 21), (64, 64), (24, 8), (40, 8), (32, 16), (48, 16)]  # (channels, block)
EPS = {"f32": 2.0**-24, "bf16": 2.0**-8}


def rows(family):
    return [pytest.param(k, id=k.name) for k in ROWS if k.family == family]


def matrices(kernel):
    """BT and AT of both axes, and the kernel's table."""
    t = winograd.paired(kernel.nr)
    bt, at = winograd.as_array(t.BT), winograd.as_array(t.AT)
    one = np.ones((1, 1))
    table = np.array([float(x) for x in winograd.kernel_table(kernel.nr)], np.float32)
    return (bt if kernel.mr > 1 else one, bt), (at if kernel.mr > 1 else one, at), table


def held(kernel, numbers):
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
    lanes, item = kernel.lanes, 4 // kernel.unit
    rng = np.random.default_rng(0)
    for channels, block in CHANNELS:
        for inside in (
            (0, nh, 0, nw), (0, nh, 1, nw - 1), (nh // 3, nh, 0, 2), (0, 0, 0, nw), (nh - 1, nh, nw - 1, nw),
        ):  # fmt: skip
            r0, r1, c0, c1 = inside
            image, numbers = held(kernel, rng.standard_normal((r1 - r0, c1 - c0, channels)).astype(np.float32))
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
            bound = (4 * (nh + nw) * EPS["f32"] + (kernel.unit > 1) * EPS["bf16"]) * sandwich(abs(bh), abs(d), abs(bw))
            assert (abs(got[..., :channels] - sandwich(bh, d, bw)) <= bound).all()
            if kernel.unit > 1:  # what completes a unit is a number
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
    for m in winograd.PAIRS:
        g = winograd.as_array(winograd.paired(m).G)
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
