"""What onnxruntime computes, where it is installed: it comes with the extra "compare", which tests do without."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np


def by_onnxruntime(proto, inputs: Mapping[str, np.ndarray], optimized: bool = True) -> list[np.ndarray] | None:
    """The outputs of a model, node by node as it is if not `optimized`; None without onnxruntime."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, dict(inputs))


@lru_cache(1)
def saturates() -> bool:
    """Whether onnxruntime's products of uint8 and int8 saturate in pairs, as on processors without VNNI."""
    from onnx import TensorProto, helper

    tensors = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("a", TensorProto.UINT8, [4, 64]), ("b", TensorProto.INT8, [64, 32]), ("y", TensorProto.INT32, [4, 32])
        )
    ]  # fmt: skip
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["a", "b"], ["y"])], "g", tensors[:2], tensors[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    found = by_onnxruntime(model, {"a": np.full((4, 64), 255, np.uint8), "b": np.full((64, 32), 127, np.int8)})
    return found is not None and bool((found[0] != 64 * 255 * 127).any())
