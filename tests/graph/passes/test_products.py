"""Attention as exporters write it, and what becomes part of products, against torch and the operators."""

import io
import warnings

import numpy as np
import pytest
from oracle.network import evaluate

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators.views import View, contiguous

F32 = np.dtype(np.float32)


def nodes_of(model):
    """The operators of the one program that a model has."""
    (program,) = model._programs.values()
    return [node.op for node in program.plan.graph.nodes]


def modules():
    """Attention in the forms that models have it in, on (images, tokens, 48)."""
    torch = pytest.importorskip("torch", reason="the extra torch")
    attend = torch.nn.functional.scaled_dot_product_attention

    class Attends(torch.nn.Module):
        def __init__(self, how):
            super().__init__()
            self.how, self.qkv, self.proj = how, torch.nn.Linear(48, 144), torch.nn.Linear(48, 48)
            self.register_buffer("mask", torch.randn(17, 17))

        def forward(self, x):
            images, tokens, channels = x.shape
            if self.how == "chunk":
                heads = [t.reshape(images, tokens, 4, 12).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)]
            else:
                heads = self.qkv(x).reshape(images, tokens, 3, 4, 12).permute(2, 0, 3, 1, 4).unbind(0)
            q, k, v = heads
            if self.how == "chunk":
                o = ((q @ k.transpose(-2, -1)) / 12**0.5).softmax(-1) @ v
            elif self.how == "timm":
                o = ((q * 12**-0.5) @ k.transpose(-2, -1)).softmax(-1) @ v
            else:
                o = attend(q, k, v, self.mask if self.how == "mask" else None, is_causal=self.how == "causal")
            return self.proj(o.transpose(1, 2).reshape(images, tokens, channels)) + x

    class Multihead(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(48, 4, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x, need_weights=False)[0]

    return {"multihead": Multihead(), **{how: Attends(how) for how in ("plain", "mask", "causal", "timm", "chunk")}}


@pytest.mark.parametrize(
    "name, dynamo",
    [*((name, False) for name in ("plain", "mask", "causal", "timm", "chunk", "multihead")), ("mask", True)],
)
def test_attention_that_torch_exports(name, dynamo):
    torch = pytest.importorskip("torch", reason="the extra torch")
    onnx = pytest.importorskip("onnx", reason="the extra onnx")
    from layoutkit.onnx import load

    if dynamo:
        pytest.importorskip("onnxscript", reason="what torch exports with")
    torch.manual_seed(0)
    module, x = modules()[name].eval(), torch.randn(2, 17, 48)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            proto = torch.onnx.export(module, (x,), dynamo=True, verbose=False).model_proto
        else:
            written = io.BytesIO()
            torch.onnx.export(module, (x,), written, dynamo=False, opset_version=17)
            proto = onnx.load_from_string(written.getvalue())
    model = load(proto, threads=2)
    (got,) = model.run(x.numpy()).values()
    with torch.no_grad():
        want = module(x).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert nodes_of(model).count("TiledAttention") == 1
    assert not {"Softmax", "Mul", "Div"} & set(nodes_of(model))
    if not dynamo and name != "multihead":
        assert nodes_of(model) == ["MatMul", "TiledAttention", "MatMul"]


def check(nodes, inputs, constants, left, outputs=("y",)):
    """A graph has these operators left, and computes the same."""
    types = {name: TensorType(F32, x.shape) for name, x in inputs.items()}
    graph = Graph(nodes, types, outputs, constants)
    want, model = evaluate(graph, inputs), Model(graph, threads=2)
    got = model.run(inputs)
    for name in outputs:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-5)
    assert nodes_of(model) == left


def numbers(*shape):
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(7,), (1, 7), (1, 1, 7), (1,), ()])
@pytest.mark.parametrize("before", [False, True])
def test_scale_bias_residual_and_activation(shape, before):
    nodes = [
        Node("MatMul", ("x", "w"), ("p",)), Node("Mul", ("half", "p"), ("h",)),
        Node("Add", ("b", "h") if before else ("h", "b"), ("s",)), Node("Add", ("r", "s"), ("t",)),
        Node("Relu", ("t",), ("y",)),
    ]  # fmt: skip
    constants = {"w": numbers(5, 7), "half": np.float32(0.5), "b": numbers(*shape)}
    check(nodes, {"x": numbers(2, 3, 5), "r": numbers(2, 3, 7)}, constants, ["MatMul"])


