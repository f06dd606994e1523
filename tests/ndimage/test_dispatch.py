"""Filters in place of scipy's, as a backend of scikit-image, and on arrays of dask."""

import numpy as np
import pytest
import scipy.ndimage as scipy

import layoutkit.ndimage as ndi
from layoutkit.ndimage import dispatch

x = np.random.default_rng(0).random((40, 50))
disk = np.hypot(*np.mgrid[-2:3, -2:3]) <= 2


def test_in_place_of_scipy():
    from skimage import filters, morphology

    before = scipy.gaussian_filter
    calls = [
        lambda: filters.gaussian(x, 2), lambda: morphology.white_tophat(x, disk), lambda: scipy.zoom(x, 2, order=5),
        lambda: filters.sobel(x), lambda: scipy.median_filter(x, 3), lambda: scipy.gaussian_filter(x, 1),
    ]  # fmt: skip
    wants = [call() for call in calls]
    with ndi.in_place_of_scipy() as names:
        assert "gaussian_filter" in names and scipy.gaussian_filter is not before
        for call, want in zip(calls, wants):
            np.testing.assert_allclose(call(), want, rtol=1e-10, atol=1e-12)
    assert scipy.gaussian_filter is before


def test_backend_of_scikit_image():
    from skimage import filters

    assert set(dispatch.information().supported_functions) == {"skimage.filters:gaussian", "skimage.filters:median"}
    name = "skimage.filters:gaussian"
    assert dispatch.can_has(name, x, 2) and not dispatch.can_has(name, x.astype(np.uint8))
    assert not dispatch.can_has("skimage.filters:sobel", x)
    got = dispatch.get_implementation(name)(x, 2)
    np.testing.assert_allclose(got, filters.gaussian(x, 2), rtol=1e-12)
    assert dispatch.can_has("skimage.filters:median", image=x)
    assert not dispatch.can_has("skimage.filters:median", x, behavior="rank")
    np.testing.assert_array_equal(dispatch.get_implementation("skimage.filters:median")(x), filters.median(x))


CALLS = {
    "gaussian_filter": dict(sigma=1.5), "gaussian_filter1d": dict(sigma=2, axis=0), "uniform_filter": dict(size=5),
    "minimum_filter": dict(footprint=disk), "median_filter": dict(size=(3, 5)), "sobel": dict(axis=0), "laplace": {},
    "correlate": dict(weights=np.arange(12.0).reshape(3, 4), mode="constant"), "correlate1d": dict(weights=[1, 2, 4]),
    "white_tophat": dict(size=5), "binary_erosion": dict(iterations=2), "gaussian_laplace": dict(sigma=1),
    "maximum_filter1d": dict(size=4, mode="mirror"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_arrays_of_dask(name):
    da = pytest.importorskip("dask.array", reason="dask is not there for every Python")
    got = getattr(ndi, name)(da.from_array(x > 0.3 if name.startswith("binary") else x, chunks=(17, 20)), **CALLS[name])
    assert isinstance(got, da.Array)
    want = getattr(ndi, name)(x > 0.3 if name.startswith("binary") else x, **CALLS[name])
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.compute(scheduler="sync"), want, rtol=1e-12, atol=1e-12)


def test_what_arrays_of_dask_cannot_do():
    da = pytest.importorskip("dask.array", reason="dask is not there for every Python")
    a = da.from_array(x, chunks=20)
    for call in (
        lambda: ndi.gaussian_filter(a, 1, mode="wrap"), lambda: ndi.binary_erosion(a > 0, iterations=-1),
        lambda: ndi.gaussian_filter(a, 1, output=np.zeros(x.shape)), lambda: ndi.spline_filter(a),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError):
            call()
