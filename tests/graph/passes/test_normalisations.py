"""Normalisations that exporters spell out, in any order of operands, and what follows them."""

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
    return sorted(node.op for node in folded(graph, infer(graph, {"x": shape})).nodes)


class Written:
    """A graph as an exporter might write it: operands in either order, means again or once."""

    def __init__(self, draw, shape):
        self.draw, self.nodes, self.constants = draw, [], {}
        self.shape = shape

    def add(self, op, *inputs, **attributes):
        inputs = list(inputs)
        if op in ("Add", "Mul") and self.draw(st.booleans()):
            inputs.reverse()
        for i, value in enumerate(inputs):
            if not isinstance(value, str):
                inputs[i] = f"c{len(self.constants)}"
                self.constants[inputs[i]] = np.asarray(value, np.float32)
        self.nodes.append(Node(op, tuple(inputs), (f"t{len(self.nodes)}",), attributes))
        return self.nodes[-1].outputs[0]

    def mean(self, x, axes):
        rank = len(self.shape)
        axes = [a - rank if self.draw(st.booleans()) else a for a in axes]
        if self.draw(st.booleans()):
            return self.add("ReduceMean", x, axes=axes, keepdims=1)
        y = self.add("ReduceMean", x, axes=axes, keepdims=0)
        shape = np.array([1 if i in [a % rank for a in axes] else n for i, n in enumerate(self.shape)])
        self.constants[f"{y}.shape"] = shape
        return self.add("Reshape", y, f"{y}.shape")

    def normalised(self, x, axes, centred, scale):
        apart = [self.add("Sub", x, self.mean(x, axes)) if centred else x for _ in range(self.draw(st.integers(1, 2)))]
        d = apart[-1]
        square = self.add("Mul", d, d) if self.draw(st.booleans()) else self.add("Pow", d, 2)
        s = self.add("Add", self.mean(square, axes), 1e-5)
        form = self.draw(st.sampled_from(["sqrt", "pow", "reciprocal", "inverse", "power", "early"]))
        if form in ("sqrt", "pow", "early"):
            root = self.add("Sqrt", s) if form != "pow" else self.add("Pow", s, 0.5)
            if form == "early":
                return self.add("Div", self.add("Mul", apart[0], scale), root)
            y = self.add("Div", apart[0], root)
        else:
            root = self.add("Pow", s, -0.5) if form == "power" else self.add("Sqrt", s)
            if form != "power":
                root = self.add("Reciprocal", root) if form == "reciprocal" else self.add("Div", 1, root)
            y = self.add("Mul", apart[0], root)
        return self.add("Mul", y, scale)

    def graph(self, y):
        return Graph(self.nodes, {"x": TensorType(F32, self.shape)}, (y,), self.constants)


@given(st.data(), st.sampled_from(["last", "two", "channels", "pixels"]), st.booleans(), st.booleans(), st.booleans())
def test_spelled_out(data, form, centred, biased, activated):
    shape = {"last": (2, 5, 12), "two": (3, 4, 6), "channels": (2, 6, 5, 4), "pixels": (2, 6, 5, 4)}[form]
    axes, parameter = {"last": ([2], (12,)), "two": ([1, 2], (4, 6)), "channels": ([1], (6, 1, 1)),
                       "pixels": ([2, 3], (1, 6, 1, 1))}[form]  # fmt: skip
    centred = centred or form == "pixels"
    g = Written(data.draw, shape)
    y = g.normalised("x", axes, centred, numbers(1, *parameter))
    if biased:
        y = g.add("Add", y, numbers(2, *parameter))
    if activated:
        y = g.add("Relu", y)
    graph = g.graph(y)
    op = "InstanceNormalization" if form == "pixels" else "LayerNormalization" if centred else "RMSNormalization"
    left = [o for o in ops(graph, shape) if o not in ("Add", "Affine", "Conv", "Relu")]
    assert left == [op], left
    if centred:
        assert ops(graph, shape) == [op]
    x = numbers(3, *shape)
    got = Model(graph, threads=2).run(x)[y]
    np.testing.assert_allclose(got, evaluate(graph, {"x": x})[y], rtol=1e-4, atol=2e-5)


