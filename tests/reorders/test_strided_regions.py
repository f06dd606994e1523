"""Regions as numpy has slices: ends from the end, steps, backwards."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference
from strategies import laid_out, layouts

import layoutkit as lk


@st.composite
def parts(draw, size):
    """A part of a region, and the slice of numpy that it means."""
    match draw(st.sampled_from(["all", "pair", "slice"])):
        case "all":
            return None, slice(None)
        case "pair":
            start = draw(st.integers(0, size))
            stop = draw(st.integers(start, size))
            back = draw(st.booleans()) and start < size and stop < size
            return (start - size, stop - size) if back else (np.int64(start), stop), slice(start, stop)
    step = draw(st.sampled_from([1, 2, 3, -1, -2]))
    ends = st.none() | st.integers(0, max(size - 1, 0))
    found = slice(draw(ends), draw(ends), step)
    start, stop, _ = found.indices(size)
    if (stop - start) * step < 0:
        found = slice(None, None, step)
    return found, found


@given(laid_out(min_rank=1, max_rank=4, most=300), st.data())
def test_regions_are_those_of_numpy(case, data):
    src, shape = case
    dst = data.draw(layouts(src.rank, src.rank, max_blocks=1))
    region, view = zip(*(data.draw(parts(n)) for n in shape))
    x = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    held = reference.to_physical(x, src)
    want = reference.to_physical(np.ascontiguousarray(x[view]), dst)
    as_list = data.draw(st.booleans())
    got = lk.reorder(held, src, dst, shape=shape, region=list(region) if as_list else region)
    np.testing.assert_array_equal(got, want)
    t = lk.reorder(lk.Tensor(held, src, shape), dst=dst, region=region)
    np.testing.assert_array_equal(t.array, want)
    assert t.shape == x[view].shape


def test_arrays_say_regions_and_places():
    x = np.arange(24).reshape(4, 6)
    np.testing.assert_array_equal(lk.reorder(x, "ab", "ab", region=np.array([[1, 3], [0, 6]])), x[1:3])
    out = np.zeros((4, 6), int)
    lk.reorder(x, "ab", "ab", region=((0, 2), (0, 2)), out=out, at=np.array([2, 4]))
    np.testing.assert_array_equal(out[2:, 4:], x[:2, :2])
    assert out.sum() == x[:2, :2].sum()


@pytest.mark.parametrize("part", [(0, 7), slice(0, 7), slice(3, 2), slice(2, 3, -1), slice(0, 6, 0), (-7, 2)])
def test_regions_outside_are_refused(part):
    with pytest.raises(ValueError, match=r"region .* of dimension 1 lies outside its size 6"):
        lk.reorder(np.zeros((4, 6)), "ab", "ab", region=(None, part))


def test_conversions_take_steps_too():
    x = np.arange(24, dtype=np.uint8).reshape(4, 6)
    got = lk.reorder(x, "ab", "ba", dtype="float32", scale=0.5, region=(slice(None, None, -1), slice(0, None, 2)))
    np.testing.assert_array_equal(got, (x[::-1, ::2] * np.float32(0.5)).T)
