"""QuantizeLinear and DequantizeLinear around the layers of a model: an ordinary ONNX model of integers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..ir import fresh
from ..onnx import package
from .calibration import Range
from .layers import Layer, integer_tensors
from .preparing import add_constant, array_of, constants_of, drop_unread, names_in

LEAST = float(np.finfo(np.float32).tiny)  # of scales
MOST = float(np.finfo(np.float32).max)
MOST_BIAS = 1 << 30  # of the integers that are a bias: sums are added to them in int32


class Rounding(NamedTuple):
    """Integers q of uint8 stand for ``scale * (q - zero_point)``."""

    scale: float
    zero_point: int


def rounding(of: Range) -> Rounding:
    """The integers that represent a range, and 0 exactly."""
    low, high = min(of[0], 0.0), max(of[1], 0.0)
    scale = float(np.float32(max((high - low) / 255, LEAST))) if high > low else 1.0
    return Rounding(scale, int(np.clip(np.rint(-low / scale), 0, 255)))


def quantised(proto: Any, layers: Collection[Layer], ranges: Mapping[str, Range], wide: Collection[str] = ()) -> Any:
    """A copy of a prepared model in which these layers multiply integers; `wide`: the results of layers that do not."""
    copy = package().ModelProto()
    copy.CopyFrom(proto)
    narrow = [layer for layer in layers if layer.y not in wide and ranges.keys() >= {*layer.x}]
    groups = integer_tensors(proto, narrow, [name for name in _values(proto) if name not in ranges])
    writer = _Writer(copy.graph)
    shared: dict[str, Range] = {}
    for name, leader in groups.items():
        low, high = shared.get(leader, ranges[name])
        shared[leader] = min(low, ranges[name][0]), max(high, ranges[name][1])
    of = {name: rounding(shared[leader]) for name, leader in groups.items()}
    by_result, nodes = {layer.y: layer for layer in narrow}, []
    for name in (v.name for v in copy.graph.input):
        nodes += writer.rounded(name, of)
    for node in copy.graph.node:
        if node.output[0] not in wide:
            node.input[:] = [writer.integers.get(name, name) for name in node.input]
        layer = by_result.get(node.output[0])
        if layer is not None and layer.w:
            nodes += writer.constants(node, layer, of[layer.x[0]])
        nodes.append(node)
        for name in node.output:
            nodes += writer.rounded(name, of)
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    drop_unread(copy.graph)
    return copy


def _values(proto: Any) -> Iterable[str]:
    yield from (v.name for v in proto.graph.input)
    for node in proto.graph.node:
        yield from node.output


class _Writer:
    """Adds constants and names to a graph."""

    def __init__(self, graph: Any) -> None:
        self._graph, self._taken, self._helper = graph, names_in(graph), package().helper
        self._constants = constants_of(graph)
        self.integers: dict[str, str] = {}  # by tensor, what it is after both nodes

    def _name(self, name: str) -> str:
        name = fresh(name, self._taken)
        self._taken.add(name)
        return name

    def _constant(self, name: str, values: np.ndarray) -> str:
        return add_constant(self._graph, name, values, self._taken)

    def rounded(self, name: str, of: Mapping[str, Rounding]) -> list[Any]:
        """The pair of nodes behind a tensor, if it is rounded."""
        if name not in of:
            return []
        scale = self._constant(f"{name}.scale", np.array(of[name].scale, np.float32))
        zero = self._constant(f"{name}.zero_point", np.array(of[name].zero_point, np.uint8))
        q, self.integers[name] = self._name(f"{name}.quantized"), self._name(f"{name}.dequantized")
        return [
            self._helper.make_node("QuantizeLinear", [name, scale, zero], [q], name=q),
            self._helper.make_node(
                "DequantizeLinear", [q, scale, zero], [self.integers[name]], name=self.integers[name]
            ),
        ]

    def constants(self, node: Any, layer: Layer, x: Rounding) -> list[Any]:
        """The nodes that make the filter and the bias of a layer from integers; the layer's node reads them."""
        w = array_of(self._constants[layer.w])
        b = array_of(self._constants[layer.b]).astype(np.float64) if layer.b else None
        scale = filter_scales(w, layer.axis, b, x.scale)
        along = scale.reshape([-1 if i == layer.axis else 1 for i in range(w.ndim)])
        integers = np.clip(np.rint(w / along), -127, 127).astype(np.int8)
        node.input[1], made = self._made(layer, "filter", integers, scale, layer.axis)
        if b is None:
            return [made]
        of_sums = np.float32(x.scale) * scale
        rounded = np.rint(b / of_sums).clip(-MOST_BIAS, MOST_BIAS).astype(np.int32)
        node.input[2], bias = self._made(layer, "bias", rounded, of_sums, 0)
        return [made, bias]

    def _made(self, layer: Layer, what: str, values: np.ndarray, scale: np.ndarray, axis: int) -> tuple[str, Any]:
        name = f"{layer.y}.{what}"
        inputs = [
            self._constant(f"{name}.quantized", values), self._constant(f"{name}.scale", scale),
            self._constant(f"{name}.zero_point", np.zeros(len(scale), values.dtype)),
        ]  # fmt: skip
        result = self._name(f"{name}.dequantized")
        return result, self._helper.make_node("DequantizeLinear", inputs, [result], name=result, axis=axis)


def filter_scales(w: np.ndarray, axis: int, b: np.ndarray | None, x_scale: float) -> np.ndarray:
    """A scale for each output channel of a filter: its largest number is 127, and the bias fits into int32."""
    others = tuple(i for i in range(w.ndim) if i != axis)
    scale = np.abs(w).max(others).astype(np.float64) / 127
    if b is not None:
        scale = np.maximum(scale, np.abs(b) / (MOST_BIAS * x_scale))
    # a scale that float32 holds, also multiplied by that of the input
    least, most = LEAST / min(x_scale, 1.0), MOST / max(x_scale, 1.0)
    scale = np.where(scale > 0, np.clip(scale, least, most), 1.0)
    return scale.astype(np.float32)
