"""Recurrent layers as products and compiled steps are what the operators compute."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators import run
from layoutkit.graph.operators.recurrent import GATES

F32 = np.dtype(np.float32)


@st.composite
def layers(draw):
    """A node, the numbers that it reads, and which of them are constant."""
    op = draw(st.sampled_from(sorted(GATES)))
    steps, batch, width, n = draw(st.tuples(*[st.sampled_from((1, 2, 3, 5, 9, 17, 33))] * 4))
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    first, dirs = draw(st.booleans()), 2 if direction == "bidirectional" else 1
    rng, gates = np.random.default_rng(draw(st.integers(0, 1 << 20))), GATES[op] * n
    state = (batch, dirs, n) if first else (dirs, batch, n)
    shapes = {
        "x": (batch, steps, width) if first else (steps, batch, width),
        "w": (dirs, gates, width), "r": (dirs, gates, n),
        "b": (dirs, 2 * gates), "h": state, "c": state,
    }  # fmt: skip
    values = {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    values["r"] /= np.sqrt(n)  # else the least difference grows from step to step
    names = ["x", "w", "r", draw(st.sampled_from(["", "b"])), "", draw(st.sampled_from(["", "h"]))]
    names += [draw(st.sampled_from(["", "c"]))] if op == "LSTM" else []
    attributes = {"direction": direction, "layout": int(first), "hidden_size": n}
    if op == "GRU":
        attributes["linear_before_reset"] = draw(st.integers(0, 1))
    if op == "RNN" and draw(st.booleans()):
        attributes["activations"] = ["Relu"] * dirs
    if draw(st.booleans()):
        values["h"], values["c"] = values["h"] * 0, values["c"] * 0
    outputs = tuple(f"y{i}" for i in range(draw(st.integers(1, 3 if op == "LSTM" else 2))))
    return Node(op, tuple(names), outputs, attributes), values, draw(st.booleans())


@given(layers(), st.sampled_from([1, 2]))
@settings(deadline=None)
def test_layers_are_what_numpy_computes(layer, threads):
    node, values, constant = layer
    kept = {"w", "r", "b", *(("h", "c") if constant else ())}
    values = {name: value for name, value in values.items() if name in node.inputs}
    given_ = {name: value for name, value in values.items() if name not in kept}
    inputs = {name: TensorType(F32, value.shape) for name, value in given_.items()}
    graph = Graph([node], inputs, node.outputs, {name: v for name, v in values.items() if name in kept})
    want = run(node, [values.get(name) for name in node.inputs])
    model = Model(graph, threads=threads)
    for _ in range(2):
        got = model.run(given_)
        for name, value in zip(node.outputs, want):
            np.testing.assert_allclose(got[name], value, 1e-4, 1e-5)
    still = constant and any(values[name].any() for name in node.inputs[5:] if name)
    assert still or "RecurrentSteps" in {op for op, _, _ in model.profile(given_, 1)}


def test_the_same_bits_of_any_number_of_threads():
    rng = np.random.default_rng(0)
    w, r, b = (rng.uniform(-1, 1, s).astype(np.float32) for s in ((2, 256, 40), (2, 256, 64), (2, 512)))
    node = Node("LSTM", ("x", "w", "r", "b"), ("y",), {"direction": "bidirectional", "hidden_size": 64})
    x = rng.uniform(-1, 1, (50, 9, 40)).astype(np.float32)
    graph = Graph([node], {"x": TensorType(F32, x.shape)}, ("y",), {"w": w, "r": r, "b": b})
    found = [Model(graph, threads=n).run(x)["y"] for n in (1, 2, 4)]
    assert (found[0] == found[1]).all() and (found[0] == found[2]).all()


@pytest.mark.parametrize("attributes", [{"clip": 0.5}, {"activations": ["Sigmoid", "Softsign", "Tanh"]},
                                        {"input_forget": 1}])  # fmt: skip
def test_what_has_no_kernel_runs_by_numpy(attributes):
    rng = np.random.default_rng(0)
    values = [rng.uniform(-1, 1, s).astype(np.float32) for s in ((5, 2, 3), (1, 16, 3), (1, 16, 4))]
    node = Node("LSTM", ("x", "w", "r"), ("y",), {"hidden_size": 4, **attributes})
    graph = Graph([node], {"x": TensorType(F32, (5, 2, 3))}, ("y",), dict(zip("wr", values[1:])))
    model = Model(graph, threads=1)
    np.testing.assert_allclose(model.run(values[0])["y"], run(node, values)[0], 1e-5)
    assert {op for op, _, _ in model.profile(values[0], 1)} == {"LSTM"}
