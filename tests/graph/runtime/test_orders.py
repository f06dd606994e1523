"""Tensors whose elements get another order: blocks of pixels to channels and back, and transpositions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.network import evaluate

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model

F32 = np.dtype(np.float32)
LAYOUTS = [None, "plain", "channels last", "blocked"]
rng = np.random.default_rng(0)


def steps_of(model):
    """The operators of its steps, by explain."""
    return [line.split()[0] for line in model.explain().splitlines() if line[:1].isalpha() and "(" in line]


@st.composite
def orders(draw):
    """Nodes from `a` to `y`, their constants, and the shape of `a`."""
    op, b = draw(st.sampled_from(["DepthToSpace", "SpaceToDepth", "Transpose", "spelled"])), draw(st.integers(1, 3))
    n, c, h, w = (draw(st.sampled_from(v)) for v in ([1, 2], [1, 3, 16, 32], [1, 2, 5], [1, 3, 4]))
    if op == "Transpose":
        shape = draw(st.permutations([n, c, h, w]))[: draw(st.integers(1, 4))]
        return [Node(op, ("a",), ("y",), {"perm": draw(st.permutations(range(len(shape))))})], {}, shape
    mode = draw(st.sampled_from(["DCR", "CRD"]))
    if op == "spelled":  # as PixelShuffle and its inverse are
        apart, perm = {
            "CRD": ([n, c, b, b, h, w], [0, 1, 4, 2, 5, 3]), "DCR": ([n, b, b, c, h, w], [0, 3, 4, 1, 5, 2]),
        }[mode]  # fmt: skip
        names = {"apart": np.array(apart), "whole": np.array([n, c, h * b, w * b])}
        nodes = [Node("Reshape", ("a", "apart"), ("p",)), Node("Transpose", ("p",), ("q",), {"perm": perm})]
        return [*nodes, Node("Reshape", ("q", "whole"), ("y",))], names, [n, c * b * b, h, w]
    shape = [n, c * b * b, h, w] if op == "DepthToSpace" else [n, c, h * b, w * b]
    mode = mode if op == "DepthToSpace" else "DCR"
    return [Node(op, ("a",), ("y",), {"blocksize": b, "mode": mode})], {}, shape


@given(orders(), st.sampled_from(LAYOUTS), st.integers(1, 2), st.booleans())
def test_any_order(order, layouts, threads, floats):
    nodes, constants, shape = order
    x = rng.integers(-9, 9, shape).astype(np.float32 if floats else np.int64)
    graph = Graph([Node("Abs", ("x",), ("a",)), *nodes], {"x": TensorType(x.dtype, tuple(shape))}, ("y",), constants)
    got = Model(graph, layouts=layouts, threads=threads).run(x)["y"]
    np.testing.assert_array_equal(got, evaluate(graph, {"x": x})["y"])


@pytest.mark.parametrize("mode", ["CRD", "DCR"])
def test_spelled_pixel_shuffles_are_one_step(mode):
    perm = [0, 1, 4, 2, 5, 3] if mode == "CRD" else [0, 3, 4, 1, 5, 2]
    apart = [1, 4, 2, 2, 3, 5] if mode == "CRD" else [1, 2, 2, 4, 3, 5]
    constants = {"apart": np.array(apart), "whole": np.array([1, 4, 6, 10])}
    nodes = [
        Node("Reshape", ("x", "apart"), ("p",)), Node("Transpose", ("p",), ("q",), {"perm": perm}),
        Node("Reshape", ("q", "whole"), ("y",)),
    ]  # fmt: skip
    x = rng.standard_normal((1, 16, 3, 5)).astype(np.float32)
    model = Model(Graph(nodes, {"x": TensorType(F32, x.shape)}, ("y",), constants))
    np.testing.assert_array_equal(model.run(x)["y"], x.reshape(apart).transpose(perm).reshape(1, 4, 6, 10))
    assert steps_of(model) == ["DepthToSpace"]


def islands(rank, ends):
    """Convolutions, between them a product of the channels, which two transpositions bring to the end."""
    letters, c = rank - 2, 16
    taps = rng.standard_normal((c, c, *[3] * letters)).astype(np.float32)
    constants = {"w": taps, "m": rng.standard_normal((c, c)).astype(np.float32), "s": np.ones(c, np.float32)}
    constants["t"] = np.zeros(c, np.float32)
    pads = {"pads": [1] * (2 * letters)}
    nodes = [
        Node("Conv", ("x", "w"), ("a",), pads),
        Node("Transpose", ("a",), ("b",), {"perm": [0, *range(2, rank), 1]}),
        Node("LayerNormalization", ("b", "s", "t"), ("n",), {"axis": -1}),
        Node("MatMul", ("n", "m"), ("d",)),
        Node("Transpose", ("d",), ("e",), {"perm": [0, rank - 1, *range(1, rank - 1)]}),
        Node("Add", ("a", "e"), ("f",)),
        Node("Conv", ("f", "w"), ("y",), pads),
    ]
    shape = (2, c, *[6] * letters)
    return Graph(nodes, {"x": TensorType(F32, shape)}, ("y", *ends), constants), shape


@pytest.mark.parametrize("rank", [3, 4, 5])
@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("ends", [(), ("b", "e")])
def test_channels_that_transpositions_move(rank, layouts, ends):
    graph, shape = islands(rank, ends)
    x = rng.standard_normal(shape).astype(np.float32)
    want, model = evaluate(graph, {"x": x}), Model(graph, layouts=layouts, threads=2)
    for _ in range(2):
        got = model.run(x)
        for name in graph.outputs:
            np.testing.assert_allclose(got[name], want[name], atol=1e-4 * np.abs(want[name]).max())


def test_transpositions_of_channels_last_move_nothing():
    """With channels last, both arrays are the same: no reorder but those of the input and the output."""
    graph, shape = islands(4, ())
    model = Model(graph, layouts="channels last")
    assert steps_of(model).count("reorder") == 2
    kept = Model(graph.needed(("e",)), layouts="channels last")
    x = rng.standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(kept.run(x)["e"], evaluate(kept.graph, {"x": x})["e"], atol=1e-4)


def test_transposed_inputs_and_parts():
    """Of an input of the graph, and of a tensor that is a part of another."""
    nodes = [
        Node("Transpose", ("x",), ("a",), {"perm": [0, 3, 1, 2]}),
        Node("Conv", ("a", "w"), ("b",)),
        Node("Split", ("b",), ("c", "d"), {"axis": 1, "split": [16, 16]}),
        Node("Transpose", ("c",), ("y",), {"perm": [0, 2, 3, 1]}),
        Node("DepthToSpace", ("d",), ("z",), {"blocksize": 2}),
    ]
    w = rng.standard_normal((32, 16, 1, 1)).astype(np.float32)
    x = rng.standard_normal((2, 5, 4, 16)).astype(np.float32)
    graph = Graph(nodes, {"x": TensorType(F32, x.shape)}, ("y", "z"), {"w": w})
    want = evaluate(graph, {"x": x})
    for layouts in LAYOUTS:
        got = Model(graph, layouts=layouts, threads=2).run(x)
        for name in graph.outputs:
            np.testing.assert_allclose(got[name], want[name], atol=1e-4)
