"""Loops that take in others: what becomes one run, and what an estimate counts of it."""

import pytest

from layoutkit.reorders import fused
from layoutkit.reorders.loops import Loop
from layoutkit.reorders.nest import Blocking, Transpose

FUSED = Blocking(256, 1 << 14, False, 1, fused=True)
# abcd > badc of 4 x 6 x 5 x 7 elements of 4 bytes: a, b, c, d with their strides in source and destination
A, B, C, D = Loop(4, 840, 140), Loop(6, 140, 560), Loop(5, 28, 4), Loop(7, 4, 20)


def test_both_loops_go_on_in_others():
    found = fused.fused_loops([A, B], D, C, 4, FUSED)
    assert found.columns == [D] and found.rows == [C]  # in the source c would follow d, in the destination d follows c
    assert found.rest == [A, B]
    after = Loop(3, 28, 1 << 22)  # continues d in the source
    found = fused.fused_loops([A, after], D, C._replace(src=1 << 20), 4, FUSED)
    assert found.columns == [D, after] and found.runs(4) == (84, 20)


def test_no_loop_is_longer_than_asked():
    after = Loop(30, 28, 1 << 22)
    for run, taken in ((16, 0), (28, 0), (32, 1)):
        found = fused.fused_loops([after], D, C, 4, FUSED._replace(src_run=run))
        assert len(found.columns) == 1 + taken


@pytest.mark.parametrize(("apart", "valid"), [(8, 6), (24, 6), (25, 0), (6, 0)])
def test_pads_of_the_source_are_read_over(apart, valid):
    along, after = Loop(6, 4, 1 << 20), Loop(9, 4 * apart, 1 << 22)
    found = fused.fused_loops([after], along, C, 4, FUSED)
    assert found.valid == valid
    assert len(found.columns) == (1 if apart == 25 else 2)
    assert found.columns[0].n == (apart if valid else 6)


def test_columns_join_where_they_follow_one_another():
    assert fused.joined_loops([A, B], D, C, 4).rows == [C]  # d follows c
    middle = Loop(3, 1 << 20, 20)
    found = fused.joined_loops([A, middle], D._replace(dst=60), C, 4)
    assert found.rows == [C, middle] and found.rest == [A]
    assert fused.joined_loops([A], D._replace(dst=24), C, 4) is None
    assert fused.joined_loops([], Loop(9, 4, 4000), Loop(1000, 9, 4), 4) is None  # longer than the buffer is meant for


def test_panels_are_as_the_kernel_has_them():
    t = Transpose([], Loop(5000, 1, 1 << 20), Loop(40, 1 << 20, 1), 0, 0, 1)
    for run in (0, 64, 1 << 20):
        (nest,) = fused.transposes(t, FUSED._replace(src_run=run))
        assert 0 < nest.fused.panel <= fused.MAX_PANEL_COLUMNS


def test_runs_take_all_that_follow_them():
    rest = [Loop(3, 9000, 40_000), Loop(5, 2000, 400), Loop(4, 300, 100)]
    (nest,) = fused.runs(rest, Loop(100, 1, 1), 1, 0, 0)
    assert nest.fused.rows.digits == ((4, 300), (5, 2000)) and nest.loops == (rest[0],)
    assert nest.tile[1] == Loop(20, 0, 100)
    assert len(rest) == 3


def test_runs_have_no_more_digits_than_the_kernel_takes():
    shape, width = (2,) * 17, 64
    steps = [width << k for k in range(17)]
    rest = [Loop(n, src, dst) for n, src, dst in zip(shape, steps, reversed(steps))]
    (nest,) = fused.runs(rest, Loop(width, 1, 1), 1, 0, 0)
    assert len(nest.fused.rows.digits) == fused.MAX_DIGITS and nest.loops == tuple(rest[:2])
