"""Values between elements are those of scipy: zooms, shifts, affine maps, lists of points, spline coefficients."""

import numpy as np
import pytest
import scipy.ndimage as scipy
from conftest import using_isa
from filtered import images, isas, threads
from hypothesis import example, given
from hypothesis import strategies as st

import layoutkit.ndimage as ndi

MODES = ["reflect", "grid-mirror", "constant", "grid-constant", "nearest", "mirror", "grid-wrap", "wrap"]
SHORT = 16  # of which scipy begins its recursion, for "reflect", with what is not quite so: constants change
dtypes = st.sampled_from(["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"])
arrays = images(dtypes, ranks=(1, 2, 3), empty=False)


@st.composite
def options(draw):
    """Orders and what is outside."""
    return dict(
        order=draw(st.sampled_from([0, 1, 3])), mode=draw(st.sampled_from(MODES)),
        cval=draw(st.sampled_from([0.0, 7.0])), prefilter=draw(st.booleans()),
    )  # fmt: skip


def compare(name, x, *args, isa, threads, **keywords):
    """Results are scipy's; integers may be rounded to the other side where its double is halfway between two."""
    if min(x.shape) < SHORT and keywords["mode"] in ("reflect", "grid-mirror"):
        keywords["prefilter"] = False
    want = getattr(scipy, name)(np.array(x), *args, output=np.float64, **keywords)
    with using_isa(isa):
        got = getattr(ndi, name)(x, *args, threads=threads, **keywords)
    assert got.shape == want.shape and got.dtype == x.dtype
    if x.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-3 if x.dtype == np.float32 else 1e-8)
        return
    limits = np.iinfo(x.dtype)
    low, high = (np.clip(np.trunc(want + np.copysign(0.5, want) + e), limits.min, limits.max) for e in (-1e-6, 1e-6))
    assert np.all((got == low) | (got == high))


factors = st.floats(0.3, 2.5)


@given(st.data(), arrays, options(), st.booleans(), isas, threads)
@pytest.mark.filterwarnings("ignore:It is recommended", "ignore:zoom. with grid_mode")
def test_zoom(data, x, options, grid_mode, isa, threads):
    zoom = data.draw(factors | st.lists(factors, min_size=x.ndim, max_size=x.ndim))
    compare("zoom", x, zoom, isa=isa, threads=threads, grid_mode=grid_mode, **options)


real_or_bool = images(st.sampled_from(["bool", "float64"]), ranks=(1, 2), empty=False)


flat = np.tile([100.0, 0, -0.0, -60, 120, 120, 100, 100], (8, 1))  # weights of equal rows: their roundings are seen


@given(
    real_or_bool, st.integers(0, 99), st.sampled_from([1, 1, 9]), st.integers(0, 1), st.sampled_from(MODES), isas,
    threads,
)  # fmt: skip
@example(flat, 1, 1, 1, "nearest", "portable", 1)  # points more than three elements outside
def test_linear_affine_maps_have_the_roundings_of_scipy(x, seed, far, order, mode, isa, threads):
    rng = np.random.default_rng(seed)
    given = np.eye(x.ndim) + 0.2 * rng.standard_normal((x.ndim, x.ndim)), far * rng.standard_normal(x.ndim)
    rest = dict(order=order, mode=mode)
    with using_isa(isa):
        got = ndi.affine_transform(x, *given, threads=threads, **rest)
    np.testing.assert_array_equal(got, scipy.affine_transform(np.array(x), *given, **rest))


@pytest.mark.parametrize("order", [0, 1, 3])
def test_points_far_outside_are_at_the_edge(order):
    far = np.array([[-np.inf, -1e300, -1e16, -1e6 - 0.3, 1e6 + 0.3, 1e16, 1e300, np.inf]])
    x = np.array([100.0, 50, 120])
    got = ndi.map_coordinates(x, far, order=order, mode="nearest")
    np.testing.assert_allclose(got, [100.0] * 4 + [120.0] * 4, rtol=1e-6)  # splines, of 12 elements more: almost
    got = ndi.map_coordinates(x, far, order=order, mode="grid-constant", cval=7)
    np.testing.assert_allclose(got, 7, rtol=1e-6)


