"""Activations over all of float32 against float64, over that of float64 against decimals, on every instruction set."""

from decimal import Decimal, localcontext

import exact
import numpy as np
import pytest
from conftest import LONG, WHOLE_ISAS, using_isa
from oracle import reference

from layoutkit._core.nests.convolutions.route import Epilogue, epilogue_pixels
from layoutkit._core.runtime import registry
from layoutkit.convolutions.epilogue import parse

# What is tried: names of activations, with numbers of float32.
ALPHA, BETA = float(np.float32(0.3)), float(np.float32(0.55))
FORMS = [
    ("clip", -1.5, 2.25), ("leaky_relu", ALPHA), ("silu",), ("gelu",), ("gelu_tanh",), ("hardswish",), ("elu", ALPHA),
    ("elu", -2.0), ("tanh",), ("sigmoid",), ("softplus",), ("abs",), ("square",), ("sqrt",), ("exp",), ("log",),
    ("round",), ("mish",), ("swish", 1.5), ("swish", -ALPHA), ("swish", 2.0**-80), ("hardsigmoid", ALPHA, BETA),
    ("hardswish", ALPHA, BETA), ("linear", ALPHA, -BETA), ("pow", 1.0, 2.0), ("pow", 1.0, 3.0), ("pow", -ALPHA, -1.0),
    ("pow", 1.0, 0.5), ("pow", ALPHA, -3.25), ("pow", 1.0, 90.0), ("pow", 2.0**-100, 1.75), ("pow", BETA, 0.0),
    ("erf",), ("selu", 1.6732632, 1.050701), ("celu", ALPHA), ("softsign",), ("neg",), ("sign",), ("floor",), ("ceil",),
    ("reciprocal",), ("shrink", BETA, ALPHA), ("thresholded_relu", ALPHA), ("sin",), ("cos",),
]  # fmt: skip
ROUNDED_TWICE = ("linear", "hardsigmoid", "hardswish_of")  # a product and a sum, where there is no FMA
LIMITS = (-1.5, 2.25)
STEP = 40_009  # bit patterns between two that are tried: 107,000 of them all
INF = float("inf")
CUTS = [("clip", 0.0, INF), ("clip", -INF, 1.0), ("relu6",), ("prelu", -ALPHA), ("swish", 0.0)]
MOST = np.finfo(np.float32).max
TINY = np.float32(2.0**-149)


def edges(value):
    """`value` and its neighbours, of either sign."""
    value = np.float32(value)
    with np.errstate(over="ignore"):
        values = [value, np.nextafter(value, np.float32(INF)), np.nextafter(value, np.float32(-INF))]
    return [x for v in values for x in (v, -v)]


def numbers(seed):
    """A share of all bit patterns, where functions begin to vanish or to saturate more of them, and every edge."""
    first = np.random.default_rng(seed).integers(STEP)
    bits = np.arange(first, 2**32, STEP, dtype=np.int64).astype(np.uint32)
    some = [0, TINY, 2.0**-126, 2.0**-63, 1, 3, 6, 11, 13, 14.2, 15.4, 16, 64, 80, 87.3, 88, 103.97, 104, 120, 128,
            2.0**64, MOST, INF, *LIMITS]  # fmt: skip
    near = np.linspace(-125, 25, 30_011).astype(np.float32)
    return np.concatenate([bits.view(np.float32), near, np.array([x for v in some for x in edges(v)], np.float32)])


def kernel_of(form):
    """The step of a form that is done by one, and its numbers as it takes them."""
    ((name, numbers, _),) = parse(form, 1, np.dtype(np.float64), "test").epilogue.steps
    return name, () if numbers is None else numbers


def activated(form, isa, x):
    y = x.reshape(1, -1).copy()
    with using_isa(isa):
        epilogue_pixels(f"f{8 * x.itemsize}", parse(form, 1, x.dtype, "test").epilogue, y)
    return y.reshape(-1)


