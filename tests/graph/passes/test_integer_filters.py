"""Filters of int8 whose numbers are never made, and those whose numbers are read: against the operators one by one."""

import numpy as np
import pytest
from graphs import bytes_of_a_first_run
from hypothesis import given
from hypothesis import strategies as st
from oracle.network import evaluate
from random_cases.quantised import Builder, assert_same

from layoutkit.graph.ir import Graph
from layoutkit.graph.model import Model
from layoutkit.graph.operators.filters import numbers_of
from layoutkit.graph.passes.integer_filters import filters_as_integers

CHANNELS = 4


@st.composite
def graphs(draw):
    """Few filters, read by many: as filters by inputs of integers, of numbers or constant ones, and as tensors."""
    b = Builder(draw(st.integers(0, 99)))
    whole = b.quantised("x", "uint8", 1 / 120, 128)
    inputs = {4: [whole, "x", b.constant(b.rng.standard_normal((1, CHANNELS, 3, 3)).astype(np.float32))]}
    inputs[2] = [b.add("Reshape", x, b.constant(np.array([-1, CHANNELS]))) for x in inputs[4]]
    filters = {4: [b.filter(CHANNELS, CHANNELS, 1, 1, axis=draw(st.sampled_from([0, None]))) for _ in range(2)]}
    filters[2] = [b.filter(CHANNELS, CHANNELS, axis=draw(st.sampled_from([0, 1, None]))) for _ in range(2)]
    outputs = []
    for _ in range(draw(st.integers(1, 6))):
        op = draw(st.sampled_from(["Conv", "MatMul", "Gemm", "Add"]))
        rank = 4 if op == "Conv" else 2 if op != "Add" else draw(st.sampled_from([2, 4]))
        x, w = draw(st.sampled_from(inputs[rank])), draw(st.sampled_from(filters[rank]))
        attributes = {"transA": draw(st.integers(0, 1)), "transB": draw(st.integers(0, 1))} if op == "Gemm" else {}
        if op == "Add":
            x = draw(st.sampled_from(filters[rank]))
        y = b.add(op, x, w, **attributes)
        if draw(st.booleans()):
            y = b.quantised(b.add("Relu", y), "uint8", 0.1, 3)
        outputs.append(y)
    outputs += draw(st.lists(st.sampled_from(filters[4] + filters[2]), max_size=1))
    needed = Graph(b.nodes, b.graph("x", shape=(1, CHANNELS, 3, 4)).inputs, tuple(outputs), b.constants)
    return needed.needed(outputs)


@given(graph=graphs(), dtype=st.sampled_from(["float32", "float32", "bfloat16"]), threads=st.integers(1, 2))
def test_random_readers(graph, dtype, threads):
    x = np.random.default_rng(1).uniform(-1, 1, (1, CHANNELS, 3, 4)).astype(np.float32)
    given = {"x": x} if graph.inputs else {}
    try:
        want = evaluate(graph, given)
    except ValueError:  # rows of another number than the columns of the filter
        with pytest.raises(ValueError):
            Model(graph, threads=threads).run(given)
        return
    found = Model(graph, dtype=dtype, threads=threads).run(given)
    most = 0.101 if dtype == "float32" else 0.2  # of a result that is nearly halfway between two integers
    for name in graph.outputs:
        assert found[name].shape == want[name].shape
        assert np.abs(found[name] - want[name]).max() < most, name


@pytest.mark.parametrize("op, axis, attributes", [
    ("Conv", 0, {}), ("ConvTranspose", 1, {}), ("MatMul", 1, {}), ("Gemm", 1, {}),
    ("Gemm", 0, {"transB": 1}), ("MatMul", None, {}),
])  # fmt: skip
def test_their_numbers(op, axis, attributes):
    """Bit for bit those of DequantizeLinear, which is no part of the graph any more."""
    b = Builder(0)
    shape = (5, 7) + (1, 1) * op.startswith("Conv")
    w = b.filter(*shape, axis=axis)
    y = b.add(op, "x", w, **attributes)
    graph = b.graph(y)
    (node,) = filters_as_integers(graph).nodes
    want = evaluate(graph.needed([w]), {})[w]
    np.testing.assert_array_equal(numbers_of(node), want)
    assert numbers_of(node).dtype == want.dtype


