"""Transposes around operators that run on channels in their place."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.network import evaluate

import layoutkit as lk
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.passes.fold import folded
from layoutkit.graph.shapes import infer

F32 = np.dtype(np.float32)


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ops(graph, shape):
    return [node.op for node in folded(graph, infer(graph, {"x": shape})).nodes]


def block(shape, ends=True, exits=False):
    """Of ConvNeXt: normalisation, products and an activation on channels last, with a residual."""
    rank, c = len(shape), shape[1]
    to, back = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]
    nodes = [
        Node("Relu", ("x",), ("r",)), Node("Transpose", ("r",), ("t",), {"perm": to}),
        Node("LayerNormalization", ("t", "scale", "bias"), ("n",), {"axis": -1}), Node("MatMul", ("n", "w0"), ("a",)),
        Node("Add", ("b0", "a"), ("b",)), Node("Tanh", ("b",), ("g",)), Node("MatMul", ("g", "w1"), ("d",)),
        Node("Mul", ("gamma", "d"), ("e",)), Node("Transpose", ("e",), ("f",), {"perm": back}),
        Node("Add", ("r", "f"), ("y",)),
    ]  # fmt: skip
    constants = {
        "scale": numbers(1, c), "bias": numbers(2, c), "w0": numbers(3, c, 2 * c), "b0": numbers(4, 2 * c),
        "w1": numbers(5, 2 * c, c), "gamma": numbers(6, 1, c),
    }  # fmt: skip
    outputs = ("y", "d") if exits else ("y",) if ends else ("f",)
    return Graph(nodes, {"x": TensorType(F32, shape)}, outputs, constants)


@given(st.sampled_from([(2, 6, 5, 4), (1, 8, 7), (1, 5, 2, 3, 4)]), st.booleans(), st.integers(1, 2))
def test_a_block_has_no_transposes_left(shape, ends, threads):
    graph, x = block(shape, ends), numbers(0, *shape)
    assert "Transpose" not in ops(graph, shape)
    assert set(ops(graph, shape)) <= {"Relu", "LayerNormalization", "Conv", "Identity"}
    (name,) = graph.outputs
    want = evaluate(graph, {"x": x})[name]
    for layouts in (None, "plain", "channels last", "blocked"):
        got = Model(graph, layouts=layouts, threads=threads).run(x)[name]
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_where_a_result_stays_with_channels_last():
    """Another reader, or an output, needs the Transposes."""
    shape = (2, 6, 5, 4)
    graph, x = block(shape, exits=True), numbers(0, *shape)
    assert ops(graph, shape).count("Transpose") == 2
    want = evaluate(graph, {"x": x})
    for name, got in Model(graph, threads=2).run(x).items():
        np.testing.assert_allclose(got, want[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("change", ["axes", "scale", "operand", "permutation"])
def test_what_does_not_run_in_place(change):
    shape = (2, 6, 5, 4)
    graph = block(shape)
    nodes, constants = list(graph.nodes), dict(graph.constants)
    if change == "axes":
        nodes[2] = nodes[2].with_(attributes={"axis": 2})
        constants |= {"scale": numbers(1, 4, 6), "bias": numbers(2, 4, 6)}
    elif change == "scale":
        nodes[7] = Node("Mul", ("r2", "d"), ("e",))
        nodes.insert(0, Node("Relu", ("z",), ("r2",)))
    elif change == "operand":
        nodes[5] = Node("CumSum", ("b", "one"), ("g",))
        constants["one"] = np.int64(1)
    else:
        nodes[8] = nodes[8].with_(attributes={"perm": [0, 3, 2, 1]})
        nodes[9] = Node("Relu", ("f",), ("y",))
    inputs = {"x": TensorType(F32, shape), **({"z": TensorType(F32, (2, 5, 4, 6))} if change == "scale" else {})}
    graph = Graph(nodes, inputs, ("y",), constants)
    known = infer(graph, {name: of.shape for name, of in inputs.items()})
    assert "Transpose" in [node.op for node in folded(graph, known).nodes]
    arrays = {name: numbers(7, *of.shape) for name, of in inputs.items()}
    got = Model(graph, threads=2).run(arrays)["y"]
    np.testing.assert_allclose(got, evaluate(graph, arrays)["y"], rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_exported_by_torch():
    torch = pytest.importorskip("torch")
    from torch import nn

    class Permute(nn.Module):
        def __init__(self, *axes):
            super().__init__()
            self.axes = axes

        def forward(self, x):
            return x.permute(*self.axes)

    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 7, padding=3), Permute(0, 2, 3, 1), nn.LayerNorm(8, eps=1e-6), nn.Linear(8, 32), nn.ReLU(),
        nn.Linear(32, 8), Permute(0, 3, 1, 2), nn.Conv2d(8, 4, 1),
    )  # fmt: skip
    net.eval()
    file, x = io.BytesIO(), numbers(0, 2, 3, 9, 8)
    with torch.no_grad():
        torch.onnx.export(net, (torch.from_numpy(x),), file, dynamo=False, opset_version=17)
        want = net.double()(torch.from_numpy(x).double()).numpy()
    model = lk.onnx.load(file.getvalue(), threads=2)
    (got,) = model.run(x).values()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    (program,) = model._programs.values()
    steps = [step.op for step in program.steps if step.op != "reorder"]
    assert steps == ["Conv", "LayerNormalization", "Conv", "Conv", "Conv"]
