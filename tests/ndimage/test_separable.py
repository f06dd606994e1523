"""Filters of one axis after another are those of scipy: any shapes, types, strides, modes, origins."""

import warnings

import numpy as np
import pytest
import scipy.ndimage as scipy
from conftest import NEST_ISAS, fewer
from filtered import axes_of, compare, dtypes, images, isas, modes, outsides, threads
from hypothesis import assume, given
from hypothesis import strategies as st

import layoutkit.ndimage as ndi

long_sizes = st.sampled_from([16, 24, 31, 50, 127])  # of windows that are made of shorter ones


@given(st.data(), isas, threads)
def test_gaussian(data, isa, threads):
    x = data.draw(images(special=True))
    axes = data.draw(axes_of(x.ndim))
    n = len(axes)
    sigmas = st.floats(0.1, 3) | st.just(0.0)
    orders = st.sampled_from([0, 0, 0, 1, 2])
    order, output = data.draw(orders | st.lists(orders, min_size=n, max_size=n)), data.draw(st.none() | dtypes)
    assume(
        "uint64" not in (output or x.dtype, x.dtype) or not np.any(order)
    )  # of negative numbers casts are not defined
    compare(
        "gaussian_filter", x, data.draw(sigmas | st.lists(sigmas, min_size=n, max_size=n)), isa=isa, threads=threads,
        order=order, axes=axes, scale=400.0,
        radius=data.draw(st.none() | st.integers(0, 6)), output=output,
        truncate=data.draw(st.sampled_from([4.0, 2.0])), **data.draw(outsides(n)),
    )  # fmt: skip


