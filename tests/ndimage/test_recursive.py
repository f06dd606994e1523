"""Recursive Gaussians are nearly those of scipy, and only where they are asked for."""

import numpy as np
import pytest
import scipy.ndimage as scipy
from conftest import fewer, using_isa
from filtered import axes_of, images, isas, modes, threads
from hypothesis import given
from hypothesis import strategies as st

import layoutkit.ndimage as ndi
from layoutkit.ndimage import recursive

CUT, WHOLE = 1.5e-4, 2e-5  # errors that the docstring states, of weights up to 4 sigma and up to infinity
kinds = st.sampled_from(["float32", "float64", "float16", "uint8", "int32"])


@pytest.fixture(autouse=True)
def recursions(monkeypatch):
    """Recursions are taken wherever they are allowed."""
    monkeypatch.setattr(recursive, "way_of", lambda problem: recursive.RECURSIVE)


def test_the_cost_chooses(monkeypatch):
    monkeypatch.undo()
    for shape, element in (((1, 500, 2000), "f32"), ((2000, 500, 1), "f64")):
        problems = [recursive.RecursionProblem(shape, s, 8 * s + 1, element) for s in (1, 4, 30, 100)]
        ways = [recursive.way_of(p) for p in problems]
        assert ways == sorted(ways, reverse=True) and ways[0] == recursive.WEIGHTS and ways[-1] == recursive.RECURSIVE
    one = recursive.RecursionProblem((1, 5000, 1), 30, 241, "f32")  # a single line leaves a vector nearly empty
    assert recursive.way_of(one) == recursive.WEIGHTS
    run = problems[0].prepare()
    for candidate in problems[0].candidates():
        run(candidate.build())()  # as tuning measures it
    x = np.random.default_rng(0).random((2, 200))
    np.testing.assert_array_equal(ndi.gaussian_filter1d(x, 5.0, recursive=True), ndi.gaussian_filter1d(x, 5.0))
    whole = (x * 200).astype(np.uint8)
    np.testing.assert_array_equal(ndi.gaussian_filter(whole, 1, recursive=True), scipy.gaussian_filter(whole, 1))
    assert ndi.gaussian_filter(x, 0, recursive=True) is not x


@fewer(2)
@given(images(kinds), st.data(), modes, isas, threads)
def test_gaussians(x, data, mode, isa, threads):
    axes = data.draw(axes_of(x.ndim))
    sigmas = [data.draw(st.floats(1, 60)) for _ in axes]
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    with using_isa(isa):
        given_ = dict(mode=mode, cval=2.5, axes=axes)
        got = ndi.gaussian_filter(x, sigmas, output=dtype, recursive=True, threads=threads, **given_)
    assert got.dtype == dtype
    largest = float(np.max(np.abs(x.astype(float)), initial=2.5))
    for truncate, error in ((4, CUT), (9, WHOLE)):
        want = scipy.gaussian_filter(x.astype(float), sigmas, truncate=truncate, **given_)
        np.testing.assert_allclose(got, want, rtol=0, atol=largest * (error * len(axes) + 1e-6))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lines(dtype):
    x = np.random.default_rng(0).standard_normal((3, 140, 131)).astype(dtype)  # columns of two tasks, and of one vector
    for axis in range(3):
        got, again = (ndi.gaussian_filter1d(x, 50, axis, recursive=True, threads=t) for t in (1, 2))
        np.testing.assert_array_equal(got, again)
        np.testing.assert_allclose(got, scipy.gaussian_filter1d(x, 50, axis, truncate=9), rtol=0, atol=5 * WHOLE)
    flat = ndi.gaussian_filter(np.full((50, 60), 7, dtype), 300, recursive=True)
    np.testing.assert_allclose(flat, 7, rtol=1e-6 if dtype == "float32" else 1e-9)


def test_some_axes_by_weights(monkeypatch):
    monkeypatch.setattr(recursive, "way_of", lambda p: recursive.RECURSIVE if p.sigma > 4 else recursive.WEIGHTS)
    x = np.random.default_rng(0).random((40, 50))
    got, want = ndi.gaussian_filter(x, [20, 2], recursive=True), ndi.gaussian_filter(x, [20, 2])
    np.testing.assert_allclose(got, want, rtol=0, atol=CUT)
    assert not np.array_equal(got, want)
    z = x + 1j * x[::-1]
    np.testing.assert_allclose(
        ndi.gaussian_filter(z, 20, recursive=True).imag, scipy.gaussian_filter(x[::-1], 20), atol=4e-4
    )


@fewer(2)
@given(
    st.sampled_from("bool uint8 int8 uint16 int16 uint32 int32 uint64 int64".split()),
    st.sampled_from(["bool", "uint8", "int16", "uint32", "int64", "uint64", None]),
    st.sampled_from([np.float16, np.float64, None]),
    st.data(),
)
def test_integers_stay_in_their_range(dtype, output, between, data):
    info = np.iinfo(dtype) if dtype != "bool" else np.iinfo("uint8")
    low, high = (0, 1) if dtype == "bool" else (int(info.min), int(info.max))
    x = np.full(data.draw(st.sampled_from([(1,), (40,), (200, 30), (0, 3)])), low, dtype)
    x[x.shape[0] // 2 :] = high
    if between is not None:
        with np.errstate(over="ignore"):
            x = np.nan_to_num(x.astype(between))
    sigma, cval = data.draw(st.sampled_from([11, 30])), data.draw(st.sampled_from([0, 1, 300]))
    mode = data.draw(modes)
    to = output and np.dtype(output)
    got = ndi.gaussian_filter1d(x, sigma, 0, 0, to, mode, cval, recursive=True)
    if got.dtype.kind == "f" or not x.size:
        return
    kind = np.iinfo(got.dtype) if got.dtype != bool else np.iinfo("uint8")
    least, most = (0, 1) if got.dtype == bool else (int(kind.min), int(kind.max))
    ends = [int(x.min()), int(x.max()), *([cval] if mode in ("constant", "grid-constant") else [])]
    assert min(max(min(ends), least), most) <= int(got.min()) and int(got.max()) <= max(min(max(ends), most), least)
    want = np.clip(scipy.gaussian_filter1d(x.astype(float), sigma, 0, 0, None, mode, cval), least, most)
    largest = max(map(abs, ends))
    np.testing.assert_allclose(got.astype(float), want, rtol=0, atol=1 + CUT * largest)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "int32", "uint64", "int64"])
def test_constant_integers_are_kept(dtype):
    most = np.iinfo(dtype).max
    flat = np.full((30, 40), most, dtype)
    np.testing.assert_array_equal(ndi.gaussian_filter(flat, 30, recursive=True), flat)
    line = np.zeros(2000, dtype)
    line[1000:] = most
    got = ndi.gaussian_filter1d(line, 20, recursive=True)
    want = scipy.gaussian_filter1d(line.astype(float), 20)
    np.testing.assert_allclose(got.astype(float), want, rtol=0, atol=1 + CUT * float(most))
    if dtype == "uint8":  # whose errors are less than what counts as whole
        assert (got[:900] == 0).all() and (got[1100:] == 255).all()


@pytest.mark.parametrize("given_", [dict(order=1), dict(order=[0, 2]), dict(radius=3)])
def test_errors(given_):
    with pytest.raises(ValueError, match="gaussian_filter: recursive Gaussians have order 0 and no radius"):
        ndi.gaussian_filter(np.zeros((4, 5)), 30, recursive=True, **given_)
