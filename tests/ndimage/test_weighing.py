"""Correlations with large windows: only where asked for, products of spectra, nearly scipy's sums, chosen by cost."""

import numpy as np
import pytest
import scipy.ndimage as scipy
from conftest import fewer
from filtered import axes_of, images, modes
from hypothesis import assume, given
from hypothesis import strategies as st

import layoutkit.ndimage as ndi
from layoutkit.choosing import repeats
from layoutkit.ndimage import weighing

floats = st.sampled_from(["float32", "float64", "float16", "int32", "bool"])


def windows_for(x, data):
    """Axes, weights along them, and an origin."""
    axes = tuple(sorted(a % x.ndim for a in data.draw(axes_of(x.ndim))))
    shape = [data.draw(st.integers(1, max(1, min(9, 2 * x.shape[a])))) for a in axes]  # scipy's longer ones are wrong
    weights = np.random.default_rng(data.draw(st.integers(0, 99))).standard_normal(shape)
    return axes, weights, [data.draw(st.integers(-(n // 2), (n - 1) // 2)) for n in shape]


def check(got, x, weights, mode, cval, origin, axes):
    """As precise as sums of doubles, or of float32 where results are."""
    want = scipy.correlate(np.array(x, np.float64), weights, np.float64, mode, cval, origin, axes=axes)
    bound = 300 * np.abs(weights).sum() * (np.finfo(np.float32).eps if got.dtype == np.float32 else 1e-14)
    np.testing.assert_allclose(got, want, rtol=0, atol=bound)


@fewer(2)
@given(images(floats, empty=True), st.data(), modes, st.sampled_from([1, 2]))
def test_spectra(x, data, mode, threads):
    axes, weights, origin = windows_for(x, data)
    assume(weights.size > 1)
    output = data.draw(st.sampled_from(["float32", "float64"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weighing, "LEAST_COUNT", 0)
        patch.setattr(weighing, "way_of", lambda problem: weighing.SPECTRA)
        got = ndi.correlate(x, weights, output, mode, 2.5, origin, axes=axes, fft=True, threads=threads)
    assert got.dtype == output
    check(got, x, weights, mode, 2.5, origin, axes)


@fewer(2)
@given(images(floats, empty=True), st.data(), modes, st.sampled_from([1, 2]), st.booleans())
def test_weights_that_are_products(x, data, mode, threads, whole):
    axes = tuple(sorted(a % x.ndim for a in data.draw(axes_of(x.ndim))))
    shape = [data.draw(st.integers(1, max(1, min(9, 2 * x.shape[a])))) for a in axes]  # scipy's longer ones are wrong
    assume(max(shape) > 1)
    rng, weights = np.random.default_rng(data.draw(st.integers(0, 99))), np.ones(())
    for n in shape:
        along = rng.integers(1, 4, n) * rng.choice([-1, 1], n) if whole else rng.standard_normal(n)
        weights = np.multiply.outer(weights, along)
    origin = [data.draw(st.integers(-(n // 2), (n - 1) // 2)) for n in shape]
    output, ways = data.draw(st.sampled_from(["float32", "float64"])), []
    with pytest.MonkeyPatch.context() as patch:
        repeats.calls.clear()  # of other examples
        patch.setattr(weighing, "LEAST_FACTORED", 0)
        patch.setattr(weighing, "way_of", lambda problem: ways.append(problem) or weighing.FACTORED)
        got = ndi.correlate(x, weights, output, mode, 0.0, origin, axes=axes, threads=threads)
    assert len(ways) == bool(x.size)
    exact = np.array(x, np.float64)
    want = scipy.correlate(exact, weights, np.float64, mode, 0.0, origin, axes=axes)
    bound = 300 * np.abs(weights).sum() * (np.finfo(output).eps if output == "float32" else 1e-14)
    np.testing.assert_allclose(got, want, rtol=0, atol=bound)
    if whole and exact.size and (exact == np.rint(exact)).all() and abs(exact).max() * abs(weights).sum() < 2**24:
        np.testing.assert_array_equal(got, want)


@fewer(2)
@given(images(floats, empty=True), st.data(), modes, st.sampled_from([1, 2]))
def test_products(x, data, mode, threads):
    axes, weights, origin = windows_for(x, data)
    assume(max(weights.shape) < weights.size and sum(n > 1 for n in weights.shape) <= 3)
    output, ways = data.draw(st.sampled_from(["float32", "float64"])), []
    with pytest.MonkeyPatch.context() as patch:
        repeats.calls.clear()
        patch.setattr(weighing, "LEAST_DENSE", 0)
        patch.setattr(weighing, "way_of", lambda problem: ways.append(problem) or weighing.PRODUCTS)
        got = ndi.correlate(x, weights, output, mode, 2.5, origin, axes=axes, threads=threads)
        np.testing.assert_array_equal(
            got, ndi.correlate(x, weights, output, mode, 2.5, origin, axes=axes, threads=3 - threads)
        )
    assert len(ways) == 2 * bool(x.size) and got.dtype == output
    check(got, x, weights, mode, 2.5, origin, axes)


def test_what_is_no_product(monkeypatch):
    monkeypatch.setattr(weighing, "way_of", lambda problem: pytest.fail("asked for a way"))
    monkeypatch.setattr(weighing, "LEAST_FACTORED", 99)
    x, weights = np.random.default_rng(0).random((30, 40)), np.random.default_rng(1).random((5, 5))
    weights[2, 3] = 0
    for some in (weights, np.ones((1, 30))):
        np.testing.assert_allclose(ndi.correlate(x, some), scipy.correlate(x, some), rtol=1e-12)
    for shape, window in (
        ((9,) * 5, (3,) * 5),
        ((20_000, 20_000), (5, 5)),
    ):  # too many axes, too large a copy
        problem = weighing.CorrelationProblem(shape, window, int(np.prod(window)), "f32")
        assert weighing.PRODUCTS not in {c.name for c in problem.candidates()}


@pytest.mark.filterwarnings("error")
def test_small_arrays_with_large_windows_are_products():
    x, weights = np.random.default_rng(0).random((60, 50)), np.random.default_rng(1).random((15, 13))
    problem = weighing.CorrelationProblem(x.shape, weights.shape, weights.size, "f64", False, False)
    assert {c.name for c in problem.candidates()} == {weighing.DIRECT, weighing.PRODUCTS}
    np.testing.assert_allclose(ndi.correlate(x, weights), scipy.correlate(x, weights), rtol=1e-12)


def test_small_weights_are_as_precise(monkeypatch):
    monkeypatch.setattr(weighing, "way_of", lambda problem: weighing.FACTORED if problem.factored else "none")
    rng = np.random.default_rng(0)
    x, u, v = rng.standard_normal((40, 50)), np.array([1.0, 0.4, 0.1, 0.45, 0.95]), np.array([3e-15, 6e-15, 3.3e-15])
    weights = np.multiply.outer(u, np.concatenate([v, 3 * v]))
    want = scipy.correlate(x, 1e15 * weights) * 1e-15
    np.testing.assert_allclose(ndi.correlate(x, weights), want, rtol=0, atol=1e-14 * weights.sum())


def test_weights_that_are_no_products(monkeypatch):
    monkeypatch.setattr(weighing, "way_of", lambda problem: pytest.fail("asked for a way"))
    monkeypatch.setattr(weighing, "LEAST_FACTORED", 0)
    x, products = np.random.default_rng(0).random((30, 40)), np.outer([1.0, 2, 3], [1, 5, 7, 2])
    x[10, 20] = np.nan
    other, holes, thirds = products.copy(), products.copy(), np.outer([3.0, 7], [3, 7])
    other[1, 2] += 1
    holes[1] = 0
    for weights in (other, holes, thirds):  # the last one's factors would be thirds: sums of whole numbers are exact
        np.testing.assert_allclose(ndi.correlate(x, weights), scipy.correlate(x, weights), rtol=1e-13)
    ndi.correlate(x, products, mode="constant", cval=1.0)  # what is outside is no sum
    ndi.correlate(x.astype(np.float32), products, output=np.int32)


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
    assert weighing.way_of(weighing.CorrelationProblem((2000, 2000), (9, 9), 81, "f32", True)) == weighing.FACTORED
    problem = weighing.CorrelationProblem((20, 30), (9, 9), 81, "f64", True)
    run = problem.prepare()
    for candidate in problem.candidates():
        run(candidate.build())()  # as tuning measures it


@pytest.mark.parametrize("correlates", ["correlate", "convolve"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_unless_asked(correlates, dtype, monkeypatch):
    monkeypatch.setattr(weighing, "way_of", lambda p: weighing.SPECTRA if p.spectra else weighing.FACTORED)
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
    monkeypatch.setattr(weighing, "way_of", lambda p: weighing.SPECTRA if p.spectra else weighing.DIRECT)
    rng = np.random.default_rng(0)
    for shape, window in (((70_000,), (91,)), ((500, 520), (21, 9)), ((70, 80, 60), (5, 7, 3))):
        x, one = np.sign(rng.standard_normal(shape)) * 1e10, np.full(window, 1e-12)
        one[tuple(n // 2 for n in window)] = 1  # nearly all of one element: roundings of a block weigh most
        got, want = ndi.correlate(x, one, fft=True), ndi.correlate(x, one)
        error = np.abs(got - want).max()
        assert 0 < error <= 32 * np.finfo(float).eps * 1e10 * one.sum()


@pytest.mark.parametrize("way", [weighing.SPECTRA, weighing.FACTORED, weighing.PRODUCTS])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_what_is_not_finite_stays_where_it_is(value, way, monkeypatch):
    monkeypatch.setattr(weighing, "way_of", lambda problem: way if getattr(problem, way, True) else weighing.DIRECT)
    x, weights = np.random.default_rng(0).standard_normal((60, 70)), np.ones((9, 9))
    x[30, 40] = value
    want = scipy.correlate(x, weights)
    np.testing.assert_allclose(ndi.correlate(x, weights, fft=True), want, rtol=1e-12, atol=1e-12)
    x[30, 40] = 0
    got = ndi.correlate(x, weights, mode="constant", cval=value, fft=True)
    want = scipy.correlate(x, weights, mode="constant", cval=value)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