@pytest.mark.parametrize("cval", [300, -1, 2.5, 255.5, 1e9, np.nan, np.inf])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_constants_that_bytes_do_not_hold(cval):
    x = np.random.default_rng(0).integers(0, 250, (6, 7)).astype(np.uint8)
    for name, argument in (("zoom", 1.7), ("shift", 1.3), ("affine_transform", [[1.1, 0.1], [0, 0.9]])):
        for order in (0, 1, 3):
            rest = dict(order=order, mode="grid-constant", cval=cval)
            want = getattr(scipy, name)(x, argument, **rest)
            np.testing.assert_array_equal(getattr(ndi, name)(x, argument, **rest), want)


@given(
    images(st.sampled_from(["uint8", "int8", "uint16", "int16"]), ranks=(1, 2, 3), empty=False),
    st.data(),
    isas,
    threads,
)
@pytest.mark.filterwarnings("ignore:It is recommended", "ignore:zoom. with grid_mode")
def test_linear_zooms_of_small_integers_are_equal(x, data, isa, threads):
    if data.draw(st.booleans()):
        x = (x.astype(np.int64) * 257).astype(x.dtype)  # all numbers of the type
    zoom = data.draw(st.lists(factors | st.sampled_from([0.5, 2.0, 4.0]), min_size=x.ndim, max_size=x.ndim))
    rest = dict(cval=data.draw(st.sampled_from([0.0, 7.4, -2.5])), grid_mode=data.draw(st.booleans()))
    rest |= dict(order=1, mode=data.draw(st.sampled_from(MODES)))
    want = scipy.zoom(np.array(x), zoom, **rest)
    with using_isa(isa):
        np.testing.assert_array_equal(ndi.zoom(x, zoom, threads=threads, **rest), want)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("order", [0, 1, 3])
@pytest.mark.parametrize("mode", ["constant", "grid-constant"])
@pytest.mark.parametrize("cval", [np.nan, np.inf, -np.inf, 1e30, 300.7, -300.7])
@pytest.mark.filterwarnings("error")
def test_constants_that_small_integers_do_not_hold(dtype, order, mode, cval):
    x = np.arange(12, dtype=dtype).reshape(3, 4)
    for name, argument in (("zoom", 1.7), ("shift", 1.4), ("affine_transform", [[1, 0.2], [0.3, 1.1]])):
        got = getattr(ndi, name)(x, argument, order=order, mode=mode, cval=cval)
        try:
            with np.errstate(invalid="ignore"):
                want = getattr(scipy, name)(x, np.asarray(argument), order=order, mode=mode, cval=cval)
        except (ValueError, OverflowError):  # where scipy pads an array with it, before splines
            assert mode == "grid-constant" and order == 3
            continue
        np.testing.assert_array_equal(got, want)


@given(st.data(), arrays, options(), isas, threads)
def test_shift(data, x, options, isa, threads):
    far = data.draw(st.lists(st.floats(-20, 20).map(lambda v: round(v, 3)), min_size=x.ndim, max_size=x.ndim))
    compare("shift", x, far, isa=isa, threads=threads, **options)


@given(arrays, options(), st.integers(0, 999), st.sampled_from(["full", "diagonal", "homogeneous"]), isas, threads)
def test_affine_transform(x, options, seed, form, isa, threads):
    rng = np.random.default_rng(seed)
    n = x.ndim
    matrix, offset = np.eye(n) + 0.3 * rng.standard_normal((n, n)), 3 * rng.standard_normal(n)
    if form == "diagonal":
        matrix = rng.random(n) + 0.5
    elif form == "homogeneous":
        matrix = np.vstack([np.column_stack([matrix, offset]), [0] * n + [1]])
    shape = tuple(rng.integers(1, 20, n)) if seed % 2 else None
    compare("affine_transform", x, matrix, offset, shape, isa=isa, threads=threads, **options)


@given(arrays, options(), st.integers(0, 999), isas, threads)
def test_map_coordinates(x, options, seed, isa, threads):
    rng = np.random.default_rng(seed)
    points = rng.random((x.ndim, *rng.integers(1, 30, rng.integers(1, 3)))) * 60 - 20
    if options["mode"] == "constant" or seed % 3 == 0:
        points = np.round(points)  # elements themselves
    compare("map_coordinates", x, points, isa=isa, threads=threads, **options)


