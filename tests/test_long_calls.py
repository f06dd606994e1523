"""Long calls answer signals in the middle: what was asked for later is not there yet."""

import contextlib
import os
import signal
import time

import numpy as np
import pytest
from conftest import using_isa

import layoutkit as lk
import layoutkit.ndimage as ndi
from layoutkit.graph.operators import OPERATORS

pytestmark = pytest.mark.alone


class Signal(Exception):
    """Raised by the handler."""


@pytest.fixture
def soon():
    """A signal, some milliseconds after it is called."""

    def handler(*_):
        raise Signal

    before = signal.signal(signal.SIGALRM, handler)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.02)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("src", "dst", "dtype"), [
    ("ab", "ab", None), ("ab", "ba", None), ("ab", "aB16b", None), ("ab", "ba", "uint8"),
])  # fmt: skip
def test_a_long_reorder(src, dst, dtype, threads, soon):
    rows = 1 << 15 if dtype is None else 1 << 17  # so that all write as many bytes
    x = np.broadcast_to(np.float32(1), (rows, (1 << 13) + (1 << 11)))
    out = lk.empty(x.shape, dst, dtype or np.float32)
    out[-1] = 7
    run = lk.plan(lk.reorder, x, src, dst, out=out, threads=threads).run if dtype is None else None
    soon()
    with pytest.raises(Signal):
        if run is None:
            lk.reorder(x, src, dst, out=out, dtype=dtype, threads=threads)
        else:
            run(x, out)
    assert (out[-1] == 7).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layouts", [("NHWC", "NHWC"), ("NHWC", "NCHW"), ("NCHW", "NCHW")])
def test_a_long_convolution(layouts, threads, soon):
    with using_isa("portable"):
        op = lk.Conv2d(np.ones((128, 128, 5, 5), np.float32), layout=layouts[0], out_layout=layouts[1], padding=2,
                       accuracy="strict", threads=threads)  # fmt: skip
        x = np.ones((1, 128, 160, 160) if layouts[0] == "NCHW" else (1, 160, 160, 128), np.float32)
        out = np.full((1, 128, 160, 160) if layouts[1] == "NCHW" else (1, 160, 160, 128), 7, np.float32)
        op(x[:, :9, :9] if layouts[0] == "NHWC" else x[:, :, :9, :9])  # planned and packed before
        op.plan((1, 128, 160, 160))
        soon()
        with pytest.raises(Signal):
            op(x, out)
    assert (out == 7).any()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_in_the_middle_of_a_call():
    """Parent and child both come to its end, the child on one thread from there on."""
    x = np.random.default_rng(0).integers(-4, 5, (1, 160, 160, 128)).astype(np.float32)
    out, child = np.full_like(x, np.nan), -1

    def handler(*_):
        nonlocal child
        unfinished = np.isnan(out).any()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
        assert unfinished

    with using_isa("portable"):  # slow enough on every machine
        op = lk.Conv2d(np.ones((128, 128, 5, 5), np.float32), layout="NHWC", padding=2, accuracy="strict", threads=2)
        want = op(x)
        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            op(x, out)
            right = np.array_equal(out, want)
            if child == 0:
                os._exit(not right)
        finally:
            if child == 0:
                os._exit(2)
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    assert child > 0 and right
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_regions_of_many_samples(threads, soon):
    x, corners = np.zeros((1, 8, 64, 64), np.float32), np.float32([[0, 0, 60, 60]] * 8)
    out = np.full((8, 8, 7, 7), 7, np.float32)
    given = {"output_height": 7, "output_width": 7, "sampling_ratio": 1500, "mode": "max", "threads": threads}
    with pytest.raises(Signal):
        soon()
        OPERATORS["RoiAlign"].run([x, corners, np.zeros(8, np.int64)], {"op": "RoiAlign", **given}, [out])
    assert (out[-1] == 7).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name, shape, given", [
    ("gaussian_filter", (3000, 3000), dict(sigma=60.0)),
    ("median_filter", (1500, 1000), dict(size=9)), ("affine_transform", (3000, 2000), dict(matrix=[0.9, 1.1], order=3)),
])  # fmt: skip
def test_a_long_filter(name, shape, given, threads, soon):
    out = np.full(shape, 7, np.float32)
    x = np.zeros(shape, np.float32)
    with using_isa("portable"), pytest.raises(Signal):
        soon()
        getattr(ndi, name)(x, output=out, threads=threads, **given)
    assert (out[-1] == 7).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_one_long_task_of_a_recursion(threads, soon):
    x = np.zeros((64, 128 * threads), np.float32)

    def seconds() -> float:
        start = time.monotonic()
        with contextlib.suppress(Signal):
            ndi.gaussian_filter1d(x, 1e6, axis=0, recursive=True, threads=threads)
        return time.monotonic() - start

    whole = seconds()
    soon()
    assert seconds() < whole / 2
