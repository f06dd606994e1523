"""Tensors that stay in bfloat16 or float16 between layers."""

import numpy as np
import pytest
from conftest import EMULATED, WHOLE_ISAS, using_isa
from graphs import graphs
from hypothesis import given
from hypothesis import strategies as st
from oracle.network import evaluate

import layoutkit as lk
from layoutkit._core.nests.images.pooling import pool
from layoutkit._core.nests.norms.lrn import Lrn
from layoutkit._core.runtime import registry
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators.layouts import NAMES
from layoutkit.graph.passes import narrow as rule
from layoutkit.graph.passes.fold import folded
from layoutkit.graph.shapes import infer

F32 = np.dtype(np.float32)
TYPES = {"bfloat16": ("bf16", 8), "float16": ("f16", 11)}  # names of rows, bits of the significand


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def narrow(x, dtype):
    flat = np.ascontiguousarray(x).reshape(-1)
    return np.asarray(lk.reorder(flat, "a", "a", dtype=dtype)).reshape(x.shape)


def rounded(x, dtype):
    flat = np.asarray(lk.reorder(narrow(x, dtype).reshape(-1), "a", "a", dtype=(dtype, "float32")))
    return flat.reshape(x.shape)


def kept(model):
    """The tensors that its only program keeps in a narrow type."""
    (program,) = model._programs.values()
    return {name for name, of in program.known.items() if of.stored}


def network():
    """Convolutions around pooling, a concatenation, a sum, and an operator that has no kernel."""
    nodes = [
        Node("Conv", ("x", "w0"), ("a",), {"pads": [1] * 4}),
        Node("MaxPool", ("a",), ("b",), {"kernel_shape": [2, 2], "strides": [2, 2]}),
        Node("Conv", ("b", "w1"), ("c",), {"pads": [1] * 4}),
        Node("Concat", ("b", "c"), ("d",), {"axis": 1}),
        Node("AveragePool", ("d",), ("e",), {"kernel_shape": [2, 2]}),
        Node("Conv", ("e", "w2"), ("f",)),
        Node("Tan", ("f",), ("g",)),
        Node("Conv", ("g", "w3"), ("y",)),
    ]
    constants = {
        "w0": numbers(16, 3, 3, 3, seed=1), "w1": numbers(32, 16, 3, 3, seed=2), "w2": numbers(16, 48, 1, 1, seed=3),
        "w3": numbers(8, 16, 1, 1, seed=4),
    }  # fmt: skip
    return Graph(nodes, {"x": TensorType(F32, (2, 3, 12, 12))}, ("y",), constants)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layouts", [None, *NAMES])
@pytest.mark.parametrize("isa", [registry.isas()[-1], *EMULATED])
def test_every_result_is_rounded_once(dtype, layouts, isa):
    graph, x = network(), numbers(2, 3, 12, 12)
    model = Model(graph, dtype=dtype, layouts=layouts, threads=2)
    with using_isa(isa):
        found = model.run(x)["y"]
    assert kept(model) == {"a", "b", "c", "d", "e"}  # Tan computes in float32, and reads what is not rounded
    values = {"x": x}
    for node in graph.nodes:
        given = {name: rounded(values[name], dtype) for name in node.inputs if name in values}
        constants = {name: rounded(graph.constants[name], dtype) for name in node.inputs if name in graph.constants}
        if node.op == "Tan":
            given = {name: values[name] for name in node.inputs}
        types = {name: TensorType(F32, value.shape) for name, value in given.items()}
        values.update(evaluate(Graph([node], types, node.outputs, constants), given))
    unit = 2.0 ** -TYPES[dtype][1]
    # sums in another order may round the other way: an ulp here and there, which products then mix
    assert np.abs(found - values["y"]).max() < 8 * unit * np.abs(values["y"]).max()


def test_outputs_and_what_nobody_reads_narrow_are_float32():
    nodes = [
        Node("Conv", ("x", "w"), ("a",)),
        Node("Relu", ("a",), ("y",)),
        Node("Conv", ("y", "v"), ("b",)),
        Node("Softmax", ("b",), ("z",), {"axis": 1}),
    ]
    graph = Graph(
        nodes, {"x": TensorType(F32, (1, 4, 5, 5))}, ("y", "z"), {"w": numbers(4, 4, 1, 1), "v": numbers(2, 4, 1, 1)}
    )
    model = Model(graph, dtype="bfloat16")
    found = model.run(numbers(1, 4, 5, 5))
    assert not kept(model) and all(value.dtype == F32 for value in found.values())


def test_a_residual_is_narrow_as_well():
    nodes = [
        Node("Conv", ("x", "w"), ("a",)),
        Node("Conv", ("a", "w"), ("b",)),
        Node("Add", ("a", "b"), ("c",)),
        Node("Conv", ("c", "w"), ("y",)),
    ]
    graph = Graph(nodes, {"x": TensorType(F32, (1, 16, 6, 6))}, ("y",), {"w": numbers(16, 16, 1, 1)})
    x = numbers(1, 16, 6, 6)
    model = Model(graph, dtype="bfloat16")
    found, want = model.run(x)["y"], evaluate(graph, {"x": x})["y"]
    assert kept(model) == {"a", "c"}
    assert np.abs(found - want).max() < 2.0**-6 * np.abs(want).max()


