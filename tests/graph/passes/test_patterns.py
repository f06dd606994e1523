"""Activations as exporters spell them, and what is nearly one.

The spellings are those of torch's two exporters (2.13) and of tf2onnx; constants are written as they come out.
"""

import re

import numpy as np
import pytest
from conftest import fewer
from hypothesis import given
from hypothesis import strategies as st
from oracle.network import evaluate

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.passes.expressions import parsed
from layoutkit.graph.passes.patterns import activations
from layoutkit.graph.shapes import infer

SHAPE = 2, 3, 4, 5
HALF_ERF = "t=Div(x, 1.4142135381698608); u=Erf(t); v=Add(u, 1.0)"
TANH = "v=Tanh(u); w=Add(v, 1.0)"
FORMS = {
    "Swish": [
        "t=Sigmoid(x); y=Mul(x, t)",
        "t=Mul(x, 1.7020000219345093); u=Sigmoid(t); y=Mul(x, u)",
        "t=Neg(x); u=Exp(t); v=Add(u, 1.0); y=Div(x, v)",
        "t=Neg(x); u=Exp(t); v=Add(u, 1.0); w=Reciprocal(v); y=Mul(x, w)",
        "t=Mul(x, -1.0); u=Exp(t); v=Add(u, 1.0); w=Div(1.0, v); y=Mul(x, w)",
    ],
    "HardSwish": [
        "t=Add(x, 3.0); u=Clip(t, 0.0, 6.0); v=Mul(x, u); y=Div(v, 6.0)",
        "t=Add(x, 3.0); u=Clip(t, 0.0, 6.0); v=Div(u, 6.0); y=Mul(x, v)",
        "t=Add(x, 3.0); u=Relu(t); v=Min(u, 6.0); w=Mul(x, v); y=Mul(w, 0.16666667163372)",
        "t=Add(x, 3.0); u=Max(t, 0.0); v=Min(u, 6.0); w=Mul(v, 0.16666667163372); y=Mul(x, w)",
        "t=Div(x, 6.0); u=Add(t, 0.5); v=Clip(u, 0.0, 1.0); y=Mul(x, v)",
        "t=HardSigmoid(x, alpha=0.1666666716337204); y=Mul(x, t)",
        "t=HardSigmoid(x, beta=0.5, alpha=0.1666666716337204); y=Mul(t, x)",
        "s=Mul(x, 0.16666667163372); t=Add(x, 3.0); u=Clip(t, 0.0, 6.0); y=Mul(s, u)",
    ],
    "HardSigmoid": [
        "t=Add(x, 3.0); u=Clip(t, 0.0, 6.0); y=Mul(u, 0.1666666716337204)",
        "t=Add(x, 3.0); u=Clip(t, 0.0, 6.0); y=Div(u, 6.0)",
        "t=Mul(x, 0.20000000298023224); u=Add(t, 0.5); y=Clip(u, 0.0, 1.0)",
        "t=Mul(x, 0.20000000298023224); u=Add(t, 0.5); v=Max(u, 0.0); y=Min(v, 1.0)",
    ],
    "Clip": [
        "y=Clip(x, 0.0, 6.0)",
        "t=Max(x, -1.0); y=Min(t, 1.0)",
        "t=Min(x, 1.0); y=Max(t, -1.0)",
        "t=Relu(x); y=Min(t, 6.0)",
        "t=Relu(x); y=Clip(t, 0.0, 6.0)",
    ],
    "Relu": ["y=Max(x, 0.0)", "y=Clip(x, 0.0)", "y=Clip(x, 0.0, 3.4028234663852886e38)"],
    "Gelu": [
        f"{HALF_ERF}; w=Mul(x, v); y=Mul(w, 0.5)",
        f"{HALF_ERF}; w=Mul(0.5, v); y=Mul(x, w)",
        f"s=Mul(x, 0.5); {HALF_ERF}; y=Mul(s, v)",
        "t=Mul(x, 0.7071067690849304); u=Erf(t); v=Add(1.0, u); w=Mul(v, x); y=Div(w, 2.0)",
        "t=Mul(x, 0.7071067690849304); u=Erf(t); v=Mul(u, 0.5); w=Add(v, 0.5); y=Mul(w, x)",
    ],
    "Gelu tanh": [
        "q=Mul(x, x); r=Mul(x, q); s=Mul(0.044714998453855515, r); t=Add(x, s); u=Mul(0.7978845834732056, t); "
        f"{TANH}; z=Mul(x, w); y=Mul(0.5, z)",
        "r=Pow(x, 3.0); s=Mul(0.044714998453855515, r); t=Add(x, s); u=Mul(0.7978845834732056, t); "
        f"{TANH}; z=Mul(0.5, w); y=Mul(x, z)",
        "p=Mul(x, 0.5); q=Mul(x, 0.7978845834732056); r=Mul(x, 0.044714998453855515); s=Mul(r, x); t=Add(s, 1.0); "
        f"u=Mul(q, t); {TANH}; y=Mul(p, w)",
        "q=Mul(x, x); r=Mul(q, x); s=Mul(r, 0.03567740693688393); t=Mul(x, 0.7978845834732056); u=Add(s, t); "
        f"{TANH}; z=Mul(x, w); y=Mul(z, 0.5)",
        "r=Pow(x, 3.0); s=Mul(0.044714998453855515, r); t=Add(x, s); u=Mul(0.7978845834732056, t); v=Tanh(u); "
        "w=Mul(v, 0.5); z=Add(w, 0.5); y=Mul(x, z)",
    ],
    "Mish": [
        "t=Softplus(x); u=Tanh(t); y=Mul(x, u)",
        "t=Exp(x); u=Add(t, 1.0); v=Log(u); w=Tanh(v); y=Mul(x, w)",
        "t=Softplus(x); u=Greater(x, 20.0); v=Where(u, x, t); w=Tanh(v); y=Mul(x, w)",
    ],
    "LeakyRelu": [
        "t=Greater(x, 0.0); u=Mul(x, 0.10000000149011612); y=Where(t, x, u)",
        "t=GreaterOrEqual(x, 0.0); u=Mul(0.10000000149011612, x); y=Where(t, x, u)",
        "t=Less(x, 0.0); u=Mul(0.10000000149011612, x); y=Where(t, u, x)",
        "t=Mul(x, 0.20000000298023224); y=Max(x, t)",
        "s=Relu(x); t=Neg(x); u=Relu(t); v=Mul(u, -0.25); y=Add(s, v)",
        "s=Relu(x); t=Min(x, 0.0); u=Mul(t, 0.25); y=Add(s, u)",
        "s=Relu(x); t=Neg(x); u=Relu(t); v=Mul(u, 0.25); y=Sub(s, v)",
    ],
    "PRelu": [
        "s=Relu(x); t=Neg(x); u=Relu(t); v=Mul(u, slopes); y=Add(s, v)",
        "s=Relu(x); t=Neg(x); u=Relu(t); v=Mul(slopes, u); y=Sub(s, v)",
        "t=Greater(x, 0.0); u=Mul(x, slopes); y=Where(t, x, u)",
        "s=Relu(x); t=Min(x, 0.0); u=Mul(t, slopes); y=Add(s, u)",
    ],
    "Elu": [
        "t=Greater(x, 0.0); u=Exp(x); v=Sub(u, 1.0); y=Where(t, x, v)",
        "t=Greater(x, 0.0); u=Exp(x); v=Sub(u, 1.0); w=Mul(v, 1.5); y=Where(t, x, w)",
    ],
    "Softplus": [
        "t=Exp(x); u=Add(t, 1.0); y=Log(u)",
        "t=Softplus(x); u=Greater(x, 20.0); y=Where(u, x, t)",
    ],
    "Sigmoid": [
        "t=Neg(x); u=Exp(t); v=Add(u, 1.0); y=Reciprocal(v)",
        "t=Neg(x); u=Exp(t); v=Add(u, 1.0); y=Div(1.0, v)",
        "t=Mul(x, 0.5); u=Tanh(t); v=Mul(u, 0.5); y=Add(v, 0.5)",
    ],
    "Softsign": ["t=Abs(x); u=Add(t, 1.0); y=Div(x, u)"],
}  # fmt: skip
SLOPES = np.array([0.1, 0.25, -0.5], np.float32).reshape(3, 1, 1)
COMMUTATIVE = "Add", "Mul", "Max", "Min"
WHOLE = {"Swish", "HardSwish", "Gelu", "Mish", "LeakyRelu", "PRelu", "Elu", "Softsign"}
NEARLY = [
    "t=Sigmoid(x); y=Mul(other, t)",  # another tensor
    "t=Sigmoid(x); y=Mul(x, t); also=Relu(t)",  # used elsewhere
    "t=Div(x, 1.4142); u=Erf(t); v=Add(u, 1.0); w=Mul(x, v); y=Mul(w, 0.5)",  # other constants
    f"{HALF_ERF}; w=Mul(x, v); y=Mul(w, 0.25)",
    f"{HALF_ERF}; w=Mul(x, v); s=Mul(w, 0.5); y=Mul(s, w)",
    "t=Div(x, 1.4142135381698608); u=Erf(t); v=Sub(1.0, u); w=Mul(x, v); y=Mul(w, 0.5)",
    "t=Add(x, 3.0); u=Clip(t, 0.0, 6.0); v=Mul(x, u); y=Div(v, 5.0)",
    "t=Add(x, 3.0); u=Clip(t, -1.0, 6.0); v=Mul(x, u); y=Div(v, 6.0)",
    "t=HardSigmoid(x); y=Mul(x, t)",
    "t=Softplus(x); u=Tanh(t); y=Mul(other, u)",
    "r=Pow(x, 2.0); s=Mul(0.044714998453855515, r); t=Add(x, s); u=Mul(0.7978845834732056, t); "
    f"{TANH}; z=Mul(0.5, w); y=Mul(x, z)",
    "t=Mul(x, 1.5); y=Max(x, t)",
    "t=Greater(x, 1.0); u=Mul(x, 0.1); y=Where(t, x, u)",
    "t=Greater(x, 0.0); u=Mul(x, 0.1); y=Where(t, u, x)",
    "s=Relu(x); t=Relu(x); u=Mul(t, 0.25); y=Add(s, u)",
    "t=Max(x, 1.0); y=Min(t, -1.0)",
    "t=Softplus(x); u=Greater(x, 2.0); y=Where(u, x, t)",
    "t=Exp(x); u=Add(t, 2.0); y=Log(u)",
]