@given(st.data(), st.booleans())
def test_group_normalisation(data, affine):
    shape, groups = data.draw(st.sampled_from([((2, 12, 5, 4), 3), ((1, 6, 7), 2), ((2, 8, 2, 3, 4), 1)]))
    g = Written(data.draw, shape)
    g.constants |= {
        "apart": np.array([shape[0] if data.draw(st.booleans()) else 0, groups, -1]), "shape": np.array(shape),
        "scale": numbers(1, groups), "bias": numbers(2, groups),
    }  # fmt: skip
    y = g.add("InstanceNormalization", g.add("Reshape", "x", "apart"), "scale", "bias", epsilon=1e-5)
    y = g.add("Reshape", y, "shape")
    if affine:
        parameter = (shape[1], *[1] * (len(shape) - 2))
        y = g.add("Add", g.add("Mul", y, numbers(3, *parameter)), numbers(4, *parameter))
    y = g.add("LeakyRelu", y, alpha=0.2)
    graph, x = g.graph(y), numbers(5, *shape)
    assert ops(graph, shape) == ["GroupNormalization"]
    for layouts in ("plain", "channels last", "blocked"):
        got = Model(graph, layouts=layouts, threads=2).run(x)[y]
        np.testing.assert_allclose(got, evaluate(graph, {"x": x})[y], rtol=1e-4, atol=2e-5)


def test_what_is_no_normalisation():
    """Means over other axes, squares of something else, a negative constant, other roots."""

    def graph(square="d", axes=(2,), epsilon=1e-5, power=0.5, other=(2,)):
        constants = {"two": np.float32(2), "epsilon": np.float32(epsilon), "power": np.float32(power)}
        nodes = [
            Node("ReduceMean", ("x",), ("m",), {"axes": list(axes)}), Node("Sub", ("x", "m"), ("d",)),
            Node("Pow", (square, "two"), ("q",)), Node("ReduceMean", ("q",), ("v",), {"axes": list(other)}),
            Node("Add", ("v", "epsilon"), ("s",)), Node("Pow", ("s", "power"), ("r",)), Node("Div", ("d", "r"), ("y",)),
        ]  # fmt: skip
        return Graph(nodes, {"x": TensorType(F32, (2, 3, 4))}, ("y",), constants)

    assert ops(graph(), (2, 3, 4)) == ["LayerNormalization"]
    assert ops(graph(axes=(1,)), (2, 3, 4)) == ["RMSNormalization", "ReduceMean", "Sub"]  # of d
    for other in (dict(square="x"), dict(epsilon=-1), dict(power=0.25), dict(axes=(0,), other=(0,))):
        assert not any("Normalization" in op for op in ops(graph(**other), (2, 3, 4)))


@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.filterwarnings("ignore")
def test_exported_by_torch(opset):
    torch = pytest.importorskip("torch")
    from torch import nn

    class ChannelNorm(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.w, self.b = (nn.Parameter(torch.randn(channels)) for _ in range(2))

        def forward(self, x):
            mean = x.mean(1, keepdim=True)
            variance = (x - mean).pow(2).mean(1, keepdim=True)
            x = (x - mean) / torch.sqrt(variance + 1e-6)
            return self.w[:, None, None] * x + self.b[:, None, None]

    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 12, 3), nn.GroupNorm(4, 12), nn.LeakyReLU(0.1), nn.Conv2d(12, 8, 1), ChannelNorm(8),
        nn.InstanceNorm2d(8), nn.ReLU(), nn.Conv2d(8, 6, 1), nn.Flatten(2), nn.LayerNorm(42), nn.Softmax(-1),
    )  # fmt: skip
    net.eval()
    file, x = io.BytesIO(), numbers(0, 2, 3, 9, 8)
    with torch.no_grad():
        torch.onnx.export(net, (torch.from_numpy(x),), file, dynamo=False, opset_version=opset)
        want = net.double()(torch.from_numpy(x).double()).numpy()
    model = lk.onnx.load(file.getvalue(), threads=2)
    (got,) = model.run(x).values()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    (program,) = model._programs.values()
    left = [step.op for step in program.steps if step.op not in ("Conv", "reorder")]
    assert left == [
        "GroupNormalization", "LayerNormalization", "InstanceNormalization", "Reshape", "LayerNormalization", "Softmax"
    ]  # fmt: skip