@given(
    st.sampled_from(list(TYPES)), st.integers(1, 70), st.lists(st.integers(1, 7), min_size=3, max_size=3),
    st.booleans(), st.sampled_from(WHOLE_ISAS), st.integers(1, 2),
)  # fmt: skip
def test_pooling(dtype, channels, size, mean, isa, threads):
    """As of float32, and rounded once."""
    x = rounded(numbers(1, 2, *size, channels), dtype)
    windows = [(min(2, n), 1, 1, 0) for n in size]
    out = [n - k + 1 for n, (k, *_) in zip(size, windows)]
    scales = [np.full(n, 1 / k, np.float32) for n, (k, *_) in zip(out, windows)] if mean else None
    want = np.zeros((1, 2, *out, channels), np.float32)
    y = narrow(np.zeros_like(want), dtype)
    with using_isa(isa):
        pool("f32", x, want, windows, scales, 1)
        pool(TYPES[dtype][0], narrow(x, dtype), y, windows, scales, threads)
    np.testing.assert_array_equal(y.view(np.uint16), narrow(want, dtype).view(np.uint16))


@given(st.sampled_from(list(TYPES)), st.integers(1, 70), st.integers(1, 7), st.sampled_from(WHOLE_ISAS))
def test_lrn(dtype, channels, size, isa):
    x = rounded(numbers(3, channels), dtype)
    want, y = np.zeros_like(x), narrow(np.zeros_like(x), dtype)
    with using_isa(isa):
        Lrn((x, want), (x, want), "f32", size, 0.5, 1.0, 1)(x, want)
        x = narrow(x, dtype)
        Lrn((x, y), (x, y), TYPES[dtype][0], size, 0.5, 1.0, 2)(x, y)
    np.testing.assert_array_equal(y.view(np.uint16), narrow(want, dtype).view(np.uint16))


def test_elements_of_another_width():
    six = numbers(1, 1, 1, 1, 4, 6)
    with pytest.raises(ValueError, match="elements of 4 and 4 bytes, expected bf16"):
        pool("bf16", six, six.copy(), [(1, 1, 1, 0)] * 3, None, 1)
    pixels = six[0, 0, 0, 0], six[0, 0, 0, 0].copy()
    with pytest.raises(ValueError, match="contiguous channels of f16"):
        Lrn(pixels, pixels, "f16", 3, 1.0, 1.0, 1)


@given(graphs())
def test_what_is_kept_narrow_is_the_most_that_can_be(graph):
    """Rounds over all tensors until none has to go, the obvious way."""
    known = infer(graph, {"x": graph.inputs["x"].shape})
    graph = folded(graph, known)
    makers, users = graph.makers(), graph.users()
    left = {
        name for name, node in makers.items() if rule._may_be_narrow(known[name]) and rule._makes_narrow(node, known)
    }
    left -= set(graph.outputs)
    want: set = set()
    while left != want:
        want = left
        fed = {name for name in want if rule._inputs_are_narrow(makers[name], known, want)}
        left = {x for x in fed if any(rule._reads_narrow(node, x, known, want) for node in users.get(x, ()))}
    before = {name for name, of in known.items() if of.stored}
    rule.keep_narrow(graph, known, "bfloat16")
    assert {name for name, of in known.items() if of.stored} - before == want


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(2, -1), (0, -1), (6, 16)])
def test_flattened_rows_are_multiplied_as_they_are_stored(dtype, shape):
    """A product reads the rows that a Reshape makes of a tensor: what comes before stays narrow, as its factors are."""
    nodes = [
        Node("Conv", ("x", "w0"), ("a",)),
        Node("MaxPool", ("a",), ("b",), {"kernel_shape": [2, 2], "strides": [2, 2]}),
        Node("Reshape", ("b", "shape"), ("rows",)),
        Node("Gemm", ("rows", "w1", "bias"), ("y",), {"transB": 1}),
    ]
    rows, columns = shape if shape[1] > 0 else (2, 48)
    constants = {
        "w0": numbers(12, 3, 1, 1, seed=1), "shape": np.array(shape), "w1": numbers(40, columns, seed=2),
        "bias": numbers(40, seed=3),
    }  # fmt: skip
    x = numbers(2, 3, 4, 4)
    model = Model(Graph(nodes, {"x": TensorType(F32, x.shape)}, ("y",), constants), dtype=dtype, threads=2)
    found = model.run(x)["y"]
    assert kept(model) == {"a", "b"}
    a = rounded(np.einsum("nchw,oc->nohw", rounded(x, dtype), rounded(constants["w0"], dtype)[..., 0, 0]), dtype)
    b = a.reshape(2, 12, 2, 2, 2, 2).max((3, 5)).reshape(rows, columns).astype(np.float64)
    want = b @ rounded(constants["w1"], dtype).T.astype(np.float64) + constants["bias"]
    # sums in another order may round one of `a` the other way
    assert found.shape == want.shape and np.abs(found - want).max() < 2 * 2.0 ** -TYPES[dtype][1] * np.abs(a).max()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layouts", [None, *NAMES])
