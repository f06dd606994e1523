"""Convolutions of one tap that become one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.network import evaluate

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.layout import siblings
from layoutkit.graph.model import Model
from layoutkit.graph.operators.layouts import NAMES

F32 = np.dtype(np.float32)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def family(sizes, **other):
    """1x1 convolutions of `x`, each read by a convolution; `other`: attributes of the first."""
    nodes, constants, outputs = [], {}, []
    for i, size in enumerate(sizes):
        constants |= {f"w{i}": numbers(size, 24, 1, 1, seed=i), f"b{i}": numbers(size, seed=i + 9)}
        constants[f"v{i}"] = numbers(4, size, 3, 3, seed=i + 20)
        attributes = other if i == 0 else {}
        inputs = ("x", f"w{i}", f"b{i}")[: 2 if i == 1 else 3]
        nodes += [
            Node("Conv", inputs, (f"a{i}",), attributes),
            Node("Relu", (f"a{i}",), (f"r{i}",)),
            Node("Conv", (f"r{i}", f"v{i}"), (f"y{i}",), {"pads": [1] * 4}),
        ]
        outputs.append(f"y{i}")
    return Graph(nodes, {"x": TensorType(F32, (2, 24, 6, 5))}, tuple(outputs), constants)


def merged_steps(model):
    (program,) = model._programs.values()
    return sum("and siblings" in step.name for step in program.steps)


@given(
    st.lists(st.sampled_from([1, 8, 16, 32, 40]), min_size=2, max_size=4), st.sampled_from([None, *NAMES]),
    st.sampled_from(["float32", "bfloat16"]), st.integers(1, 2),
)  # fmt: skip
def test_siblings_are_one(sizes, layouts, dtype, threads):
    graph, x = family(sizes), numbers(2, 24, 6, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(siblings, "STEP_SECONDS", 1.0)
        model = Model(graph, layouts=layouts, dtype=dtype, threads=threads)
        found = model.run(x)
    assert merged_steps(model) == 1
    for name, want in evaluate(graph, {"x": x}).items():
        near = 1e-5 if dtype == "float32" else 2e-2
        np.testing.assert_allclose(found[name], want, atol=near * np.abs(want).max(), rtol=near)


@pytest.mark.parametrize("other", [{"strides": [2, 2]}, {"pads": [1] * 4}, {"group": 2}])
def test_others_stay_apart(other):
    graph = family([8, 16], **other)
    if "group" in other:
        graph.constants["w0"] = numbers(8, 12, 1, 1)
    x = numbers(2, 24, 6, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(siblings, "STEP_SECONDS", 1.0)
        model = Model(graph)
        found = model.run(x)
    assert merged_steps(model) == 0
    for name, want in evaluate(graph, {"x": x}).items():
        np.testing.assert_allclose(found[name], want, atol=1e-5 * np.abs(want).max(), rtol=1e-5)


def test_what_costs_more_stays_apart():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(siblings, "STEP_SECONDS", -1.0)
        model = Model(family([8, 16]))
        model.run(numbers(2, 24, 6, 5))
    assert merged_steps(model) == 0
