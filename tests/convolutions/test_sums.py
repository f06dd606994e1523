"""Estimates of sums by register tiles: no less than the arithmetic, and never less for more work."""

from dataclasses import replace
from functools import partial

import pytest
from conv_problems import conv_problems
from hypothesis import assume, given
from hypothesis import strategies as st

from layoutkit._core.nests.convolutions import pixel_tiles
from layoutkit._core.runtime import registry
from layoutkit.convolutions.algorithms import ALGORITHMS
from layoutkit.convolutions.algorithms.base import flops_per_second
from layoutkit.convolutions.algorithms.bf16x import Bf16Components
from layoutkit.convolutions.algorithms.sums import FilterSums, PixelSums

SUMS = [a for a in ALGORITHMS if isinstance(a, (FilterSums, PixelSums)) and not isinstance(a, Bf16Components)]
KERNELS = registry.kernels("gemm", "f32", all_isas=True)
tile_cycles = partial(pixel_tiles.tile_cycles, KERNELS[0].tile.cycles)


def every_estimate(p, threads):
    """Each way's estimate of `p`, where it supports it."""
    return {(a, k): a.estimate(p, k, threads) for a in SUMS if a.supports(p) is None for k in KERNELS}


@given(conv_problems(), st.integers(1, 4))
def test_no_sum_is_faster_than_its_multiplications(p, threads):
    """But for those of taps in the padding, which may be left out."""
    inside = p.flops
    if not p.zeros:
        for n, out, k, s, d, (before, _) in zip(p.size, p.out, p.kernel, p.stride, p.dilation, p.padding):
            reads = (i * s - before + j * d for i in range(out) for j in range(k))
            inside = inside * sum(0 <= at < n for at in reads) // (out * k)
    for (_, kernel), seconds in every_estimate(p, threads).items():
        assert seconds * threads * flops_per_second(kernel) >= 0.999 * inside


@given(conv_problems(), st.integers(1, 4), st.sampled_from(["oc", "ic", "n", "size"]))
def test_more_work_takes_longer(p, threads, what):
    if what == "size":
        assume(all(s == 1 or n > 1 for s, n in zip(p.stride, p.out)))  # with a second output the stride begins to count
        more = replace(p, size=tuple(2 * n + 4 for n in p.size))
    elif what == "n":
        more = replace(p, n=p.n + 1)
    else:
        more = replace(p, **{what: 2 * getattr(p, what)})
    longer = every_estimate(more, threads)
    least = 0.999 if threads == 1 else 0.9  # a few tiles more may be shared a little more evenly
    for way, seconds in every_estimate(p, threads).items():
        if what == "ic" and way[0].stages:  # pixels that become whole units are staged as one run
            continue
        assert way not in longer or longer[way] >= least * seconds


@pytest.mark.parametrize(("tile", "other"), [
    ((12, 2, 64, 64), (11, 2, 64, 64)), ((6, 4, 64, 64), (6, 3, 64, 64)), ((6, 4, 64, 64), (6, 4, 63, 63)),
    ((12, 1, 64, 8), (12, 1, 64, 64)), ((12, 1, 64, 64, 2), (12, 1, 64, 64, 1)),
])  # fmt: skip
def test_a_tile_with_less_in_it_takes_less(tile, other):
    assert tile_cycles(*tile) > tile_cycles(*other)


@pytest.mark.parametrize(("wide", "narrow"), [((12, 2), (12, 1)), ((6, 4), (6, 1)), ((12, 2), (3, 2))])
def test_small_tiles_waste_time(wide, narrow):
    """Each of their multiplications costs more: of loads, and of waiting."""
    each = [tile_cycles(*tile, 64, 64) / (tile[0] * tile[1]) for tile in (narrow, wide)]
    assert each[0] > 1.05 * each[1]
