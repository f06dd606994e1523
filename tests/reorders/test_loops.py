"""Loops: merging and cutting them changes how steps are counted, never which steps there are."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from walks import offsets_of

from layoutkit.reorders.loops import SINGLE_STEP, Loop, cut, directed, merge

SIDES = 1, 2, 3  # source, destination, parameters


@st.composite
def loops(draw):
    """Some loops in any order, of which some continue others."""
    found = []
    for _ in range(draw(st.integers(0, 4))):
        n = draw(st.integers(0, 4))
        if found and draw(st.booleans()):
            inner = draw(st.sampled_from(found))
            found.append(Loop(n, *(inner.n * inner[k] for k in SIDES)))
        else:
            found.append(Loop(n, *draw(st.tuples(*[st.integers(-9, 9)] * 3))))
    return draw(st.permutations(found))


@given(loops())
def test_merged_loops_make_the_same_steps(given):
    merged = merge(given)
    assert sorted(offsets_of(given, SIDES).tolist()) == sorted(offsets_of(merged, SIDES).tolist())


@given(loops())
def test_merged_loops_are_ordered_and_as_few_as_neighbours_allow(given):
    merged = merge(given)
    assert all(x.n != 1 for x in merged)
    assert [abs(x.dst) for x in merged] == sorted((abs(x.dst) for x in merged), reverse=True)
    for outer, inner in itertools.pairwise(merged):
        assert outer[1:] != tuple(inner.n * inner[k] for k in SIDES)


def test_a_contiguous_block_is_one_loop():
    assert merge([Loop(3, 4, 4), Loop(5, 60, 60), Loop(5, 12, 12)]) == [Loop(75, 4, 4)]
    assert merge([Loop(3, 4, 4), Loop(5, 12, 16)]) == [Loop(5, 12, 16), Loop(3, 4, 4)]


@given(loops(), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]))
def test_directed_loops_make_the_same_steps(given, src_width, dst_width):
    found, (src, dst) = directed(given, src_width, dst_width)
    moved = offsets_of(found, SIDES) + (src, dst, 0)
    assert sorted(moved.tolist()) == sorted(offsets_of(given, SIDES).tolist())
    for before, after in zip(given, found):
        assert after in (before, before._replace(src=-before.src, dst=-before.dst))
        assert before == after or not before.par


def test_runs_of_the_destination_go_upwards_then_those_of_the_source():
    reversed_copy, flip, transpose = (5, -4, -4), (5, 4, -4), ((5, 400, 4), (7, -4, -80), (3, -9, -900))
    assert directed([Loop(*reversed_copy)], 4, 4) == ((Loop(5, 4, 4),), (-16, -16))
    assert directed([Loop(*flip)], 4, 4) == ((Loop(5, -4, 4),), (16, -16))
    found, begins = directed([Loop(*x) for x in transpose], 4, 4)
    assert found == (Loop(5, 400, 4), Loop(7, 4, 80), Loop(3, 9, 900)) and begins == (-24 - 18, -480 - 1800)


@given(st.integers(1, 50), st.integers(-3, 70), st.data())
def test_a_cut_loop_covers_every_index_once(n, step, data):
    head = data.draw(st.integers(0, n - 1))
    strides = 7, -3, 2
    parts = cut(Loop(n, *strides), step, head)
    seen = []
    for outer, inner, first in parts:
        begin = [first * s for s in strides]
        seen += (offsets_of([outer, inner], SIDES) + begin).tolist()
        assert outer is SINGLE_STEP or inner.n <= max(1, step)
    assert sorted(seen) == sorted([i * s for s in strides] for i in range(n))
    assert not head or parts[0] == (SINGLE_STEP, Loop(head, *strides), 0)
