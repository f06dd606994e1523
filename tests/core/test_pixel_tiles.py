"""Tiles of pixels: every pixel once, never more work than even tiles are, shared by what they take."""

from functools import partial
from itertools import product
from math import prod

import pytest
from conv_problems import conv_problems
from hypothesis import given
from hypothesis import strategies as st

from layoutkit._core.nests.convolutions import pixel_tiles
from layoutkit._core.runtime import registry
from layoutkit.convolutions.geometry import Geometry, geometry

SIZES = (12, 32, 16), (6, 64, 16), (4, 24, 8), (6, 16, 8)
CYCLES = registry.best("gemm", "f32")[0].tile.cycles
tile_cycles = partial(pixel_tiles.tile_cycles, CYCLES)


def tiling(geometry, sizes, *others):
    """Tiles of a row that takes as long as those of float32."""
    return pixel_tiles.PixelTiles(geometry, sizes, CYCLES, *others)


def tiles_of(p, sizes=SIZES[0], threads=1, leaves_out=True, most=1000, by_pixels=False):
    ic = p.ic // p.groups
    return tiling(geometry(p), sizes, (p.oc // p.groups, ic, ic), leaves_out, most, threads, by_pixels)


def square(size, kernel, n=1):
    """The geometry of a padded convolution that keeps its size."""
    three = (1, size, size)
    return Geometry(n, 1, 64, three, three, (1, kernel, kernel), (1,) * 3, (1,) * 3, (0, kernel // 2, kernel // 2))


def whole(p, sizes):
    """Cycles of even tiles with all taps."""
    mr, nr, lanes = sizes
    rows, columns, steps = p.n * prod(p.out), p.oc // p.groups, p.ic // p.groups * p.taps
    tiles = -(-rows // mr)
    panels = [nr // lanes] * (columns // nr) + [-(-(columns % nr) // lanes)] * (columns % nr > 0)
    return sum(
        p.groups * tile_cycles(rows // tiles + (t < rows % tiles), v, steps, p.ic // p.groups)
        for t in range(tiles) for v in panels
    )  # fmt: skip


@given(conv_problems(), st.sampled_from(SIZES))
def test_leaving_out_taps_never_costs(p, sizes):
    assert tiles_of(p, sizes).cycles <= 1.001 * whole(p, sizes)


@given(conv_problems(), st.sampled_from(SIZES))
def test_listed_pixels_are_all_pixels(p, sizes):
    tiles = tiles_of(p, sizes)
    if tiles.listed:
        pixels = list(tiles.pixels())
        images = len(pixels) // prod(p.out)
        out = (1,) * (3 - len(p.out)) + p.out
        assert p.n % images == 0
        assert sorted(pixels) == list(product(*map(range, (images, *out))))


@given(conv_problems(), st.sampled_from(SIZES), st.integers(2, 5), st.integers(1, 9), st.booleans())
def test_threads_share_evenly(p, sizes, threads, most, by_pixels):
    """None takes longer than its share by more than a tile, in which all taps may be inside."""
    alone = tiles_of(p, sizes, most=most).cycles
    together = tiles_of(p, sizes, threads, most=most, by_pixels=by_pixels).cycles
    mr, nr, lanes = sizes
    tile = tile_cycles(mr, nr // lanes, p.ic // p.groups * p.taps, p.ic // p.groups)
    assert 0.999 * alone / threads <= together <= 1.001 * (alone / threads + tile)


def test_a_tile_leaves_out_what_all_its_pixels_do():
    """Of 7x7 taps on a map of 7x7, 57 % are inside: tiles come close."""
    tiles = tiling(square(7, 7), (6, 64, 16), (64, 256, 256), True, 1000, 1)
    plain = tiling(square(7, 7), (6, 64, 16), (64, 256, 256), False, 1000, 1)
    assert tiles.listed
    assert not plain.listed
    assert tiles.cycles < 0.75 * plain.cycles


@pytest.mark.parametrize("pixels", [2**20, 2**31, 2**45])
def test_tiles_of_any_number_of_pixels_are_planned_at_once(pixels):
    one, three = (1,) * 3, (1, 1, pixels)
    g = Geometry(1, 1, 8, three, three, one, one, one, (0,) * 3)
    tiles = tiling(g, (12, 32, 16), (8, 8, 8), True, 7, 3)
    assert tiles.tiles == -(-pixels // 12)
    assert tiles.cycles == pytest.approx(pixels / 12 / 3 * tile_cycles(12, 1, 8, 8), rel=0.01)


@pytest.mark.parametrize("n", [1, 2, 50, 1031])
def test_large_batches_are_listed_by_images(n):
    tiles = tiling(square(7, 3, n), (12, 32, 16), (32, 64, 64), True, 1000, 1)
    assert tiles.listed
    assert n * 49 <= 12 * tiles.tiles <= 2 * n * 49


def test_an_odd_batch_of_single_pixels_fills_the_tiles():
    tiles = tiling(square(1, 3, 4099), (12, 32, 16), (32, 64, 64), True, 1000, 1)
    assert tiles.tiles == -(-4099 // 12)


def test_few_tiles_are_made_lower_for_more_threads():
    """Three whole tiles on two threads would leave one idle for a third of the time."""
    alone, two = (tiling(square(6, 1), (12, 32, 16), (32, 512, 512), True, 1000, t) for t in (1, 2))
    assert (alone.tiles, two.tiles) == (3, 4)
    assert two.cycles < 0.55 * alone.cycles


def test_threads_share_channels_or_pixels():
    for by_pixels in (False, True):
        tiles = tiling(square(14, 3), (12, 32, 16), (512, 64, 64), True, 1000, 2, by_pixels)
        first, second = tiles.of_threads()
        assert first | second == set(range(tiles.tiles))
        assert len(first & second) <= 1 if by_pixels else first == second


@given(st.integers(1, 60), st.sampled_from(SIZES), st.integers(2, 5), st.integers(1, 1000))
def test_threads_have_the_same_pixels_whatever_the_tiles(size, sizes, threads, most):
    tiles = tiling(square(size, 1), sizes, (64, 64, 64), True, most, threads, True)
    if tiles.tiles >= 2 * threads:
        of_threads = tiles.of_threads()
        assert {len(each) for each in of_threads} == {tiles.tiles // threads}
        assert not set.intersection(*of_threads)
