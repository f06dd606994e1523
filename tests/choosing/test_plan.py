"""Plans: how candidates are measured, ranked and explained, with clocks that are made up."""

import itertools
import subprocess
import sys
import weakref

import numpy as np
import pytest
from problems import Known

import layoutkit as lk
from layoutkit.choosing import machine
from layoutkit.choosing import tuning as modes
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.measuring import measure
from layoutkit.choosing.plan import Plan
from layoutkit.choosing.problem import Candidate, Choice
from layoutkit.choosing.ranking import rank as ranked
from layoutkit.choosing.table import cost_table
from layoutkit.convolutions.problem import ConvProblem
from layoutkit.convolutions.task import ConvTask, PackTask

keys = (f"test problem {i}" for i in itertools.count())


@pytest.fixture
def key(cache_dir):
    return next(keys)


@pytest.fixture
def tuning():
    """lk.tuning, set back after the test."""
    before = modes.mode()
    yield lk.tuning
    lk.tuning(before)


def rank(key, ways):
    return ranked(Known(key, ways))


def candidate(name, estimate=1.0):
    return Candidate(name, estimate, lambda: name)


@pytest.fixture
def calm(monkeypatch):
    """No other work on the machine, or none that is noticed."""
    monkeypatch.setattr(machine, "waited", lambda: 0.0)


# ---- the mode of tuning


def test_tuning_gives_the_mode_before_and_refuses_others(tuning):
    before = tuning("off")
    assert tuning() == "off", "asked only"
    assert tuning(before) == "off" and tuning() == before
    with pytest.raises(ValueError, match="mode 'best' is none of learn, measure, estimate, off"):
        tuning("best")
    with pytest.raises(ValueError, match="budget is seconds for 'measure', got 'much'"):
        tuning("measure", budget="much")
    assert modes.mode() == before


# ---- what is chosen


def small_conv(oc=13):
    x = np.ones((1, 5, 9, 9), np.float32)
    w = np.ones((oc, 5, 3, 3), np.float32)
    return x, w


def test_tuning_by_measuring_measures_on_first_use(cache_dir, tuning, calm):
    x, w = np.ones((1, 64, 30, 30), np.float32), np.ones((64, 64, 3, 3), np.float32)  # a call of it costs nothing
    assert "decided by estimated cost" in lk.plan(lk.conv2d, x, w, threads=1).explain()
    tuning("measure")
    text = lk.plan(lk.conv2d, x, w, threads=1).explain()
    assert "decided by measured cost" in text
    tuning("estimate")
    assert lk.plan(lk.conv2d, x, w, threads=1).explain() == text, "what was measured stays"
    tuning("off")
    assert "decided by estimated cost" in lk.plan(lk.conv2d, x, w, threads=1).explain()


