"""The ranges of tensors, by each method, and the errors of results."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutkit.graph.quantize.calibration import METHODS, ranges
from layoutkit.graph.quantize.errors import error_of
from layoutkit.graph.quantize.rewriting import filter_scales, rounding

numbers = st.lists(st.floats(-(2.0**100), 2.0**100, width=32), max_size=40).map(lambda x: np.array(x, np.float32))


def found(parts, method, percentile=99.9):
    return ranges(lambda: ({"x": x} for x in parts), method, percentile)["x"]


@given(st.lists(numbers, min_size=1, max_size=4), st.sampled_from(METHODS), st.floats(1, 100))
def test_ranges_hold_0_and_lie_within_what_was_seen(parts, method, percentile):
    low, high = found(parts, method, percentile)
    whole = np.concatenate([*parts, np.zeros(1, np.float32)])
    assert whole.min() <= low <= 0 <= high <= whole.max()
    if method == "min-max" or (method == "percentile" and percentile == 100):
        assert (low, high) == (whole.min(), whole.max())


@pytest.mark.parametrize("percentile", [90, 99.9])
def test_percentiles(percentile):
    x = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    low, high = found(np.split(x, 10), "percentile", percentile)
    left = (100 - percentile) / 2
    assert np.allclose([low, high], np.percentile(x, [left, 100 - left]), atol=np.ptp(x) / 2000)


def test_entropy_cuts_what_is_rare():
    rng = np.random.default_rng(0)
    x = np.append(rng.standard_normal(100_000), [60, -40]).astype(np.float32)
    low, high = found([x], "entropy")
    assert -8 < low < -2 and 2 < high < 8
    assert found([np.abs(x)], "entropy")[0] == 0
    even = rng.uniform(-1, 1, 1_000_000).astype(np.float32)
    assert min(np.abs(found([even], "entropy"))) > 0.9


def test_tensors_that_are_not_finite_have_none():
    for x in ([1, np.nan], [np.inf, 1]):
        for method in METHODS:
            for parts in (([1, 2], x), (x, [1, 2])):
                assert ranges(lambda parts=parts: ({"x": np.array(p)} for p in parts), method, 99) == {}


@given(st.floats(-(2.0**126), 2.0**126, width=32), st.floats(-(2.0**126), 2.0**126, width=32))
def test_integers_represent_a_range_and_0(a, b):
    low, high = min(a, b, 0.0), max(a, b, 0.0)
    scale, zero = rounding((low, high))
    assert 0 <= zero <= 255 and np.float32(scale) == scale > 0
    for x in (low, 0.0, high):
        q = np.clip(np.rint(x / scale) + zero, 0, 255)
        assert abs((q - zero) * scale - x) <= 1.001 * scale * (x != 0)


@given(st.data())
def test_scales_of_filters(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    w = (rng.standard_normal((3, 4, 2)) * 10.0 ** rng.integers(-44, 30, (3, 1, 1))).astype(np.float32)
    w *= rng.integers(0, 2, (3, 1, 1))
    b = rng.standard_normal(3) * 10.0 ** rng.integers(-10, 10)
    x_scale = float(np.float32(10.0 ** rng.integers(-20, 8)))
    scale = filter_scales(w, 0, b, x_scale)
    assert scale.dtype == np.float32 and (scale > 0).all() and np.abs(w / scale[:, None, None]).max() < 127.001
    assert (np.abs(b) / (scale.astype(np.float64) * x_scale) < 2.0**30 * 1.001).all()


def test_errors_are_relative_to_the_largest():
    want = {"a": np.array([1.0, -4]), "b": np.array([10.0])}
    have = {"a": np.array([1.0, -3]), "b": np.array([11.0])}
    assert error_of([(have, want)]) == 0.25
    more = {"a": np.array([8.0]), "b": np.array([0.0])}
    assert error_of([(have, want), (more, more)]) == 0.125
    nan = {"a": np.array([np.nan, 2.0, np.inf])}
    assert error_of([(nan, nan)]) == 0
    assert error_of([({"a": np.array([0, 2.0, np.inf])}, nan)]) == np.inf
    assert error_of([({"a": np.zeros(1)}, {"a": np.zeros(1)})]) == 0
    assert error_of([({"a": np.ones(1)}, {"a": np.zeros(1)})]) == np.inf
    assert error_of([({"a": np.array([1, 2])}, {"a": np.array([1, 3])})]) == 0.5, "the share that differs"
    assert error_of([({"a": np.zeros((0, 3))}, {"a": np.zeros((0, 3))})]) == 0
