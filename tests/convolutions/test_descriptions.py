"""Convolutions in words, and the operations that candidates do without."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import layoutkit as lk
from layoutkit.choosing import limits
from layoutkit.convolutions.algorithms import ALGORITHMS
from layoutkit.convolutions.algorithms.winograd import WINOGRAD
from layoutkit.convolutions.descriptions import describe_path, inside_share
from layoutkit.convolutions.problem import ConvProblem
from layoutkit.convolutions.task import ConvTask
from layoutkit.convolutions.winograd_matrices import stride_of

BASE = "conv n1 c8 9x10 o16 k3x3 s1x1 p1+1,1+1 d1x1 g1 NCHW>NCHW f32 standard t1"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "conv2d of (1, 8, 9, 10) float32 NCHW with 16 filters 3x3, stride 1, padding 1, on 1 thread"),
        ({"t1": "t2"}, "conv2d of (1, 8, 9, 10) float32 NCHW with 16 filters 3x3, stride 1, padding 1, on 2 threads"),
        ({"s1x1": "s1x2", "p1+1,1+1": "p1+1,2+2", ">NCHW": ">NHWC"},
         "conv2d of (1, 8, 9, 10) float32 NCHW -> NHWC with 16 filters 3x3, stride 1x2, padding 1x2, on 1 thread"),
        ({"p1+1,1+1": "p0+1,1+1", "d1x1": "d2x2", "g1": "g4", "standard": "strict"},
         "conv2d of (1, 8, 9, 10) float32 NCHW with 16 filters 3x3, stride 1, padding [(0, 1), (1, 1)], dilation 2, "
         "4 groups, accuracy strict, on 1 thread"),
        ({"f32": "bf16"},
         "conv2d of (1, 8, 9, 10) bfloat16 NCHW with 16 filters 3x3, stride 1, padding 1, on 1 thread"),
        ({"f32": "u8s8_f32"},
         "conv2d of (1, 8, 9, 10) uint8 NCHW -> float32 NCHW with 16 filters 3x3 of int8, stride 1, padding 1, "
         "on 1 thread"),
    ],
)  # fmt: skip
def test_a_problem_in_words(change, words):
    key = BASE
    for old, new in change.items():
        key = key.replace(old, new)
    assert ConvTask.parse(key).words == words


def test_paths():
    a, b, c = map(lk.Layout, ("NCHW", "NHWC", "nChw16c"))
    assert describe_path(a, a, a, a) == describe_path(a, a, b, b) == "no reorder"
    assert describe_path(a, b, b, a) == "NCHW -> NHWC -> NCHW"
    assert describe_path(a, b, a, a) == "input NCHW -> NHWC" and describe_path(a, a, b, a) == "output NHWC -> NCHW"
    assert describe_path(a, b, c, a) == "input NCHW -> NHWC, output nChw16c -> NCHW"


sizes = st.integers(1, 9)


@given(sizes, sizes, st.integers(1, 3), st.integers(1, 3), st.integers(-2, 5), st.integers(-2, 5))
def test_taps_in_the_padding_are_counted(size, kernel, stride, dilation, before, after):
    L = lk.Layout("NCW")
    p = ConvProblem(1, 1, 1, (size,), (kernel,), (stride,), ((before, after),), (dilation,), 1, L, L)
    (out,) = p.out
    if out < 1:
        assert inside_share(p) == 1
        return
    places = (o * stride + k * dilation - before for o, k in itertools.product(range(out), range(kernel)))
    inside = sum(0 <= at < size for at in places)
    assert inside_share(p) == pytest.approx(inside / (out * kernel) or 1)


@pytest.mark.parametrize("key, savings", [
    (BASE, [2.25, 4, 5.0625]), (BASE.replace("k3x3", "k1x3"), [1.5, 2, 2.25]),
    (BASE.replace("s1x1", "s2x2"), [81 / 49]),
])  # fmt: skip
def test_winograd_says_how_much_it_saves(key, savings):
    p = ConvTask.parse(key).problem
    of_stride = [a for a in WINOGRAD if not a.parts and stride_of(a.m) == p.stride[-1]]
    assert sorted(a.saving(p) for a in of_stride) == pytest.approx(savings)
    assert all(a.saving(p) == 1 for a in ALGORITHMS if a not in WINOGRAD)


def test_a_candidate_in_words():
    found = {c.name: c.words for c in ConvTask.parse(BASE).candidates()}
    for name, words in found.items():
        algorithm = name.partition(" ")[0]
        assert words.algorithm.startswith(algorithm) and words.path and words.saving > 1 and words.why
        assert (words.path == "no reorder") == (" via " not in name)
        assert ("multiplies up to" in words.why) == (algorithm == "winograd")
        assert not any(part in str(words) for part in ("gemm_", "{", "_f32"))
    assert any(words.tile.endswith(" channels") for words in found.values())


def test_a_machine_that_is_disturbed_gets_no_share(monkeypatch, cache_dir):
    x, w = np.ones((1, 64, 30, 30), np.float32), np.ones((64, 64, 3, 3), np.float32)
    plan = lk.plan(lk.conv2d, x, w, padding=1, threads=1)
    rate = ConvTask.parse(plan.title).work / plan.choices[0].seconds
    for peak, said in ((rate / 100, "no share of the FMA peak"), (rate / 2, "200% of the FMA peak")):
        monkeypatch.setattr(limits, "_best", {})
        monkeypatch.setattr(limits.Limits, "fma", lambda *_, peak=peak: peak)
        assert said in plan.explain()
    assert "\nmore than 100%: winograd F(" in plan.explain()
    monkeypatch.setattr(limits, "_best", {})
    monkeypatch.setattr(limits.Limits, "copy", lambda *_: 1.0)
    assert "no share of a copy" in lk.plan(lk.reorder, x, "NCHW", "NHWC").explain()