def conv_problem(oc):
    L = lk.Layout("NCHW")
    return ConvProblem(1, 5, oc, (9, 9), (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, L, L)


def test_every_route_can_win_and_gives_the_same_result(cache_dir):
    x, w = small_conv(oc=14)
    found = measure(ConvTask(conv_problem(14), 1), 0)
    op = lk.Conv2d(w, threads=1)
    want = op(x)
    for i, name in enumerate(found):
        cost_table.record(ConvTask(conv_problem(14), 1).key, name, Cost(1e-9 / (i + 1), 1.0, 0.0, 1))
        assert op.plan(x.shape).choices[0].candidate.name == name
        np.testing.assert_allclose(op(x), want, rtol=1e-6)


def test_a_frozen_table_is_bit_identical(cache_dir, calm):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 5, 9, 9), np.float32), rng.standard_normal((15, 5, 3, 3), np.float32)
    measure(ConvTask(conv_problem(15), 1), 0)
    measure(PackTask.of(conv_problem(15)), 0)
    cost_table.save()
    want = lk.conv2d(x, w, threads=1)
    program = f"""
import numpy as np, layoutkit as lk
rng = np.random.default_rng(0)
x, w = rng.standard_normal((1, 5, 9, 9), np.float32), rng.standard_normal((15, 5, 3, 3), np.float32)
assert "decided by measured cost" in lk.plan(lk.conv2d, x, w, threads=1).explain()
assert lk.conv2d(x, w, threads=1).tobytes().hex() == "{want.tobytes().hex()}"
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("small", [False, True])
def test_a_reorder_is_explained_as_it_is_run(cache_dir, tuning, calm, small):
    x = np.ones((1, 16, 8, 8) if small else (1, 64, 64, 64), np.float32)
    tuning("measure")
    lk.reorder(x, "NCHW", "NHWC", threads=2)
    tuning("estimate")
    text = lk.plan(lk.reorder, x, "NCHW", "NHWC", threads=2).explain()
    assert "decided by measured cost" in text
    assert text.startswith(f"reorder of {x.shape} float32 NCHW -> NHWC on {'1 thread' if small else '2 threads'}\n")


# ---- explaining


def test_explain_tells_the_limit_and_what_packing_costs(cache_dir):
    x, w = small_conv()
    text = lk.plan(lk.conv2d, x, w, threads=1).explain()
    assert "of the FMA peak" in text and "packing the filter is part of the cost" in text
    assert "packing" not in lk.Conv2d(w, threads=1).explain(x.shape)
    text = lk.plan(lk.reorder, x, "NCHW", "NHWC").explain()
    assert "0.00324 MB read and written" in text and "of a copy" in text


def test_a_filter_met_once_is_packed_by_what_packs_fast(cache_dir):
    x, w = small_conv(oc=16)
    op = lk.Conv2d(w, threads=1)
    for i, choice in enumerate(op.plan(x.shape).choices):
        cost_table.record(op.plan(x.shape).title, choice.candidate.name, Cost(1e-3 + 1e-5 * i, 1.0, 0.0, 1))
    kept = op.plan(x.shape).choices[0]
    slow = next(c for c in lk.plan(lk.conv2d, x, w, threads=1).choices if c.candidate.name == kept.candidate.name)
    (step,) = slow.candidate.steps
    for c in lk.plan(lk.conv2d, x, w, threads=1).choices:
        for other in c.candidate.steps:
            cost_table.record(
                other.problem.key, other.name, Cost(1.0 if other.name == step.name else 1e-6, 1.0, 0.0, 1)
            )
    once = lk.plan(lk.conv2d, x, w, threads=1).choices[0]
    assert once.source == "measured" and once.candidate.steps[0].name != step.name
    assert op.plan(x.shape).choices[0].candidate.name == kept.candidate.name


def test_plan_names_what_it_can_plan():
    assert lk.grad  # gradients are known from when they are imported
    convolutions = (f"conv{kind}{rank}d" for kind in ("", "_transpose") for rank in (1, 2, 3))
    known = ", ".join([f"{name}, {name}_input, {name}_weight" for name in convolutions] + ["reorder"])
    with pytest.raises(TypeError, match=f"has no plans; those that have: {known}"):
        lk.plan(print)
    with pytest.raises(TypeError, match=r"plan: \[\] has no plans"):
        lk.plan([])
    with pytest.raises(TypeError, match=r"plan: reorder\(\) missing a required argument: 'array'"):
        lk.plan(lk.reorder)


def test_a_kept_plan_moves_what_it_was_made_for():
    x = np.arange(240, dtype=np.float32).reshape(2, 5, 4, 6)
    plan = lk.plan(lk.reorder, x, "NCHW", "NHWC")
    out = np.zeros((2, 4, 6, 5), np.float32)
    assert repr(plan.run).startswith("<reorder NCHW -> NHWC: ") and "float32" in repr(plan.run)
    plan.run(x, out)
    np.testing.assert_array_equal(out, x.transpose(0, 2, 3, 1))
    room = np.zeros((2, 4, 6, 10), np.float32)
    lk.plan(lk.reorder, x, "NCHW", "NHWC", out=room[..., ::2]).run(x, room[..., ::2])
    np.testing.assert_array_equal(room[..., ::2], out)
    assert not room[..., 1::2].any()


def test_a_kept_plan_refuses_other_arrays():
    x = np.ones((2, 5, 4, 6), np.float32)
    run, out = lk.plan(lk.reorder, x, "NCHW", "NHWC").run, np.zeros((2, 4, 6, 5), np.float32)
    shared = np.zeros(300, np.float32)
    fixed = out.copy()
    fixed.flags.writeable = False
    for a, b, match in [
        (x[:, :4], out, "planned for"), (x.astype(np.float64), out, "float64"), (x[..., ::-1], out, "planned for"),
        (x, out[..., ::-1], "planned for"), (x, fixed, "read-only"), (x, out[..., None], "planned for"),
        (shared[:240].reshape(x.shape), shared[20:260].reshape(out.shape), "overlaps"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=match):
            run(a, b)
    for a, b in [(None, out), (x, None), ([1], out)]:
        with pytest.raises(TypeError):
            run(a, b)
    assert not out.any()


NUMBERS = [
    dict(dtype="float32"), dict(dtype="float64", pad_value=3), dict(dtype="int8", zero_point=3, scale=0.7),
    dict(dtype="float16", scale=np.arange(1, 6) / 7, offset=np.arange(5.0)), dict(dtype="uint8", alpha=2),
    dict(dtype="float32", scale=0.5, region=(None, (1, 4), None, None)),
    dict(dtype="int16", scale=0.5, zero_point=np.arange(5), out_scale=np.arange(1, 6) / 7, out_zero_point=-700),
    dict(dtype="float32", scale=np.ones((3, 2)) / 3, axis=(3, 1), block_size=(2, 3)),
    dict(dtype="int64", zero_point=2**30),
]  # fmt: skip


@pytest.mark.parametrize("numbers", NUMBERS, ids=str)
@pytest.mark.parametrize("dst", ["NHWC", "nChw8c", "NCHW"])
def test_a_kept_plan_converts(numbers, dst):
    x = np.random.default_rng(3).integers(-100, 100, (2, 5, 4, 6)).astype(np.int8)
    want = lk.reorder(x, "NCHW", dst, **numbers)
    plan, out = lk.plan(lk.reorder, x, "NCHW", dst, **numbers), np.zeros_like(want)
    for other in (x, -x):  # any arrays of these shapes
        plan.run(other, out)
        np.testing.assert_array_equal(out, lk.reorder(other, "NCHW", dst, **numbers))
    with pytest.raises(ValueError, match=r"planned for .* int8 to"):
        plan.run(x.astype(np.float32), out)
    with pytest.raises(ValueError, match="planned for"):
        plan.run(x, out[:1])
    with pytest.raises(ValueError, match="overlaps"):
        plan.run(out.view(np.int8).reshape(-1)[: x.size].reshape(x.shape), out)


def test_a_kept_plan_adds_to_what_is_there():
    x, out = np.arange(240, dtype=np.int32).reshape(2, 5, 4, 6), np.ones((2, 4, 6, 10), np.float32)[..., ::2]
    run = lk.plan(lk.reorder, x, "NCHW", "NHWC", dtype="float32", beta=2, out=out).run
    for times, ones in ((1, 2), (3, 4)):
        run(x, out)
        np.testing.assert_array_equal(out, times * x.transpose(0, 2, 3, 1) + ones)
    assert lk.plan(lk.reorder, x, "NCHW", "NHWC", dtype="float32", beta=2).run is None  # nothing to add to


def test_a_kept_plan_of_halves_that_numpy_does_not_know():
    x = np.arange(0x3F80, 0x3F80 + 24, dtype=np.uint16).reshape(2, 3, 2, 2)
    how = dict(dtype=("bfloat16", "float32"))
    out = np.zeros((2, 2, 2, 3), np.float32)
    lk.plan(lk.reorder, x, "NCHW", "NHWC", **how).run(x, out)
    np.testing.assert_array_equal(out, lk.reorder(x, "NCHW", "NHWC", **how))


def test_a_reorder_tells_its_nests():
    x = np.zeros((16, 100, 56, 56), np.float32)
    plan = lk.plan(lk.reorder, x, "NCHW", "NHWC", threads=1)
    text = plan.explain(verbose=True)
    assert "read and written" in text and "of a copy" in text and ", loops " in text and "more, up to" in text
    assert len(text.splitlines()) < 20 and ", loops " not in plan.explain()


def test_a_plan_can_be_called(cache_dir):
    x, w, b = np.arange(240, dtype=np.float32).reshape(2, 5, 4, 6), np.ones((3, 5, 3, 3), np.float32), np.arange(3.0)
    out = np.zeros((2, 4, 6, 5), np.float32)
    plan = lk.plan(lk.reorder, x, "NCHW", "NHWC", out=out)
    y = plan(-x)
    np.testing.assert_array_equal(y, -x.transpose(0, 2, 3, 1))
    assert not out.any() and plan(x, out=out) is out and np.array_equal(out, -y)
    assert isinstance(plan(lk.Tensor(x, "NCHW")), lk.Tensor)
    plan = lk.plan(lk.conv2d, np.zeros_like(x), np.zeros_like(w), padding=1, bias=b.astype(np.float32))
    np.testing.assert_array_equal(plan(x, w), lk.conv2d(x, w, b.astype(np.float32), padding=1))
    dy = plan(x, w)
    plan = lk.plan(lk.grad.conv2d_weight, x, w.shape, dy, padding=1)
    np.testing.assert_array_equal(plan(x, 2 * dy), 2 * lk.grad.conv2d_weight(x, w.shape, dy, padding=1))
    op = lk.Conv2d(w, padding=1)
    np.testing.assert_array_equal(op.plan(x.shape)(x), op(x))


def test_a_plan_that_cannot_be_called_says_why():
    x, w = small_conv()
    plan = lk.plan(lk.conv2d, x, w)
    with pytest.raises(TypeError, match=r"plan of conv2d: expected 2 arrays, in place of those .*, got 1"):
        plan(x)
    with pytest.raises(TypeError, match=r"problem: this plan only tells; lk\.plan"):
        Plan("problem", [Choice(candidate("a"), 1.0, "estimated")])(x)


def test_a_plan_keeps_none_of_its_arrays():
    x, _ = small_conv()
    seen = weakref.ref(x)
    plan = lk.plan(lk.reorder, x, "NCHW", "NHWC")
    y = plan(x)
    del x, y
    assert seen() is None and plan.choices


def test_what_a_plan_consists_of_says_what_it_is(cache_dir):
    plan = lk.plan(lk.reorder, np.ones((1, 2, 3, 4), np.float32), "NCHW", "NHWC", threads=1)
    (best, *_), n = plan.choices, len(plan.choices)
    assert repr(best.candidate).startswith(f"Candidate({best.candidate.name!r}, estimated ")
    assert repr(best).startswith(f"Choice({best.candidate.name!r}, estimated ") and repr(best).endswith(" us)")
    assert repr(plan) == f"Plan(reorder of (1, 2, 3, 4) float32 NCHW -> NHWC on 1 thread: {best!r}, of {n})"
    assert str(plan).splitlines()[0] == plan.words and "\n" not in repr(plan)