def allowed(form, isa, x):
    """The error allowed at each x, in ulp."""
    name, numbers = kernel_of(form)
    bound = np.full(x.shape, max(registry.STEPS[name], 0.5))
    if isa == "portable" and name in ROUNDED_TWICE:
        with np.errstate(all="ignore"):
            product, total = abs(numbers[0] * x.astype(np.float64)), abs(numbers[0] * x.astype(np.float64) + numbers[1])
            bound += 2 * np.nan_to_num(np.maximum(product, abs(numbers[1])) / total, posinf=1e30)
    return bound


@pytest.mark.parametrize("isa", WHOLE_ISAS)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_over_all_of_float32(form, isa, seed):
    x = numbers(seed)
    got = activated(form, isa, x)
    with np.errstate(all="ignore"):
        want = reference.activate(x.astype(np.float64).reshape(1, 1, -1), form).reshape(-1)
        rounded = want.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    some = ~np.isnan(want)
    x, got, want, rounded = x[some], got[some].astype(np.float64), want[some], rounded[some]
    bound = allowed(form, isa, x)
    infinite = np.isinf(rounded)
    np.testing.assert_array_equal(got[infinite], rounded[infinite])
    same = bound < 1e6  # elsewhere a sum of a product that has been rounded may be of another sign
    np.testing.assert_array_equal(np.signbit(got)[same], np.signbit(want)[same])
    ulp = np.exp2(np.maximum(np.frexp(rounded[~infinite])[1] - 24, -149).astype(np.float64))
    off = abs(got[~infinite] - want[~infinite]) / ulp
    worst = (off / bound[~infinite]).argmax()
    assert off[worst] <= bound[~infinite][worst], f"{off[worst]:.1f} ulp at {x[~infinite][worst]!r}"


# Everything below is -0 or 0, or beyond all numbers; and what is tried above.
UNDERFLOW = {"silu": -770, "gelu": -40, "gelu_tanh": -22.5, "hardswish": -4, "exp": -750, "sigmoid": -750,
             "softplus": -750, "mish": -760}  # fmt: skip


@pytest.mark.parametrize("form", [form for form in FORMS if kernel_of(form)[0] in exact.FUNCTIONS], ids=str)
def test_over_all_of_float64(form, seed):
    rng = np.random.default_rng(seed)
    name, numbers = kernel_of(form)
    if name == "pow" and not numbers[1]:
        return
    count = 4000 if LONG else 150
    small = rng.standard_normal(count) * 10.0 ** rng.integers(-320, 0, count)
    small = np.where(small == 0, 5e-324, small)  # exact.py knows the sign of 0 only of powers
    near = (
        rng.uniform(UNDERFLOW.get(name, -40), 40, 4 * count),
        rng.uniform(-4, 4, 2 * count),
        rng.uniform(-1.2, 1.2, 4 * count),  # where formulas meet
        [5e-324, -5e-324, 3, -3, 0.5, -0.5],
        [0.0, -0.0] if name == "pow" else [],
    )
    x = np.concatenate([small, *near])
    if name == "log" or (name == "pow" and numbers[1] % 1):
        x = abs(x)
    want = exact.activated(name, x, *(numbers[:2] if name == "pow" else numbers))
    rounded = np.array([float(v) for v in want])
    finite = np.isfinite(rounded)
    ulp = np.exp2(np.maximum(np.frexp(rounded)[1] - 53, -1074.0))
    for isa in WHOLE_ISAS:
        got, bound = activated(form, isa, x), allowed(form, isa, x)
        same = bound < 1e14
        np.testing.assert_array_equal(np.signbit(got)[same], np.signbit(rounded)[same])
        np.testing.assert_array_equal(got[~finite], rounded[~finite])
        with localcontext() as context:
            context.prec = exact.DIGITS
            off = np.array([
                float(abs(Decimal(float(y)) - v) / Decimal(float(u))) if known else 0.0
                for y, v, u, known in zip(got, want, ulp, finite)
            ])  # fmt: skip
        worst = (off / bound).argmax()
        assert off[worst] <= bound[worst], f"{isa}: {off[worst]:.1f} ulp at {x[worst]!r}"


