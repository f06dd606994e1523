"""Transposes between tokens and images."""

import numpy as np
import pytest
from conftest import fewer
from hypothesis import given
from hypothesis import strategies as st
from oracle.network import evaluate

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators.layouts import NAMES
from layoutkit.graph.passes.fold import folded
from layoutkit.graph.shapes import infer

F32 = np.dtype(np.float32)


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def block(images, size, channels, perm=(0, 2, 1), reader="Conv", outputs=("y",)):
    """Of SegFormer: tokens, a depthwise convolution of the image that they are, and tokens again."""
    pixels, more = int(np.prod(size)), 2 * channels
    nodes = [
        Node("MatMul", ("x", "w0"), ("a",)), Node("Transpose", ("a",), ("b",), {"perm": list(perm)}),
        Node("Reshape", ("b", "image"), ("c",)), Node(reader, ("c", *("w1",)[: reader == "Conv"]), ("d",)),
        Node("Reshape", ("d", "rows"), ("e",)), Node("Transpose", ("e",), ("f",), {"perm": list(perm)}),
        Node("Gelu", ("f",), ("g",)), Node("MatMul", ("g", "w2"), ("y",)),
    ]  # fmt: skip
    if reader == "Conv":
        nodes[3] = nodes[3].with_(attributes={"group": more, "pads": [1] * (2 * len(size))})
    constants = {
        "w0": numbers(1, channels, more), "w1": numbers(2, more, 1, *[3] * len(size)), "w2": numbers(3, more, channels),
        "image": np.array([images, more, *size]), "rows": np.array([images, more, pixels]),
    }  # fmt: skip
    return Graph(nodes, {"x": TensorType(F32, (images, pixels, channels))}, outputs, constants)


def transposed(graph, x):
    """The shapes of what the folded graph transposes."""
    known = infer(graph, {"x": x.shape})
    return [known[node.inputs[0]].shape for node in folded(graph, known).nodes if node.op == "Transpose"]


def check(graph, x, dtype="float32", tolerance=1e-4):
    want = evaluate(graph, {"x": x})
    for layouts in (None, *NAMES):
        for name, got in Model(graph, layouts=layouts, dtype=dtype, threads=2).run(x).items():
            assert np.abs(got - want[name]).max() <= tolerance * np.abs(want[name]).max()


@given(
    st.integers(1, 2), st.lists(st.integers(1, 6), min_size=2, max_size=3), st.sampled_from([1, 3, 8, 20]),
    st.sampled_from(["float32", "bfloat16"]),
)  # fmt: skip
@fewer(2)
def test_they_are_beside_the_image(images, size, channels, dtype):
    graph, x = block(images, size, channels), numbers(0, images, int(np.prod(size)), channels)
    check(graph, x, dtype, 1e-4 if dtype == "float32" else 0.05)
    assert [len(shape) for shape in transposed(graph, x)] == [len(size) + 2] * 2


def test_nothing_moves():
    graph, x = block(1, (16, 16), 32), numbers(0, 1, 256, 32)
    model = Model(graph, threads=1)
    program, _ = model.planned(x)
    assert all(step.views for step in program.steps if step.op in ("Transpose", "Reshape", "reorder"))


@pytest.mark.parametrize("change", ["reader", "output", "another reader", "shape"])
def test_what_stays(change):
    graph, x = block(1, (4, 4), 3), numbers(0, 1, 16, 3)
    if change == "reader":  # of no layout but the model's
        graph = block(1, (4, 4), 3, reader="Trilu")
    elif change == "output":
        graph = block(1, (4, 4), 3, outputs=("y", "b", "e"))
    elif change == "another reader":
        more = [Node("Relu", ("b",), ("r",)), Node("Relu", ("e",), ("s",))]
        graph = Graph([*graph.nodes, *more], graph.inputs, ("y", "r", "s"), graph.constants)
    else:  # the Reshapes divide and join channels as well
        constants = {**graph.constants, "image": np.array([1, 3, 4, 8]), "w1": numbers(2, 3, 1, 3, 3)}
        nodes = [node.with_(attributes={**node.attributes, "group": 3}) if node.op == "Conv" else node
                 for node in graph.nodes]  # fmt: skip
        graph = Graph(nodes, graph.inputs, graph.outputs, constants)
    assert all(len(shape) == 3 for shape in transposed(graph, x))
    check(graph, x)
