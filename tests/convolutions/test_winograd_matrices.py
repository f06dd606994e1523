"""Winograd matrices: exact identities in rationals."""

from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutkit import winograd

rationals = st.fractions(min_value=-3, max_value=3, max_denominator=17)


@st.composite
def transforms(draw):
    m, r = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    n = m + r - 2
    points = draw(st.none() | st.lists(rationals, min_size=n, max_size=n, unique=True))
    t = winograd.transform(m, r, points)
    if draw(st.booleans()):
        t = winograd.rescale(t, draw(st.lists(rationals.filter(bool), min_size=n + 1, max_size=n + 1)))
    return t


def apply(matrix, x):
    return [sum(a * b for a, b in zip(row, x)) for row in matrix]


@given(transforms(), st.data())
def test_it_computes_the_correlation_exactly(t, data):
    g = data.draw(st.lists(rationals, min_size=t.r, max_size=t.r))
    d = data.draw(st.lists(rationals, min_size=t.m + t.r - 1, max_size=t.m + t.r - 1))
    y = apply(t.AT, [a * b for a, b in zip(apply(t.G, g), apply(t.BT, d))])
    assert y == [sum(g[k] * d[i + k] for k in range(t.r)) for i in range(t.m)]


@pytest.mark.parametrize("m", sorted(winograd.PAIRS))
def test_short_tiles_take_no_product_at_infinity(m):
    """Neither does another output read it, nor another product what only the last output does."""
    t = winograd.paired(m)
    assert [row[-1] for row in t.AT] == [0] * (m - 1) + [1]
    assert [row[-1] for row in t.BT] == [0] * (m + 1) + [1]


@given(st.data())
def test_stride_two_exactly(data):
    t = winograd.strided()
    g, d = (data.draw(st.lists(rationals, min_size=n, max_size=n)) for n in (3, 7))
    y = apply(t.AT, [a * b for a, b in zip(apply(t.G, g), apply(t.BT, d))])
    assert y == [sum(g[k] * d[2 * i + k] for k in range(3)) for i in range(3)]


def test_short_tiles_of_stride_two_take_five_products():
    """The last two are of the last output alone, and nothing else reads the last two inputs."""
    t = winograd.strided()
    assert [row[-2:] for row in t.AT] == [(0, 0), (0, 0), (1, 1)]
    assert all(row[-2:] == (0, 0) for row in t.BT[:-2])
    assert len(set(t.G)) == len(winograd.factors(3)) == 5


@given(st.integers(0, 10_000), st.sampled_from([1, *winograd.TILES]))
def test_tiles_cover_an_axis(outputs, m):
    whole, short = winograd.tiling(outputs, m)
    beyond = whole * m + short * (m - 1) - outputs
    assert whole + short == -(-outputs // m) and min(whole, short, beyond) >= 0
    assert not (whole and beyond)  # tiles reach over the edge only if all of them are short


@given(transforms(), st.integers(0, 2**32))
def test_filters_come_back_exactly(t, seed):
    w = np.random.default_rng(seed).integers(-9, 9, (2, 3, t.r, t.r)).astype(object)
    u = winograd.transform_filter(w, t)
    assert u.shape == ((t.m + t.r - 1) ** 2, 2, 3)
    assert (winograd.restore_filter(u, t) == w).all()


def test_floats_are_computed_in_double():
    t = winograd.transform(4, 3)
    w = np.random.default_rng(0).standard_normal((5, 6, 3, 3)).astype(np.float32)
    u = winograd.transform_filter(w, t)
    exact = winograd.transform_filter(np.vectorize(F)(w.astype(float)), t).astype(np.float64)
    assert u.dtype == np.float32
    np.testing.assert_array_max_ulp(u, exact.astype(np.float32), 1)
    np.testing.assert_allclose(winograd.restore_filter(u, t), w, rtol=0, atol=1e-6)


def test_the_published_tables():
    two, four = winograd.transform(2, 3), winograd.transform(4, 3)
    assert two.G == ((1, 0, 0), (F(1, 2),) * 3, (F(1, 2), F(-1, 2), F(1, 2)), (0, 0, 1))
    assert two.BT == ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, -1, 0, 1))
    assert four.G[0] == (F(1, 4), 0, 0) and four.G[3] == (F(1, 24), F(1, 12), F(1, 6))
    assert four.BT[0] == (4, 0, -5, 0, 1, 0) and four.AT[3] == (0, 1, -1, 8, -8, 1)


def test_least_squares():
    a = np.random.default_rng(1).integers(-5, 5, (6, 3))
    exact = winograd.left_inverse(tuple(tuple(map(F, map(int, row))) for row in a))
    np.testing.assert_allclose(winograd.as_array(exact), np.linalg.pinv(a), atol=1e-12)
    with pytest.raises(ValueError, match="columns are dependent"):
        winograd.left_inverse(((F(1), F(2)), (F(2), F(4))))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: winograd.transform(0, 3), r"F\(0, 3\): outputs and taps must be positive"),
        (lambda: winograd.transform(4, 3, [0, 1]), "takes 5 distinct points and infinity, got 2: 0, 1"),
        (lambda: winograd.transform(2, 3, [0, 1, 1]), "got 3: 0, 1, 1"),
        (lambda: winograd.transform(9, 9), "takes 16 distinct points and infinity, got 11"),
        (lambda: winograd.rescale(winograd.transform(2, 3), [1, 2, 3]), "by 4 numbers other than 0"),
        (lambda: winograd.transform_filter(np.ones((1, 1, 5, 5)), winograd.transform(2, 3)), "1, 5, 5"),
        (lambda: winograd.restore_filter(np.ones((9, 1, 1)), winograd.transform(2, 3)), r"from \(16, O, I\)"),
    ],
)
def test_malformed(call, message):
    with pytest.raises(ValueError, match=message):
        call()
