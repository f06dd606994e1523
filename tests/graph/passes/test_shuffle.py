"""Channel shuffles: two Reshapes around a Transpose, as one operator."""

import numpy as np
import pytest
from oracle.network import evaluate

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators.layouts import NAMES


def shuffled(shape, groups, perm, joined=None):
    """The positive part of `x`, shuffled."""
    apart = (shape[0], groups, shape[1] // groups, *shape[2:])
    constants = {
        "apart": np.array(apart, np.int64), "joined": np.array(joined or shape, np.int64),
    }  # fmt: skip
    nodes = [
        Node("Relu", ("x",), ("a",)),
        Node("Reshape", ("a", "apart"), ("b",)),
        Node("Transpose", ("b",), ("c",), {"perm": perm}),
        Node("Reshape", ("c", "joined"), ("d",)),
        Node("MaxPool", ("d",), ("y",), {"kernel_shape": [1] * (len(shape) - 2)}),
    ]
    return Graph(nodes, {"x": TensorType(np.dtype(np.float32), shape)}, ("y",), constants)


def operators(model):
    (program,) = model._programs.values()
    return [node.op for node in program.plan.graph.nodes]


@pytest.mark.parametrize("layouts", [None, *NAMES])
@pytest.mark.parametrize(
    ("shape", "groups"), [((1, 12, 5, 7), 3), ((2, 32, 4), 4), ((2, 6, 2, 3, 4), 6), ((1, 7, 3, 3), 1)]
)
def test_shuffles(shape, groups, layouts):
    graph = shuffled(shape, groups, [0, 2, 1, *range(3, len(shape) + 1)])
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    model = Model(graph, layouts=layouts, threads=2)
    np.testing.assert_array_equal(model.run(x)["y"], evaluate(graph, {"x": x})["y"])
    assert "ChannelShuffle" in operators(model) and "Transpose" not in operators(model)


@pytest.mark.parametrize(
    ("perm", "joined"),
    [
        ([0, 1, 2, 4, 3], None),
        ([0, 2, 1, 3, 4], (1, 6, 8, 4)),
        ([0, 2, 1, 3, 4], (2, 6, 4, 4)),
        ([0, 3, 2, 1, 4], None),
    ],
)
def test_others_stay(perm, joined):
    graph = shuffled((1, 12, 4, 4), 3, perm, joined)
    x = np.random.default_rng(0).standard_normal((1, 12, 4, 4)).astype(np.float32)
    model = Model(graph)
    np.testing.assert_array_equal(model.run(x)["y"], evaluate(graph, {"x": x})["y"])
    assert "ChannelShuffle" not in operators(model)
