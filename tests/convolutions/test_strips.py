"""Depthwise down strips, of channels and of planes: every row, forced, against the reference, between guard pages."""

import numpy as np
import pytest
from conftest import WHOLE_ISAS, using_isa
from oracle import reference
from random_cases.deciding import forget
from whole import inside, numbers, outside

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.table import cost_table
from layoutkit.convolutions import route


def forced(op, shape, family):
    """Let the table say that the family is fastest where it needs no reorder; returns whether it is a candidate."""
    plan = op.plan(shape)
    names = [c.candidate.name for c in plan.choices if f" {family}_" in c.candidate.name and not c.candidate.steps]
    if names:
        forget()
        cost_table.record(plan.title, names[0], Cost(1e-12, 1.0, 0.0, 1))
        assert op.plan(shape).choices[0].candidate.name == names[0]
    return bool(names)


@pytest.mark.parametrize("isa", WHOLE_ISAS)
@pytest.mark.parametrize("kernel", [3, 5, 7])
@pytest.mark.parametrize(("family", "layouts"), [("plane_strips", ["NCHW"]), ("strips", ["NHWC", "nChw16c"])])
def test_any_strips(cache_dir, monkeypatch, seed, isa, kernel, family, layouts):
    monkeypatch.setattr(route, "useful_threads", lambda _, threads: threads)  # as if there was much to do
    rng, tried = np.random.default_rng(seed), 0
    for _ in range(40):
        stride, threads, batch = (int(v) for v in rng.integers(1, 4, 3))
        channels = int(rng.integers(1, 40))
        height, width = (int(rng.integers(1, most)) for most in (16, rng.choice((12, 40, 150))))
        padding = tuple(tuple(int(v) for v in rng.integers(0, rng.choice((2, kernel)), 2)) for _ in range(2))
        if height + sum(padding[0]) < kernel or width + sum(padding[1]) < kernel:
            continue
        dtype, biased = rng.choice((np.float32, np.float64)), rng.integers(2)
        x = numbers(rng, batch, channels, height, width, dtype=dtype)
        w = numbers(rng, channels, 1, kernel, kernel, dtype=dtype)
        bias = numbers(rng, channels, dtype=dtype) if biased else None
        layout, end = lk.Layout(rng.choice(layouts)), rng.choice(("low", "high"))
        activation = [None, "relu", ("clip", -9.0, 20.0), "abs"][rng.integers(4)]
        want = reference.conv(x, w, bias, (stride,) * 2, padding, (1, 1), channels)
        want = reference.activate(want, activation) if activation else want
        held, (out, expected) = inside(x, layout, end), outside(want, layout, end, dtype)
        with using_isa(isa):
            op = lk.Conv2d(w, bias, stride=stride, padding=padding, groups=channels, layout=layout, threads=threads,
                           activation=activation, accuracy=rng.choice(("reproducible", "strict")))  # fmt: skip
            if forced(op, x.shape, family):
                assert stride < 3
                tried += 1
                np.testing.assert_array_equal(op(held, out, shape=x.shape), expected, err_msg=op.plan(x.shape).title)
    with using_isa(isa):
        has_rows = any(k.mr == kernel for types in ("f32", "f64") for k in registry.kernels(family, types))
    assert tried > 0 if has_rows else not tried
