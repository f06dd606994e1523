"""Loops: merging and cutting them changes how steps are counted, never which steps there are."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from walks import offsets_of

from layoutkit.reorders.loops import SINGLE_STEP, Loop, cut, merge

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
