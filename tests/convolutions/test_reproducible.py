"""Accuracy "reproducible": who asks for it and how, and that nothing but the problem decides about a bit.

Any layouts, threads, instruction sets and made-up tables are a kind of `tests/random_cases`, see test_campaign.py.
"""

import os
import subprocess
import sys
from fractions import Fraction
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from conftest import using_isa
from oracle import reference
from random_cases.reproducible import fused, same

import layoutkit as lk
from layoutkit.choosing import measuring

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 64, 13, 17), np.float32)
DENSE, GROUPED = RNG.standard_normal((40, 64, 3, 3), np.float32), RNG.standard_normal((64, 8, 3, 3), np.float32)
ATTRIBUTES = dict(stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1))


pytestmark = pytest.mark.skipif(not fused(), reason="LAYOUTKIT_ISA leaves no instruction set that fuses")


@pytest.fixture(autouse=True)
def afterwards():
    """The mode is that from before again, and the best instruction set is used."""
    before = lk.reproducible()
    with using_isa(fused()[-1]):
        yield
    lk.reproducible(before)


@cache
def promised(groups):
    """What is promised for X, and DENSE or GROUPED."""
    w = GROUPED if groups > 1 else DENSE
    how = dict(by_channel=True) if groups > 1 else dict(chunks=(3 * 64, 3 * 64))
    return reference.conv_in_order(X, w, None, **ATTRIBUTES, groups=groups, **how)


@pytest.mark.parametrize("w", [DENSE, GROUPED], ids=["dense", "groups"])
@pytest.mark.parametrize("how", ["argument", "switch", "switch before fast"])
def test_it_is_asked_for_in_several_ways(w, how):
    accuracy = {"argument": "reproducible", "switch": "standard", "switch before fast": "fast"}[how]
    if how != "argument":
        assert lk.reproducible(True) is False
    groups = 64 // w.shape[1]
    for isa in fused():
        with using_isa(isa):
            got = lk.conv2d(X, w, padding=1, groups=groups, accuracy=accuracy)
            kept = lk.Conv2d(w, padding=1, groups=groups, accuracy=accuracy, threads=2)(X)
        assert same(got, promised(groups)) and same(kept, promised(groups))


def test_an_object_that_is_there_follows_the_switch():
    op = lk.Conv2d(DENSE, padding=1)
    lk.reproducible(True)
    names = [c.candidate.name for c in op.plan(X.shape).choices]
    assert same(op(X), promised(1))
    assert names and not any("winograd" in name or "blas" in name for name in names)
    assert lk.reproducible(False) is True
    assert any("winograd" in c.candidate.name for c in op.plan(X.shape).choices)


@pytest.mark.parametrize("algorithm", ["winograd", "blas"])
def test_what_has_another_order_is_refused(algorithm):
    lk.reproducible(True)
    out = np.full((2, 40, 13, 17), 7, np.float32)
    with pytest.raises(ValueError, match="reproducible"):
        lk.conv2d(X, DENSE, padding=1, algorithm=algorithm, out=out)
    assert (out == 7).all()


def test_measuring_changes_no_bit(cache_dir, monkeypatch):
    monkeypatch.setattr(measuring, "FIRST_USE_SECONDS", 0.02)  # whether measured, not how well
    lk.reproducible(True)
    for w in (DENSE, GROUPED):
        groups = 64 // w.shape[1]
        for layout in ("NCHW", "NHWC", "nChw8c"):
            x = lk.reorder(X, "NCHW", layout)
            results = []
            for tuning in ("off", "measure", "estimate"):
                before = lk.tuning(tuning, budget=0.2) if tuning == "measure" else lk.tuning(tuning)
                try:
                    for threads in (1, 2, 3):
                        y = lk.conv2d(x, w, padding=1, groups=groups, layout=layout, threads=threads)
                        results.append(lk.reorder(y, layout, "NCHW", shape=(2, len(w), 13, 17)))
                finally:
                    lk.tuning(before)
            assert all(same(y, promised(groups)) for y in results)


@pytest.mark.parametrize("wrong", [1, "yes", 0.0])
def test_the_switch_takes_nothing_else(wrong):
    with pytest.raises(TypeError, match="expected True or False"):
        lk.reproducible(wrong)


@pytest.mark.parametrize(("text", "printed"), [("1", "True"), ("0", "False"), ("", "False"), ("on", "expected 0 or 1")])
def test_the_environment(text, printed):
    program = [sys.executable, "-c", "import layoutkit as lk; print(lk.reproducible())"]
    env = {**os.environ, "LAYOUTKIT_REPRODUCIBLE": text}
    done = subprocess.run(program, env=env, capture_output=True, text=True)
    assert printed in done.stdout + done.stderr
    assert (done.returncode == 0) == (text != "on")


def test_the_references_multiplication_of_doubles_rounds_once():
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 3000)) * np.exp2(rng.integers(-40, 40, (3, 3000)))
    c[::3] = -(a * b)[::3] * (1 + rng.integers(-2, 3, 1000) * 2.0**-52)
    want = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(*np.stack((a, b, c)).tolist())]
    np.testing.assert_array_equal(reference.fused(a, b, c), want)


@pytest.mark.parametrize("kernel", [(13, 15), (7, 27), (191, 1), (193, 1)])
@pytest.mark.parametrize("channels, groups", [(1, 1), (6, 6), (4, 2)])
def test_long_sums_of_few_channels_go_in_chunks_everywhere(kernel, channels, groups):
    """Up to 192 taps are one chunk; kernels that know of no chunks take no more."""
    rng = np.random.default_rng(0)
    size = kernel[0] + 5, kernel[1] + 6
    x = rng.standard_normal((1, channels, *size), np.float32)
    w = rng.standard_normal((2 * channels, channels // groups, *kernel), np.float32)
    how = dict(by_channel=True) if channels > groups else dict(chunks=(192, 192))
    want = reference.conv_in_order(x, w, None, (1, 1), ((0, 0), (0, 0)), (1, 1), groups, **how)
    attributes = dict(groups=groups, accuracy="reproducible")
    for isa in fused():
        for layout in map(lk.Layout, ("NCHW", "NHWC", "nChw16c")):
            with using_isa(isa):
                held = reference.to_physical(x, layout)
                got = lk.conv2d(held, w, layout=layout, shape=x.shape, **attributes)
            assert same(reference.to_logical(got, layout, want.shape), want)
        if channels == groups:
            with using_isa(isa):
                plain = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
                if kernel[0] * kernel[1] > 192:
                    with pytest.raises(ValueError, match="depthwise is of accuracy 'strict' here"):
                        lk.conv2d(plain, w, layout="NHWC", algorithm="depthwise", **attributes)
                else:
                    got = lk.conv2d(plain, w, layout="NHWC", algorithm="depthwise", **attributes)
                    assert same(got.transpose(0, 3, 1, 2), want)


@pytest.mark.parametrize("step", ["sigmoid", "silu", "gelu", "gelu_tanh"])
def test_activations_of_bfloat16(step):
    """Computed to fewer bits, as they are rounded next: the same ones on all instruction sets."""
    x, w = (4 * X).astype(ml_dtypes.bfloat16), np.eye(64)[:, :, None, None].astype(ml_dtypes.bfloat16)
    how = dict(activation=step, accuracy="reproducible")
    results = []
    for isa in fused():
        with using_isa(isa):
            results.append(lk.conv2d(x, w, **how))
    for other in results[1:]:
        np.testing.assert_array_equal(other.view(np.uint16), results[0].view(np.uint16))
