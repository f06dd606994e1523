"""Copies and pickles of every public kind of object: they give the same bits, or say what to do instead."""

import copy
import pickle

import numpy as np
import pytest
from conftest import fewer
from graphs import graphs
from hypothesis import given
from hypothesis import strategies as st
from strategies import layouts

import layoutkit as lk
from layoutkit.choosing.table import CostTable
from layoutkit.graph.model import Model
from layoutkit.graph.operators import DataDependent, Unsupported
from layoutkit.memory.spans import PlanError

WAYS = [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy]
CONVS = {1: lk.Conv1d, 2: lk.Conv2d, 3: lk.Conv3d}
TRANSPOSED = {1: lk.ConvTranspose1d, 2: lk.ConvTranspose2d, 3: lk.ConvTranspose3d}
ACTIVATIONS = [None, "relu", "silu", ("clip", -1, 2), ["tanh", ("mul", 0.5)], "slopes", "tensor"]


@st.composite
def convolutions(draw):
    """An operation, and what it is given."""
    rng, rank = np.random.default_rng(draw(st.integers(0, 1 << 32))), draw(st.integers(1, 3))
    dtype = draw(st.sampled_from(["float32", "float64", "float16", "int8"]))
    groups, transposed = draw(st.sampled_from([1, 1, 8])), dtype != "int8" and draw(st.booleans())
    x = rng.integers(0, 9, (2, 8, *draw(st.tuples(*[st.integers(5, 9)] * rank)))).astype(dtype.replace("int8", "uint8"))
    w = rng.integers(-9, 9, (8, 8 // groups, *[3] * rank)).astype(dtype)
    options = dict(groups=groups, threads=draw(st.sampled_from([None, 1, 2])), padding=draw(st.integers(0, 1)))
    if dtype == "int8":
        options |= dict(dtype="float32", scale=0.5)
    elif not transposed:
        options |= dict(padding_mode=draw(st.sampled_from(["zeros", "reflect"])))
    wide = {"float16": "float32", "int8": "float32"}.get(dtype, dtype)
    activation = draw(st.sampled_from(ACTIVATIONS))
    kind = (TRANSPOSED if transposed else CONVS)[rank]
    if activation == "slopes":
        activation = ("prelu", np.linspace(0, 1, 8, dtype=wide))
    if activation == "tensor":
        like = kind(w, **options)(x)
        activation = [("add", rng.integers(-9, 9, like.shape).astype(like.dtype))]
    return kind(w, activation=activation, **options), x


@pytest.mark.filterwarnings("ignore::layoutkit.SlowPathWarning")
@given(convolutions(), st.booleans(), st.sampled_from(WAYS))
def test_convolutions(case, used, way):
    op, x = case
    before = op(x) if used else None
    again = way(op)
    assert type(again) is type(op) and str(again) == str(op)
    np.testing.assert_array_equal(again(x), op(x) if before is None else before)


@pytest.mark.filterwarnings("ignore::layoutkit.SlowPathWarning")
@given(graphs(), st.booleans(), st.sampled_from(WAYS))
@fewer(2)
def test_models(graph, used, way):
    model = Model(graph, threads=1, accuracy="strict", layouts="channels last")
    rng = np.random.default_rng(0)
    inputs = {name: rng.standard_normal(of.shape).astype(of.dtype) for name, of in graph.inputs.items()}
    want = model.run(inputs) if used else None
    again = way(model)
    assert again.options == model.options and repr(again) == repr(model)
    want = model.run(inputs) if want is None else want
    for name, found in again.run(inputs).items():
        np.testing.assert_array_equal(found, want[name])


@given(layouts(), st.sampled_from(WAYS))
def test_layouts_and_tensors(layout, way):
    assert way(layout) == layout
    shape = tuple(range(2, 2 + layout.rank))
    tensor = lk.Tensor(np.random.default_rng(0).random(layout.physical_shape(shape)), layout, shape)
    again = way(tensor)
    assert again.layout == layout.dense and again.shape == shape
    np.testing.assert_array_equal(again.array, tensor.array)


X, W = np.ones((1, 4, 6, 6), np.float32), np.ones((4, 4, 3, 3), np.float32)


@pytest.mark.parametrize("plan", [
    lambda: lk.plan(lk.reorder, X, "NCHW", "NHWC"),
    lambda: lk.plan(lk.conv2d, X, W),
    lambda: lk.plan(lk.grad.conv2d_weight, X, W.shape, np.ones((1, 4, 4, 4), np.float32)),
    lambda: lk.Conv2d(W).plan(X.shape),
])  # fmt: skip
def test_a_plan_is_copied_but_for_another_process_made_anew(plan):
    plan = plan()
    assert copy.copy(plan) is plan and copy.deepcopy(plan) is plan
    with pytest.raises(TypeError, match=r"cannot be pickled; plan again where it is needed, by lk.plan\(operation"):
        pickle.dumps(plan)


def test_the_cost_table_is_one():
    for way in WAYS:
        assert way(lk.cost_table) is lk.cost_table
        with pytest.raises(TypeError, match=r"that is not lk.cost_table cannot be copied or pickled; export it"):
            way(CostTable())


@pytest.mark.parametrize(
    "error", [DataDependent("why", "t"), Unsupported("why"), PlanError("why"), lk.SlowPathWarning("why")]
)
def test_errors_come_back_from_other_processes(error):
    for way in WAYS:
        again = way(error)
        assert type(again) is type(error) and str(again) == "why" and vars(again) == vars(error)
