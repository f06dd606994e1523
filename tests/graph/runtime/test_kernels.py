"""Pooling and LRN by kernels, against the operators' own functions, on every instruction set."""

import numpy as np
import pytest
from conftest import WHOLE_ISAS, using_isa
from hypothesis import given
from hypothesis import strategies as st
from oracle.network import evaluate

from layoutkit._core.nests.add import add
from layoutkit._core.nests.lrn import Lrn
from layoutkit._core.nests.pooling import pool
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model

F32 = np.dtype(np.float32)


@st.composite
def poolings(draw):
    spatial = draw(st.integers(1, 3))
    size = [draw(st.integers(1, 12)) for _ in range(spatial)]
    shape = (draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 16, 33, 64, 70, 130])), *size)
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


@given(poolings(), st.sampled_from(WHOLE_ISAS), st.sampled_from(["channels last", "blocked"]), st.integers(1, 2))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_pooling(pooling, isa, layouts, threads):
    shape, node = pooling
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


LIMITS = st.sampled_from([None, (0.0, np.inf), (-0.5, 0.25)])


def strided(draw, shape, dtype):
    """Random numbers in an array whose rows lie apart, or in pieces."""
    larger = [n + draw(st.integers(0, 2)) for n in shape]
    whole = np.random.default_rng(draw(st.integers(0, 99))).integers(-128, 128, larger)
    whole = whole.astype(dtype) if np.dtype(dtype).kind in "iu" else (whole / 64).astype(dtype)
    return whole[(*(slice(0, n) for n in shape), ...)]


@given(st.data(), st.sampled_from(["float32", "uint8", "int8"]), st.booleans(), LIMITS, st.sampled_from(WHOLE_ISAS))
def test_add(data, dtype, two, limits, isa):
    shape = tuple(data.draw(st.lists(st.integers(0, 40), max_size=4)))
    a, b, y = (strided(data.draw, shape, dtype) for _ in range(3))
    scales = [(data.draw(st.sampled_from([0.5, 0.03, 1.7])), data.draw(st.integers(-20, 20))) for _ in range(3)]

    def real(q, scale, zero):
        return q if dtype == "float32" else (q.astype(np.float32) - zero) * np.float32(scale)

    want = real(a, *scales[0]) + (real(b, *scales[1]) if two else 0)
    want = want if limits is None else np.clip(want, *np.float32(limits))
    if dtype != "float32":
        info, (scale, zero) = np.iinfo(dtype), scales[2]
        want = np.clip(np.rint(want / np.float32(scale)) + zero, info.min, info.max)
    with using_isa(isa):
        types = {"float32": "f32", "uint8": "u8", "int8": "s8"}[dtype]
        add(types, a, b if two else None, y, limits, scales, data.draw(st.integers(1, 3)))
    np.testing.assert_array_equal(y, want)


def test_add_in_parts():
    """Of few rows, each thread takes a part of each."""
    x = np.arange(1 << 17, dtype=np.float32).reshape(2, -1)
    y = np.zeros_like(x)
    add("f32", x, x, y, (0.0, 1e5), [(1.0, 0)] * 3, 3)
    np.testing.assert_array_equal(y, np.minimum(2 * x, 1e5))


def test_add_of_other_shapes():
    x = np.zeros((4, 3), np.float32)
    with pytest.raises(ValueError, match=r"add: f32 of shape \(4, 3\), got \(3, 4\) of 4 bytes"):
        add("f32", x.T, None, x.copy(), None, [(1.0, 0)] * 3, 1)
    with pytest.raises(ValueError, match="add: u8"):
        add("u8", x, None, x.copy(), None, [(1.0, 0)] * 3, 1)
