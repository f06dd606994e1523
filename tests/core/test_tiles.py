"""Rows on a tile unit: the emulated ones, which every machine runs, and those of this processor, if it has tiles."""

import harness
import numpy as np
import pytest
from conftest import EMULATED
from hypothesis import given
from hypothesis import strategies as st
from oracle.guard import guarded

from layoutkit._core.nests.convolutions.pixel_rows import split_panels
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


def split(x, components):
    """The components of numbers of float32, as bf16 in uint16: what bf16 keeps of the rest, halves away from 0."""
    out, rest = [], x.astype(np.float32)
    for _ in range(components):
        bits = (rest.view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)
        out.append((bits >> 16).astype(np.uint16))
        rest = rest - bits.view(np.float32)
    return out


def in_pairs(bits):
    """K in tiles of 32: k and k + 16 side by side, along the last axis but one; (k, n) -> (tiles, 16, n, 2)."""
    return bits.reshape(-1, 2, 16, bits.shape[-1]).transpose(0, 2, 3, 1)


@pytest.mark.parametrize("kernel", [k for k in ROWS if k.tile.components], ids=lambda k: k.name)
@given(st.integers(0, 2**32), st.integers(1, 100), st.integers(1, 32), st.sampled_from([1, 16, 17, 32]))
def test_numbers_of_float32_are_multiplied_by_their_components(kernel, seed, depth, rows, cols):
    """The bits of the products of components, the smallest last but for the first component of A, in steps of 32."""
    rng = np.random.default_rng(seed)
    whole, components = -(-depth // 32) * 32, kernel.tile.components
    x, w = np.zeros((32, whole), np.float32), np.zeros((whole, 32), np.float32)
    x[:rows, :depth] = rng.standard_normal((rows, depth)) * np.exp2(rng.integers(-20, 20, (rows, depth)))
    w[:depth, :cols] = rng.standard_normal((depth, cols))
    a = [in_pairs(bits.T) for bits in split(x, components)]  # (tiles, 16, rows, 2) each
    b = [in_pairs(bits) for bits in split(w, components)]
    order = [(0, 2), (0, 1), (0, 0), (2, 0), (1, 0), (1, 1)] if components == 3 else [(0, 1), (0, 0), (1, 0)]
    want = np.zeros((rows, cols), np.float32)
    for t in range(whole // 32):
        for p, q in order:
            want = dot_bf16(want, a[p][t].transpose(1, 0, 2)[:rows], b[q][t][:, :cols])

    lines = np.ascontiguousarray(np.stack(a).transpose(3, 1, 0, 2, 4))  # (rows, tiles, components, 16, 2)
    panel = np.zeros((1, whole // 32, components, 16, 32, 2), np.uint16)
    split_panels(kernel.name, np.ascontiguousarray(w[None, :depth]), panel)
    np.testing.assert_array_equal(panel[0], np.stack(b, 1))
    for name in filter(None, (kernel.name, native(kernel))):
        c = np.ones((rows, cols), np.float32)
        harness.gemm(
            name, a=lines.ctypes.data, row=np.arange(rows, dtype=np.int64) * (lines.nbytes // 32),
            tap=np.zeros(1, np.int64), kb=whole // 2, kb_last=whole // 2, b=panel.ctypes.data, c=c.ctypes.data,
            c_row=np.arange(rows, dtype=np.int64) * 4 * cols, c_col=np.arange(0, 128, 64, dtype=np.int64), cols=cols,
        )  # fmt: skip
        np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("kernel", [k for k in ROWS if k.tile.components], ids=lambda k: k.name)
def test_panels_to_split_are_checked(kernel):
    other = next(k for k in ROWS if not k.tile.components)
    w, out = np.zeros((1, 40, 32), np.float32), np.zeros((1, 2, kernel.tile.components, 16, 32, 2), np.uint16)
    for wrong in ((w[:, :, ::2], out), (w.astype(np.float64), out), (w, out[:, :1]), (w[:, ::2], out[:, :1])):
        with pytest.raises(ValueError, match=r"panels of|not contiguous"):
            split_panels(kernel.name, *wrong)
    with pytest.raises(ValueError, match=other.name):
        split_panels(other.name, w, out)
