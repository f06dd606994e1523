"""Planned execution of graphs drawn at random equals their operators one by one."""

import numpy as np
import pytest
from conftest import fewer
from graphs import graphs
from hypothesis import given
from hypothesis import strategies as st
from oracle.network import evaluate

from layoutkit.graph.model import Model
from layoutkit.graph.operators.layouts import NAMES, layouts_of
from layoutkit.graph.runtime import runs


@pytest.mark.parametrize("shared", [0, runs.SHARED_WORKSPACE_BYTES])
@given(graphs(), st.sampled_from([None, *NAMES]), st.sampled_from([1, 2]), st.integers(0, 1 << 20))
@fewer(2)
def test_planned_equals_unplanned(shared, graph, layouts, threads, seed):
    x = np.random.default_rng(seed).uniform(-1, 1, graph.inputs["x"].shape).astype(graph.inputs["x"].dtype)
    with np.errstate(all="ignore"):
        want = evaluate(graph, {"x": x})
        model = Model(graph, threads=threads, layouts=layouts)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runs, "SHARED_WORKSPACE_BYTES", shared)
            for _ in range(2):  # buffers are used again
                got = model.run({"x": x})
    assert list(got) == list(graph.outputs)
    for name in graph.outputs:
        assert got[name].shape == want[name].shape and got[name].dtype == want[name].dtype
        scale = min(np.abs(want[name][np.isfinite(want[name])]).max(initial=1), 1e3)
        large = np.abs(want[name]) > 1e3  # quotients by differences, whose errors are large
        for some, tolerance in ((~large, 1e-4), (large, 1e-2)):
            np.testing.assert_allclose(got[name][some], want[name][some], tolerance, tolerance * scale, err_msg=name)


@given(graphs(), st.sampled_from(["bfloat16", "float16"]), st.sampled_from([None, *NAMES]))
def test_narrow_products_are_near(graph, dtype, layouts):
    x = np.random.default_rng(0).uniform(-1, 1, graph.inputs["x"].shape).astype(graph.inputs["x"].dtype)
    plain = Model(graph, threads=1).run({"x": x})
    found = Model(graph, threads=1, dtype=dtype, layouts=layouts).run({"x": x})
    affine = "BatchNormalization", "Mul", "Div", "Add", "Sub", "Sum"  # with constants they become convolutions
    products = "Conv", "MatMul", "Gemm", *affine
    convolves = any(node.op in products for node in graph.nodes)
    for name, want in plain.items():
        assert found[name].dtype == want.dtype and found[name].shape == want.shape
        if not convolves:
            np.testing.assert_allclose(found[name], want, rtol=1e-5, atol=1e-5)


@given(graphs())
def test_tensors_of_many_readers_cost_the_same_either_way(graph):
    from layoutkit.graph.layout import plan, problem
    from layoutkit.graph.layout.costs import Costs

    found = []
    for few in (0, 3, 9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(problem, "FEW_READERS", few)
            laid = plan.choose_layouts(graph, {"x": graph.inputs["x"].shape}, Costs(1, "standard"))
        found.append((laid.assigned.seconds, laid.problem.seconds([0] * len(laid.graph.nodes))))
    np.testing.assert_allclose(found, [found[0]] * 3, rtol=1e-9)


@given(graphs(), st.sampled_from([0, 1, 12]))
@fewer(2)
def test_the_assignment_is_the_least_though_few_reorders_get_a_cost(graph, rounds):
    from layoutkit.graph.layout import problem
    from layoutkit.graph.layout.costs import Costs
    from layoutkit.graph.layout.plan import choose_layouts

    given, costs = {"x": graph.inputs["x"].shape}, Costs(1, "standard")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problem, "MAX_ROUNDS", rounds)
        found = choose_layouts(graph, given, costs).assigned
    for known in choose_layouts(graph, given, costs).known.values():
        kinds = range(len(layouts_of(known)))
        if kinds:
            costs.price(known, [(i, j) for i in kinds for j in kinds if i != j])
    assert choose_layouts(graph, given, costs).assigned.seconds == pytest.approx(found.seconds)


@given(graphs())
def test_the_assignment_costs_no_more_than_one_layout_everywhere(graph):
    from layoutkit.graph.layout.costs import Costs
    from layoutkit.graph.layout.plan import choose_layouts

    laid = choose_layouts(graph, {"x": graph.inputs["x"].shape}, Costs(1, "standard"))
    assert laid.assigned.seconds == pytest.approx(laid.assigned.bound)
    assert all(laid.assigned.seconds <= seconds * (1 + 1e-9) for seconds in laid.problem.uniform().values())


@given(graphs())
def test_where_tables_are_too_large_it_costs_no_more_than_one_layout_everywhere_either(graph):
    from layoutkit.graph.layout import assign
    from layoutkit.graph.layout.costs import Costs
    from layoutkit.graph.layout.plan import choose_layouts

    given, costs = {"x": graph.inputs["x"].shape}, Costs(1, "standard")
    least = choose_layouts(graph, given, costs).assigned.seconds
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MAX_TABLE", "SMALL_TABLE", "SMALL_TABLES"):
            patch.setattr(assign, name, 1)
        patch.setattr(assign, "_improve", lambda *_: None)
        laid = choose_layouts(graph, given, costs)
        assert all(laid.assigned.seconds <= seconds * (1 + 1e-9) for seconds in laid.problem.uniform().values())
    assert laid.assigned.bound <= least * (1 + 1e-9) and least <= laid.assigned.seconds * (1 + 1e-9)


@given(graphs(), st.sampled_from(NAMES))
@fewer(2)
def test_a_layout_that_was_asked_for_is_the_least_only_if_nothing_costs_less(graph, layouts):
    from layoutkit.graph.layout.costs import Costs
    from layoutkit.graph.layout.plan import choose_layouts

    given, costs = {"x": graph.inputs["x"].shape}, Costs(1, "standard")
    least = choose_layouts(graph, given, costs).assigned.seconds
    found = choose_layouts(graph, given, costs, layouts)
    assert found.assigned.bound == pytest.approx(least)
    assert found.assigned.seconds == pytest.approx(found.problem.uniform()[layouts])
    told = Model(graph, threads=1, layouts=layouts).explain()
    assert ("the least of all" in told) == (found.assigned.seconds <= least * (1 + 1e-9))