@pytest.mark.parametrize("wide", [8, 16, 17])
def test_what_is_joined_is_narrow_if_half_of_it_is(dtype, layouts, wide):
    """What an operator without narrow rows computes is rounded before it is copied; where it is more, nothing is."""
    nodes = [
        Node("Conv", ("x", "w0"), ("a",)),
        Node("Tan", ("z",), ("b",)),
        Node("Concat", ("a", "b"), ("c",), {"axis": 1}),
        Node("Conv", ("c", "w1"), ("y",)),
    ]
    inputs = {"x": numbers(1, 4, 5, 6), "z": numbers(1, wide, 5, 6, seed=1)}
    constants = {"w0": numbers(16, 4, 1, 1, seed=2), "w1": numbers(24, 16 + wide, 1, 1, seed=3)}
    types = {name: TensorType(F32, value.shape) for name, value in inputs.items()}
    model = Model(Graph(nodes, types, ("y",), constants), dtype=dtype, layouts=layouts, threads=2)
    found = model.run(inputs)["y"]
    assert kept(model) == ({"a", "c"} if wide <= 16 else set())
    rounds = {name: rounded(value, dtype).astype(np.float64) for name, value in {**inputs, **constants}.items()}
    a = np.einsum("nchw,oc->nohw", rounds["x"], rounds["w0"][..., 0, 0])
    c = np.concatenate([a, np.tan(inputs["z"].astype(np.float64))], 1)
    want = np.einsum("nchw,oc->nohw", c, rounds["w1"][..., 0, 0])
    bound = np.einsum("nchw,oc->nohw", abs(c), abs(rounds["w1"][..., 0, 0]))  # of products of rounded factors
    assert (np.abs(found - want) <= 2.01 * 2.0 ** -TYPES[dtype][1] * bound).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layouts", [None, *NAMES])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_resize_is_rounded_once(dtype, layouts, mode):
    nodes = [
        Node("Conv", ("x", "w0"), ("a",)),
        Node("Resize", ("a", "", "scales"), ("b",), {"mode": mode}),
        Node("Conv", ("z", "w0"), ("c",)),
        Node("Concat", ("b", "c"), ("d",), {"axis": 1}),
        Node("Conv", ("d", "w1"), ("y",)),
    ]
    inputs = {"x": numbers(2, 3, 5, 6), "z": numbers(2, 3, 10, 12, seed=1)}
    constants = {
        "w0": numbers(16, 3, 1, 1, seed=2), "w1": numbers(8, 32, 1, 1, seed=3),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }  # fmt: skip
    types = {name: TensorType(F32, value.shape) for name, value in inputs.items()}
    graph = Graph(nodes, types, ("y",), constants)
    model = Model(graph, dtype=dtype, layouts=layouts, threads=2)
    found = model.run(inputs)["y"]
    assert kept(model) == {"a", "b", "c", "d"}
    (program,) = model._programs.values()
    assert not any(step.call for step in program.steps)
    want = evaluate(graph, inputs)["y"]
    assert np.abs(found - want).max() < 16 * 2.0 ** -TYPES[dtype][1] * np.abs(want).max()


@pytest.mark.parametrize("dtype", TYPES)
def test_attention(dtype):
    """Multiplied in pairs of bfloat16 where that pays, in float32 else."""
    x = numbers(2, 100, 64)
    nodes = [
        *(Node("MatMul", ("x", f"w{name}"), (name,)) for name in "qkv"),
        Node("Transpose", ("k",), ("t",), {"perm": [0, 2, 1]}),
        Node("MatMul", ("q", "t"), ("s",)),
        Node("Softmax", ("s",), ("p",), {"axis": -1}),
        Node("MatMul", ("p", "v"), ("a",)),
        Node("MatMul", ("a", "wo"), ("y",)),
    ]
    constants = {f"w{name}": numbers(64, 64, seed=i) for i, name in enumerate("qkvo")}
    graph = Graph(nodes, {"x": TensorType(F32, x.shape)}, ("y",), constants)
    model = Model(graph, dtype=dtype, threads=2)
    found, want = model.run(x)["y"], evaluate(graph, {"x": x})["y"]
    (program,) = model._programs.values()
    assert any(step.op == "TiledAttention" for step in program.steps)
    scores = np.abs(np.matmul(x @ constants["wq"], (x @ constants["wk"]).swapaxes(1, 2))).max()
    unit = 2.0 ** -TYPES[dtype][1]  # of each factor; errors of scores are relative ones of weights
    assert np.abs(found - want).max() < 4 * unit * scores * np.abs(want).max()
