"""spans: what steps and arrays reach, against all of it enumerated."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutkit.memory import spans
from layoutkit.memory.spans import PlanError, Span

STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), max_size=4)
RANGES = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-9, 9)), max_size=3)


def enumerated(ranges, run):
    """The span of every byte that is touched."""
    starts = [sum(at) for at in itertools.product(*ranges)]
    return Span(min(starts), max(starts) + run) if starts else spans.EMPTY


@given(STEPS, st.integers(1, 8))
def test_steps_reach_what_they_touch(steps, run):
    assert spans.of_steps(steps, run) == enumerated([[i * s for i in range(n)] for n, s in steps], run)


@given(RANGES, st.integers(1, 8))
def test_ranges_reach_what_they_touch(steps, run):
    ranges = [[i * s for i in range(first, last + 1)] for first, last, s in steps]
    assert spans.of_ranges(steps, run) == enumerated(ranges, run)


@given(STEPS, st.integers(1, 8))
def test_elements_that_do_not_overlap_share_no_byte(steps, width):
    shape, strides = [n for n, _ in steps], [s for _, s in steps]
    places = itertools.product(*([i * s for i in range(n)] for n, s in steps))
    touched = [sum(at) + b for at in places for b in range(width)]
    if not spans.overlaps_itself(shape, strides, width):
        assert len(set(touched)) == len(touched)
    elif steps and np.prod(shape) <= 1:
        pytest.fail("no two elements, and yet they overlap")


def test_joining_and_holding():
    a, b, far = Span(0, 4), Span(-2, 2), Span(10, 12)
    assert a.joined(b) == Span(-2, 4) == b.joined(a)
    assert a.joined(spans.EMPTY) == a == Span(9, 9).joined(a)
    assert a.contains(Span(1, 4)) and a.contains(Span(99, 99)) and not a.contains(b) and not a.contains(far)


@pytest.mark.parametrize("touched", [Span(-1, 3), Span(0, 5), Span(7, 8)])
def test_what_lies_outside_is_told(touched):
    said = f"here: .* bytes {touched.lo} to {touched.hi} .* bytes 0 to 4; nothing was written"
    with pytest.raises(PlanError, match=said):
        spans.check(touched, Span(0, 4), "here")
    spans.check(Span(0, 4), Span(0, 4), "here")