@given(
    op=st.sampled_from(["Conv", "ConvTranspose", "MatMul", "Gemm"]), dtype=st.sampled_from(["int8", "uint8"]),
    each=st.booleans(), zero=st.integers(-128, 255), around=st.sampled_from([0, 2, 300]),
    low=st.integers(0, 255), high=st.integers(0, 255), seed=st.integers(0, 99),
)  # fmt: skip
def test_zero_points_are_part_of_what_fits(op, dtype, each, zero, around, low, high, seed):
    """A filter less its zero points is multiplied as int8 if no number has more bits, and always right."""
    b, limits = Builder(seed), np.iinfo(dtype)
    axis, channels = (0 if op == "Conv" else 1), 4
    shape = (channels, channels) + (1, 2) * op.startswith("Conv")
    zero = min(max(zero, limits.min), limits.max)
    w = b.filter(*shape, axis=axis if each else None, dtype=dtype, zero=zero, around=around)
    name, _, zeros = b.nodes[-1].inputs
    low, high = sorted((low, high))
    b.constants[name] = b.rng.integers(limits.min + low, limits.min + high + 1, shape).astype(dtype)
    x = b.quantised("x", "uint8", 1 / 120, 128)
    rows = x if op.startswith("Conv") else b.add("Reshape", x, b.constant(np.array([-1, channels])))
    graph = b.graph(b.quantised(b.add(op, rows, w), "int8", 0.3, 5), shape=(1, channels, 3, 5))
    values, zeros = b.constants[name].astype(int), b.constants[zeros].astype(int)
    whole = values - zeros.reshape([-1 if each and i == axis else 1 for i in range(values.ndim)])
    (node,) = (node for node in filters_as_integers(graph).nodes if node.op == op)
    fits = -128 <= whole.min() and whole.max() <= 127
    assert fits == ("integers" in node.attributes)
    if fits:
        np.testing.assert_array_equal(node.attributes["integers"][0], whole)
        np.testing.assert_array_equal(numbers_of(node), evaluate(graph.needed([w]), {})[w])
    assert_same(graph, 0.3)


@pytest.mark.parametrize("scales, axis", [(3, 0), (4, 1), (4, 3), ((1, 1), 0)])
def test_scales_that_do_not_fit_are_refused(scales, axis):
    b = Builder(0)
    w = b.constant(b.rng.integers(-9, 9, (4, 8, 1, 3)).astype(np.int8))
    scale = np.full(scales, 0.1, np.float32)
    given = b.constant(scale), b.constant(np.zeros(scale.shape, np.int8))
    x = b.quantised("x", "uint8", 0.01, 0)
    graph = b.graph(b.add("Conv", x, b.add("DequantizeLinear", w, *given, axis=axis)))
    with pytest.raises(ValueError, match="DequantizeLinear"):
        Model(graph).run(np.zeros((1, 8, 9, 9), np.float32))


def test_only_packed_filters_stay():
    """Of four filters of 256 kB there is one more than those and the model's own at a time, and it is packed."""
    channels, layers = 512, 4
    b = Builder(0)
    x = b.quantised("x", "uint8", 1 / 120, 3)
    for _ in range(layers):
        x = b.quantised(b.add("Conv", x, b.filter(channels, channels, 1, 1)), "uint8", 2.0, 128)
    graph, x = b.graph(x, shape=(1, channels, 3, 3)), np.zeros((1, channels, 3, 3), np.float32)
    held, most = bytes_of_a_first_run(graph, x)
    assert held < 1.25 * layers * channels**2
    assert most < 1.75 * layers * channels**2


@pytest.mark.parametrize("between", [None, "Transpose", "Mul"])
@pytest.mark.parametrize("shape", [(4, 4), (3, 4, 4)])
@pytest.mark.parametrize("integers", [True, False])
def test_what_is_quantised_is_rounded_before_a_product_of_numbers(between, shape, integers):
    b = Builder(0)
    x = b.quantised("x", "int8", 0.05, -16)
    if between == "Mul":
        x = b.add("Mul", x, b.constant(np.float32(0.5)))
    elif between == "Transpose":
        x = b.add("Transpose", x, perm=[0, 2, 1])
    w = b.filter(*shape, axis=None) if integers else b.constant(b.rng.standard_normal(shape).astype(np.float32))
    graph = b.graph(b.add("MatMul", x, w), shape=(3, 4, 4))
    given = {"x": 9 * np.random.default_rng(2).standard_normal((3, 4, 4)).astype(np.float32)}
    (want,), (found,) = evaluate(graph, given).values(), Model(graph, threads=1).run(given).values()
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-4)
