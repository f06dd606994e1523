"""Moves, and what all rows have in common, against the obvious loop, on every instruction set that the machine has.

Buffers end at a page that cannot be touched, and begin after one: no kernel reads or writes outside.
"""

import itertools

import harness
import numpy as np
import pytest
from conftest import WHOLE_ISAS, using_isa
from kernel_rows import ROWS
from oracle.guard import guarded

from layoutkit._core.nests.convolutions.winograd_filter import extent
from layoutkit._core.runtime import registry

MOVES = [k for k in ROWS if k.family in ("transpose", "gather", "fill", "copy")]


def test_every_instruction_set_has_every_family_or_adds_units_to_one_that_has():
    for isa in registry.isas():
        have = {k.family for k in ROWS if k.isa == isa}
        adds = 1 not in {k.kr for k in ROWS if k.isa == isa and k.family == "gemm"}
        units = {
            "bf16": {"winograd_in", "strips", "blend_pixels", "blend_rows"},
            "s16": {"gemm_s16", "winograd_in", "winograd_out", "weigh", "divide"},
            "u8s8": {"depthwise_dot", "gemm_groups"},
        }
        of_units_alone = {"depthwise_dot", "gemm_groups", "gemm_s16"}
        steps = [k for k in ROWS if k.isa == isa and k.family[:4] == "gemm" and k.kr > 1 and k.types == k.tile.peak]
        of_units = set().union(*(units[k.types] for k in steps))  # tiles are for products alone
        assert have == ({"gemm", "peak"} if adds else set(registry.FAMILIES) - of_units_alone) | of_units
        assert adds == (isa not in WHOLE_ISAS)


STEPS = (0, 1, -1, 2, -2, 3)  # elements from one to the next of a row that is gathered; 0: it is repeated


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", MOVES, ids=lambda k: k.name)
def test_move(kernel, end):
    w = int(kernel.types[1:]) // 8
    for n0, n1 in harness.cases("MOVE_CASES", t=max(kernel.mr, kernel.nr, 4)):
        for gap in (0, 3):  # elements between rows
            for stream in (False, True):
                if kernel.family == "transpose":  # source rows along i0, destination rows along i1
                    check_move(kernel, (n0, n1), (w, (n0 + gap) * w), ((n1 + gap) * w, w), end, stream)
                elif kernel.family == "gather":
                    s = (n1 * 2 + gap) * w, 2 * w
                    check_move(kernel, (n0, n1), s, (w, (n0 + gap) * w), end, stream)
                else:
                    check_move(kernel, (n0, n1), ((n1 + gap) * w, w), ((n1 + gap) * w, w), end, stream)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", [k for k in MOVES if k.family == "gather"], ids=lambda k: k.name)
def test_gather(kernel, end):
    """Rows and columns of the destination, in steps of the source."""
    w = int(kernel.types[1:]) // 8
    for n0, n1 in harness.cases("MOVE_CASES", t=max(kernel.mr, kernel.nr, 4)):
        for step, gap, stream in itertools.product(STEPS, (1, 2), (False, True)):
            s = (max(1, n1 * abs(step)) + 1) * w, step * w
            check_move(kernel, (n0, n1), s, ((n1 + 1) * gap * w, gap * w), end, stream)


def check_move(kernel, shape, s, d, end, stream):
    """The bytes that a kernel moves between arrays of these strides; where one is negative the source begins late."""
    (n0, n1), w = shape, int(kernel.types[1:]) // 8
    rng = np.random.default_rng(n0 * 1000 + n1)
    first = -min(0, (n1 - 1) * s[1])
    src_size = w if kernel.family == "fill" else (n0 - 1) * s[0] + (n1 - 1) * abs(s[1]) + w
    src = guarded(rng.integers(0, 256, src_size, np.uint8), end)
    dst = guarded(np.full((n0 - 1) * d[0] + (n1 - 1) * d[1] + w, 0xA5, np.uint8), end)
    want = np.array(dst.array)
    for i, j in np.ndindex(n0, n1):
        at = 0 if kernel.family == "fill" else first + i * s[0] + j * s[1]
        to = i * d[0] + j * d[1]
        want[to : to + w] = src.array[at : at + w]
    harness.move(kernel.name, src.address + first, dst.address, (n0, n1), s, d, stream=stream)
    np.testing.assert_array_equal(dst.array, want)


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
        w_with_peaks = w.copy()
        w_with_peaks[row], w_with_peaks[1199 - row, 7] = 1e-30, -100
        for threads in (1, 2, 3, 9):
            assert extent(w_with_peaks, threads) == (np.float32(1e-30), 100)
    assert extent(np.ones((0, 3), np.float32)) == extent(np.ones((3, 0), np.float32)) == (0, 0)
