"""Conversions: the nests convert every element once, from where it lies, with the parameters of its channel."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import laid_out, layouts
from walks import offsets_of, places, sides

import layoutkit as lk
from layoutkit.reorders import conversions
from layoutkit.reorders.conversions import Widths, nests
from layoutkit.reorders.pieces import Digit, Side

SCRATCH_BYTES = 40 << 10  # of each buffer in convert.pyx


def steps(n, strides):
    """Offsets of a step's elements, one row for each of its loops' indices."""
    i, j = np.ogrid[: n[0], : n[1]]
    return i * strides[0] + j * strides[1]


def through(move, width, scratch):
    """Where the elements of a scratch buffer, at offsets `scratch`, are on the other side of `move`."""
    here, there = (move.d, move.s) if scratch == "d" else (move.s, move.d)
    inside = steps(move.n, here).reshape(-1)
    assert (np.diff(np.sort(inside)) >= width).all() and inside.min() == 0  # no element lies in another's place
    return dict(zip(inside.tolist(), steps(move.n, there).reshape(-1).tolist()))


def tile_of(nest, widths):
    """(source, destination, parameter) offsets of the elements of a tile."""
    convert = nest.convert
    assert bool(nest.unpack) == widths.pairs
    contiguous = convert.s[1] == widths.src, convert.d[1] == widths.dst
    if not all(contiguous):  # rows are interleaved on one side
        assert any(contiguous) and convert.n[0] <= conversions.MAX_INTERLEAVED and not widths.sum
        side = contiguous.index(False)
        assert (convert.s, convert.d)[side][0] == widths[side]
    src = steps(convert.n, convert.s).reshape(-1).tolist()
    dst = steps(convert.n, convert.d).reshape(-1).tolist()
    if nest.before:
        assert 8 * widths.src == nest.before.bits
        at = through(nest.before, widths.src, "d")
        src = [at[x] for x in src]
    if nest.unpack:
        at = through(nest.unpack, 1, "d")
        src = [at[x] for x in src]
    if nest.after:
        assert 8 * widths.dst == nest.after.bits
        at = through(nest.after, widths.dst, "s")
        dst = [at[x] for x in dst]
    return np.stack([src, dst, steps(convert.n, convert.par).reshape(-1)], -1)


@given(laid_out(min_size=1, min_rank=1), st.data(), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8]),
       st.booleans(), st.sampled_from([(1 << 16, 1 << 15), (64, 1024), (512, 2048)]), st.booleans())  # fmt: skip
def test_every_element_is_converted_once(laid, data, src_width, dst_width, summed, limits, pairs):
    src, shape = laid
    src_width = 1 if pairs else src_width
    dst = data.draw(layouts(src.rank, src.rank, max_blocks=2))
    signs = st.sampled_from([1, 1, 1, -1])
    strides = [tuple(w * s * (1 if pairs else data.draw(signs)) for s in x.axis_strides(shape))
               for x, w in ((src, src_width), (dst, dst_width))]  # fmt: skip
    channel = data.draw(st.integers(0, src.rank - 1))
    parameter = [Side((Digit(1, int(dim == channel)),)) for dim in range(src.rank)]
    widths = Widths(src_width, dst_width, summed, pairs)
    before = conversions.MAX_RUN_BYTES, conversions.TILE_SCRATCH_BYTES
    conversions.MAX_RUN_BYTES, conversions.TILE_SCRATCH_BYTES = limits
    try:
        found = nests(shape, list(zip(*sides(src, dst, shape, strides), parameter)), widths)
    finally:
        conversions.MAX_RUN_BYTES, conversions.TILE_SCRATCH_BYTES = before
    seen = []
    for nest in found:
        begin = offsets_of(nest.loops, (1, 2, 3)) + nest.offsets
        seen += (begin[:, None] + tile_of(nest, widths)).reshape(-1, 3).tolist()
    index = np.indices(shape)[channel].reshape(-1)
    read, written = (places(x, shape, s)[1].reshape(-1) for x, s in zip((src, dst), strides))
    assert sorted(seen) == sorted(np.stack([read, written, index], -1).tolist())


@pytest.mark.parametrize(("src", "dst"), [("ab", "ba"), ("abc", "bac"), ("ab:(*,3)", "ab"), ("ab:(*,3)", "ab:(*,2)")])
def test_a_tile_fits_its_scratch(src, dst):
    sizes = (1, 3, 16, 100, 513, 5000), (1, 7, 64, 300, 9000)
    kinds = [(a, False) for a in (1, 2, 4, 8)] + [(1, True)]
    for i, j, (a, pairs), b, summed in itertools.product(*sizes, kinds, (1, 2, 4, 8), (False, True)):
        layouts, shape = (lk.Layout(src), lk.Layout(dst)), (i, j, 3)[: lk.Layout(src).rank]
        strides = [tuple(w * s for s in x.axis_strides(shape)) for x, w in zip(layouts, (a, b))]
        none = [Side((Digit(1, 0),))] * len(shape)
        widths = Widths(a, b, summed, pairs)
        for nest in nests(shape, list(zip(*sides(*layouts, shape, strides), none)), widths):
            for move, inside, width in ((nest.before, "d", a), (nest.after, "s", b), (nest.unpack, "d", 1)):
                if move:
                    assert steps(move.n, getattr(move, inside)).max() + width <= SCRATCH_BYTES
