"""Pad values: a type takes those that it has, and names the others."""

import math
import re
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import layoutkit as lk
from layoutkit.memory.pad_value import pad_element

INTEGERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
FLOATS = [np.dtype(d) for d in ("f2", "f4", "f8", "g", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn)]


@given(st.sampled_from(INTEGERS), st.integers(-(2**70), 2**70) | st.integers(-300, 300) | st.floats())
def test_integers_take_what_is_in_range_and_whole(dtype, value):
    limits = np.iinfo(dtype)
    fits = math.isfinite(value) and value == int(value) and limits.min <= value <= limits.max
    for said in (value, np.float64(value)) if isinstance(value, float) else (value,):
        if fits:
            element = pad_element(said, np.dtype(dtype), "test")
            assert element.dtype == dtype and int(element) == value
        else:
            with pytest.raises(ValueError, match=re.escape(f"test: pad_value={said!r} is not a value of dtype")):
                pad_element(said, np.dtype(dtype), "test")


@given(st.sampled_from(FLOATS), st.floats() | st.integers(-(2**53), 2**53))
def test_floats_take_what_is_in_range_rounded(dtype, value):
    with np.errstate(all="ignore"):
        want = np.asarray(float(value)).astype(dtype)
    if np.isnan(want) == math.isnan(value) and np.isinf(want) == math.isinf(value):
        element = pad_element(value, dtype, "test")
        assert element.dtype == dtype and (element == want or math.isnan(value))
    else:
        with pytest.raises(ValueError, match="is not a value of dtype"):
            pad_element(value, dtype, "test")


@pytest.mark.parametrize("dtype", FLOATS[:3])
def test_an_integer_that_no_float_reaches(dtype):
    with pytest.raises(ValueError, match="is not a value of dtype"):
        pad_element(10**400, dtype, "test")


@pytest.mark.parametrize("value", ["7", b"7", None, [1], [1, [2]], (), 1 + 2j, object(), np.datetime64(0, "s"), lk])
@pytest.mark.parametrize("dtype", ["u1", "f4", "?", ml_dtypes.bfloat16])
def test_what_is_no_real_number(value, dtype):
    with pytest.raises(ValueError, match="is not a value of dtype"):
        pad_element(value, np.dtype(dtype), "test")


@pytest.mark.parametrize(
    ("value", "dtype", "held"),
    [
        (1 + 2j, "c8", 1 + 2j), (3, "c16", 3), (True, "f4", 1), (np.float32(3), "u1", 3), (Fraction(1, 2), "f4", 0.5),
        (np.array(5), "i4", 5), (1, "?", True), (7, ml_dtypes.int4, 7), (b"ab", "S4", b"ab"), ("x", "U1", "x"),
        (0, "S4", b""), (0, "V4", np.void(bytes(4))), (np.void(b"abcd"), "V4", np.void(b"abcd")),
        (np.datetime64(5, "s"), "M8[ms]", np.datetime64(5000, "ms")),
    ],
)  # fmt: skip
def test_what_a_type_has(value, dtype, held):
    element = pad_element(value, np.dtype(dtype), "test")
    assert element.dtype == np.dtype(dtype) and element == held


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (2, "?"), (9, ml_dtypes.int4), (1e39, ml_dtypes.bfloat16), (np.inf, ml_dtypes.float8_e4m3fn), (b"abcde", "S4"),
        ("7", "S4"), (7, "S4"), (5, "M8[s]"), (np.datetime64(1500, "ms"), "M8[s]"), (1e300 + 1j, "c8"), (1, "V4"),
    ],
)  # fmt: skip
def test_what_a_type_does_not_have(value, dtype):
    with pytest.raises(ValueError, match="is not a value of dtype"):
        pad_element(value, np.dtype(dtype), "test")
