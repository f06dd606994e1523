"""Correlations with large windows: only where asked for, products of spectra, nearly scipy's sums, chosen by cost."""

import numpy as np
import pytest
import scipy.ndimage as scipy
from conftest import fewer
from filtered import axes_of, images, modes
from hypothesis import assume, given
from hypothesis import strategies as st

import layoutkit.ndimage as ndi
from layoutkit.ndimage import weighing

floats = st.sampled_from(["float32", "float64", "float16", "int32", "bool"])


@fewer(2)
@given(images(floats, empty=True), st.data(), modes, st.sampled_from([1, 2]))
def test_spectra(x, data, mode, threads):
    axes = tuple(sorted(a % x.ndim for a in data.draw(axes_of(x.ndim))))
    shape = [data.draw(st.integers(1, max(1, min(9, 2 * x.shape[a])))) for a in axes]  # scipy's longer ones are wrong
    assume(max(shape) > 1)
    weights = np.random.default_rng(data.draw(st.integers(0, 99))).standard_normal(shape)
    origin = [data.draw(st.integers(-(n // 2), (n - 1) // 2)) for n in shape]
    output = data.draw(st.sampled_from(["float32", "float64"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weighing, "LEAST_COUNT", 0)
        patch.setattr(weighing, "way_of", lambda problem: weighing.SPECTRA)
        got = ndi.correlate(x, weights, output, mode, 2.5, origin, axes=axes, fft=True, threads=threads)
    exact = np.array(x, np.float64)
    want = scipy.correlate(exact, weights, np.float64, mode, 2.5, origin, axes=axes)
    assert got.dtype == output
    bound = 300 * np.abs(weights).sum() * (np.finfo(output).eps if output == "float32" else 1e-14)
    np.testing.assert_allclose(got, want, rtol=0, atol=bound)


def test_blocks_join(monkeypatch):
    monkeypatch.setattr(weighing, "way_of", lambda problem: weighing.SPECTRA)
    rng = np.random.default_rng(0)
    for shape, window in (((70_000,), (90,)), ((1100, 30), (11, 9)), ((20, 230, 21), (3, 7, 9))):
        x, weights = rng.standard_normal(shape), rng.standard_normal(window)
        want = scipy.correlate(x, weights, mode="mirror")
        np.testing.assert_allclose(ndi.correlate(x, weights, mode="mirror", fft=True), want, rtol=0, atol=1e-11)
        ndi.correlate(x, weights, x, mode="mirror", fft=True)  # in place
        np.testing.assert_allclose(x, want, rtol=0, atol=1e-11)


def test_the_cost_chooses():
    assert weighing.way_of(weighing.CorrelationProblem((2000, 2000), (9, 9), 81, "f32")) == weighing.DIRECT
    assert weighing.way_of(weighing.CorrelationProblem((2000, 2000), (101, 101), 10201, "f32")) == weighing.SPECTRA
    problem = weighing.CorrelationProblem((20, 30), (9, 9), 81, "f64")
    run = problem.prepare()
    for candidate in problem.candidates():
        run(candidate.build())()  # as tuning measures it


@pytest.mark.parametrize("correlates", ["correlate", "convolve"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_unless_asked(correlates, dtype, monkeypatch):
    monkeypatch.setattr(weighing, "way_of", lambda problem: weighing.SPECTRA)
    sums = getattr(ndi, correlates)
    x, mean = np.random.default_rng(0).random((120, 130)).astype(dtype), np.full((21, 21), 1 / 441)
    x[0, 0] = -3e38
    want = getattr(scipy, correlates)(x.astype(np.float64), mean)
    np.testing.assert_allclose(sums(x, mean)[30:, 30:], want[30:, 30:], rtol=1e-5)
    assert not np.allclose(sums(x, mean, fft=True)[30:, 30:], want[30:, 30:], rtol=1e-5)  # the patch reaches it
    whole = np.zeros((120, 130), dtype)
    whole[:40, :40] = np.random.default_rng(0).integers(0, 9, (40, 40))
    np.testing.assert_array_equal(sums(whole, np.ones((21, 21))), getattr(scipy, correlates)(whole, np.ones((21, 21))))
    assert sums(whole, mean).min() == 0
    bytes_ = (x.clip(0, 1) * 200).astype(np.uint8)  # which spectra are not for
    np.testing.assert_array_equal(sums(bytes_, mean, fft=True), getattr(scipy, correlates)(bytes_, mean))


def test_spectra_are_as_precise_as_stated(monkeypatch):
    monkeypatch.setattr(weighing, "way_of", lambda problem: weighing.SPECTRA)
    rng = np.random.default_rng(0)
    for shape, window in (((70_000,), (91,)), ((500, 520), (21, 9)), ((70, 80, 60), (5, 7, 3))):
        x, one = np.sign(rng.standard_normal(shape)) * 1e10, np.full(window, 1e-12)
        one[tuple(n // 2 for n in window)] = 1  # nearly all of one element: roundings of a block weigh most
        got, want = ndi.correlate(x, one, fft=True), ndi.correlate(x, one)
        error = np.abs(got - want).max()
        assert 0 < error <= 32 * np.finfo(float).eps * 1e10 * one.sum()


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_what_is_not_finite_stays_where_it_is(value, monkeypatch):
    monkeypatch.setattr(weighing, "way_of", lambda problem: weighing.SPECTRA)
    x, weights = np.random.default_rng(0).standard_normal((60, 70)), np.ones((9, 9))
    x[30, 40] = value
    want = scipy.correlate(x, weights)
    np.testing.assert_allclose(ndi.correlate(x, weights, fft=True), want, rtol=1e-12, atol=1e-12)
    x[30, 40] = 0
    got = ndi.correlate(x, weights, mode="constant", cval=value, fft=True)
    want = scipy.correlate(x, weights, mode="constant", cval=value)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
