"""Nests: what two layouts are cut into covers every element once, and pads once."""

import numpy as np
import pytest
from hypothesis import given
from strategies import strided_pairs
from walks import PAD, bytes_expected, bytes_moved, offsets_of, places, sides

import layoutkit as lk
from layoutkit.reorders.loops import Loop
from layoutkit.reorders.nest import Blocking
from layoutkit.reorders.nests import copy_nests, fill_nests, regions


@given(strided_pairs())
def test_regions_cover_every_element_once(case):
    src, dst, shape, _, strides = case
    s, d = sides(src, dst, shape, strides)
    found = regions(shape, s, d)
    seen = []
    for pieces in found:
        begin = [sum(side.offset(p.start) for side, p in zip(x, pieces)) for x in (s, d)]
        loops = [Loop(n, *steps) for p in pieces for n, steps in p.loops]
        seen += (offsets_of(loops) + begin).tolist()
    read, written = places(src, shape, strides[0])[1], places(dst, shape, strides[1])[1]
    assert sorted(seen) == sorted(np.stack([read.reshape(-1), written.reshape(-1)], -1).tolist())


@given(strided_pairs(min_size=1))
def test_fills_cover_every_pad_once_and_nothing_else(case):
    src, dst, shape, width, strides = case
    _, d = sides(src, dst, shape, strides)
    every, written = places(dst, shape, strides[1])
    pads = np.setdiff1d(every, written)
    filled = bytes_moved(fill_nests(shape, dst.full_shape(shape), d, width))
    assert (filled[:, 0] == PAD).all()
    np.testing.assert_array_equal(filled[:, 1], np.sort((pads[:, None] + np.arange(width)).reshape(-1)))


TILES = Blocking(0, 64, False, 1)


def with_pads(src, dst, shape, width=4, blocking=TILES):
    """The bytes that are moved and filled, and the dimensions whose pads are moved along."""
    src, dst = lk.Layout(src), lk.Layout(dst)
    strides = [tuple(width * s for s in x.axis_strides(shape)) for x in (src, dst)]
    s, d = sides(src, dst, shape, strides)
    moves, done = copy_nests(shape, s, d, width, 64, blocking)
    nests = moves + fill_nests(shape, dst.full_shape(shape), d, width, done)
    np.testing.assert_array_equal(bytes_moved(nests), bytes_expected(src, dst, shape, width, *strides))
    return done


def test_pads_are_written_with_the_elements_where_a_tile_can():
    assert with_pads("NCHW", "nChw16c", (2, 20, 3, 3)) == {1}
    assert with_pads("NHWC", "nChw16c", (2, 20, 3, 3)) == {1}
    assert with_pads("NHWC", "nChw16c", (2, 32, 3, 3)) == set()  # no pads
    assert with_pads("nChw6c", "nChw16c", (2, 20, 3, 3)) == set()  # the last block comes from two
    assert with_pads("NCHW", "nChw32c", (2, 20, 3, 3)) == set()  # longer than a vector
    assert with_pads("NCHW", "NChw8n16c", (3, 20, 3, 3)) == {1}  # those of N are filled


FUSED = Blocking(256, 1 << 14, False, 1, fused=True)


@pytest.mark.parametrize(
    ("src", "dst", "shape", "dims"),
    [
        ("NCHW", "nChw16c", (2, 20, 3, 3), {1}),
        ("NHWC", "nChw16c", (2, 20, 3, 3), {1}),
        ("NHWC", "nChw32c", (2, 20, 3, 3), {1}),
        ("NCHW", "NChw8n16c", (3, 20, 3, 3), {0, 1}),
        ("nChw6c", "nChw16c", (2, 20, 3, 3), {1}),  # the last block comes from two
        ("nChw16c", "NHWC", (2, 47, 3, 5), set()),
        ("nChw16c", "NHWC", (2, 5000, 3, 1), set()),  # no table holds so many channels
        ("hNcw8n", "NHWC", (13, 7, 3, 5), set()),
    ],
)
def test_pads_and_cut_dimensions_are_taken_in_as_tables(src, dst, shape, dims):
    for blocking in (FUSED, FUSED._replace(joined=True)):
        assert with_pads(src, dst, shape, blocking=blocking) == dims


def test_a_dimension_that_is_cut_becomes_one_nest():
    src, dst, shape = lk.Layout("nChw16c"), lk.Layout("NHWC"), (2, 47, 3, 5)
    strides = [tuple(4 * s for s in x.axis_strides(shape)) for x in (src, dst)]
    (nest,), _ = copy_nests(shape, *sides(src, dst, shape, strides), 4, 64, FUSED)
    assert nest.family == "runs" and set(nest.fused.sizes) == {64, 60}
    cut, _ = copy_nests(shape, *sides(src, dst, shape, strides), 4, 64, Blocking(0, 64, False, 1))
    assert len(cut) > 1


def test_the_stride_of_a_single_element_is_never_stepped():
    shape, width = (2, 1, 5, 7), 4
    src, dst = lk.Layout("NCHW"), lk.Layout("nChw16c")
    strides = (4 * 35, 2**62, 4 * 7, 4), tuple(4 * x for x in dst.axis_strides(shape))
    s, d = sides(src, dst, shape, strides)
    for blocking in (Blocking(0, 64, False, 1), Blocking(0, 256, False, 1, True)):
        nests, padded = copy_nests(shape, s, d, width, 64, blocking)
        assert padded == {1}
        for nest in nests:
            assert all(abs(loop.src) < 1000 for loop in (*nest.loops, *nest.tile))
