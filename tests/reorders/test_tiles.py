"""Tiles: however loops are blocked, every byte of the destination is written once, from where it belongs."""

from contextlib import contextmanager
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import strided_pairs
from walks import bytes_expected, bytes_moved, sides

from layoutkit.reorders import tiles
from layoutkit.reorders.loops import Loop
from layoutkit.reorders.nest import Blocking, Nest, Transpose
from layoutkit.reorders.nests import copy_nests, fill_nests
from layoutkit.reorders.tiles import Region, pads_with, region_nests, rows_are_adjacent, shared

RUNS = (0, 64, 128, 512)
BLOCKINGS = st.builds(
    Blocking, st.sampled_from(RUNS), st.sampled_from(RUNS), st.booleans(), st.sampled_from([1, 2]), st.booleans(),
    st.integers(0, 63), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip


@contextmanager
def limits(**given):
    """Other constants for a while: small ones take effect on small tensors."""
    before = {name: getattr(tiles, name) for name in given}
    try:
        for name, value in given.items():
            setattr(tiles, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(tiles, name, value)


SMALL = st.fixed_dictionaries({
    "CHUNK_BYTES": st.sampled_from([64, 256, 1 << 16]), "MAX_TILE_BYTES": st.sampled_from([128, 1024, 32 << 20]),
    "MIN_TASKS": st.sampled_from([1, 8]), "MAX_PANEL_BYTES": st.sampled_from([8 << 10, 1 << 17]),
    "MAX_DIGITS": st.sampled_from([64, 1024]), "MIN_HEADED_RUN_LINES": st.sampled_from([1, 64]),
})  # fmt: skip


@given(strided_pairs(min_size=1), BLOCKINGS, st.sampled_from([16, 32, 64]), SMALL, st.booleans())
def test_every_byte_is_written_once_whatever_the_blocking(case, blocking, vector, small, whole):
    src, dst, shape, width, strides = case
    s, d = sides(src, dst, shape, strides)
    with limits(**small):
        nests, done = copy_nests(shape, s, d, width, vector, blocking, whole)
        fills = fill_nests(shape, dst.full_shape(shape), d, width, done) if whole else []
    expected = bytes_expected(src, dst, shape, width, *strides, whole)
    np.testing.assert_array_equal(bytes_moved(nests + fills), expected)


@given(
    st.integers(1, 70), st.integers(1, 70), st.integers(0, 9), st.sampled_from([1, 2, 4, 8, 16, 32]),
    st.sampled_from([0, 64, 128, 256]), st.sampled_from([0, 64, 128, 256]),
)  # fmt: skip
def test_tiles_are_no_longer_than_their_runs(columns, rows, more, width, src_run, dst_run):
    along, inner = Loop(columns, width, 1 << 20), Loop(rows, 1 << 20, width)
    rest = [Loop(more, 1 << 30, 1 << 30)] if more else []
    for nest in tiles._tiles(Transpose(rest, along, inner, 0, 0, width), Blocking(src_run, dst_run, True, 1)):
        i, j = nest.tile
        assert i.n * width <= (src_run or columns * width) and j.n * width <= (dst_run or rows * width)
        assert 0 <= nest.prefetch_bytes < max((x.n * x.src for x in nest.loops), default=1)


@given(
    st.lists(st.integers(1, 5), max_size=2), st.integers(1, 60), st.integers(1, 60),
    st.sampled_from(["gather", "fill", "transpose"]), st.sampled_from([1, 4, 16]), st.booleans(), SMALL,
)  # fmt: skip
def test_sharing_keeps_what_is_moved(counts, rows, run, family, width, padded, small):
    loops = tuple(Loop(n, 10_000 * 10**k, 7000 * 11**k) for k, n in enumerate(counts))
    tile = Loop(rows, 100 * width, 64 * width), Loop(run, width, width)
    valid = (run + 1) // 2 if padded and family != "fill" and width < 16 else 0
    nest = Nest(family, 8 * width, loops, tile, 30, 50, 0, (0, 0, 0, 0), valid)
    with limits(**small):
        found = shared(nest)
    np.testing.assert_array_equal(bytes_moved(found), bytes_moved([nest]))
    for part in found:  # a cut leaves at most one row too much
        cut = 0 if part.tile[1] == tile[1] else 1
        row = part.tile[1 - cut].n * width
        if not valid and small["MAX_TILE_BYTES"] >= row:
            assert part.tile[cut].n * row < small["MAX_TILE_BYTES"] + row
    size, tasks = rows * run * width, prod(counts)
    if family != "transpose" and size >= small["CHUNK_BYTES"]:
        step_of_parts = sum(prod(x.n for x in part.loops) for part in found)
        longest = rows if valid else max(rows, run)
        assert step_of_parts >= min(small["MIN_TASKS"] / 2, tasks * longest)


@pytest.mark.parametrize(("phase", "width", "heads"), [(0, 4, 0), (8, 4, 14), (60, 4, 1), (32, 16, 2), (8, 16, 0)])
def test_a_head_brings_panels_to_whole_lines(phase, width, heads):
    along, inner = Loop(40, width, 1 << 20), Loop(4096, 1 << 20, width)
    nests = tiles._panels(Transpose([], along, inner, 0, 0, width), Blocking(0, 256, False, 1, True, phase))
    begins = sorted({n.dst for n in nests})
    assert begins[:2] == [0, heads * width] if heads else begins[0] == 0
    assert all((b + phase * (heads > 0)) % 64 == 0 for b in begins[1:])
    assert (sum(n.tile[1].n == heads for n in nests) > 0) == (heads > 0)


def test_long_runs_are_copied_in_chunks():
    nests = region_nests(Region((Loop(200_000, 4, 4),), 0, 0), 4, 64, Blocking(0, 0, False, 1))
    assert [(n.family, n.tile[1].n) for n in nests] == [("copy", 1 << 16), ("copy", 800_000 - 12 * (1 << 16))]
    assert nests[0].loops == (Loop(12, 1 << 16, 1 << 16),)


@pytest.mark.parametrize(
    ("along", "inner", "width", "joined"),
    [
        (Loop(50, 4, 64), Loop(16, 200, 4), 4, True),  # rows of one line, one after the other
        (Loop(50, 4, 68), Loop(16, 200, 4), 4, False),  # with gaps
        (Loop(50, 4, 400), Loop(100, 200, 4), 4, False),  # rows longer than a line, of narrow elements
        (Loop(50, 64, 6400), Loop(100, 200, 64), 64, True),  # rows of whole lines, of wide elements
        (Loop(50, 16, 1616), Loop(101, 200, 16), 16, False),  # which end within lines
    ],
)
def test_rows_that_follow_one_another(along, inner, width, joined):
    assert rows_are_adjacent(along, inner, width) == joined


def test_blocks_that_a_tile_writes_with_their_pads():
    def can(block, width, *loops, vector=64):
        return pads_with(Region(loops, 0, 0, block, 3), width, vector)

    along = Loop(50, 4, 64)
    assert can(Loop(16, 200, 4), 4, along)  # a transpose, one vector a row
    assert not can(Loop(16, 200, 4), 4, along, vector=32)
    assert not can(Loop(16, 200, 4), 4, Loop(50, 8, 64))  # no loop is contiguous in the source
    assert can(Loop(16, 4, 4), 4)  # one wide element
    assert not can(Loop(2, 4, 4), 4) and not can(Loop(32, 4, 4), 4) and not can(Loop(12, 4, 4), 4)
    assert not can(None, 4)
