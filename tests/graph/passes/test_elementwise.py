"""Chains of elementwise operators as one step, and what joins the operator before them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.network import evaluate

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.layout.costs import Costs
from layoutkit.graph.layout.plan import choose_layouts
from layoutkit.graph.model import Model

F32 = np.dtype(np.float32)
UNARY = [("Sigmoid", {}), ("Tanh", {}), ("LeakyRelu", {"alpha": 0.25}), ("Erf", {}), ("Gelu", {}), ("Swish", {}),
         ("Neg", {}), ("Abs", {}), ("Softsign", {}), ("Mish", {}), ("HardSwish", {}), ("Elu", {}), ("Selu", {}),
         ("Softplus", {}), ("Floor", {}), ("Relu", {})]  # fmt: skip
BINARY = ["Add", "Sub", "Mul", "Max", "Min", "Div", "PRelu"]


def planned(nodes, x, constants, outputs=("y",)):
    graph = Graph(nodes, {"x": TensorType(F32, x)}, outputs, constants)
    return [node.op for node in choose_layouts(graph, {"x": x}, Costs(1, "standard")).graph.nodes]


@st.composite
def networks(draw):
    """Elementwise operators, most of which read what the one before made, among convolutions."""
    rank = draw(st.sampled_from([2, 3, 4, 4, 4, 5]))
    spatial = [draw(st.integers(1, 5)) for _ in range(rank - 2)]
    shape = (draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 16, 20])), *spatial)
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    nodes, constants, tensors = [], {}, ["x"]

    def constant(of, low=-1.0):
        constants[name := f"c{len(constants)}"] = rng.uniform(low, 1, of).astype(np.float32)
        return name

    for i in range(draw(st.integers(1, 9))):
        x = tensors[-1] if draw(st.integers(0, 4)) else draw(st.sampled_from(tensors))
        kind = draw(st.sampled_from(["unary", "binary", "binary", "where", "squeeze", "conv"]))
        if kind == "unary":
            op, attributes = draw(st.sampled_from(UNARY))
            nodes.append(Node(op, (x,), (f"t{i}",), attributes))
        elif kind == "binary":
            op = draw(st.sampled_from(BINARY))
            other = draw(st.sampled_from(tensors))
            if op in ("Div", "PRelu") or draw(st.booleans()):
                of = [n if draw(st.booleans()) else 1 for n in shape]
                other = constant(of[draw(st.integers(0, rank)) :], 0.5 if op == "Div" else -1)
            pair = (x, other) if op in ("Div", "PRelu") or draw(st.booleans()) else (other, x)
            nodes.append(Node(op, pair, (f"t{i}",)))
        elif kind == "where":
            nodes.append(Node("Less", (x, draw(st.sampled_from(tensors))), (f"m{i}",)))
            pair = (x, constant(())) if draw(st.booleans()) else (constant(()), x)
            nodes.append(Node("Where", (f"m{i}", *pair), (f"t{i}",)))
        elif kind == "squeeze" and rank > 2:
            nodes.append(Node("GlobalAveragePool", (x,), (f"p{i}",)))
            nodes.append(Node("HardSigmoid", (f"p{i}",), (f"s{i}",)))
            nodes.append(Node("Mul", (x, f"s{i}"), (f"t{i}",)))
        elif rank > 2:
            nodes.append(Node("Conv", (x, constant((shape[1], 1, *[1] * (rank - 2)))), (f"t{i}",), {"group": shape[1]}))
        else:
            continue
        tensors.append(f"t{i}")
    read = {name for node in nodes for name in node.inputs}
    outputs = tuple(t for t in tensors if t not in read or draw(st.integers(0, 9)) == 0)
    return Graph(nodes, {"x": TensorType(F32, shape)}, outputs or (tensors[-1],), constants), shape, rng


@given(networks(), st.sampled_from([None, "plain", "channels last", "blocked"]), st.integers(1, 2),
       st.sampled_from(["float32", "float32", "bfloat16"]))  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_networks_of_them(network, layouts, threads, dtype):
    graph, shape, rng = network
    x = rng.uniform(-2, 2, shape).astype(np.float32)
    if dtype == "bfloat16" and any(node.op in ("Less", "Floor") for node in graph.nodes):
        dtype = "float32"  # rounded numbers compare otherwise
    want = evaluate(graph, {"x": x})
    got = Model(graph, layouts=layouts, threads=threads, dtype=dtype).run(x)
    for name in graph.outputs:
        most = max(1, abs(want[name]).max(initial=0))
        if any(node.op in ("Less", "Floor") for node in graph.nodes):  # a rounding may change which number is less
            assert np.mean(abs(got[name] - want[name]) > 1e-4 * most) < 0.05
        else:
            np.testing.assert_allclose(got[name], want[name], 0, (1e-5 if dtype == "float32" else 0.1) * most)


def test_a_chain_is_one_step():
    constants = {"c": np.ones((8, 1, 1), np.float32), "d": np.float32(3)}
    nodes = [
        Node("Sigmoid", ("x",), ("a",)), Node("Mul", ("a", "c"), ("b",)), Node("Sub", ("d", "b"), ("e",)),
        Node("Add", ("x", "e"), ("f",)), Node("Clip", ("f", "d"), ("y",)),
    ]  # fmt: skip
    assert planned(nodes, (1, 8, 4, 4), constants) == ["Elementwise"]


def test_what_others_read_ends_a_chain():
    nodes = [Node("Sigmoid", ("x",), ("a",)), Node("Exp", ("a",), ("b",)), Node("Mul", ("a", "b"), ("y",))]
    assert planned(nodes, (2, 3), {}) == ["Sigmoid", "Elementwise"]
    assert planned(nodes, (2, 3), {}, ("y", "b")) == ["Sigmoid", "Exp", "Mul"]


def test_chains_begin_where_the_result_gets_its_shape():
    nodes = [Node("Exp", ("x",), ("a",)), Node("Mul", ("a", "c"), ("b",)), Node("Neg", ("b",), ("y",))]
    assert planned(nodes, (2, 1, 4), {"c": np.ones((2, 3, 4), np.float32)}) == ["Exp", "Elementwise"]


@pytest.mark.parametrize("last", ["Conv", "MatMul"])
def test_what_follows_a_convolution_or_product_is_part_of_it(last):
    shape = (2, 8, 4, 4) if last == "Conv" else (2, 8)
    wide = (8, 1, 1) if last == "Conv" else (8,)
    rng = np.random.default_rng(0)
    w = rng.standard_normal((8, 8, 1, 1) if last == "Conv" else (8, 8)).astype(np.float32)
    constants = {"w": w, "c": rng.uniform(1, 2, wide).astype(np.float32), "d": np.float32(2)}
    nodes = [
        Node(last, ("x", "w"), ("a",)), Node("Gelu", ("a",), ("b",)), Node("Mul", ("c", "b"), ("e",)),
        Node("Sub", ("d", "e"), ("f",)), Node("Relu", ("f",), ("y",)),
    ]  # fmt: skip
    assert planned(nodes, shape, constants) == [last]
    graph = Graph(nodes, {"x": TensorType(F32, shape)}, ("y",), constants)
    x = rng.standard_normal(shape).astype(np.float32)
    for layouts in ("plain", "channels last", "blocked"):
        got = Model(graph, threads=1, layouts=layouts).run(x)["y"]
        np.testing.assert_allclose(got, evaluate(graph, {"x": x})["y"], 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"])
def test_comparisons_of_any_reals(op, dtype):
    x = np.array([[-1, 0, 2], [3, np.nan, 2]], dtype)
    graph = Graph(
        [Node(op, ("x", "c"), ("y",))], {"x": TensorType(x.dtype, x.shape)}, ("y",), {"c": dtype(2).reshape(())}
    )
    np.testing.assert_array_equal(Model(graph).run(x)["y"], evaluate(graph, {"x": x})["y"])


@given(st.data(), st.integers(0, 5), st.integers(0, 99), st.booleans())
def test_where_of_two_tensors(data, rank, seed, computed):
    """Of any shapes that broadcast, without Python; zeros keep their signs."""
    rng, shape = np.random.default_rng(seed), [data.draw(st.integers(0, 9)) for _ in range(rank)]
    arrays = {}
    for name in "cxz":
        of = [n if data.draw(st.integers(0, 3)) else 1 for n in shape][data.draw(st.sampled_from([0, 0, rank // 2])) :]
        values = rng.choice([0.0, -0.0, 1.5, -2.5, np.nan, np.inf, -np.inf], of).astype(np.float32)
        arrays[name] = rng.integers(2, size=of).astype(bool) if name == "c" else values
    nodes = [Node("Where", ("c", "x", "z"), ("y",))]
    if computed:
        nodes = [Node("Neg", ("x",), ("n",)), Node("Where", ("c", "n", "z"), ("w",)), Node("Relu", ("w",), ("y",))]
    graph = Graph(nodes, {name: TensorType(a.dtype, a.shape) for name, a in arrays.items()}, ("y",), {})
    model = Model(graph)
    got, want = model.run(arrays)["y"], evaluate(graph, arrays)["y"]
    np.testing.assert_array_equal(got, want)
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all() or computed
    assert not any(step.call for step in model.planned(arrays)[0].steps)