@given(st.data(), images(st.sampled_from(["uint8", "float32", "float64"]), ranks=(1, 2, 3), empty=False), threads)
def test_spline_coefficients(data, x, threads):
    mode = data.draw(st.sampled_from(["mirror", "grid-wrap"] + ["reflect"] * (min(x.shape) >= SHORT)))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    got, want = (lib.spline_filter1d(np.array(x), 3, axis, mode=mode) for lib in (ndi, scipy))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-9)
    got, want = ndi.spline_filter(x, mode=mode, threads=threads), scipy.spline_filter(np.array(x), mode=mode)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-9)


def test_complex_numbers_and_outputs():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((9, 8)) + 1j * rng.standard_normal((9, 8))
    np.testing.assert_allclose(ndi.zoom(z, 2), scipy.zoom(z, 2), atol=1e-12)
    out = np.zeros((18, 16), np.float32)
    assert ndi.zoom(z.real, 2, output=out) is out
    np.testing.assert_allclose(out, scipy.zoom(z.real, 2), atol=1e-5)
    np.testing.assert_array_equal(ndi.zoom(z.real, 1), z.real)
    assert ndi.map_coordinates(z.real, [[0, np.nan, np.inf], [0, 0, 0]], order=1, mode="nearest").shape == (3,)


def test_threads_give_the_same_bits():
    x = np.random.default_rng(0).random((200, 300)).astype(np.float32)
    want = ndi.affine_transform(x, [[0.9, 0.2], [-0.2, 0.9]], threads=1)
    for most in (2, 3):
        np.testing.assert_array_equal(ndi.affine_transform(x, [[0.9, 0.2], [-0.2, 0.9]], threads=most), want)


x = np.zeros((4, 5))


@pytest.mark.parametrize("call, error, text", [
    (lambda: ndi.zoom(x, 2, order=2), NotImplementedError, "spline order 2, expected 0, 1 or 3"),
    (lambda: ndi.zoom(x, 2, order=9), RuntimeError, "spline order 9"),
    (lambda: ndi.zoom(x, 2, mode="edge"), RuntimeError, "mode must be one of"),
    (lambda: ndi.zoom(x, [2, 2, 2]), RuntimeError, "one for each of 2 axes"),
    (lambda: ndi.zoom(x, -1), ValueError, "zoom must be finite and not negative, got -1"),
    (lambda: ndi.zoom(x, [2, np.nan]), ValueError, "zoom must be finite"),
    (lambda: ndi.zoom(x, "2x"), TypeError, "zoom: expected a number, or one for each of 2 axes, got '2x'"),
    (lambda: ndi.shift(x, [1, None]), TypeError, "shift: expected a number"),
    (lambda: ndi.affine_transform(x, np.eye(2), 1j), TypeError, "offset: expected a number"),
    (lambda: ndi.zoom(np.zeros(()), 2), RuntimeError, "rank must be > 0"),
    (lambda: ndi.shift(np.zeros(()), 2), RuntimeError, "rank must be > 0"),
    (lambda: ndi.affine_transform(x, np.eye(3)[:, :2]), RuntimeError, "wrong number of rows, 3 for 2 axes"),
    (lambda: ndi.affine_transform(x, np.ones((3, 3))), ValueError, "the last row"),
    (lambda: ndi.affine_transform(x, np.ones((2, 1))), RuntimeError, "wrong number of columns"),
    (lambda: ndi.affine_transform(x, 3.0), RuntimeError, "no proper affine matrix"),
    (lambda: ndi.map_coordinates(x, np.zeros((3, 4))), RuntimeError, "coordinates of shape"),
    (lambda: ndi.map_coordinates(x, np.zeros((2, 4)) + 1j), TypeError, "complex coordinates"),
    (lambda: ndi.map_coordinates(x, np.zeros(2)), RuntimeError, "rank must be > 0"),
    (lambda: ndi.map_coordinates(np.zeros((0, 5)), np.zeros((2, 3))), RuntimeError, "no elements"),
    (lambda: ndi.spline_filter(x, 1), RuntimeError, "has no filter"),
])  # fmt: skip
def test_errors_help(call, error, text):
    with pytest.raises(error, match=text):
        call()
