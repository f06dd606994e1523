"""Softmax of bytes against that of float64, in arrays of any strides between guard pages."""

import numpy as np
import pytest
from conftest import NEST_ISAS, using_isa
from hypothesis import example, given
from hypothesis import strategies as st
from strided import placed, placements

from layoutkit._core.nests.norms.softmax_bytes import LEAST_STEP, MAX_STEP, SoftmaxOfBytes

DTYPES = st.sampled_from(["uint8", "int8"])
LENGTHS = st.sampled_from([1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 130, 257, 1000])


@st.composite
def placed_rows(draw):
    """A shape, and how two arrays of it lie in memory, with contiguous rows."""
    shape = (*draw(st.lists(st.integers(1, 4), max_size=3)), draw(LENGTHS))
    last = len(shape) - 1
    lie = []
    for written in (False, True):
        order, turned, gaps, repeated, high = draw(placements(len(shape), written))
        order = [axis for axis in order if axis != last] + [last]
        lie.append((order, [*turned[:-1], 0], [*gaps[:-1], 1], None if repeated == last else repeated, high))
    return shape, lie


@given(
    placed_rows(), st.sampled_from(NEST_ISAS), DTYPES, DTYPES, st.floats(1e-4, MAX_STEP),
    st.sampled_from([1 / 255, 1 / 256, 1e-3, 1 / 32768]), st.integers(1, 3), st.integers(0, 99),
)  # fmt: skip
@example(((3, 65), [([0, 1], [0, 0], [1, 1], None, True)] * 2), NEST_ISAS[-1], "uint8", "uint8", MAX_STEP, 1e-3, 1, 0)
def test_rows(rows, isa, x_type, y_type, scale, y_scale, threads, seed):
    shape, lie = rows
    rng = np.random.default_rng(seed)
    (least, most), limits = (np.iinfo(x_type).min, np.iinfo(x_type).max), np.iinfo(y_type)
    around = rng.integers(least, most + 1)  # the range of scores is often narrow
    values = np.clip(rng.normal(around, rng.choice([3, 30, 300]), shape), least, most).astype(x_type)
    x, y = placed(values, lie[0]), placed(np.zeros(shape, y_type), lie[1])
    zero = int(rng.choice([0, limits.min, rng.integers(limits.min, limits.max + 1)]))
    with using_isa(isa):
        op = SoftmaxOfBytes(x, y, scale, y_scale, zero, threads)
    op(x, y)
    powers = np.exp(scale * (x.astype(np.float64) - x.max(-1, keepdims=True).astype(np.float64)))
    quotients = powers / powers.sum(-1, keepdims=True) / np.float32(y_scale)
    # what is nearly halfway between two numbers may be rounded to either
    low, high = (np.clip(np.rint(quotients * (1 + e)) + zero, limits.min, limits.max) for e in (-1e-5, 1e-5))
    assert ((low <= y) & (y <= high)).all()


def test_in_place():
    x = np.random.default_rng(0).integers(0, 256, (5, 77)).astype(np.uint8)
    y = np.empty_like(x)
    SoftmaxOfBytes(x, y, 0.05, 1 / 256, 0, 1)(x, y)
    SoftmaxOfBytes(x, x, 0.05, 1 / 256, 0, 1)(x, x)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    "change, says",
    [
        ({"y": np.zeros((3, 4), np.uint8)}, "one shape"),
        ({"x": np.zeros((3, 5), np.float32)}, "float32"),
        ({"x": np.zeros((5, 3), np.uint8).T}, "not contiguous"),
        ({"x": np.zeros((0, 5), np.uint8), "y": np.zeros((0, 5), np.uint8)}, "expected bytes"),
        ({"scale": 2 * MAX_STEP}, "steps of 8"), ({"scale": float("nan")}, "steps of nan"), ({"scale": 0.0}, "steps"),
        ({"y_scale": LEAST_STEP / 2}, "to steps of"),
    ],
)  # fmt: skip
def test_errors(change, says):
    given_ = {
        "x": np.zeros((3, 5), np.uint8), "y": np.zeros((3, 5), np.uint8), "scale": 1.0, "y_scale": 0.01, "zero": 0,
        "threads": 1,
    }  # fmt: skip
    with pytest.raises(ValueError, match=says):
        SoftmaxOfBytes(**{**given_, **change})
