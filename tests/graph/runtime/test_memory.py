"""What a model holds once it is planned: of each filter the model's own and the packed one, and no others."""

import gc
import tracemalloc

import numpy as np
import pytest

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model

CHANNELS = 512
FILTER_BYTES = 4 * CHANNELS * CHANNELS


def convolutions(rng):
    """Convolutions, and products with a number per channel, which become part of the filters."""
    w, scale = rng.standard_normal((CHANNELS, CHANNELS, 1, 1), np.float32), rng.random((1, CHANNELS, 1, 1), np.float32)
    nodes = [
        Node("Conv", ("x", "w"), ("a",), {}), Node("Mul", ("a", "scale"), ("b",), {}),
        Node("Conv", ("b", "w"), ("c",), {}), Node("Mul", ("c", "scale"), ("y",), {}),
    ]  # fmt: skip
    return nodes, {"w": w, "scale": scale}


def products(rng):
    """Products between transposes, which become convolutions with the transposed factors, and then the same."""
    w, scale = rng.standard_normal((CHANNELS, CHANNELS), np.float32), rng.random((CHANNELS,), np.float32)
    nodes = [
        Node("Transpose", ("x",), ("t",), {"perm": [0, 2, 3, 1]}),
        Node("MatMul", ("t", "w"), ("a",), {}), Node("Mul", ("a", "scale"), ("b",), {}),
        Node("MatMul", ("b", "w"), ("c",), {}), Node("Mul", ("c", "scale"), ("d",), {}),
        Node("Transpose", ("d",), ("y",), {"perm": [0, 3, 1, 2]}),
    ]  # fmt: skip
    return nodes, {"w": w, "scale": scale}


@pytest.mark.parametrize("make", [convolutions, products])
def test_only_packed_filters_stay(make):
    rng = np.random.default_rng(0)
    nodes, filters = make(rng)
    shape = 1, CHANNELS, 3, 3
    graph = Graph(nodes, {"x": TensorType(np.dtype(np.float32), shape)}, ("y",), filters)
    x = rng.standard_normal(shape, np.float32)
    Model(graph, threads=1).run(x)  # what the first model of a process makes is not counted: imports, the cost table
    model = Model(graph, threads=1)
    gc.collect()
    tracemalloc.start()
    try:
        model.run(x)
        gc.collect()
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2.5 * FILTER_BYTES
    assert most < 3.5 * FILTER_BYTES
