"""The warning of floats that saturate without a scale."""

import warnings

import numpy as np
import pytest

import layoutkit as lk
from layoutkit.reorders import saturation

X = np.linspace(-1, 1, 120, dtype=np.float32).reshape(1, 4, 5, 6)


def warned(monkeypatch, x, dtype, **how):
    """What is warned of in one call, as the first of a process."""
    monkeypatch.setattr(saturation, "_warned", False)
    lk.tuning(lk.tuning())  # plans are made anew
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lk.reorder(x, "NCHW", "NHWC", dtype=dtype, **how)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
@pytest.mark.parametrize(("factor", "dtype"), [(300, "int8"), (127.6, "int8"), (300, "uint8"), (40000, "int16"),
                                               (300, ("float", "int8")), (300, "int4x2")])  # fmt: skip
def test_floats_beyond_the_type(monkeypatch, kind, factor, dtype):
    x = (X * factor).astype(kind)
    if isinstance(dtype, tuple):
        dtype = (x.dtype.name, dtype[1])
    (text,) = warned(monkeypatch, x, dtype)
    name = dtype[1] if isinstance(dtype, tuple) else dtype
    assert f"numbers of {x.dtype} from -" in text and f"saturate in {name}, which holds" in text and "scale=" in text


@pytest.mark.parametrize(
    ("x", "dtype", "how"),
    [
        (X * 127, "int8", {}), (X * 127.4, "int8", {}), (X * 300, "int8", dict(scale=3.0)), (X * 300, "float16", {}),
        (X * 300, "int8", dict(offset=1.0)), (X * 300, "int32", {}), (X * 300, "bool", {}),
        ((X * 300).astype(np.int32), "int8", {}), (X[:0] * 300, "int8", {}), (X * np.nan, "int8", {}),
        (X * 300, "int8", dict(region=(None, (0, 1), None, None))),
    ],
)  # fmt: skip
def test_what_is_not_warned_of(monkeypatch, x, dtype, how):
    assert warned(monkeypatch, x, dtype, **how) == []


def test_it_is_said_once_where_the_user_can_see_it(monkeypatch):
    x = X * 300
    monkeypatch.setattr(saturation, "_warned", False)
    lk.tuning(lk.tuning())
    with pytest.warns(RuntimeWarning, match="saturate in int8") as caught:
        y = lk.reorder(x, "NCHW", "NHWC", dtype="int8")
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(y, np.clip(np.rint(x), -128, 127).astype(np.int8).transpose(0, 2, 3, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lk.reorder(x, "NCHW", "NHWC", dtype="int8")
        lk.reorder(x[:, :3], "NCHW", "NHWC", dtype="uint8")


def test_large_arrays_are_looked_at_in_part(monkeypatch):
    monkeypatch.setattr(saturation, "MAX_SAMPLES", 30)
    assert saturation._extent(X * 300) == pytest.approx((-300, 300), rel=0.1)
    assert saturation._extent(np.float32(7)[None][0]) == (7, 7)
