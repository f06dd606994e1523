"""Means and extremes of long windows are scipy's, whether they are made of all elements or of shorter windows."""

from math import log

import numpy as np
import pytest
import scipy.ndimage as scipy
from conftest import fewer
from filtered import axes_of, compare, images, isas, modes, outsides, threads
from hypothesis import assume, given
from hypothesis import strategies as st

import layoutkit.ndimage as ndi
from layoutkit.ndimage import running
from layoutkit.ndimage.running import DIRECT, RUNNING, RunningProblem

NAMES = ["uniform_filter", "minimum_filter", "maximum_filter"]
ways = st.sampled_from([DIRECT, RUNNING, RUNNING])


def forced(patch, way):
    """Let all windows go that way; returns the problems that it was asked for."""
    asked = []
    patch.setattr(running, "LEAST_SPAN", 2)
    patch.setattr(running, "way_of", lambda problem: asked.append(problem) or way)
    return asked


@pytest.mark.parametrize("name", NAMES)
@given(st.data(), ways, isas, threads)
def test_both_ways(name, data, way, isa, threads):
    x = data.draw(images())
    axes = data.draw(axes_of(x.ndim))
    sizes = [data.draw(st.integers(1, 40) | st.sampled_from([64, 127, 129])) for _ in axes]
    with pytest.MonkeyPatch.context() as patch:
        forced(patch, way)
        compare(
            name, x, sizes, isa=isa, threads=threads, axes=axes, scale=2.0 if name == NAMES[0] else 0,
            origin=[data.draw(st.integers(-(s // 2), (s - 1) // 2)) for s in sizes], **data.draw(outsides(len(axes))),
        )  # fmt: skip


@pytest.mark.parametrize("way", [DIRECT, RUNNING])
@given(images(st.sampled_from(["float32", "float64"]), special=True), st.integers(2, 40), st.data())
def test_nan_stays_in_its_windows(way, x, size, data):
    assume(x.size)
    axis = data.draw(st.integers(0, x.ndim - 1))
    pads = [(size // 2, size - 1 - size // 2) if a == axis else (0, 0) for a in range(x.ndim)]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, pads, "edge"), size, axis)
    with np.errstate(invalid="ignore"), pytest.MonkeyPatch.context() as patch:
        assert len(forced(patch, way)) == 0
        mean = ndi.uniform_filter1d(x, size, axis, mode="nearest")
        np.testing.assert_array_equal(np.isnan(mean), np.isnan(windows.mean(-1)))
        least = ndi.minimum_filter1d(x, size, axis, mode="nearest")
        np.testing.assert_array_equal(least, np.fmin.reduce(windows, -1))


@fewer(2)
@given(st.data(), ways, st.integers(2, 4), modes)
def test_any_number_of_threads_gives_the_same_bits(data, way, threads, mode):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.standard_normal(data.draw(st.sampled_from([(90, 70, 60), (700, 500), (30, 20, 30, 20), (200_000,)])))
    x = x.astype(data.draw(st.sampled_from(["float32", "float64"])))
    size = data.draw(st.integers(2, 40))
    with pytest.MonkeyPatch.context() as patch:
        assert forced(patch, way) == []
        one, several = (ndi.uniform_filter(x, size, mode=mode, threads=n) for n in (1, threads))
    np.testing.assert_array_equal(several, one)


def test_large_arrays():
    x = np.random.default_rng(0).standard_normal((3, 5_000_000)).astype(np.float32)  # stored past the caches
    for size in (20, 200):
        got, want = ndi.uniform_filter1d(x, size), scipy.uniform_filter1d(x.astype(np.float64), size)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
        np.testing.assert_array_equal(ndi.maximum_filter1d(x, size, 1), scipy.maximum_filter1d(x, size, 1))


def test_the_cost_chooses():
    for kind, shape, element in (("weigh", (1, 2000, 2000), "f32"), ("weigh", (2000, 2000, 1), "f64"),
                                 ("fold", (300, 300, 3), "u8"), ("fold", (1, 2000, 2000), "s16")):  # fmt: skip
        ways = [running.way_of(RunningProblem(kind, shape, span, element)) for span in (13, 30, 64, 500)]
        assert ways == sorted(ways) and ways[-1] == RUNNING  # longer ones run
    assert running.way_of(RunningProblem("weigh", (1, 2000, 2000), 13, "f32")) == DIRECT
    problem = RunningProblem("fold", (20, 300, 3), 13, "u64")
    run = problem.prepare()
    for candidate in problem.candidates():
        run(candidate.build())()  # as tuning measures it
        assert abs(log(candidate.estimate)) < 20
    window = running.w.box(LONG := 500, 0, 0, "reflect")
    assert running.decided(window, "weigh", (2000, 2000), "f32").running
    assert not running.decided(window, "weigh", (2000, 2000), "u8").running  # sums of integers slide
    assert running.decided(running.w.extreme(LONG, 1, 0, "reflect", 0), "fold", (2000, 2000), "u8").running
