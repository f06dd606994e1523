"""Graphs whose tensors are quantised and dequantised, and what they are held against."""

import numpy as np
from oracle.network import evaluate

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model

F32 = np.dtype(np.float32)


class Builder:
    """A graph whose tensors are quantised and dequantised."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, value) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def add(self, op: str, *inputs: str, **attributes) -> str:
        name = f"{op}{len(self.nodes)}"
        self.nodes.append(Node(op, inputs, (name,), attributes))
        return name

    def quantised(self, x: str, dtype: str, scale: float, zero: int) -> str:
        """`x`, rounded to integers."""
        given = self.constant(np.float32(scale).reshape(())), self.constant(np.array(zero, dtype))
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, *given), *given)

    def filter(self, *shape: int, axis: int | None = 0, dtype="int8", zero: int = 0, around: int = 0) -> str:
        """A filter of bytes, with a scale for all or for each index of an axis, and zero points of `zero` or at most
        `around` from that."""
        limits = np.iinfo(dtype)
        low = limits.min + (dtype == "int8")
        w = self.constant(self.rng.integers(low, limits.max + 1, shape).astype(dtype))
        scale = self.rng.uniform(0.002, 0.01, () if axis is None else shape[axis]).astype(np.float32)
        zeros = np.full(scale.shape, zero) + (self.rng.integers(-around, around + 1, scale.shape) if around else 0)
        zero = np.clip(zeros, limits.min, limits.max).astype(dtype)
        attributes = {} if axis is None else {"axis": axis}
        return self.add("DequantizeLinear", w, self.constant(scale), self.constant(zero), **attributes)

    def graph(self, *outputs: str, shape=(1, 8, 9, 9)) -> Graph:
        return Graph(self.nodes, {"x": TensorType(F32, shape)}, outputs, self.constants)


def assert_same(graph, quantum, **options):
    """But for sums that are nearly halfway between two integers."""
    x = np.random.default_rng(5).uniform(-1, 1, graph.inputs["x"].shape).astype(np.float32)
    model = Model(graph, **options)
    found, want = model.run(x), evaluate(graph, {"x": x})
    for name in graph.outputs:
        apart = np.abs(found[name] - want[name])
        assert apart.max(initial=0) < 1.01 * quantum, name
        assert np.count_nonzero(apart > quantum / 2) <= 0.01 * apart.size, name
    return model