def test_the_residual_is_not_scaled():
    nodes = [
        Node("MatMul", ("x", "z"), ("p",)), Node("Mul", ("half", "p"), ("h",)), Node("Add", ("h", "r"), ("y",)),
    ]  # fmt: skip
    inputs = {"x": numbers(3, 5), "z": numbers(5, 7), "r": numbers(3, 7)}
    check(nodes, inputs, {"half": np.float32(0.5)}, ["MatMul", "Add"])
    nodes = [Node("MatMul", ("x", "z"), ("p",)), Node("Add", ("p", "r"), ("y",))]
    check(nodes, inputs, {}, ["MatMul"])


def test_views_before_and_after_a_product():
    nodes = [
        Node("Reshape", ("x", "heads"), ("a",)), Node("Transpose", ("a",), ("q",), {"perm": [0, 2, 1, 3]}),
        Node("Div", ("q", "four"), ("s",)), Node("Transpose", ("z",), ("k",), {"perm": [0, 1, 3, 2]}),
        Node("MatMul", ("s", "k"), ("p",)), Node("Transpose", ("p",), ("t",), {"perm": [0, 2, 1, 3]}),
        Node("Reshape", ("t", "rows"), ("y",)),
    ]  # fmt: skip
    constants = {"heads": np.array([2, 5, 3, 4]), "rows": np.array([2, 5, -1]), "four": np.float32(4)}
    check(nodes, {"x": numbers(2, 5, 12), "z": numbers(2, 3, 6, 4)}, constants, ["MatMul"])


def test_what_others_read_is_kept():
    nodes = [
        Node("Transpose", ("x",), ("t",), {"perm": [0, 2, 1]}), Node("MatMul", ("z", "t"), ("p",)),
        Node("Mul", ("p", "half"), ("y",)), Node("Relu", ("t",), ("u",)), Node("Sigmoid", ("p",), ("v",)),
    ]  # fmt: skip
    inputs = {"x": numbers(2, 5, 4), "z": numbers(2, 3, 4)}
    left = ["Transpose", "MatMul", "Mul", "Relu", "Sigmoid"]
    types = {name: TensorType(F32, x.shape) for name, x in inputs.items()}
    graph = Graph(nodes, types, ("y", "u", "v"), {"half": np.float32(0.5)})
    want, model = evaluate(graph, inputs), Model(graph, threads=1)
    for name, got in model.run(inputs).items():
        np.testing.assert_allclose(got, want[name], rtol=1e-5, atol=1e-5)
    assert len(nodes_of(model)) == len(left)


@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("trans", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("constant", [False, True])
def test_gemm(beta, trans, constant):
    a, b = numbers(*((4, 6)[:: -1 if trans[0] else 1])), numbers(*((6, 9)[:: -1 if trans[1] else 1]))
    node = Node("Gemm", ("a", "b", "c"), ("y",), {"alpha": 0.3, "beta": beta, "transA": trans[0], "transB": trans[1]})
    constants, inputs = {"c": numbers(9)}, {"a": a}
    (constants if constant else inputs)["b"] = b
    check([node], inputs, constants, ["Gemm"])


@pytest.mark.parametrize(
    "a, b", [((5,), (5,)), ((5,), (2, 5, 3)), ((2, 4, 5), (5,)), ((1, 4, 5), (3, 2, 5, 6)), ((0, 5), (5, 2))]
)
def test_products_of_all_ranks(a, b):
    check([Node("MatMul", ("a", "b"), ("y",))], {"a": numbers(*a), "b": numbers(*b)}, {}, ["MatMul"])


def test_reshaped_views():
    x = np.arange(120).reshape(2, 3, 4, 5)
    view = contiguous(x.shape).transposed((0, 2, 1, 3))
    np.testing.assert_array_equal(view.of(x), x.transpose(0, 2, 1, 3))
    assert view.reshaped((2, 4, 15)) is None
    np.testing.assert_array_equal(contiguous(x.shape).reshaped((6, 1, 20)).of(x), x.reshape(6, 1, 20))
    part = contiguous(x.shape).part(2, 1, 2, 2)
    np.testing.assert_array_equal(part.reshaped((6, 2, 5, 1)).of(x), x[:, :, 1::2].reshape(6, 2, 5, 1))
    assert View((2, 0), (1, 1)).reshaped((0, 7)).of(x).shape == (0, 7)