ENDS = {  # at -Inf, the least number, the largest, and Inf
    ("silu",): (-0.0, -0.0, 1, INF), ("gelu",): (-0.0, -0.0, 1, INF), ("gelu_tanh",): (-0.0, -0.0, 1, INF),
    ("hardswish",): (-0.0, -0.0, 1, INF), ("mish",): (-0.0, -0.0, 1, INF), ("swish", 1.5): (-0.0, -0.0, 1, INF),
    ("swish", -1.5): (-INF, -1, 0.0, 0.0), ("elu", 0.5): (-0.5, -0.5, 1, INF), ("tanh",): (-1.0, -1.0, 1.0, 1.0),
    ("sigmoid",): (0.0, 0.0, 1.0, 1.0), ("softplus",): (0.0, 0.0, 1, INF), ("exp",): (0.0, 0.0, INF, INF),
    ("hardsigmoid", 0.25, 0.5): (0.0, 0.0, 1.0, 1.0), ("hardswish", 0.25, 0.5): (-0.0, -0.0, 1, INF),
    ("hardswish", -0.25, 0.5): (-INF, -1, 0.0, 0.0), ("square",): (INF, INF, INF, INF), ("abs",): (INF, 1, 1, INF),
    ("pow", 1.0, 0.5): (INF, None, None, INF), ("pow", 1.0, 3.0): (-INF, -INF, INF, INF),
    ("pow", 1.0, -2.0): (0.0, 0.0, 0.0, 0.0), ("round",): (-INF, -1, 1, INF),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("isa", WHOLE_ISAS)
def test_what_they_tend_to(isa, dtype):
    most = np.finfo(dtype).max
    ends = np.array([-INF, -most, most, INF, np.nan], dtype)
    for form, want in ENDS.items():
        got = activated(form, isa, ends)
        for value, expected in zip(got, want):
            if expected is not None:
                expected = np.copysign(most, expected) if expected in (1, -1) and type(expected) is int else expected
                assert value == expected, (form, got)
                assert np.signbit(value) == np.signbit(expected), (form, got)
        assert np.isnan(got[4]), form


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("isa", WHOLE_ISAS)
def test_every_form_where_a_type_ends(isa, dtype):
    """The values of the reference, the signs of zeros too, at and beside zero, at the largest numbers, Inf and NaN."""
    limits = np.finfo(dtype)
    x = np.array([0, limits.smallest_subnormal, limits.tiny, 1, limits.max, INF])
    x = np.concatenate([x, -x, [np.nan]]).astype(dtype)
    for form in [*FORMS, *CUTS]:
        got = activated(form, isa, x)
        with np.errstate(all="ignore"):
            want = reference.activate(x.astype(float).reshape(1, 1, -1), form).reshape(-1).astype(dtype)
            near = (got == want) | (abs(got - want) <= 8 * np.spacing(abs(want))) | np.isnan(want)
        assert near.all(), (form, x[~near], got[~near], want[~near])
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want), err_msg=str(form))
        signs = np.signbit([got, want])[:, ~np.isnan(want)]
        np.testing.assert_array_equal(*signs, err_msg=str(form))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("isa", WHOLE_ISAS)
def test_powers_of_zeros_and_of_negative_numbers(isa, dtype):
    x = np.array([0.0, -0.0, -1, -2, -INF], dtype)
    for beta, want in {2: (0.0, 0.0, 1, 4, INF), 3: (0.0, -0.0, -1, -8, -INF), -1: (INF, -INF, -1, -0.5, -0.0),
                       0.5: (0.0, 0.0, np.nan, np.nan, INF), 0: (1, 1, 1, 1, 1)}.items():  # fmt: skip
        got = activated(("pow", 1, beta), isa, x)
        np.testing.assert_array_equal(got, np.array(want, dtype), err_msg=str(beta))
        np.testing.assert_array_equal(np.signbit(got)[~np.isnan(got)], np.signbit(want)[~np.isnan(got)])


def test_pixels_of_another_type_are_refused():
    y, add = np.zeros((2, 3)), np.zeros((2, 3), np.float32)
    for arrays in ((y,), (y, add), (add, y)):
        with pytest.raises(TypeError, match=r"epilogue: expected f32, got .*float64"):
            epilogue_pixels("f32", Epilogue([("clip", np.float32((0, 1)), None)]), *arrays)
