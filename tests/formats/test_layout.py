"""Layouts on shapes, against the offsets that numpy computes one by one."""

import itertools
import pickle
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference
from strategies import laid_out, layouts, shapes

from layoutkit import algebra
from layoutkit.formats.layout import Layout


def indices(shape):
    return list(itertools.product(*map(range, shape)))


def table(layout, shape):
    """{logical index: offset}"""
    offsets = reference.offsets(layout, shape)
    return {i: int(offsets[i]) for i in indices(shape)}


@given(laid_out(pitched=True), st.data())
def test_offset_is_the_reference_and_refuses_what_lies_outside(pair, data):
    layout, shape = pair
    expected = table(layout, shape)
    for i in list(expected)[:: max(1, len(expected) // 20)]:
        assert layout.offset(i, shape) == expected[i]
    d = data.draw(st.integers(0, len(shape) - 1))
    outside = [0] * len(shape)
    outside[d] = data.draw(st.sampled_from([-1, shape[d]]))
    with pytest.raises(ValueError, match="lies outside shape"):
        layout.offset(outside, shape)


@given(laid_out(pitched=True, most=100))
def test_one_to_one_exhaustive_and_span(pair):
    layout, shape = pair
    offsets = list(table(layout, shape).values())
    padded = table(layout, layout.full_shape(shape)).values()
    span = 1 + max(padded, default=-1)
    assert layout.required_span_size(shape) == span
    assert layout.is_one_to_one(shape) == (len(set(offsets)) == len(offsets))
    if span < 2000:
        assert layout.is_exhaustive(shape) == (set(offsets) == set(range(span)))
    if layout.is_dense:
        assert span == prod(layout.physical_shape(shape))


def test_pads_may_share_offsets():
    layout = Layout("Ab2a:(4,3,2)")  # offset 6 is that of a = 3, which is a pad where there are three
    assert layout.is_one_to_one((3, 3)) and not layout.is_one_to_one((4, 3))


@given(laid_out(pitched=True, most=50))
def test_pads_are_exactly_what_the_padded_shape_adds(pair):
    layout, shape = pair
    inside = set(table(layout, shape).values())
    expected = set(table(layout, layout.full_shape(shape)).values()) - inside
    pads = layout.pads(shape)
    assert set(pads) == expected
    assert len(pads) == len(expected) == len(list(pads))
    for x in [*list(expected)[:5], *list(inside)[:5], layout.required_span_size(shape)]:
        assert (x in pads) == (x in expected)


@given(laid_out(pitched=True, most=60))
def test_index_undoes_offset_and_finds_nothing_elsewhere(pair):
    layout, shape = pair
    back = {}
    for i, x in table(layout, shape).items():
        back.setdefault(x, i)
    for x in range(-1, min(layout.required_span_size(shape) + 2, 200)):
        assert layout.index(x, shape) == back.get(x)


@given(laid_out(min_size=1))
def test_map_and_inverse_are_permutations_that_undo_each_other(pair):
    layout, shape = pair
    full = layout.full_shape(shape)
    offsets = reference.offsets(layout, full).reshape(-1)
    inverse = layout.inverse(shape)
    assert algebra.compose(inverse, layout.map(shape)) == algebra.coalesce(algebra.map_((prod(full), 1)))
    for flat in range(0, prod(full), 1 + prod(full) // 50):
        assert algebra.apply(layout.coalesce(shape), flat) == offsets[flat]
        assert algebra.apply(inverse, int(offsets[flat])) == flat


@given(st.integers(1, 3), st.data())
def test_equivalent_is_equality_of_all_offsets(rank, data):
    a = data.draw(layouts(min_rank=rank, max_rank=rank, pitched=True))
    b = data.draw(st.just(a.dense) | layouts(min_rank=rank, max_rank=rank))
    shape = data.draw(shapes(rank, most=64) | st.tuples(*[st.integers(1, 2)] * rank))
    assert a.equivalent(b, shape) == (table(a, shape) == table(b, shape))


@given(laid_out(most=200, max_rank=3), st.data())
def test_compose_lays_the_second_over_the_axes_of_the_first(pair, data):
    first, shape = pair
    rank = len(first.factors)
    second = data.draw(layouts(min_rank=rank, max_rank=rank, max_blocks=1, pitched=True))
    try:
        both = first.compose(second)
    except ValueError as e:
        assert "compose" in str(e)
        return
    physical = first.physical_shape(shape)
    dense = reference.offsets(first, shape)
    expected = reference.offsets(second, physical).reshape(-1)[dense]
    np.testing.assert_array_equal(reference.offsets(both, shape), expected)


@given(st.permutations(range(4)), st.permutations(range(4)), st.permutations(range(4)))
def test_plain_layouts_compose_as_a_group(p, q, r):
    a, b, c = (Layout.from_factors([(d, 0) for d in x]) for x in (p, q, r))
    one = Layout("abcd")
    assert a.compose(b).compose(c) == a.compose(b.compose(c))
    assert one.compose(a) == a == a.compose(one)
    orders = itertools.permutations(range(4))
    assert any(a.compose(Layout.from_factors([(d, 0) for d in x])) == one for x in orders)


def test_compose_refuses_blocks_turned_inside_out():
    with pytest.raises(ValueError, match="inside out"):
        Layout("aB4b2b").compose("abdc")
    with pytest.raises(ValueError, match="cuts the block of 6"):
        Layout("aB6b").compose("abC4c")
    assert Layout("aB16b").compose("abC4c").factors == ((0, 0), (1, 0), (1, 4), (1, 4))


@given(laid_out(pitched=True, most=200), st.data())
def test_divide_gives_tile_starts_and_one_way_through_all_tiles(pair, data):
    layout, shape = pair
    tile = [data.draw(st.sampled_from([1, 2, 4, 8, max(s, 1)])) for s in shape]
    try:
        tiles, inside = layout.divide(shape, tile)
    except ValueError as e:
        assert "divides no digit boundary" in str(e)
        return
    for i, x in itertools.islice(table(layout, shape).items(), 60):
        starts = sum(algebra.apply(m, k // t) for m, k, t in zip(tiles, i, tile))
        assert starts + sum(algebra.apply(m, k % t) for m, k, t in zip(inside, i, tile)) == x


def test_blocks_without_common_factors_have_no_loops_in_common():
    with pytest.raises(ValueError, match=r"nChw16c and nChw12c on .*, dimension c: "):
        Layout("nChw16c").refine("nChw12c", (1, 96, 2, 2))


@given(st.integers(1, 4), st.data())
def test_refine_gives_one_loop_nest_for_both(rank, data):
    a, b = (data.draw(layouts(min_rank=rank, max_rank=rank, pitched=True)) for _ in range(2))
    shape = data.draw(shapes(rank, min_size=1, most=200))
    try:
        loops = a.refine(b, shape)
    except ValueError as e:
        assert "no common factors" in str(e)
        return
    ours, theirs = table(a, shape), table(b, shape)
    for i in itertools.islice(indices(shape), 60):
        digits = [i[axis.dim] // axis.unit % axis.extent for axis, _, _ in loops]
        assert sum(d * s for d, (_, s, _) in zip(digits, loops)) == ours[i]
        assert sum(d * s for d, (_, _, s) in zip(digits, loops)) == theirs[i]
    assert all(axis.extent > 1 for axis, _, _ in loops)


@given(laid_out(pitched=True))
def test_strides_are_steps_of_the_offset(pair):
    layout, shape = pair
    offsets = reference.offsets(layout, shape)
    try:
        strides = layout.strides(shape)
    except ValueError as e:
        assert "is blocked" in str(e) and not layout.is_plain
        return
    expected = sum(
        (np.arange(n) * s).reshape([-1 if k == d else 1 for k in range(len(shape))])
        for d, (n, s) in enumerate(zip(shape, strides))
    )
    np.testing.assert_array_equal(offsets, np.broadcast_to(expected, shape))


@given(st.permutations(range(4)), st.tuples(*[st.integers(1, 5)] * 4))
def test_plain_strides_are_those_of_numpy(order, shape):
    layout = Layout.from_factors([(d, 0) for d in order])
    array = np.empty([shape[d] for d in order], np.int8).transpose(np.argsort(order))
    kept = [d for d in range(4) if shape[d] > 1]
    assert [layout.strides(shape)[d] for d in kept] == [array.strides[d] for d in kept]


@given(laid_out(pitched=True))
def test_values_are_equal_by_meaning_and_survive_pickle(pair):
    layout, shape = pair
    for other in (pickle.loads(pickle.dumps(layout)), Layout.from_factors(layout.factors, layout.pitches)):
        assert other == layout and hash(other) == hash(layout)
    assert layout.padded_shape(layout.physical_shape(shape)) == layout.full_shape(shape)
    assert {layout, layout.dense} == ({layout} if layout.is_dense else {layout, layout.dense})
    with pytest.raises(AttributeError, match="frozen"):
        layout.rank = 7


def test_describe_draws_the_axes():
    assert Layout("nChw16c").describe((1, 20, 4, 4)).splitlines() == [
        "nChw16c, aBcd16b: n c/16 h w 16c, outermost first",
        "on (1, 20, 4, 4): 512 elements of memory, 320 of the tensor, 192 pads, 0 unused",
        "axis  extent  stride",
        "n          1     512",
        "c/16       2     256",
        "h          4      64",
        "w          4      16",
        "16c       16       1",
    ]
    assert "overlapping" in Layout("ab:(1,1)").describe((2, 3))
    assert "6 of the tensor, 0 pads, 5 unused" in Layout("ab:(8,1)").describe((2, 3))


def test_huge_shapes_cost_nothing():
    layout, shape = Layout("nChw16c"), (2**20, 2**30 + 1, 2**31, 7)
    assert layout.equivalent("aBcd16b", shape)
    assert len(layout.pads(shape)) == 2**20 * 15 * 2**31 * 7
    assert layout.index(layout.offset((5, 2**30, 3, 2), shape), shape) == (5, 2**30, 3, 2)
    assert not layout.equivalent("nChw8c", shape)


@pytest.mark.parametrize(
    ("factors", "pitches", "message"),
    [
        ([(0, 0), (2, 0)], None, r"dimensions \[0, 2\] given once each as a whole, expected 0..2"),
        ([(0, 0), (0, 0)], None, "given once each as a whole"),
        ([(0, 0), (0, -4)], None, "must be positive"),
        ([(0, 0)], [1, 2], "2 strides given for 1 physical axes"),
        ([(0, 0)], [-1], "negative"),
    ],
)
def test_malformed_factors(factors, pitches, message):
    with pytest.raises(ValueError, match=message):
        Layout.from_factors(factors, pitches)
    with pytest.raises(ValueError, match=r"2 names \('n', 'c'\) for 1 dimensions"):
        Layout.from_factors([(0, 0)], dims="nc")


def test_shapes_that_do_not_fit():
    layout = Layout("nChw16c")
    with pytest.raises(ValueError, match=r"layout nChw16c has 4 dimensions, shape \(2, 3\) has 2"):
        layout.physical_shape((2, 3))
    with pytest.raises(TypeError, match=r"nChw16c: expected a shape of integers, got \(1, 2.5, 3, 4\)"):
        layout.axes((1, 2.5, 3, 4))
    with pytest.raises(TypeError, match="expected a shape of integers, got 7"):
        layout.axes(7)
    with pytest.raises(ValueError, match="negative size"):
        layout.axes((1, 2, -3, 4))
    with pytest.raises(ValueError, match="block axis of 16 has size 8"):
        layout.padded_shape((1, 2, 3, 4, 8))
    with pytest.raises(ValueError, match="held by an array of 5 axes"):
        layout.padded_shape((1, 2, 3, 4))
    with pytest.raises(ValueError, match="dimension c is blocked: its strides are 256 and 1"):
        layout.strides((1, 20, 4, 4))
    with pytest.raises(ValueError, match="5 physical axes, ab orders 2"):
        layout.compose("ab")
    for index in (0, (0, 0, 0, 0.5)):
        with pytest.raises(TypeError, match="nChw16c: expected an index of integers, got"):
            layout.offset(index, (1, 2, 3, 4))
    with pytest.raises(TypeError, match="nChw16c: expected a physical shape of integers, got None"):
        layout.padded_shape(None)


@pytest.mark.parametrize("factors", [None, "ab", [0, 1], [(0, 0.0)], [(0, 0, 0)]])
def test_factors_of_other_things_than_pairs_of_integers(factors):
    with pytest.raises(TypeError, match="expected factors as pairs of integers"):
        Layout.from_factors(factors)


def test_strides_of_other_things_than_integers():
    with pytest.raises(TypeError, match="strides that are integers or None, got"):
        Layout.from_factors([(0, 0)], ["1"])
    with pytest.raises(TypeError, match="expected a shape and strides of integers, got"):
        Layout.from_strides((1, 2), (2, "1"))


def test_a_layout_is_no_other_thing():
    assert Layout("NCHW") != 0x1342 and Layout("NHWC") != 0x1342


def test_composing_needs_an_axis_for_each_dimension():
    with pytest.raises(ValueError, match="NCHW has 4 physical axes, abc orders 3"):
        Layout("NCHW").compose("abc")


def test_only_the_outer_layout_may_have_explicit_strides():
    with pytest.raises(ValueError, match="only the outer layout may"):
        Layout("ab:(9,1)").compose("ab")
