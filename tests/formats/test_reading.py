"""Layouts read back from strides."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference
from strategies import shapes

from layoutkit.formats.layout import Layout
from layoutkit.formats.reading import read


@st.composite
def plain(draw, min_size=0):
    rank = draw(st.integers(0, 5))
    layout = Layout.from_factors([(d, 0) for d in draw(st.permutations(range(rank)))])
    return layout, draw(shapes(rank, min_size))


@given(plain())
def test_strides_of_a_dense_layout_are_read_back(pair):
    layout, shape = pair
    reading = read(shape, layout.strides(shape))
    assert reading.layout.is_dense
    assert reading.layout.strides(shape) == layout.strides(shape)
    assert reading.allows(layout)
    if not reading.is_ambiguous:
        assert reading.layout == layout
        assert "no other order would do" in reading.explain()


@given(st.integers(0, 4), st.data())
def test_any_strides_are_read_and_put_every_element_where_it_is(rank, data):
    shape = data.draw(shapes(rank, most=100))
    strides = data.draw(st.tuples(*[st.integers(0, 30)] * rank))
    layout = Layout.from_strides(shape, strides)
    offsets = reference.offsets(layout, shape)
    for i in itertools.product(*map(range, shape)):
        assert offsets[i] == sum(k * s for k, s in zip(i, strides))


@given(st.integers(1, 4), st.data())
def test_candidates_are_all_plain_layouts_that_the_strides_allow(rank, data):
    shape = data.draw(st.tuples(*[st.integers(0, 3)] * rank))
    order = data.draw(st.permutations(range(rank)))
    reading = read(shape, Layout.from_factors([(d, 0) for d in order]).strides(shape))
    candidates = list(reading.candidates())
    assert len(set(candidates)) == len(candidates)
    every = [Layout.from_factors([(d, 0) for d in p]) for p in itertools.permutations(range(rank))]
    assert set(candidates) == {x for x in every if reading.allows(x)}
    assert reading.is_ambiguous == (len(candidates) > 1)


def test_what_size_one_leaves_open_is_said():
    reading = read((2, 1, 4, 5), (20, 1, 5, 1))
    assert reading.layout == Layout("NHWC") and reading.allows("NCHW") and not reading.allows("NCWH")
    assert reading.explain() == (
        "strides (20, 1, 5, 1) on shape (2, 1, 4, 5) read as NHWC; the place of c is open: its index is always 0"
    )
    assert read((2, 1, 4, 5), (20, 20, 5, 1)).layout == Layout("NCHW")
    assert "no element" in read((0, 3), (3, 1)).explain()


def test_gaps_are_kept_as_explicit_strides():
    assert str(Layout.from_strides((2, 3, 4, 5), (96, 32, 8, 1))) == "NCHW:(*,*,8,*)"
    assert str(Layout.from_strides((4, 6), (0, 1))) == "ba:(1,0)"


def test_malformed():
    with pytest.raises(ValueError, match=r"2 sizes \(2, 3\) but 1 strides"):
        read((2, 3), (3,))
    with pytest.raises(ValueError, match="negative"):
        read((2, 3), (3, -1))
