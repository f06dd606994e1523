"""An ONNX model as the quantiser takes it: all its numbers in it, opset 13 or newer, norms folded into convolutions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..ir import fresh
from ..onnx import package, whole_proto

OPSET = 13  # the first whose QuantizeLinear and DequantizeLinear have a scale for each channel
IR_VERSION = 7  # of opset 13
QUANTISED = {"QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger",
             "DynamicQuantizeLinear"}  # fmt: skip


class NothingToQuantize(ValueError):
    """A model that runs, but not in int8."""


def prepared(model: Any) -> Any:
    """A copy of a model as a ModelProto that may be changed."""
    proto = whole_proto(model)
    found = sorted({node.op_type for node in proto.graph.node} & QUANTISED)
    if found:
        has = ", ".join(found)
        raise NothingToQuantize(f"quantize: expected a model of float32, got one that is quantised: it has {has}")
    proto = _converted(proto)
    constant = {t.name for t in proto.graph.initializer}
    for value in [v for v in proto.graph.input if v.name in constant]:  # numbers that a caller could replace
        proto.graph.input.remove(value)
    _fold_norms(proto)
    _fold_factors(proto)
    _name_nodes(proto.graph)
    return proto


def _converted(proto: Any) -> Any:
    """The model in opset 13, if its own is older."""
    onnx = package()
    opset = next((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), 1)
    if opset < OPSET:
        try:
            proto = onnx.version_converter.convert_version(proto, OPSET)
        except Exception as error:  # what the converter raises depends on the operator
            reason = str(error).strip().split("\n")[0]
            raise NothingToQuantize(
                f"quantize: the model is of opset {opset}, scales for each channel need {OPSET} or newer, "
                f"and onnx does not convert it: {reason}"
            ) from error
    proto.ir_version = max(proto.ir_version, IR_VERSION)
    return proto


def constants_of(graph: Any) -> dict[str, Any]:
    """The tensors that are constant, as TensorProto: initializers, Constants, and these under another name."""
    found = {t.name: t for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            found[node.output[0]] = node.attribute[0].t
        elif node.op_type == "Identity" and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return found


def array_of(tensor: Any) -> np.ndarray:
    """The numbers of a TensorProto."""
    return np.asarray(package().numpy_helper.to_array(tensor))


def attribute(node: Any, name: str, default: Any) -> Any:
    """The value of an attribute of a node."""
    return next((package().helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def read_in(graph: Any) -> Iterator[str]:
    """The names of the tensors that a graph's nodes, those of graphs inside of them, and its results read."""
    for node in graph.node:
        yield from node.input
        for a in node.attribute:
            for inner in (*([a.g] if a.HasField("g") else []), *a.graphs):
                yield from read_in(inner)
    for value in graph.output:
        yield value.name


def drop_unread(graph: Any) -> None:
    """Remove the constants that nothing reads, and what is said of tensors that are gone."""
    read = set(read_in(graph))
    for node in [n for n in graph.node if n.op_type == "Constant" and n.output[0] not in read]:
        graph.node.remove(node)
    for tensor in [t for t in graph.initializer if t.name not in read]:
        graph.initializer.remove(tensor)
    known = names_in(graph)
    for value in [v for v in graph.value_info if v.name not in known]:
        graph.value_info.remove(value)


def names_in(graph: Any) -> set[str]:
    """The names of all tensors, those of graphs inside of nodes as well."""
    found = {*read_in(graph), *(t.name for t in graph.initializer), *(v.name for v in graph.input)}
    return found | {name for node in graph.node for name in node.output}


def add_constant(graph: Any, name: str, values: np.ndarray, taken: set[str]) -> str:
    """A new constant; its name, which is made one that is not taken."""
    name = fresh(name, taken)
    taken.add(name)
    graph.initializer.append(package().numpy_helper.from_array(np.asarray(values, order="C"), name))
    return name


def _fold_norms(proto: Any) -> None:
    """Batch norms behind convolutions become part of these: filters must not change after they are rounded."""
    graph = proto.graph
    constants = constants_of(graph)
    reads, taken = Counter(read_in(graph)), names_in(graph)
    makers = {node.output[0]: node for node in graph.node if node.op_type == "Conv"}
    for norm in [node for node in graph.node if node.op_type == "BatchNormalization"]:
        conv = makers.get(norm.input[0])
        numbers = [constants.get(name) for name in norm.input[1:5]]
        own = [] if conv is None else [constants.get(name) for name in conv.input[1:]]
        if conv is None or None in own or None in numbers or reads[norm.input[0]] != 1:
            continue
        if attribute(norm, "training_mode", 0) or any(norm.output[1:]):
            continue
        scale, shift, mean, variance = (array_of(t).astype(np.float64) for t in numbers)
        w = array_of(own[0])
        b = array_of(own[1]) if len(own) > 1 else np.zeros(w.shape[0], w.dtype)
        factor = scale / np.sqrt(variance + attribute(norm, "epsilon", 1e-5))
        folded = w * factor.reshape(-1, *[1] * (w.ndim - 1)), (b - mean) * factor + shift
        y = norm.output[0]
        conv.input[1:] = [
            add_constant(graph, f"{y}.{what}", values.astype(w.dtype), taken)
            for what, values in zip(("filter", "bias"), folded)
        ]
        conv.output[0] = y
        graph.node.remove(norm)
    drop_unread(graph)


def _name_nodes(graph: Any) -> None:
    """Every node gets a name of its own: that of its result if it has none."""
    taken: set[str] = set()
    for node in graph.node:
        node.name = fresh(node.name or node.output[0], taken)
        taken.add(node.name)


def _fold_factors(proto: Any) -> None:
    """The factors of Gemm become part of its constants."""
    graph = proto.graph
    constants, taken = constants_of(graph), names_in(graph)
    for node in graph.node:
        if node.op_type != "Gemm":
            continue
        for i, name in ((1, "alpha"), (2, "beta")):
            factor, tensor = attribute(node, name, 1.0), constants.get(node.input[i]) if len(node.input) > i else None
            if factor != 1 and tensor is not None:
                node.input[i] = add_constant(
                    graph, f"{node.output[0]}.{name}", array_of(tensor) * np.float32(factor), taken
                )
                node.attribute.remove(next(a for a in node.attribute if a.name == name))
    drop_unread(graph)
