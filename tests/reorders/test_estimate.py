"""Estimates: every variant of any reorder has one, at every level, and they tell what is slower."""

from math import inf

import pytest
from hypothesis import given
from strategies import strided_pairs

from layoutkit.choosing.machine import caches, last_level_cache
from layoutkit.reorders import problem as problems
from layoutkit.reorders.costs import COSTS, INNER, MEMORY, SHARED
from layoutkit.reorders.estimate import counted, counted_tiles, counted_windows, level_of, seconds_of
from layoutkit.reorders.loops import Loop
from layoutkit.reorders.nest import Nest
from layoutkit.reorders.problem import ReorderProblem
from layoutkit.reorders.variants import VARIANTS
from layoutkit.reorders.windows import WindowSteps


@pytest.mark.parametrize("level", COSTS)
@given(case=strided_pairs(min_size=1))
def test_every_candidate_has_an_estimate(level, case):
    src, dst, shape, width, _ = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problems, "level_of", lambda nbytes: level)
        found = list(ReorderProblem(src, dst, tuple(shape), width, 1).candidates())
    assert found and all(0 <= c.estimate < inf for c in found)


def test_levels_follow_the_caches():
    inner, last = 2 * caches()[2], last_level_cache()
    assert level_of(last // 2 + 1) == MEMORY
    assert level_of(min(inner, last // 2)) == INNER
    if inner < last // 2:
        assert level_of(inner + 1) == level_of(last // 2) == SHARED


def test_estimates_tell_what_lines_tell():
    def seconds(name, loops, width=4):
        return seconds_of(MEMORY, *counted(loops, width, VARIANTS[name]))

    columns, rows = Loop(512, 4, 4096), Loop(1024, 2048, 4)
    aligned, ragged = [columns, rows], [columns._replace(dst=4100), rows]
    assert seconds("fused x1024", aligned) < seconds("fused x1024", ragged) / 1.02
    assert seconds("fused x1024", aligned) < seconds("fused x64", aligned)
    copied = [Loop(500, 1 << 14, 132), Loop(33, 4, 4)]
    assert seconds("fused x64", copied) < seconds("stream allx64", copied) / 1.1
    followed = [Loop(300, 4, 292), Loop(73, 1200, 4)]
    assert seconds("joined", followed) < seconds("fused x1024", followed)
    assert seconds("store allx64", aligned) > seconds("stream allx64", aligned)


def test_in_the_inner_caches_calls_and_vectors_count():
    def seconds(columns, rows, tasks=1):
        tile = Loop(columns, 4, 1 << 20), Loop(rows, 1 << 20, 4)
        nest = Nest("transpose", 32, (Loop(tasks, 64, 64),), tile, 0, 0)
        return seconds_of(INNER, *counted_tiles([nest], 64, VARIANTS["store allxall"]))

    assert seconds(16, 3) < seconds(9, 16) < seconds(16, 16)
    assert seconds(16, 16, 4) > 1.1 * seconds(32, 32)  # calls
    assert seconds(17, 16) > 1.2 * seconds(16, 16)


@pytest.mark.parametrize("vector", [16, 32, 64])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_short_rows_without_gaps_go_by_whole_vectors(width, vector):
    def vectors(columns, rows):
        nest = Nest("transpose", 8 * width, (), (columns, rows), 0, 0)
        return max(counted_tiles([nest], vector, VARIANTS["store allxall"])[1][5:])

    far, long, lanes = 1 << 20, 1 << 12, vector // width
    for short in (2, 3, 4, vector // 16):
        if 2 <= short < lanes:
            moved = 2 * short * long / lanes
            assert vectors(Loop(long, width, short * width), Loop(short, far, width)) == moved
            assert vectors(Loop(short, width, far), Loop(long, short * width, width)) == moved
            assert vectors(Loop(long, width, (short + 1) * width), Loop(short, far, width)) > moved
            assert vectors(Loop(short, width, far), Loop(long, (short + 1) * width, width)) > moved
    if lanes > 7:
        assert vectors(Loop(long, width, 7 * width), Loop(7, far, width)) > 2 * 7 * long / lanes


@pytest.mark.parametrize("to_channels", [True, False])
@pytest.mark.parametrize("channels", [2, 3, 4, 5])
def test_interleaved_channels_fill_vectors_beyond_the_inner_caches(channels, to_channels):
    pixels = 1 << 16
    far, near = 4 * pixels, 4 * channels
    loops = [Loop(pixels, 4, near), Loop(channels, far, 4)]
    if not to_channels:
        loops = [Loop(pixels, near, 4), Loop(channels, 4, far)]
    counts = counted(loops, 4, VARIANTS["store allxall"])[1]
    assert (counts.tiles == counts.lines and counts.rest == 0) == (channels <= 4)


def test_steps_of_windows_count():
    def seconds(steps, together):
        nbytes = 4096 // steps
        return seconds_of(INNER, *counted_windows(WindowSteps(steps, nbytes, 2.0, steps / together * nbytes / 64)))

    assert seconds(4, 4) < seconds(64, 4) < seconds(64, 1)