@given(st.data(), isas, threads)
def test_correlation_along_an_axis(data, isa, threads):
    x = data.draw(images(special=True))
    size = data.draw(st.integers(1, 12))
    weights = np.round(np.random.default_rng(data.draw(st.integers(0, 99))).standard_normal(size), 2)
    if data.draw(st.booleans()):  # symmetric, or the negative
        weights = weights + data.draw(st.sampled_from([1, -1])) * weights[::-1]
    convolve = data.draw(st.booleans())
    origin = data.draw(st.integers(-(size // 2), (size - 1) // 2))
    compare(
        "convolve1d" if convolve else "correlate1d", x, weights, data.draw(st.integers(-x.ndim, x.ndim - 1)), isa=isa,
        threads=threads, scale=20.0, output=data.draw(st.none() | dtypes), mode=data.draw(modes), cval=2.5,
        origin=(-origin - (size % 2 == 0)) if convolve else origin,
    )  # fmt: skip


@pytest.mark.parametrize("weights", [[1e308] * 3, [1e308] * 2, [1e308, 0, -1e308], [np.inf] * 3, [np.nan, 1]])
@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_weights_whose_sums_overflow_warn_no_more_than_scipy(weights, dtype):
    image = np.zeros((3, 4), dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call, given in ((ndi.correlate1d, weights), (ndi.correlate, [weights])):
            call(image, given)


@given(st.data(), isas, threads)
def test_means(data, isa, threads):
    x = data.draw(images())
    axes = data.draw(axes_of(x.ndim))
    sizes = [data.draw(st.integers(1, 12) | long_sizes) for _ in axes]
    output = data.draw(st.none() | dtypes)
    if output is not None and np.dtype(output).kind not in "fc" and x.dtype.kind == "f":
        # scipy's running sum of fractions loses bits, and may miss a whole number
        x = np.rint(x, out=x if x.flags.writeable else None)
    compare(
        "uniform_filter", x, sizes, isa=isa, threads=threads, axes=axes, output=output,
        scale=2.0, **data.draw(outsides(len(axes))),
        origin=[data.draw(st.integers(-(s // 2), (s - 1) // 2)) for s in sizes],
    )  # fmt: skip


@pytest.mark.parametrize("name", ["minimum_filter1d", "maximum_filter1d"])
@given(st.data(), isas, threads)
def test_extremes_along_an_axis(name, data, isa, threads):
    x = data.draw(images())
    size = data.draw(st.integers(1, 20) | long_sizes)
    compare(
        name, x, size, data.draw(st.integers(-x.ndim, x.ndim - 1)), isa=isa, threads=threads, scale=0,
        mode=data.draw(modes), cval=data.draw(st.sampled_from([0.0, 70.0, 2.5])),
        origin=data.draw(st.integers(-(size // 2), (size - 1) // 2)),
    )  # fmt: skip


@given(images(st.sampled_from(["float32", "float64"]), special=True), st.integers(2, 6) | long_sizes)
def test_nan_stays_in_its_windows(x, size):
    before = size // 2
    padded = np.pad(x, [(before, size - 1 - before), *[(0, 0)] * (x.ndim - 1)], "edge") if x.size else x
    assume(x.size)
    windows = np.lib.stride_tricks.sliding_window_view(padded, size, 0)
    with np.errstate(invalid="ignore"):
        mean = ndi.uniform_filter1d(x, size, 0, mode="nearest")
        np.testing.assert_array_equal(np.isnan(mean), np.isnan(windows.mean(-1)))
    for ours, numpys in ((ndi.minimum_filter1d, np.fmin), (ndi.maximum_filter1d, np.fmax)):
        np.testing.assert_array_equal(ours(x, size, 0, mode="nearest"), numpys.reduce(windows, -1))


@fewer(2)
@given(st.data())
def test_complex_numbers(data):
    x = data.draw(images(st.just("float64"), ranks=(1, 2)))
    z = (x + 1j * np.roll(x, 1, 0)).astype(data.draw(st.sampled_from(["complex64", "complex128"])))
    weights = np.array([1, 2 - 1j, 0.5j]) if data.draw(st.booleans()) else np.array([1, 2, 0.5])
    for name, args in (("correlate1d", [weights]), ("convolve1d", [weights]), ("gaussian_filter", [1.0]),
                       ("uniform_filter", [3])):  # fmt: skip
        compare(name, z, *args, isa=NEST_ISAS[0], threads=1, mode="constant", cval=1.0, scale=40.0)
    compare("correlate1d", x, np.array([1, 1j]), isa=NEST_ISAS[0], threads=1, scale=40.0)


@fewer(2)
@given(st.data(), st.integers(2, 4))
def test_any_number_of_threads_gives_the_same_bits(data, threads):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.standard_normal(data.draw(st.sampled_from([(90, 70, 60), (700, 500), (30, 20, 30, 20), (200_000,)])))
    x = x.astype(data.draw(st.sampled_from(["float32", "float64", "int16"])))
    for run in (lambda t: ndi.gaussian_filter(x, 1.5, threads=t), lambda t: ndi.uniform_filter(x, 4, threads=t),
                lambda t: ndi.uniform_filter(x, 40, threads=t)):  # fmt: skip
        np.testing.assert_array_equal(run(threads), run(1))


@fewer(2)
@given(st.data(), st.integers(1, 12), st.sampled_from(["uniform_filter", "gaussian_filter"]))
def test_results_do_not_depend_on_where_they_are(data, size, name):
    """Those of a part of an array, stored anywhere, are bits of those of the whole, as dask arrays need it."""
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    shape = data.draw(st.sampled_from([(40, 203), (9, 33, 150), (3, 1000)]))
    x = rng.standard_normal(shape, data.draw(st.sampled_from([np.float32, np.float64])))
    way = dict(size=size) if name == "uniform_filter" else dict(sigma=size / 4, radius=size)
    whole, reach = getattr(ndi, name)(x, **way), size + 1
    cut = tuple(slice(data.draw(st.integers(0, n // 3)), data.draw(st.integers(2 * n // 3, n))) for n in shape)
    around = tuple(slice(max(0, c.start - reach), min(n, c.stop + reach)) for c, n in zip(cut, shape))
    part = x[around].copy()
    room = np.empty(part.size + 5, x.dtype)[data.draw(st.integers(0, 5)) :][: part.size].reshape(part.shape)
    getattr(ndi, name)(part, output=room, **way)
    inside = tuple(slice(c.start - a.start, c.stop - a.start) for c, a in zip(cut, around))
    np.testing.assert_array_equal(room[inside], whole[cut])


def test_outputs():
    x = np.arange(30.0).reshape(5, 6)
    want = scipy.gaussian_filter(x, 1)
    same = x.copy()
    assert ndi.gaussian_filter(same, 1, output=same) is same  # in place
    np.testing.assert_allclose(same, want, rtol=1e-13)
    wide = np.zeros((5, 12), np.float32)[:, ::2]
    assert ndi.gaussian_filter(x, 1, output=wide) is wide
    np.testing.assert_allclose(wide, want, rtol=1e-6)
    swapped = np.zeros((5, 6), ">f4")
    for name, args in (
        ("gaussian_filter", (1,)),
        ("minimum_filter", (3,)),
        ("correlate", ([[1, 2]],)),
        ("shift", (1,)),
    ):
        getattr(ndi, name)(x.astype(">f8"), *args, output=swapped)
        np.testing.assert_allclose(swapped, getattr(scipy, name)(x, *args), rtol=1e-5, atol=1e-12)
    assert ndi.gaussian_filter(x.tolist(), 1).dtype == np.float64
    assert ndi.gaussian_filter(x, 1, output="f4").dtype == np.float32
    np.testing.assert_array_equal(ndi.gaussian_filter(x, 0), x)


def test_channels():
    x = np.random.default_rng(0).random((3, 20, 30))
    for at in (0, 1, 2, -1):
        got = np.moveaxis(ndi.gaussian_filter(np.moveaxis(x, 0, at), 2, channel_axis=at), at, 0)
        np.testing.assert_allclose(got, [scipy.gaussian_filter(c, 2) for c in x], rtol=1e-12)


def test_torch():
    torch = pytest.importorskip("torch", reason="torch is not there for every Python")
    x = torch.arange(12.0).reshape(3, 4)
    got = ndi.gaussian_filter(x, 1)
    assert isinstance(got, torch.Tensor)
    np.testing.assert_allclose(got.numpy(), scipy.gaussian_filter(x.numpy(), 1), rtol=1e-5)
    out = torch.zeros(3, 4)
    assert ndi.uniform_filter(x, 3, output=out) is out
    np.testing.assert_allclose(out.numpy(), scipy.uniform_filter(x.numpy(), 3), rtol=1e-5)


x = np.zeros((4, 5))


@pytest.mark.parametrize("call, error, text", [
    (lambda: ndi.gaussian_filter(x, [1, 2, 3]), RuntimeError, "sigma: expected one, or one for each of 2 axes, got 3"),
    (lambda: ndi.gaussian_filter(x, "a"), TypeError, "sigma: expected a number, or one for each of 2 axes, got 'a'"),
    (lambda: ndi.gaussian_filter1d(x, None), TypeError, "gaussian_filter1d: sigma: expected a number"),
    (lambda: ndi.gaussian_filter(x, 1, mode="edge"), RuntimeError, "mode must be one of reflect"),
    (lambda: ndi.gaussian_filter(x, 1, order=-1), ValueError, "order must be non-negative, got -1"),
    (lambda: ndi.gaussian_filter(x, 1, radius=-1), ValueError, "radius must be a nonnegative integer, got -1"),
    (lambda: ndi.gaussian_filter(x, 1, axes=(0, 2)), np.exceptions.AxisError, "axis 2 is out of range"),
    (lambda: ndi.gaussian_filter(x, 1, axes=(0, -2)), ValueError, "must be unique"),
    (lambda: ndi.gaussian_filter(x, 1, axes=(0,), channel_axis=1), ValueError, "both given"),
    (lambda: ndi.gaussian_filter(x, 1, output=np.zeros((4, 4))), RuntimeError, r"shape \(4, 5\), got \(4, 4\)"),
    (lambda: ndi.gaussian_filter(np.array(["a"]), 1), RuntimeError, "gaussian_filter: input of dtype <U1"),
    (lambda: ndi.gaussian_filter(np.zeros(3, np.longdouble), 1), RuntimeError, "is not supported"),
    (lambda: ndi.correlate1d(x, []), RuntimeError, "no filter weights"),
    (lambda: ndi.correlate1d(x, [1, 2], origin=1), ValueError, "of 2 elements it must be from -1 to 0"),
    (lambda: ndi.correlate1d(x, [1], cval=1j), ValueError, "a complex cval"),
    (lambda: ndi.correlate1d(x, [1j], output=np.zeros((4, 5))), RuntimeError, "complex dtype"),
    (lambda: ndi.uniform_filter(x, 0), RuntimeError, "incorrect filter size 0, expected at least 1"),
    (lambda: ndi.uniform_filter1d(x, 1, mode="edge"), RuntimeError, "mode must be one of reflect"),
    (lambda: ndi.minimum_filter1d(x, 1, origin=1), ValueError, "of 1 elements it must be from 0 to 0"),
    (lambda: ndi.minimum_filter1d(x + 1j, 3), TypeError, "have no order"),
    (lambda: ndi.gaussian_filter(x, 1, threads=0), ValueError, "threads"),
])  # fmt: skip
def test_errors_help(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "float32", "float64"])
def test_constants_outside_of_volumes(dtype):
    volume = np.random.default_rng(0).integers(0, 100, (7, 9, 70)).astype(dtype)
    for name, args in (("gaussian_filter", [1.0]), ("uniform_filter", [3]), ("sobel", [0]), ("minimum_filter", [3])):
        got, want = (getattr(lib, name)(volume, *args, mode="constant", cval=5.0) for lib in (ndi, scipy))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)
    got, want = (lib.gaussian_filter(volume, 1, [0, 1], mode="constant", cval=5.0, axes=(2, 0)) for lib in (ndi, scipy))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32"])
def test_means_of_constants_are_these_constants(dtype):
    for size in range(1, 70):  # of some the reciprocal is too small
        constant = np.full((3, 80), 97, dtype)
        np.testing.assert_array_equal(ndi.uniform_filter1d(constant, size), constant)
        np.testing.assert_array_equal(ndi.uniform_filter1d(constant, size, 0), constant)
