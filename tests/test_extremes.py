"""Numbers at the edges of float32, problems without elements, and problems that only have slow ways."""

import time
import warnings

import numpy as np
import pytest
from conftest import using_isa
from oracle import reference
from threadpoolctl import threadpool_limits

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing.cache import plans
from layoutkit.convolutions import task

LAYOUTS = ["NCHW", "NHWC", "CHWN", "nChw8c", "nChw16c"]
KINDS = {  # filter, attributes
    "3x3": ((24, 16, 3, 3), dict(padding=1)),
    "1x1": ((24, 16, 1, 1), {}),
    "strided": ((24, 16, 3, 3), dict(padding=1, stride=2)),
    "grouped": ((16, 4, 3, 3), dict(padding=1, groups=4)),
    "depthwise": ((16, 1, 3, 3), dict(padding=1, groups=16)),
}


def ways(w, layout, **attributes):
    """Every algorithm that does it strictly."""
    shape = (1, w.shape[1] * attributes.get("groups", 1), 12, 14)
    for name in ("auto", "direct", "im2col", "folded", "planes", "depthwise", "grouped"):
        op = lk.Conv2d(w, layout=layout, algorithm=name, accuracy="strict", **attributes)
        try:
            op.plan(shape)
        except ValueError:
            continue
        yield name, op


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_strict_keeps_inf_and_nan_local(kind, layout, bad):
    shape, attributes = KINDS[kind]
    rng = np.random.default_rng(0)
    w = rng.standard_normal(shape, np.float32)
    x = rng.standard_normal((1, 16, 12, 14), np.float32)
    spoilt = x.copy()
    spoilt[0, 5, 6, 7] = bad
    for name, op in ways(w, layout, **attributes):
        y, other = (reference.to_physical(a, lk.Layout(layout)) for a in (x, spoilt))
        p = op._filter.problem(x.shape)
        y, other = (reference.to_logical(op(a), lk.Layout(layout), p.dst_shape) for a in (y, other))
        reads = reference.conv((x != spoilt).astype(np.float32), abs(w), None, **as_pairs(attributes)) > 0
        np.testing.assert_array_equal(y[~reads], other[~reads], err_msg=name)
        assert not np.isfinite(other[reads]).any(), name


def as_pairs(attributes):
    """As the reference takes them."""
    p, s = attributes.get("padding", 0), attributes.get("stride", 1)
    return dict(padding=((p, p),) * 2, stride=(s, s), dilation=(1, 1), groups=attributes.get("groups", 1))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_denormal_numbers_are_kept(kind, layout):
    shape, attributes = KINDS[kind]
    rng = np.random.default_rng(0)
    w = rng.integers(1, 3, shape).astype(np.float32)
    x = (rng.integers(1, 9, (1, 16, 12, 14)) * np.float64(2) ** -149).astype(np.float32)
    want = reference.conv(x, w, None, **as_pairs(attributes))
    assert 0 < want.max() < np.finfo(np.float32).tiny
    for name, op in ways(w, layout, **attributes):
        got = op(reference.to_physical(x, lk.Layout(layout)))
        got = reference.to_logical(got, lk.Layout(layout), want.shape)
        np.testing.assert_array_equal(got, want.astype(np.float32), err_msg=name)


def test_denormal_numbers_take_no_longer_than_in_a_product():
    # Some processors take a microcode assist for each instruction, 150 cycles: then a BLAS pays for as many.
    x = np.full((1, 30, 30, 64), 1e-41, np.float32)
    op = lk.Conv2d(np.ones((64, 64, 3, 3), np.float32), layout="NHWC", accuracy="strict", threads=1)
    a, b = np.full((28 * 28, 64 * 9), 1e-41, np.float32), np.ones((64 * 9, 64), np.float32)

    def seconds(run):
        run()
        return min(_timed(run) for _ in range(5))

    with threadpool_limits(1):
        assert seconds(lambda: op(x)) < 3 * seconds(lambda: a @ b)


def _timed(run):
    start = time.thread_time()
    run()
    return time.thread_time() - start


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("accuracy", ["strict", "standard", "fast"])
def test_numbers_near_overflow(layout, accuracy):
    w = np.full((16, 16, 3, 3), 2.0**-20, np.float32)
    x = np.full((1, 16, 9, 9), 3e38, np.float32)  # sums fit, where none is made of what does not
    op = lk.Conv2d(w, layout=layout, accuracy=accuracy, algorithm="auto" if accuracy != "strict" else "direct")
    got = reference.to_logical(op(reference.to_physical(x, lk.Layout(layout))), lk.Layout(layout), (1, 16, 7, 7))
    if accuracy == "strict":
        np.testing.assert_allclose(got, 144 * 3e38 * 2.0**-20, rtol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("n", "ic", "oc"), [(0, 16, 16), (0, 0, 5), (2, 0, 16), (2, 16, 0), (1, 0, 0)])
@pytest.mark.parametrize("algorithm", ["auto", "direct", "im2col", "planes", "winograd"])
def test_without_elements(layout, n, ic, oc, algorithm):
    w, bias = np.ones((oc, ic, 3, 3), np.float32), np.arange(oc, dtype=np.float32)
    op = lk.Conv2d(w, bias, padding=1, layout=layout, algorithm=algorithm)
    held = lk.Layout(layout)
    y = op(np.ones(held.physical_shape((n, ic, 6, 6)), np.float32))
    assert y.shape == held.physical_shape((n, oc, 6, 6))
    want = np.broadcast_to(bias[:, None, None], (n, oc, 6, 6)) + np.zeros((n, oc, 6, 6))
    if ic == 0:  # nothing is summed: the bias
        np.testing.assert_array_equal(reference.to_logical(y, held, want.shape), want)


def test_slow_ways_are_told_once():
    task._warned.clear()
    plans.clear()
    with using_isa(registry.isas()[-1]):
        w = np.ones((4, 33, 5, 3), np.float32)  # groups of 33 channels, an output channel each
        x = np.ones((1, 132, 2500, 2), np.float32)
        with pytest.warns(lk.SlowPathWarning, match=r"only slow ways: .*33 > 1 channels in each of 4 groups"):
            lk.conv2d(x, w, groups=4, accuracy="strict", padding=((2, 2), (1, 1)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            op = lk.Conv2d(w, groups=4, accuracy="strict", padding=((2, 2), (1, 1)))
            op(x)
            lk.conv2d(np.ones((1, 64, 63, 63), np.float32), np.ones((64, 64, 3, 3), np.float32))
        assert "only slow ways" in op.explain(x.shape)