def limited(number, dtype):
    """As exporters write limits that a type does not have."""
    return min(number, float(np.finfo(dtype).max)) if np.dtype(dtype).kind == "f" else number


def graph_of(text, dtype=np.float32, outputs=("y",), scalar=(), swap=lambda: False):
    """A graph from a text like those above; `scalar`: the shape of its constants, `swap`: whether to exchange the
    operands of an operator that does not mind."""
    constants, nodes = {"slopes": SLOPES.astype(dtype)}, []
    for line in text.split("; "):
        result, op, operands = re.fullmatch(r"(\w+)=(\w+)\((.*)\)", line).groups()
        inputs, attributes = [], {}
        for operand in operands.split(", "):
            if "=" in operand:
                name, number = operand.split("=")
                attributes[name] = float(number)
                continue
            if re.match(r"-?\d", operand):
                constants[name := f"constant{len(constants)}"] = np.full(scalar, limited(float(operand), dtype), dtype)
                operand = name
            inputs.append(operand)
        if op in COMMUTATIVE and swap():
            inputs.reverse()
        nodes.append(Node(op, tuple(inputs), (result,), attributes))
    of = TensorType(np.dtype(dtype), SHAPE)
    return Graph(nodes, {"x": of, "other": of}, outputs, constants)


def rewritten(graph):
    """The graph after the pass."""
    return activations(graph, infer(graph, {"x": SHAPE, "other": SHAPE}))


