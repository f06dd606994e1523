"""Rows on a tile unit: the emulated ones, which every machine runs, and those of this processor, if it has tiles."""

import harness
import numpy as np
import pytest
from conftest import EMULATED
from hypothesis import given
from hypothesis import strategies as st
from oracle.guard import guarded

from layoutkit._core.runtime import registry

ROWS = [k for k in registry.kernels("gemm", all_isas=True) if k.name.endswith("_emulated") and k.isa in EMULATED]
LEAST = np.float32(2.0**-126)


def native(kernel):
    """The row of this processor that a row emulates; None if the processor has no tiles."""
    isa = kernel.isa.removesuffix("_emulated")
    name = kernel.name.removesuffix("_emulated")
    return name if isa in registry.isas() else None


def flushed(x):
    """Denormal numbers count as 0."""
    x = x.astype(np.float32)
    return np.where(abs(x) < LEAST, np.copysign(np.float32(0), x), x)


def widened(bits):
    """bf16 as float32."""
    return flushed((bits.astype(np.uint32) << 16).view(np.float32))


def dot_bf16(c, a, b):
    """What TDPBF16PS does, by Intel's manual: c (m, n) of float32, a (m, k, 2) and b (k, n, 2) of bf16."""
    a, b = widened(a).astype(np.longdouble), widened(b).astype(np.longdouble)
    sums = np.zeros((2, *c.shape), np.float32)
    for k in range(a.shape[1]):
        for half in range(2):
            sums[half] = flushed(sums[half] + a[:, k, half, None] * b[None, k, :, half])
    return flushed(flushed(c) + flushed(sums[0] + sums[1]))


def step(name, a, b, c, steps):
    """A row on one tap and one block, rows of A and C contiguous."""
    rows, cols, lanes = *c.shape, 16
    width = -(-cols // lanes) * lanes
    harness.gemm(
        name, a=a.ctypes.data, row=np.arange(rows, dtype=np.int64) * 4 * steps, tap=np.zeros(1, np.int64), kb=steps,
        kb_last=steps, b=b.ctypes.data, ldb=width, c=c.ctypes.data, c_row=np.arange(rows, dtype=np.int64) * 4 * cols,
        c_col=np.arange(0, 4 * width, 4 * lanes, dtype=np.int64), cols=cols, zero=0,
    )  # fmt: skip
    return c


@pytest.mark.parametrize("kernel", [k for k in ROWS if k.types == "bf16"], ids=lambda k: k.name)
@given(st.integers(0, 2**32), st.integers(1, 16), st.sampled_from([1, 16, 17, 32]), st.sampled_from([1, 16, 31, 32]))
def test_products_of_bf16_have_the_bits_of_the_manual(kernel, seed, steps, rows, cols):
    rng = np.random.default_rng(seed)
    width = -(-cols // 16) * 16
    a = rng.integers(0, 2**16, (rows, steps, 2), np.uint16)  # any bits: denormal numbers, Inf and NaN among them
    b = rng.integers(0, 2**16, (steps, width, 2), np.uint16)
    if rng.integers(2):  # near one another, so that sums round
        a, b = (x & 0x81FF | 0x3E00 for x in (a, b))
    with np.errstate(all="ignore"):
        want = dot_bf16(np.zeros((rows, cols), np.float32), a, b[:, :cols])
    got = step(kernel.name, a, b, np.ones((rows, cols), np.float32), steps)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), ~number)
    np.testing.assert_array_equal(got[number], want[number])
    if native(kernel):
        real = step(native(kernel), a, b, np.ones((rows, cols), np.float32), steps)
        np.testing.assert_array_equal(np.isnan(real), ~number)
        np.testing.assert_array_equal(real.view(np.uint32)[number], got.view(np.uint32)[number])


@pytest.mark.parametrize("kernel", [k for k in ROWS if k.types == "u8s8"], ids=lambda k: k.name)
@given(st.data())
def test_products_of_bytes_are_exact(kernel, data):
    """Any taps, blocks, masks with padding that is not 0, s8 made u8, sums that are added or limited."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows, cols = data.draw(st.integers(1, 32)), data.draw(st.integers(1, 32))
    taps, blocks, kb = (data.draw(st.integers(1, n)) for n in (3, 3, 37))
    last = data.draw(st.integers(1, kb))
    width, depth = -(-cols // 16) * 16, (blocks - 1) * kb + last
    apart = data.draw(st.sampled_from([4 * kb, 64 * -(-kb // 16)]))  # bytes between rows of a block
    a = rng.integers(0, 256, (taps, blocks, rows, apart), np.uint8)
    b = rng.integers(-128, 128, (taps, depth, width, 4), np.int8)
    flip = 0x80808080 if rng.integers(2) else 0
    mask = rng.integers(0, 2**rows, taps).astype(np.uint32) if rng.integers(2) else None
    zero = np.full(4 * kb, rng.integers(256), np.uint8)
    bias, before = (rng.integers(-(2**31), 2**31, n).astype(np.int32) for n in (width, (rows, cols)))
    how = data.draw(st.sampled_from(["", "bias_col", "accumulate", "resume"]))
    clip = np.array([-(2**20), 2**20], np.int32) if rng.integers(2) else None

    want = np.zeros((rows, cols), np.int64)
    for t in range(taps):
        lines = np.concatenate([a[t, q, :, : 4 * (kb if q + 1 < blocks else last)] for q in range(blocks)], 1)
        padding = np.concatenate([zero[: 4 * (kb if q + 1 < blocks else last)] for q in range(blocks)])
        inside = np.ones(rows, bool) if mask is None else (mask[t] >> np.arange(rows) & 1).astype(bool)
        numbers = (np.where(inside[:, None], lines, padding) ^ (flip & 0xFF)).astype(np.int64)
        want += numbers @ b[t, :, :cols].astype(np.int64).swapaxes(1, 2).reshape(4 * depth, cols)
    want = (want + (bias[:cols] if how == "bias_col" else before if how else 0)).astype(np.int32)
    want = want if clip is None else want.clip(*clip)

    used = a.size - (apart - 4 * (kb if blocks > 1 else last)) if blocks == 1 else a.size  # what may be read at most
    memory = guarded(a.reshape(-1)[:used], "high")
    for name in filter(None, (kernel.name, native(kernel))):
        c = before.copy()
        harness.gemm(
            name, a=memory.address, row=np.arange(rows, dtype=np.int64) * apart,
            tap=np.arange(taps, dtype=np.int64) * blocks * rows * apart, mask=mask, zero=zero.ctypes.data,
            blocks=blocks, block_stride=rows * apart, kb=kb, kb_last=last, b=b.ctypes.data, ldb=width, c=c.ctypes.data,
            c_row=np.arange(rows, dtype=np.int64) * 4 * cols, c_col=np.arange(0, 4 * width, 64, dtype=np.int64),
            cols=cols, flip=flip, bias_col=bias.ctypes.data if how == "bias_col" else 0, accumulate=how == "accumulate",
            resume=how == "resume", clip=None if clip is None else clip.ctypes.data,
        )  # fmt: skip
        np.testing.assert_array_equal(c, want)
