"""ONNX models that grow node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Network:
    """Nodes, constants drawn at random, and what inputs are called and measure."""

    def __init__(self, seed: int, opset: int = 17, **inputs: Sequence[int | str]) -> None:
        import onnx

        self.rng, self.opset, self.inputs, self._onnx = np.random.default_rng(seed), opset, inputs, onnx
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """The name of a constant."""
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(values, dtype)
        return name

    def filter(self, *shape: int) -> str:
        """A constant with outputs, inputs and taps, whose sums are about as large as what it is multiplied with."""
        return self.constant(self.rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:]))))

    def uniform(self, *shape: int, low: float = -1, high: float = 1) -> str:
        """A constant of numbers in a range."""
        return self.constant(self.rng.uniform(low, high, shape))

    def add(self, op: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """The result of a node."""
        y = f"t{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(op, inputs, [y], name=name, **attributes))
        return y

    def norm(self, x: str, channels: int) -> str:
        """A batch norm."""
        numbers = [self.uniform(channels, low=low, high=1.5) for low in (0.5, -1, -1, 0.5)]
        return self.add("BatchNormalization", x, *numbers, epsilon=1e-3)

    def model(self, *outputs: str) -> Any:
        """The model with these results."""
        h = self._onnx.helper
        graph = h.make_graph(
            self.nodes, "g", [h.make_tensor_value_info(name, 1, shape) for name, shape in self.inputs.items()],
            [h.make_tensor_value_info(name, 1, None) for name in outputs],
            [self._onnx.numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )  # fmt: skip
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", self.opset)], ir_version=8)
        return self._onnx.shape_inference.infer_shapes(model)
