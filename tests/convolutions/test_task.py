"""Convolutions as problems that are chosen for: keys, candidates, their estimates, what is forced, what is packed."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from conftest import using_isa
from conv_problems import conv_problems
from hypothesis import given
from hypothesis import strategies as st

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing.best import choices
from layoutkit.choosing.machine_profile import scaled
from layoutkit.choosing.packaged import this_machine
from layoutkit.choosing.problem import PackingStep
from layoutkit.choosing.ranking import candidates_of
from layoutkit.choosing.table import cost_table
from layoutkit.convolutions.algorithms import ALGORITHMS, AUTO, NAMES
from layoutkit.convolutions.problem import ConvProblem
from layoutkit.convolutions.task import ConvTask, PackTask, best_route, check_strides, contiguous, slowness
from layoutkit.convolutions.types import TYPES

THREADS = st.integers(1, 4)


def problem(layout="NCHW", c=8, o=8, k=3, groups=1, size=9, **more):
    held = lk.Layout(layout)
    return ConvProblem(
        1, c, o, (size, size), (k, k), (1, 1), ((0, 0), (0, 0)), (1, 1), groups, held, held, **more
    )  # fmt: skip


@given(conv_problems(), THREADS)
def test_a_key_is_read_back(p, threads):
    task = ConvTask(p, threads)
    again = ConvTask.parse(task.key)
    assert again.key == task.key and again == replace(task, problem=again.problem)
    assert again.features() == task.features()
    if lk.Layout(str(p.src)) == p.src and lk.Layout(str(p.dst)) == p.dst:
        assert again == task
    assert replace(task, algorithm="direct", once=True).key == task.key, "however it is asked for"


@given(conv_problems())
def test_a_filters_key_is_read_back(p):
    task = PackTask.of(p)
    again = PackTask.parse(task.key)
    assert again == replace(task, whole=None) and again.key == task.key
    assert list(again.candidates()) == [], "what it is packed for is not known"
    assert (again.elements, again.work) == (
        p.oc * p.ic // p.groups * np.prod(p.kernel),
        2 * p.types.filter.itemsize * again.elements,
    )
    with scaled(this_machine()):
        assert all(again.estimate(c.name) == c.estimate for c in task.candidates())


@pytest.mark.parametrize(
    "key", ["", "conv", "conv n1 t1", "filter o1", "filter o0 c1 k1 g1 f32", "filter o1 c1 k1 g1 f8"]
)
def test_what_is_no_key_is_refused(key):
    with pytest.raises(ValueError, match="not "):
        (PackTask if key.startswith("filter") else ConvTask).parse(key)


@given(conv_problems(), THREADS, st.sampled_from(registry.isas()), st.booleans())
def test_candidates_are_distinct_and_their_estimates_are_times(p, threads, isa, once):
    with using_isa(isa):
        found = candidates_of(ConvTask(p, threads, once=once))
        assert found and len({c.name for c in found}) == len(found)
        for c in found:
            assert 0 < c.estimate < inf
            assert all(0 < step.estimate < inf for step in c.steps)


@given(conv_problems(), THREADS)
def test_what_is_forced_is_all_there_is(p, threads):
    every = {c.name for c in candidates_of(ConvTask(p, threads))}
    seen = set()
    for algorithm in NAMES[1:]:
        try:
            found = {c.name for c in candidates_of(ConvTask(p, threads, algorithm))}
        except ValueError as refusal:
            assert f"algorithm {algorithm!r} cannot do it: " in str(refusal)
            continue
        assert found and all(name.split()[0] == algorithm for name in found)
        seen |= found
    assert every <= seen, "what is chosen freely can be forced"


@given(conv_problems(), THREADS)
def test_of_network_there_are_the_routes_without_reorders_or_all(p, threads):
    every = {c.name: c.estimate for c in candidates_of(ConvTask(p, threads))}
    natively = {c.name: c.estimate for c in candidates_of(ConvTask(p, threads, of_network=True))}
    assert natively == ({name: of for name, of in every.items() if " via " not in name} or every)


def test_the_names_of_algorithms_are_those_of_candidates():
    assert NAMES[0] == AUTO and set(NAMES[1:]) == {a.name for a in ALGORITHMS}


@given(conv_problems(), THREADS)
def test_a_filter_met_once_is_packed_in_a_step_of_its_own(p, threads):
    kept, once = (candidates_of(ConvTask(p, threads, once=o)) for o in (False, True))
    packing = PackTask.of(p)
    with scaled(this_machine()):
        parts = {c.name: packing.step(c.name) for c in packing.candidates()}
    assert [(c.name, c.estimate) for c in kept] == [(c.name, c.estimate) for c in once]
    assert not any(c.steps for c in kept)
    for c in once:
        (step,) = c.steps
        assert isinstance(step, PackingStep) and step == parts[step.name]
    assert {c.name for c in candidates_of(packing)} == {
        c.steps[0].name for c in candidates_of(ConvTask(p, 1, once=True))
    }


def test_a_step_is_what_the_built_route_packs(cache_dir):
    for layout, groups in (("NCHW", 1), ("NHWC", 1), ("nChw16c", 1), ("NHWC", 8), ("NHWC", 4)):
        for c in candidates_of(ConvTask(problem(layout, groups=groups), 1, once=True)):
            assert c.build().packing == c.steps[0].name


@pytest.mark.parametrize("types", ["f32", "u8s8_s32"])
@pytest.mark.parametrize("channels, groups", [(1, 1), (20, 20), (48, 48), (40, 1), (40, 5)])
def test_filters_packed_under_one_name_are_the_same(types, channels, groups):
    rng, packed = np.random.default_rng(0), {}
    of = TYPES[types]
    w = rng.integers(-9, 9, (channels, channels // groups, 3, 3)).astype(of.filter)
    bias = rng.integers(-9, 9, channels).astype(of.sum)
    for layout in ("NHWC", "nChw8c", "nChw16c", "nChw32c", "nChw64c"):
        for c in candidates_of(ConvTask(problem(layout, channels, channels, groups=groups, types=of), 1)):
            route = c.build()
            numbers = [np.asarray(part).copy() for part in route.pack(w, bias) if part is not None]
            before = packed.setdefault(route.packing, numbers)
            assert len(before) == len(numbers), route.packing
            for a, b in zip(before, numbers):
                np.testing.assert_array_equal(a, b, route.packing)


def test_what_is_measured_is_the_whole_and_its_packing():
    task = ConvTask(problem(), 1, "direct", True)
    assert list(task.measured_parts()) == [ConvTask(problem(), 1), PackTask.of(problem())]
    assert list(replace(task, once=False).measured_parts()) == [ConvTask(problem(), 1)]


def test_without_elements_there_is_no_work():
    assert ConvTask(problem(), 1).work == problem().flops > 0
    assert ConvTask(replace(problem(), n=0), 1).work == ConvTask(replace(problem(), oc=0), 1).work == 0


def test_a_route_is_built_once_for_arrays_alike(cache_dir):
    task = ConvTask(problem(), 1)
    arrays = contiguous(task.problem)
    found = best_route(task, arrays)
    assert best_route(ConvTask(problem(), 1), arrays) is found
    assert best_route(task, arrays._replace(y_strides=tuple(2 * s for s in arrays.y_strides))) is not found


def test_a_route_that_runs_compiled_is_asked_for(cache_dir):
    arrays = contiguous(problem())
    with pytest.raises(ValueError, match="runs in Python only"):
        best_route(ConvTask(problem(), 1, "blas"), arrays, compiled=True)
    assert best_route(ConvTask(problem(), 1), arrays, compiled=True).packing != "blas"


def test_strides_beyond_63_bits_are_refused():
    p = problem()
    arrays = contiguous(p)
    check_strides(p, arrays)
    for far in (arrays._replace(x_strides=(2**59, 0, 0, 4)), arrays._replace(y_strides=(4, 0, 0, -(2**59)))):
        with pytest.raises(ValueError, match=r"beyond 2\*\*62 bytes"):
            check_strides(p, far)


@pytest.mark.filterwarnings("ignore:.*only slow ways")
def test_slow_is_what_wastes_most_of_the_machine():
    with using_isa(registry.isas()[-1]):
        p = problem(c=132, o=4, groups=4, accuracy="strict")
        slow = ConvTask(replace(p, size=(2500, 2), kernel=(5, 3), padding=((2, 2), (1, 1))), 1)  # 1 of all lanes, or 2
        fast, small = ConvTask(problem("NHWC", 64, 64, size=30), 1), ConvTask(replace(slow.problem, size=(5, 5)), 1)
        found = {
            name: slowness(task, choices(task)) for name, task in (("slow", slow), ("fast", fast), ("small", small))
        }
    assert found["fast"] is None and found["small"] is None, found
    assert found["slow"].startswith("only slow ways: "), found


def test_decisions_about_packing_follow_what_is_measured(cache_dir):
    p = problem(o=11)
    packing = PackTask.of(p)
    every = [c.name for c in candidates_of(packing)]
    one = candidates_of(ConvTask(p, 1, once=True))[0]
    cost_table.record(ConvTask(p, 1).key, one.name, lk.choosing.costfile.Cost(1.0, 1.0, 0.0, 3))
    assert [c.name for c in candidates_of(packing)] == [one.steps[0].name] and len(every) > 1
