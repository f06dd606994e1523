"""What a model holds once it is planned: of each filter the model's own, unless a file has it, and the packed one."""

import gc
import tracemalloc

import numpy as np
import pytest
from graphs import bytes_of_a_first_run

import layoutkit as lk
from layoutkit.graph.ir import Graph, Node, TensorType

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
    held, most = bytes_of_a_first_run(graph, x)
    assert held < 2.5 * FILTER_BYTES
    assert most < 3.5 * FILTER_BYTES


def test_filters_of_a_file_stay_there(tmp_path):
    onnx = pytest.importorskip("onnx", reason="the extra onnx")
    nodes, filters = convolutions(np.random.default_rng(0))
    shape, float32 = (1, CHANNELS, 3, 3), onnx.TensorProto.FLOAT
    x, y = (onnx.helper.make_tensor_value_info(name, float32, shape) for name in "xy")
    made = [onnx.helper.make_node(node.op, node.inputs, node.outputs) for node in nodes]
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in filters.items()]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(made, "graph", [x], [y], tensors)), tmp_path / "model.onnx")
    lk.onnx.load(tmp_path / "model.onnx", threads=1).run(np.ones(shape, np.float32))  # as above
    gc.collect()
    tracemalloc.start()
    try:
        model = lk.onnx.load(tmp_path / "model.onnx", threads=1)
        loaded, most_loading = tracemalloc.get_traced_memory()
        model.run(np.ones(shape, np.float32))
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert loaded < 1.2 * FILTER_BYTES and most_loading < 1.5 * FILTER_BYTES
    assert 2 * FILTER_BYTES < held < 2.5 * FILTER_BYTES  # packed, each of the two