def data(dtype=np.float32):
    rng = np.random.default_rng(0)
    return {"x": (4 * rng.standard_normal(SHAPE)).astype(dtype), "other": rng.standard_normal(SHAPE).astype(dtype)}


CASES = [(op, text) for op, texts in FORMS.items() for text in texts]


@pytest.mark.parametrize(("op", "text"), CASES)
@given(seed=st.integers(0, 2**32 - 1), scalar=st.sampled_from([(), (1,), (1, 1, 1), (1, 1, 1, 1)]))
@fewer(5)
def test_spellings(op, text, seed, scalar):
    """One operator, whatever the order of operands and the shape of constants; its numbers are those of all nodes."""
    rng = np.random.default_rng(seed)
    graph = graph_of(text, scalar=scalar, swap=lambda: rng.random() < 0.5)
    done = rewritten(graph)
    assert [node.op for node in done.nodes] == [op.split()[0]]
    assert done.nodes[0].attributes.get("approximate", "none") == ("tanh" if "tanh" in op else "none")
    want, got = (evaluate(g, data())["y"] for g in (graph, done))
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(("op", "text"), CASES)
def test_float16(op, text):
    """Constants are rounded to the type of the tensors."""
    graph = graph_of(text, np.float16)
    done = rewritten(graph)
    assert [node.op for node in done.nodes] == [op.split()[0]]
    want, got = (evaluate(g, data(np.float16))["y"] for g in (graph, done))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("text", NEARLY)
