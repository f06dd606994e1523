"""What layouts are taken to cost: nothing where a tensor is the same array in both, more where threads share it."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import layoutkit as lk
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.layout.costs import Costs, same_bytes
from layoutkit.graph.model import Model
from layoutkit.graph.operators import Known
from layoutkit.graph.operators.layouts import LAST, PLAIN, layouts_of

F32 = np.dtype(np.float32)
SIZES = st.sampled_from([1, 1, 2, 3, 16, 24, 32])


@given(st.data(), st.integers(3, 5))
def test_the_same_bytes_are_the_same_array(data, rank):
    shape = tuple(data.draw(SIZES) for _ in range(rank))
    layouts = layouts_of(Known(F32, shape))
    src, dst = (data.draw(st.sampled_from(layouts)) for _ in range(2))
    x = np.arange(1, prod(shape) + 1, dtype=np.float32).reshape(shape)
    before = lk.reorder(x, layouts[PLAIN], src)
    after = lk.reorder(before, src, dst, shape=shape)
    assert same_bytes(src, dst, shape) == (before.ravel().tolist() == after.ravel().tolist())


@pytest.mark.parametrize("layouts", ["plain", "channels last", "blocked"])
def test_a_tensor_of_one_pixel_changes_its_layout_as_a_view(layouts):
    rng = np.random.default_rng(0)
    constants = {"wv"[i]: rng.standard_normal((n, 64, 1, 1), np.float32) for i, n in enumerate((64, 32))}
    nodes = [Node("Conv", ("x", "w"), ("a",), {}), Node("GlobalAveragePool", ("a",), ("b",), {}),
             Node("Conv", ("b", "v"), ("c",), {}), Node("Sigmoid", ("c",), ("y",), {})]  # fmt: skip
    graph = Graph(nodes, {"x": TensorType(F32, (1, 64, 6, 5))}, ("y", "b"), constants)
    model, x = Model(graph, threads=1, layouts=layouts), rng.standard_normal((1, 64, 6, 5), np.float32)
    got = model.run(x)
    b = np.einsum("oi,nihw->nohw", constants["w"][:, :, 0, 0], x).mean((2, 3), keepdims=True)
    y = 1 / (1 + np.exp(-np.einsum("oi,nihw->nohw", constants["v"][:, :, 0, 0], b)))
    np.testing.assert_allclose(got["b"], b, atol=1e-5)
    np.testing.assert_allclose(got["y"], y, atol=1e-5)
    program, _ = model.planned(x)
    reorders = [step for step in program.steps if step.op == "reorder" and step.reads != (("x", PLAIN),)]
    assert all(step.views for step in reorders)
    assert bool(reorders) == (layouts != "plain")


def test_threads_pay_for_what_they_hand_over():
    x = Known(F32, (1, 64, 28, 28))
    alone, together = Costs(1, "standard"), Costs(2, "standard")
    assert not alone._seams(x).any() and alone._handed(x) == 0
    seams = together._seams(x)
    assert seams.argmin() == LAST and 0 < seams.max() <= together._handed(x)
    assert np.diag(together.moves(x)).tolist() == [0, 0, 0]
