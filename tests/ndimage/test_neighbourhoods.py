"""Filters of windows of any form are those of scipy: correlations, derivatives, ranks, morphology."""

import warnings

import numpy as np
import pytest
import scipy.ndimage as scipy
from conftest import fewer, using_isa
from filtered import axes_of, check, compare, dtypes, images, isas, modes, outsides, threads
from hypothesis import assume, given
from hypothesis import strategies as st

import layoutkit.ndimage as ndi
from layoutkit.ndimage import weighing
from layoutkit.ndimage.ranks import network

MOST = [0, 9, 5, 4, 3, 3]  # places of windows of so many dimensions
constants = st.sampled_from([0.0, 3.0, 70.0])
beyond = st.sampled_from([300.0, -5.0, 7e4, 1e10])  # what some integers do not hold


@st.composite
def footprints(draw, axes):
    """Which elements of a window count, at least one; and its origins."""
    shape = [draw(st.integers(1, MOST[len(axes)])) for _ in axes]
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    mask = rng.random(shape) < draw(st.sampled_from([0.3, 0.7, 1.0]))
    mask.flat[rng.integers(mask.size)] = True
    return mask, [draw(st.integers(-(n // 2), (n - 1) // 2)) for n in shape], rng


def sorted_axes(rank):
    """Some axes in their order, which is that of the axes of windows."""
    return axes_of(rank).map(lambda axes: tuple(sorted(a % rank for a in axes)))


@given(st.data(), isas, threads, st.booleans())
def test_correlation(data, isa, threads, convolves):
    x = data.draw(images(special=True))
    axes = data.draw(sorted_axes(x.ndim))
    mask, origin, rng = data.draw(footprints(axes))
    weights = np.round(rng.standard_normal(mask.shape), 1) * mask
    if convolves:
        origin = [-o - (n % 2 == 0) for o, n in zip(origin, mask.shape)]
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):
            patch.setattr(weighing, "LEAST_DENSE", 1 << 30)  # small images are convolved otherwise
        compare(
            "convolve" if convolves else "correlate", x, weights, isa=isa, threads=threads, scale=60.0, axes=axes,
            origin=origin, output=data.draw(st.none() | dtypes), mode=data.draw(modes), cval=2.5,
        )  # fmt: skip


@pytest.mark.parametrize("name", ["minimum_filter", "maximum_filter"])
@given(st.data(), isas, threads)
def test_extremes(name, data, isa, threads):
    x = data.draw(images())
    axes = data.draw(sorted_axes(x.ndim))
    mask, origin, _ = data.draw(footprints(axes))
    compare(
        name, x, isa=isa, threads=threads, scale=0, axes=axes, footprint=mask, origin=origin, mode=data.draw(modes),
        cval=data.draw(constants | st.just(2.5)),
    )  # fmt: skip


@given(st.data(), isas, threads)
def test_ranks(data, isa, threads):
    x = data.draw(images(ranks=(2, 3, 4)))  # of one dimension scipy has another algorithm, and other edges
    axes = data.draw(sorted_axes(x.ndim))
    mask, origin, rng = data.draw(footprints(axes))
    count = np.count_nonzero(mask)
    ranks = dict(rank_filter=[int(rng.integers(-count, count))], median_filter=[], percentile_filter=[20.0])
    name, args = data.draw(st.sampled_from(list(ranks.items())))
    compare(
        name, x, *args, isa=isa, threads=threads, scale=0, axes=axes, footprint=mask, origin=origin,
        mode=data.draw(modes), cval=data.draw(constants | beyond),
    )  # fmt: skip


@given(st.data(), isas, threads)
def test_medians_of_boxes(data, isa, threads):
    x = data.draw(images(ranks=(2, 3, 4)))
    axes = sorted(data.draw(st.permutations(range(x.ndim)))[: data.draw(st.integers(2, min(3, x.ndim)))])
    size = [3, 3, 3] if len(axes) == 3 else data.draw(st.sampled_from([[3, 3], [5, 5], [9, 3], [3, 5]]))
    compare(
        "median_filter", x, size, isa=isa, threads=threads, scale=0, axes=tuple(axes), mode=data.draw(modes),
        cval=data.draw(constants | beyond), origin=data.draw(st.sampled_from([0, 1, -1])),
    )  # fmt: skip


@given(
    images(st.sampled_from(["float32", "float64", "uint8"]), ranks=(1,), special=True, empty=False), st.integers(1, 9)
)
def test_ranks_along_one_axis(x, size):
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, (size // 2, (size - 1) // 2), "edge"), size)
    for rank in range(size):
        got = ndi.rank_filter(x, rank, size, mode="nearest")
        if 0 < rank < size - 1:  # NaN is the largest; the first and the last rank leave it out
            np.testing.assert_array_equal(got, np.sort(windows, -1)[:, rank])


@fewer(2)
@given(images(special=True, empty=False), st.data(), isas, threads)
def test_ranks_of_long_windows_along_an_axis(x, data, isa, threads):
    assume(x.dtype.kind != "f" or np.all(np.isfinite(x)))
    axis, size = data.draw(st.integers(0, x.ndim - 1)), data.draw(st.sampled_from([47, 64, 111, 203]))
    rank, origin = data.draw(st.integers(1, size - 2)), data.draw(st.integers(-20, 20))
    mode, numpys = data.draw(st.sampled_from([("nearest", "edge"), ("reflect", "symmetric"), ("wrap", "wrap")]))
    around = [(size // 2 + origin, (size - 1) // 2 - origin) if i == axis else (0, 0) for i in range(x.ndim)]
    # scipy's are not right where a window is longer than the axis
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, around, numpys), size, axis)
    sizes, origins = ([one if i == axis else other for i in range(x.ndim)] for one, other in ((size, 1), (origin, 0)))
    with using_isa(isa):
        got = ndi.rank_filter(x, rank, sizes, mode=mode, origin=origins, threads=threads)
    np.testing.assert_array_equal(got, np.sort(windows, -1)[..., rank])


@pytest.mark.parametrize("n", [*range(1, 12), 25, 27, 49])
def test_networks_find_a_rank(n):
    rng = np.random.default_rng(n)
    for rank in range(n):
        x = rng.integers(0, 2, (n, 200))  # of zeros and ones it is right: of all numbers
        for low, high in network(n, rank):
            x[[low, high]] = np.sort(x[[low, high]], 0)
        np.testing.assert_array_equal(x[rank], np.sort(x, 0)[rank])


@given(st.data(), isas, threads)
def test_derivatives(data, isa, threads):
    x = data.draw(images())
    axes = data.draw(axes_of(x.ndim))
    rest = dict(isa=isa, threads=threads, scale=4.0**x.ndim, output=data.draw(st.none() | dtypes))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    assume("uint64" not in (x.dtype, rest["output"]))  # casts of what is far outside are not defined
    compare(data.draw(st.sampled_from(["sobel", "prewitt"])), x, axis, **rest, **data.draw(outsides(x.ndim)))
    if x.dtype.kind == "f" or x.dtype == rest["output"] or rest["output"] is None:
        compare("laplace", x, axes=axes, **rest, **data.draw(outsides(len(axes))))


@fewer(2)
@given(st.data(), threads)
def test_derivatives_of_gaussians(data, threads):
    x = data.draw(images(st.sampled_from(["float32", "float64"])))
    n = len(axes := data.draw(sorted_axes(x.ndim)))
    sigmas = st.floats(0.5, 2)
    sigma = data.draw(sigmas if n < x.ndim else sigmas | st.lists(sigmas, min_size=n, max_size=n))
    for name in ("gaussian_laplace", "gaussian_gradient_magnitude"):
        want = getattr(scipy, name)(np.array(x), sigma, axes=axes)
        got = getattr(ndi, name)(x, sigma, axes=axes, threads=threads)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-3 if x.dtype == np.float32 else 1e-6)
    grey = np.random.default_rng(0).integers(0, 256, (40, 50)).astype(np.uint8)
    np.testing.assert_array_equal(ndi.gaussian_gradient_magnitude(grey, 2), scipy.gaussian_gradient_magnitude(grey, 2))


GREY = ["grey_erosion", "grey_dilation", "grey_opening", "grey_closing", "morphological_gradient",
        "morphological_laplace", "white_tophat", "black_tophat"]  # fmt: skip


@given(st.data(), st.sampled_from(GREY), isas, threads)
def test_grey_morphology(data, name, isa, threads):
    x = data.draw(images(st.sampled_from(["uint8", "int16", "uint16", "int32", "float32", "float64"]), empty=False))
    mask, origin, rng = data.draw(footprints(range(x.ndim)))
    structure = np.round(rng.random(mask.shape) * 5) if data.draw(st.booleans()) and x.dtype.kind != "u" else None
    window = dict(footprint=mask, structure=structure) if data.draw(st.booleans()) else dict(size=mask.shape)
    compare(name, x, isa=isa, threads=threads, scale=0, origin=origin, mode=data.draw(modes), cval=3.0, **window)


@given(st.data(), st.sampled_from(["erosion", "dilation", "opening", "closing"]), threads)
def test_binary_morphology(data, name, threads):
    x = data.draw(images(st.sampled_from(["bool", "uint8", "float32"]), ranks=(1, 2, 3)))
    axes = data.draw(sorted_axes(x.ndim))
    mask, origin, rng = data.draw(footprints(axes))
    iterations = data.draw(st.sampled_from([1, 1, 2, 3, -1]))
    assume(iterations > 0 or name in ("erosion", "dilation"))
    keywords = dict(
        structure=data.draw(st.sampled_from([mask, None])), iterations=iterations, axes=axes, brute_force=True,
        mask=(rng.random(x.shape) < 0.8) if data.draw(st.booleans()) else None,
        border_value=data.draw(st.integers(0, 1)),
    )  # fmt: skip
    if keywords["structure"] is not None:
        keywords["origin"] = origin
        if iterations < 1:  # others never end
            centre = tuple(n // 2 + o for n, o in zip(mask.shape, origin))
            assume(mask[centre])
    want = getattr(scipy, f"binary_{name}")(np.array(x), **keywords)
    check(getattr(ndi, f"binary_{name}")(x, threads=threads, **keywords), want)


@pytest.mark.parametrize("rank", range(4))
def test_structures(rank):
    for connectivity in range(5):
        want = scipy.generate_binary_structure(rank, connectivity)
        np.testing.assert_array_equal(ndi.generate_binary_structure(rank, connectivity), want)


def test_a_constant_between_integers():
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    cross = ndi.generate_binary_structure(2, 1)
    rest = dict(footprint=cross, mode="constant", cval=2.5, output=np.float64)
    for name, more in (("minimum_filter", {}), ("maximum_filter", {}), ("median_filter", {}),
                       ("grey_erosion", {"structure": cross * 5.0})):  # fmt: skip
        np.testing.assert_array_equal(getattr(ndi, name)(x, **rest, **more), getattr(scipy, name)(x, **rest, **more))


@pytest.mark.parametrize("cval", [300.0, -1.0, 70000.0, -70000.0, 5e9])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32"])
def test_a_constant_that_the_integers_do_not_hold(dtype, cval):
    x = np.random.default_rng(0).integers(0, 120, (5, 6)).astype(dtype)
    for name in ("minimum_filter", "maximum_filter", "median_filter", "grey_erosion"):
        rest = dict(footprint=ndi.generate_binary_structure(2, 1), mode="constant", cval=cval)
        np.testing.assert_array_equal(getattr(ndi, name)(x, **rest), getattr(scipy, name)(x, **rest))


def test_arrays_without_axes():
    for dtype in (np.uint8, np.float32):
        number = np.array(5, dtype)
        assert ndi.correlate(number, np.array(2.0)) == ndi.convolve(number, np.array(2.0)) == 10
        assert ndi.rank_filter(number, 0, footprint=np.array(True)) == 5
        assert ndi.grey_erosion(number, footprint=np.array(True), structure=np.array(3)) == 2
    np.testing.assert_array_equal(ndi.correlate(x + 3, np.array(2.0), axes=()), np.full((4, 5), 6.0))


@pytest.mark.parametrize("shape", [(7, 45, 3000), (3, 5, 21, 2500), (40, 3, 200)])
@pytest.mark.parametrize("dtype", [np.float32, np.uint16])
def test_strips_of_planes(shape, dtype):
    rng = np.random.default_rng(0)  # long rows: lines of planes are made in several strips
    x, weights = rng.integers(0, 200, shape).astype(dtype), rng.integers(-3, 4, [3] * len(shape))
    for most in (1, 2):
        got = ndi.correlate(x, weights, mode="wrap", threads=most)
        np.testing.assert_array_equal(got, scipy.correlate(x, weights, mode="wrap"))
        got = ndi.rank_filter(x, 3, footprint=weights > 0, mode="mirror", threads=most)
        np.testing.assert_array_equal(got, scipy.rank_filter(x, 3, footprint=weights > 0, mode="mirror"))


@pytest.mark.parametrize("lines", range(1, 10))
def test_bands_of_lines_end_anywhere(lines):
    rng = np.random.default_rng(lines)
    x = rng.integers(-99, 99, (2, lines, 150)).astype(np.float32)
    x[0, -1, 100], x[1, 0, 3] = np.nan, np.inf  # outside of windows that begin a line further on, or end one before
    weights = rng.integers(-3, 4, (2, 4, 3)) * (rng.random((2, 4, 3)) < 0.8)
    want = scipy.correlate(x, weights, mode="nearest")
    np.testing.assert_array_equal(ndi.correlate(x, weights, mode="nearest"), want)
    np.testing.assert_array_equal(ndi.correlate(x[..., :5], weights), scipy.correlate(x[..., :5], weights))
    image = rng.integers(0, 256, (lines, 150)).astype(np.uint8)
    for size in ((3, 1), (1, 4), (5, 6)):
        np.testing.assert_array_equal(ndi.uniform_filter(image, size), scipy.uniform_filter(image, size))


def test_threads_and_layouts_give_the_same_bits():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 50, 60)).astype(np.float32)
    weights = rng.standard_normal((3, 3, 3))
    for run in (lambda a, t: ndi.correlate(a, weights, threads=t), lambda a, t: ndi.median_filter(a, 3, threads=t)):
        want = run(x, 1)
        for most in (2, 3):
            np.testing.assert_array_equal(run(x, most), want)
        np.testing.assert_array_equal(run(np.asfortranarray(x), 1), want)


x = np.zeros((4, 5))


@pytest.mark.parametrize("call, error, text", [
    (lambda: ndi.correlate(x, [1, 2]), RuntimeError, r"weights.ndim \(1\) must match len\(axes\) \(2\)"),
    (lambda: ndi.correlate(x, np.ones((3, 3)), mode=["wrap", "wrap"]), RuntimeError, "several modes"),
    (lambda: ndi.correlate(x, np.ones((0, 3))), RuntimeError, "is empty"),
    (lambda: ndi.median_filter(x), RuntimeError, "no footprint or filter size"),
    (lambda: ndi.median_filter(x + 1j, 3), TypeError, "no order"),
    (lambda: ndi.rank_filter(x, 9, 3), RuntimeError, "rank 9 is not within a filter footprint of 9 elements"),
    (lambda: ndi.percentile_filter(x, 101, 3), RuntimeError, "invalid percentile 101"),
    (lambda: ndi.minimum_filter(x), RuntimeError, "no footprint"),
    (lambda: ndi.minimum_filter(x, footprint=np.zeros((3, 3))), ValueError, "zeros only"),
    (lambda: ndi.minimum_filter(x, footprint=np.ones(3)), RuntimeError, "must match"),
    (lambda: ndi.grey_erosion(x), ValueError, "must be specified"),
    (lambda: ndi.grey_erosion(x, footprint=np.ones((3, 3)), structure=np.ones((2, 2))), RuntimeError, "its footprint"),
    (lambda: ndi.grey_erosion(x, footprint=[[0, 0]], structure=[[0, 3]]), ValueError, "zeros only"),
    (lambda: ndi.grey_dilation(x, footprint=[[0, 0]], structure=[[0, 3]]), ValueError, "zeros only"),
    (lambda: ndi.grey_erosion(x, structure=np.ones((0, 3))), RuntimeError, "is empty"),
    (lambda: ndi.binary_erosion(x, iterations=1.5), TypeError, "iterations must be an integer"),
    (lambda: ndi.binary_erosion(x, mask=np.ones(3)), RuntimeError, "expected that of the input"),
    (lambda: ndi.binary_erosion(x, np.ones((0, 1))), RuntimeError, "must not be empty"),
    (lambda: ndi.binary_erosion(x + 1j), TypeError, "complex"),
])  # fmt: skip
def test_errors_help(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_warnings_help():
    for call in (ndi.median_filter, ndi.grey_erosion, ndi.minimum_filter):
        with warnings.catch_warnings(), pytest.raises(UserWarning, match="ignoring size"):
            warnings.simplefilter("error")
            call(x, size=3, footprint=np.ones((3, 3)))