def test_nearly_one(text):
    """What differs in a constant, an operand or a node stays as it is, but for what is one inside of it."""
    graph = graph_of(text, outputs=("y", "also") if "also" in text else ("y",))
    done = rewritten(graph)
    assert not {node.op for node in done.nodes} & WHOLE
    for name, want in evaluate(graph, data()).items():
        np.testing.assert_array_equal(evaluate(done, data())[name], want)


@pytest.mark.parametrize("inner", ["t", "u", "v", "w"])
def test_an_inner_tensor_is_an_output(inner):
    graph = graph_of(FORMS["Gelu"][0], outputs=("y", inner))
    assert len(rewritten(graph).nodes) == len(graph.nodes)


def test_integers_stay():
    graph = graph_of("t=Max(x, -1); y=Min(t, 1)", np.int32)
    assert [node.op for node in rewritten(graph).nodes] == ["Max", "Min"]


def test_larger_constants_stay():
    """A constant with more axes than the tensor gives the result more axes."""
    graph = graph_of("t=Sigmoid(x); u=Mul(x, t); y=Mul(u, 1.0)", scalar=(1, 1, 1, 1, 1))
    assert [node.op for node in rewritten(graph).nodes] == ["Swish", "Mul"]
    graph = graph_of(FORMS["Gelu"][0], scalar=(1, 1, 1, 1, 1))
    assert len(rewritten(graph).nodes) == len(graph.nodes)


@pytest.mark.parametrize("ops", [("Mul",), ("Add", "Mul"), ("Add",), ("Neg",)])
@pytest.mark.parametrize("operand", ["other", "number"])
def test_long_chains(ops, operand):
    """Products and sums of many tensors are not searched for what they cannot be, however long."""
    nodes, last, count = [], "x", 1500
    for i in range(count):
        op = ops[i % len(ops)]
        nodes.append(Node(op, (last,) if op == "Neg" else (last, operand), (f"t{i}",)))
        last = f"t{i}"
    graph = Graph(nodes, graph_of("y=Relu(x)").inputs, (last,), {"number": np.float32(1.5)})
    assert len(rewritten(graph).nodes) == count


@pytest.mark.parametrize("text", ["a * b * x", "(a + x) + b", "x // y", "x ** a"])
def test_patterns_that_say_nothing(text):
    with pytest.raises(ValueError, match="pattern"):
        parsed(text)


def test_into_a_convolution():
    """What is found joins the convolution before it."""
    (conv,) = [Node("Conv", ("x", "w"), ("c",))]
    spelled = graph_of(FORMS["HardSwish"][0])
    nodes = [conv, *(node.with_(inputs=tuple("c" if n == "x" else n for n in node.inputs)) for node in spelled.nodes)]
    w = np.random.default_rng(1).standard_normal((7, 3, 1, 1)).astype(np.float32)
    graph = Graph(nodes, {"x": spelled.inputs["x"]}, ("y",), {**spelled.constants, "w": w})
    model = Model(graph)
    x = data()["x"]
    np.testing.assert_allclose(model.run(x)["y"], evaluate(graph, {"x": x})["y"], rtol=1e-5, atol=1e-5)
    (program,) = model._programs.values()
    assert [node.op for node in program.plan.graph.nodes] == ["Conv"]
