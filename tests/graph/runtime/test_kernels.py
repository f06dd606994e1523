"""Pooling and LRN by kernels, against the operators' own functions, on every instruction set."""

import numpy as np
import pytest
from conftest import WHOLE_ISAS, using_isa
from hypothesis import given
from hypothesis import strategies as st
from oracle.network import evaluate

from layoutkit._core.nests.images.pooling import pool
from layoutkit._core.nests.norms.lrn import Lrn
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators.layouts import NAMES

F32 = np.dtype(np.float32)


@st.composite
def poolings(draw, large=False):
    spatial = draw(st.integers(1, 3))
    size = [draw(st.integers(1, 12)) for _ in range(spatial)]
    shape = (draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 16, 33, 64, 70, 130])), *size)
    if large:  # a plane of more rows than a task has, or of long ones
        shape = (1, 2, *size[:-2], *draw(st.sampled_from([(600, 7), (70, 100), (3, 2500), (90, 64)])))
        size = shape[2:]
    op = draw(st.sampled_from(["MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"]))
    if op.startswith("Global"):
        return shape, Node(op, ("x",), ("y",))
    kernel = [draw(st.integers(1, 4)) for _ in size]
    attributes = {
        "kernel_shape": kernel, "strides": [draw(st.integers(1, 3)) for _ in size],
        "dilations": [draw(st.integers(1, 2)) for _ in size],
        "pads": [draw(st.integers(0, k - 1)) for _ in range(2) for k in kernel],
        "ceil_mode": draw(st.integers(0, 1)), "count_include_pad": draw(st.integers(0, 1)),
    }  # fmt: skip
    return shape, Node(op, ("x",), ("y",), attributes)


@given(poolings(), st.sampled_from(WHOLE_ISAS), st.sampled_from(NAMES), st.integers(1, 2))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_pooling(pooling, isa, layouts, threads):
    check_pooling(*pooling, isa, layouts, threads)


@given(poolings(large=True), st.sampled_from(WHOLE_ISAS), st.sampled_from(NAMES), st.integers(1, 2))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_pooling_of_planes(pooling, isa, layouts, threads):
    check_pooling(*pooling, isa, layouts, threads)


def check_pooling(shape, node, isa, layouts, threads):
    x = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    for i, value in enumerate((np.nan, np.inf, -np.inf)):
        x.flat[i * x.size // 3] = value
    graph = Graph([node], {"x": TensorType(F32, shape)}, ("y",), {})
    with using_isa(isa):
        try:
            want = evaluate(graph, {"x": x})["y"]
            model = Model(graph, layouts=layouts, threads=threads)
            got = model.run(x)["y"]
        except ValueError as error:  # a window that does not fit
            assert "does not fit" in str(error)
            return
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@given(
    st.integers(1, 5), st.integers(1, 100), st.integers(1, 9), st.sampled_from(WHOLE_ISAS), st.integers(1, 3),
    st.floats(0, 2), st.floats(0.5, 2),
)  # fmt: skip
def test_lrn(pixels, channels, size, isa, threads, alpha, bias):
    x = np.random.default_rng(0).uniform(-2, 2, (1, channels, 1, pixels)).astype(np.float32)
    node = Node("LRN", ("x",), ("y",), {"size": size, "alpha": alpha, "bias": bias})
    want = evaluate(Graph([node], {"x": TensorType(F32, x.shape)}, ("y",), {}), {"x": x})["y"]
    rows = np.ascontiguousarray(x[0, :, 0].T)
    y = np.full_like(rows, np.nan)
    with using_isa(isa):
        Lrn((rows, y), (rows, y), "f32", size, alpha, bias, threads)(rows, y)
    np.testing.assert_allclose(y.T, want[0, :, 0], rtol=2e-5, atol=1e-6)


def test_what_kernels_are_not_for():
    x = np.zeros((4, 3), np.float32)
    with pytest.raises(ValueError, match="contiguous channels of f32"):
        Lrn((x.T, x), (x.T, np.zeros((3, 4), np.float32)), "f32", 3, 1.0, 1.0, 1)
    with pytest.raises(ValueError, match="size 0"):
        Lrn((x, x), (x, x), "f32", 0, 1.0, 1.0, 1)
    six = np.zeros((1, 1, 1, 1, 4, 6), np.float32)[..., ::2]
    with pytest.raises(ValueError, match="not contiguous"):
        pool("f32", six, six, [(1, 1, 1, 0)] * 3, None, 1)
