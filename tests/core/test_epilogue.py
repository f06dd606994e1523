"""Activations over all of float32 against float64, over that of float64 against decimals, on every instruction set."""

from decimal import Decimal

import exact
import numpy as np
import pytest
from conftest import using_isa

from layoutkit import reference
from layoutkit._core import registry
from layoutkit._core.route import Epilogue, epilogue_pixels

ULPS = {"silu": 4, "gelu": 7, "gelu_tanh": 4, "hardswish": 3, "clip": 0.5, "prelu": 0.5}
LIMITS = (-1.5, 2.25)
STEP = 40_009  # bit patterns between two that are tried: 107,000 of them all
INF = float("inf")
MOST = np.finfo(np.float32).max
TINY = np.float32(2.0**-149)


def edges(value):
    """`value` and its neighbours, of either sign."""
    value = np.float32(value)
    with np.errstate(over="ignore"):
        found = [value, np.nextafter(value, np.float32(INF)), np.nextafter(value, np.float32(-INF))]
    return [x for v in found for x in (v, -v)]


def numbers(seed):
    """A share of all bit patterns, where functions begin to vanish or to saturate more of them, and every edge."""
    first = np.random.default_rng(seed).integers(STEP)
    bits = np.arange(first, 2**32, STEP, dtype=np.int64).astype(np.uint32)
    some = [0, TINY, 2.0**-126, 2.0**-63, 1, 3, 6, 11, 13, 14.2, 15.4, 16, 64, 80, 87.3, 88, 103.97, 104, 120, 128,
            2.0**64, MOST, INF, *LIMITS]  # fmt: skip
    near = np.linspace(-125, 25, 30_011).astype(np.float32)
    return np.concatenate([bits.view(np.float32), near, np.array([x for v in some for x in edges(v)], np.float32)])


def activated(name, isa, x):
    y = x.reshape(1, -1).copy()
    with using_isa(isa):
        epilogue_pixels(f"f{8 * x.itemsize}", Epilogue(name, np.array(arguments(name), x.dtype)), y)
    return y.reshape(-1)


@pytest.mark.parametrize("isa", registry.isas())
@pytest.mark.parametrize("name", ULPS)
def test_over_all_of_float32(name, isa, seed):
    x = numbers(seed)
    got = activated(name, isa, x)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(x))
    x, got = x[~np.isnan(x)], got[~np.isnan(x)].astype(np.float64)
    with np.errstate(over="ignore"):
        want = reference.activate(x.astype(np.float64).reshape(1, 1, -1), (name, *arguments(name))).reshape(-1)
        rounded = want.astype(np.float32)
    infinite = np.isinf(rounded)
    np.testing.assert_array_equal(got[infinite], rounded[infinite])
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    ulp = np.exp2(np.maximum(np.frexp(rounded[~infinite])[1] - 24, -149).astype(np.float64))
    off = abs(got[~infinite] - want[~infinite]) / ulp
    worst = off.argmax()
    assert off[worst] <= ULPS[name], f"{off[worst]:.1f} ulp at {x[~infinite][worst]!r}"


def arguments(name):
    return {"clip": LIMITS, "prelu": (np.float32(0.3),)}.get(name, ())


UNDERFLOW = {"silu": -770, "gelu": -40, "gelu_tanh": -22.5, "hardswish": -4}  # everything below is -0


@pytest.mark.parametrize("isa", registry.isas())
@pytest.mark.parametrize("name", exact.FUNCTIONS)
def test_over_all_of_float64(name, isa):
    rng = np.random.default_rng(0)
    small = rng.standard_normal(400) * 10.0 ** rng.integers(-320, 0, 400)
    near = rng.uniform(UNDERFLOW[name], 40, 1500), rng.uniform(-4, 4, 1000), [0.0, 5e-324, -5e-324, 3, -3, 0.5, -0.5]
    x = np.concatenate([small, *near])
    got, want = activated(name, isa, x), exact.activated(name, x)
    rounded = np.array([float(v) for v in want])
    np.testing.assert_array_equal(np.signbit(got), np.signbit(x))
    ulp = np.exp2(np.maximum(np.frexp(rounded)[1] - 53, -1074.0))
    off = np.array([float(abs(Decimal(float(y)) - v) / Decimal(float(u))) for y, v, u in zip(got, want, ulp)])
    worst = off.argmax()
    assert off[worst] <= ULPS[name], f"{off[worst]:.1f} ulp at {x[worst]!r}"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("isa", registry.isas())
def test_what_they_tend_to(isa, dtype):
    most = np.finfo(dtype).max
    ends = np.array([-INF, -most, most, INF, np.nan], dtype)
    for name in exact.FUNCTIONS:
        got = activated(name, isa, ends)
        np.testing.assert_array_equal(got, [0, 0, most, INF, np.nan], err_msg=name)
        assert np.signbit(got[:2]).all()


def test_pixels_of_another_type_are_refused():
    y, add = np.zeros((2, 3)), np.zeros((2, 3), np.float32)
    for arrays in ((y,), (y, add), (add, y)):
        with pytest.raises(TypeError, match=r"epilogue: expected f32, got .*float64"):
            epilogue_pixels("f32", Epilogue("clip", np.float32((0, 1))), *arrays)
