"""Every fast path forced in turn: algorithm, kernel, instruction set, kind of store, threads. Results are equal."""

import numpy as np
import pytest
from conftest import NEST_ISAS, using_isa
from oracle import reference
from random_cases.deciding import forget

import layoutkit as lk
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.table import cost_table

THREADS = (1, 2, 3)


def decide(plan, candidate):
    """Let the table, which says nothing else, say that `candidate` is the fastest."""
    forget()
    cost_table.record(plan.title, candidate.name, Cost(1e-12, 1.0, 0.0, 1))
    for step in candidate.steps:
        cost_table.record(step.problem.key, step.name, Cost(1e-12, 1.0, 0.0, 1))


def every_way(plan):
    """The candidates' names, each decided by the table while it is out."""
    for choice in plan.choices:
        decide(plan, choice.candidate)
        yield choice.candidate.name


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize(("src", "dst", "shape", "dtype"), [
    ("NCHW", "NHWC", (2, 33, 70, 35), "f4"),
    ("NHWC", "NCHW", (2, 33, 70, 35), "u1"),
    ("NCHW", "nChw16c", (1, 40, 63, 65), "f8"),
    ("nChw16c", "NHWC", (1, 40, 63, 65), "u2"),
    ("aBcd12b", "nChw8c", (2, 29, 40, 41), "c16"),
    ("NCHW", "CHWN", (5, 24, 30, 31), "f4"),
    ("NCHW", "NCHW", (3, 24, 61, 67), "f4"),
])  # fmt: skip
def test_reorders_bit_for_bit(cache_dir, isa, src, dst, shape, dtype):
    src, dst = lk.Layout(src), lk.Layout(dst)
    tensor = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    x, want = reference.to_physical(tensor, src), reference.to_physical(tensor, dst)
    with using_isa(isa):
        for threads in THREADS:
            plan = lk.plan(lk.reorder, x, src, dst, shape=shape, threads=threads)
            for name in every_way(plan):
                assert lk.plan(lk.reorder, x, src, dst, shape=shape, threads=threads).choices[0].candidate.name == name
                got = lk.reorder(x, src, dst, shape=shape, threads=threads)
                np.testing.assert_array_equal(got, want, err_msg=name)


CONVOLUTIONS = {
    "3x3": dict(x=(2, 40, 13, 17), w=(48, 40, 3, 3), padding=1),
    "1x1": dict(x=(1, 64, 15, 14), w=(33, 64, 1, 1)),
    "strided": dict(x=(1, 24, 20, 21), w=(32, 24, 3, 3), padding=1, stride=2),
    "dilated": dict(x=(1, 17, 20, 21), w=(20, 17, 3, 3), padding=2, dilation=2),
    "first": dict(x=(1, 3, 40, 40), w=(16, 3, 7, 7), padding=3, stride=2),
    "grouped": dict(x=(1, 32, 12, 12), w=(64, 4, 3, 3), padding=1, groups=8),
    "small groups": dict(x=(1, 40, 12, 13), w=(40, 4, 3, 3), padding=1, groups=10),
    "depthwise": dict(x=(1, 48, 15, 15), w=(48, 1, 3, 3), padding=1, groups=48),
}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "nChw16c", "CHWN"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(cache_dir, name, layout):
    c = dict(CONVOLUTIONS[name])
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(c.pop(k), np.float32) for k in "xw")
    layout = lk.Layout(layout)
    stride, dilation, padding = ((c.get(k, n),) * 2 for k, n in (("stride", 1), ("dilation", 1), ("padding", 0)))
    attributes = stride, tuple((p, p) for p in padding), dilation, c.get("groups", 1)
    want = reference.conv(x, w, None, *attributes)
    scale = reference.conv(abs(x), abs(w), None, *attributes)
    stored = reference.to_physical(x, layout)
    ways = 0
    for isa in NEST_ISAS:
        with using_isa(isa):
            found = {}
            for threads in THREADS:
                op = lk.Conv2d(w, layout=layout, threads=threads, **c)
                plan = op.plan(x.shape)
                for way in every_way(plan):
                    assert op.plan(x.shape).choices[0].candidate.name == way
                    y = op(stored)
                    logical = reference.to_logical(y, layout, want.shape)
                    loose = 100 if way.startswith("winograd") else 1
                    bound = scale.max() if loose > 1 else scale
                    assert (abs(logical - want) <= 2.0**-24 * (w[0].size + 3) * loose * bound).all(), (isa, way)
                    first = found.setdefault(way, y)
                    if way != "blas":
                        np.testing.assert_array_equal(y, first, err_msg=f"{isa} {way} with {threads} threads")
                    ways += 1
    assert ways >= 2 * len(THREADS)
