"""Maps against brute force over all their indices."""

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from layoutkit import algebra as al

extents = st.integers(1, 6)
any_map = st.lists(st.tuples(extents, st.integers(0, 12)), max_size=4).map(lambda x: al.map_(*x))


@st.composite
def dense_maps(draw, max_modes=4):
    """One-to-one maps without gaps: extents in any order of strides."""
    sizes = draw(st.lists(extents, max_size=max_modes))
    order = draw(st.permutations(range(len(sizes))))
    strides, stride = [0] * len(sizes), 1
    for k in order:
        strides[k] = stride
        stride *= sizes[k]
    return al.map_(*zip(sizes, strides))


def table(m):
    return [al.apply(m, i) for i in range(al.size(m))]


@given(any_map)
def test_apply_sums_digits_times_strides(m):
    expected = [0]
    for extent, stride in m:
        expected = [x + d * stride for x in expected for d in range(extent)]
    assert table(m) == expected
    assert al.span(m) == 1 + max(expected)


@given(any_map, any_map)
def test_coalesced_maps_are_equal_exactly_when_the_functions_are(a, b):
    assert table(al.coalesce(a)) == table(a)
    assert (al.coalesce(a) == al.coalesce(b)) == (table(a) == table(b))


@given(any_map, any_map, st.integers(0, 40))
def test_restricted_maps_are_equal_exactly_when_the_functions_are_below_n(a, b, n):
    n = min(n, al.size(a), al.size(b))
    values = [[al.apply(m, i) for i in range(n)] for m in (a, b)]
    assert [al.apply(al.restrict(a, n), i) for i in range(n)] == values[0]
    assert (al.restrict(a, n) == al.restrict(b, n)) == (values[0] == values[1])


@given(dense_maps(), dense_maps(), st.integers(0, 40))
def test_refined_maps_have_common_extents_and_keep_their_values(a, b, n):
    n = min(n, al.size(a), al.size(b))
    try:
        x, y = al.refine(a, b, n)
    except ValueError:
        cuts = sorted({*al.units(al.restrict(a, n)), *al.units(al.restrict(b, n))})
        assert any(outer % inner for inner, outer in itertools.pairwise(cuts))
        return
    assert [e for e, _ in x] == [e for e, _ in y]
    for m, refined in ((a, x), (b, y)):
        assert [al.apply(refined, i) for i in range(n)] == [al.apply(m, i) for i in range(n)]


@given(any_map, st.integers(1, 12))
def test_split_is_outer_of_quotient_plus_inner_of_remainder(m, at):
    try:
        outer, inner = al.split(m, at)
    except ValueError:
        assert all(at % u and u % at for u in al.units(m) if u > 1) or at not in al.units(m)
        return
    assert al.size(inner) == at
    assert [al.apply(outer, i // at) + al.apply(inner, i % at) for i in range(al.size(m))] == table(m)


def test_split_inside_a_digit_is_refused():
    with pytest.raises(ValueError, match="4 divides no digit boundary"):
        al.split(al.map_((2, 6), (6, 1)), 4)


@given(dense_maps(), any_map)
def test_composition_is_application_in_turn(a, b):
    assume(al.span(b) <= al.size(a))
    expected = [al.apply(a, i) for i in table(b)]
    try:
        c = al.compose(a, b)
    except ValueError:
        # Refused although a map of the same extents would do? Its strides would be the values at steps.
        steps = [al.apply(a, s) if e > 1 else 0 for e, s in b]
        assert table(al.map_(*((e, s) for (e, _), s in zip(b, steps)))) != expected
        return
    assert table(c) == expected


@given(dense_maps())
def test_inverse_undoes(m):
    back = al.inverse(m)
    assert [al.apply(back, x) for x in table(m)] == list(range(al.size(m)))
    assert al.compose(m, back) == al.compose(back, m) == al.coalesce(al.map_((al.size(m), 1)))


@given(any_map)
def test_inverse_exists_exactly_for_permutations(m):
    assume(al.size(m) <= 300)
    if sorted(table(m)) == list(range(al.size(m))):
        al.inverse(m)
    else:
        with pytest.raises(ValueError, match="no inverse"):
            al.inverse(m)


@given(dense_maps(3), st.integers(1, 4), st.integers(1, 60))
def test_complement_fills_what_is_left_out(m, scale, n):
    m = al.map_(*((e, s * scale) for e, s in m))
    rest = al.complement(m, n)
    sums = sorted(x + y for x in table(m) for y in table(rest))
    assert sums == list(range(len(sums)))
    assert len(sums) >= n


@given(any_map, st.integers(1, 60))
def test_complement_exists_exactly_where_strides_nest(m, n):
    done, nests = 1, True
    for extent, stride in sorted((x for x in m if x.extent > 1), key=lambda x: x.stride):
        nests = nests and stride > 0 and stride % done == 0
        done = extent * stride or 1
    if nests:
        al.complement(m, n)
    else:
        with pytest.raises(ValueError, match="does not nest"):
            al.complement(m, n)


@given(dense_maps(), st.integers(1, 4), st.integers(1, 3))
def test_divide_visits_every_element_once(m, count, step):
    tile = al.map_((count, step))
    try:
        rest, inside = al.divide(m, tile)
    except ValueError:
        return
    assert table(inside) == [al.apply(m, i) for i in table(tile)]
    sums = sorted(x + y for x in table(rest) for y in table(inside))
    assert sums == sorted(table(m))


def test_divide_takes_every_second_element():
    assert al.divide(al.map_((4, 10), (6, 1)), al.map_((3, 2))) == (al.map_((4, 10), (2, 1)), al.map_((3, 2)))


@given(any_map)
def test_one_to_one_and_exhaustive(m):
    values = table(m)
    assert al.is_one_to_one(m) == (len(set(values)) == len(values))
    assert al.is_exhaustive(m) == (set(values) == set(range(al.span(m))))
