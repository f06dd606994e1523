"""Estimates: every variant of any reorder has one, at every level, and they tell what is slower."""

from math import inf

import pytest
from hypothesis import given
from strategies import strided_pairs

from layoutkit.choosing.machine import caches, last_level_cache
from layoutkit.reorders import problem as problems
from layoutkit.reorders.costs import COSTS, INNER, MEMORY, SHARED
from layoutkit.reorders.estimate import (
    counted_slabs,
    counted_tiles,
    counted_windows,
    level_of,
    repeated_bytes,
    seconds_of,
)
from layoutkit.reorders.loops import SINGLE_STEP, Loop
from layoutkit.reorders.nest import Nest
from layoutkit.reorders.problem import ReorderProblem
from layoutkit.reorders.slabs import Runs, Slab
from layoutkit.reorders.variants import CACHED_VARIANTS, VARIANTS
from layoutkit.reorders.windows import WindowSteps


@pytest.mark.parametrize("level", COSTS)
@given(case=strided_pairs(min_size=1))
def test_every_candidate_has_an_estimate(level, case):
    src, dst, shape, width, _ = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problems, "level_of", lambda nbytes: level)
        problem = ReorderProblem(src, dst, tuple(shape), width, 1)
        found = list(problem.candidates())
        assert found and all(0 < problem.least_estimate() < c.estimate < inf for c in found)


def test_candidates_within_the_caches_are_variants_with_costs():
    assert CACHED_VARIANTS <= VARIANTS.keys()
    with pytest.MonkeyPatch.context() as patch:
        for level in (INNER, SHARED):
            patch.setattr(problems, "level_of", lambda nbytes, level=level: level)
            assert {
                c.name for c in ReorderProblem.parse("reorder 4x9x5x7 NCHW>NHWC x32").candidates()
            } <= CACHED_VARIANTS


def test_levels_follow_the_caches():
    inner, last = 2 * caches()[2], last_level_cache()
    assert level_of(last // 2 + 1) == MEMORY
    assert level_of(min(inner, last // 2)) == INNER
    if inner < last // 2:
        assert level_of(inner + 1) == level_of(last // 2) == SHARED


@pytest.mark.parametrize("pair", ["NCHW>NHWC", "NHWC>nChw16c", "nChw8c>NCHW", "CHWN>nChw8c", "NCHW>NCHW"])
@pytest.mark.parametrize("channels", [1, 3, 16, 33])
@pytest.mark.parametrize("level", COSTS)
def test_more_of_the_same_takes_longer(level, channels, pair, monkeypatch):
    monkeypatch.setattr(problems, "level_of", lambda nbytes: level)
    few, many = (ReorderProblem.parse(f"reorder 2x{channels}x{n}x24 {pair} x32").candidates() for n in (20, 80))
    many = {c.name: c.estimate for c in many}
    both = [(c.estimate, many[c.name]) for c in few if c.name in many]
    assert len(both) > 2 and all(later > 2 * before for before, later in both)


def test_pads_are_written_too():
    few, many = (ReorderProblem.parse(f"reorder 4x{n}x20x24 NCHW>nChw16c x32") for n in (16, 17))
    padded = {c.name: c.estimate for c in many.candidates()}
    both = [(c.estimate, padded[c.name]) for c in few.candidates() if c.name in padded]
    assert len(both) > 2 and all(other > 1.3 * one for one, other in both)
    assert many.footprint == 4 * 4 * 480 * (17 + 32) and many.work == 2 * 4 * 4 * 480 * 17


def test_slabs_whose_runs_end_within_lines_take_longer():
    def seconds(run, pitch, inside=100.0):
        out = Nest("copy", 8, (Loop(64, 4096, pitch),), (SINGLE_STEP, Loop(run, 1, 1)), 0, 0)
        slab = Slab((), (), (), (), 0, 0, (), (), 1 << 14, out, Runs(1024, ()), True)
        return seconds_of(MEMORY, *counted_slabs(slab, 1 << 20, 1 << 20, inside))

    assert seconds(1024, 1024) < seconds(1000, 1024) and seconds(1024, 1024) < seconds(1024, 1040)
    assert seconds(1024, 1024) < seconds(1024, 1024, 200.0)


def test_parts_of_lines_that_several_nests_write_take_longer():
    def seconds(*runs, pitch=256):
        """Of nests that each write one of the runs (first byte, bytes) of each pitch."""
        nests = [Nest("copy", 8, (), (Loop(1 << 16, pitch, pitch), Loop(n, 1, 1)), at, at) for at, n in runs]
        return seconds_of(MEMORY, *counted_tiles(nests, 64, VARIANTS["store allxall"], 2 * repeated_bytes(nests)))

    assert seconds((0, 128), (128, 128)) > 1.3 * seconds((0, 256))
    assert seconds((0, 16), (16, 16), pitch=32) > 1.3 * seconds((0, 32), pitch=32)


def test_runs_of_the_source_that_are_far_apart_take_longer():
    near, far = (
        Nest("transpose", 32, (), (Loop(64, 4, 1 << 20), Loop(1 << 14, step, 4)), 0, 0) for step in (320, 1 << 12)
    )
    variant = VARIANTS["stream allx64"]
    assert seconds_of(MEMORY, *counted_tiles([near], 64, variant)) < seconds_of(
        MEMORY, *counted_tiles([far], 64, variant)
    )


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


def test_steps_of_windows_count():
    def seconds(steps, together):
        nbytes = 4096 // steps
        return seconds_of(INNER, *counted_windows(WindowSteps(steps, nbytes, 2.0, steps / together * nbytes / 64)))

    assert seconds(4, 4) < seconds(64, 4) < seconds(64, 1)
