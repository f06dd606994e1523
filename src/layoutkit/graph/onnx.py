"""ONNX models as graphs. Needs the package onnx.

Operators of older versions are converted to the newest one by `onnx_versions.py`, so that the rest of the package knows
only one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from .ir import Body, Graph, Node, TensorType, fresh
from .onnx_attention import CONTRIBUTED
from .onnx_file import Constants, Large, Source, Stored, without_large
from .onnx_fused import DOMAIN, IN_ONNX
from .onnx_sequences import Pieces
from .onnx_versions import CONVERSIONS
from .operators import OPERATORS, Unsupported
from .shapes import MAX_BYTES

__all__ = ["Unsupported", "graph_of", "package", "whole_proto"]

DOMAINS = ("", "ai.onnx")
MAX_DEPTH = 16  # of graphs inside of one another
# Operators of our graphs that ONNX does not have.
OURS = {"Affine", "AlongAxis", "ChannelShuffle", "Elementwise", "RecurrentSteps", "Requantise", "Table",
        "TiledAttention"}  # fmt: skip
TYPES = {
    "FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32",
    "UINT64",
}  # fmt: skip
FOUR_BITS = {"INT4": np.int8, "UINT4": np.uint8}  # of constants that DequantizeLinear reads: bytes in our graphs


def graph_of(model: Any) -> Graph:
    """The graph of an ONNX model; `loading.load` says what is taken and raised."""
    onnx = package()
    proto, folder, stored = _proto(onnx, model)
    versions = {entry.domain: entry.version for entry in proto.opset_import}
    version = versions.get("", versions.get("ai.onnx", 1))
    graph = proto.graph
    supported = (OPERATORS.keys() | CONVERSIONS.keys() | IN_ONNX) - OURS
    unknown = sorted(
        {
            f"{n.domain}.{n.op_type}".lstrip(".")
            for n in _all_nodes(onnx, graph)
            if n.op_type not in {DOMAIN: CONTRIBUTED}.get(n.domain, supported if n.domain in DOMAINS else ())
        }
    )
    if unknown:
        raise Unsupported(f"onnx: operators that are not supported: {', '.join(unknown)}")
    constants = Constants()
    of_four_bits = {t.name for t in graph.initializer if _four_bits(onnx, t) is not None}
    for i, t in enumerate(graph.initializer):
        if t.name in of_four_bits:
            constants.put(t.name, _bytes_of_pairs(onnx, t, folder, stored.get(i)))
        else:
            constants.put(t.name, _large(onnx, t, stored[i]) if i in stored else _array(onnx, t, folder))
    inputs = {}
    for value in graph.input:
        if value.name not in constants:
            inputs[value.name] = _type_of(onnx, value)
    reader = _Reader(onnx, proto, version, folder, constants, {*inputs, *constants})
    reader.of_four_bits = of_four_bits
    for node in graph.node:
        reader.add(node)
    for value in graph.output:
        if value.name in reader.sequences:
            raise Unsupported(f"onnx: output {value.name!r} is no tensor")
        if value.name in of_four_bits:
            raise Unsupported(f"onnx: output {value.name!r} has integers of 4 bits")
    return Graph(reader.nodes, inputs, tuple(v.name for v in graph.output), reader.constants)


def _all_nodes(onnx, graph, depth: int = 0) -> Iterator[Any]:
    """The nodes of a graph, and of the graphs inside of them."""
    if depth > MAX_DEPTH:
        raise ValueError(f"onnx: graphs inside of one another, more than {MAX_DEPTH}")
    for node in graph.node:
        yield node
        for a in node.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield from _all_nodes(onnx, a.g, depth + 1)


def package():
    """The package onnx, which is optional."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError("layoutkit.onnx needs the package onnx: pip install 'layoutkit[onnx]'") from error
    return onnx


def _proto(onnx, model):
    """The model, the folder that its external tensors may be in, and where the numbers of large tensors are that it
    lacks."""
    if isinstance(model, onnx.ModelProto):
        return model, None, {}
    proto, folder = onnx.ModelProto(), None
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        folder, model = path.resolve().parent, path if path.is_file() else path.read_bytes()  # a pipe
    elif not isinstance(model, bytes):
        raise TypeError(f"onnx.load: expected a path, bytes or a ModelProto, got {type(model).__name__}")
    data, stored = without_large(Source(model))
    try:
        proto.ParseFromString(data)
    except Exception as error:  # protobuf's own, which it does not export
        raise ValueError(f"onnx.load: this is no ONNX model: {error}") from error
    if not proto.graph.node and not proto.graph.output:
        raise ValueError("onnx.load: this is no ONNX model: it has no graph")
    return proto, folder, stored


def whole_proto(model: Any) -> Any:
    """A copy of an ONNX model as a ModelProto that has all its numbers in it."""
    onnx = package()
    proto, folder, stored = _proto(onnx, model)
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for i, tensor in enumerate(copy.graph.initializer):
        if i in stored:
            tensor.raw_data = stored[i].source.part(stored[i].begin, stored[i].end)
        elif tensor.data_location == onnx.TensorProto.EXTERNAL and _four_bits(onnx, tensor) is not None:
            tensor.CopyFrom(_with_pairs(onnx, tensor, folder, None))
        elif tensor.data_location == onnx.TensorProto.EXTERNAL:
            tensor.CopyFrom(onnx.numpy_helper.from_array(_array(onnx, tensor, folder), tensor.name))
    return copy


def _large(onnx, tensor, stored: Stored) -> Large:
    """A tensor whose numbers are left out."""
    length, n = stored.end - stored.begin, _checked_bytes(onnx, tensor)
    if length != n:
        raise ValueError(f"onnx: tensor {tensor.name!r} of shape {list(tensor.dims)} has {length} bytes, not {n}")
    return Large(stored, _dtype(onnx, tensor.data_type, tensor.name), tuple(tensor.dims))


def _array(onnx, tensor, folder: Path | None) -> np.ndarray:
    """The numbers of a tensor; external data is read only from files below the model's folder."""
    _checked_bytes(onnx, tensor)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        dtype = _dtype(onnx, tensor.data_type, tensor.name)
        return _external(tensor, folder, _bytes_of(onnx, tensor)).view(dtype).reshape(tensor.dims)
    try:
        return onnx.numpy_helper.to_array(tensor)
    except Exception as error:
        raise ValueError(f"onnx: tensor {tensor.name!r}: {error}") from error


def _four_bits(onnx, tensor) -> Any:
    """The type of the bytes that a tensor's integers of 4 bits become; None if it has other elements."""
    types = onnx.TensorProto.DataType
    return FOUR_BITS.get(types.Name(tensor.data_type)) if tensor.data_type in types.values() else None


def _bytes_of_pairs(onnx, tensor, folder: Path | None, stored: Stored | None) -> np.ndarray:
    """The integers of 4 bits of a tensor, a byte for each."""
    if min(tensor.dims, default=0) < 0 or prod(tensor.dims) > MAX_BYTES:
        raise ValueError(f"onnx: tensor {tensor.name!r} has shape {list(tensor.dims)}: impossible or too large")
    tensor = _with_pairs(onnx, tensor, folder, stored)
    try:
        integers = onnx.numpy_helper.to_array(tensor).astype(_four_bits(onnx, tensor))
    except Exception as error:
        raise ValueError(f"onnx: tensor {tensor.name!r}: {error}") from error
    if integers.shape != tuple(tensor.dims):
        raise ValueError(f"onnx: tensor {tensor.name!r} of shape {list(tensor.dims)} has {integers.size} numbers")
    return integers


def _with_pairs(onnx, tensor, folder: Path | None, stored: Stored | None) -> Any:
    """A tensor of integers of 4 bits with its numbers, two in a byte, wherever they lie."""
    external = tensor.data_location == onnx.TensorProto.EXTERNAL
    if stored is None and not external:
        return tensor
    of = {"name": tensor.name, "dims": tensor.dims, "data_type": tensor.data_type}
    if stored is not None:
        return onnx.TensorProto(**of, raw_data=stored.source.part(stored.begin, stored.end))
    return onnx.TensorProto(**of, raw_data=_external(tensor, folder, -(-prod(tensor.dims) // 2)).tobytes())


def _external(tensor, folder: Path | None, length: int) -> np.ndarray:
    """The bytes of a tensor in external data, so many."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    try:
        return _read_external(tensor, folder, length, entries)
    except (OSError, RuntimeError) as error:  # names that are too long, cyclic links
        reason = error.strerror if isinstance(error, OSError) else "links that lead to themselves"
        location = entries.get("location")
        raise ValueError(f"onnx: tensor {tensor.name!r} lies in {location!r:.100}: {reason}") from error


def _read_external(tensor, folder: Path | None, length: int, entries: Mapping[str, str]) -> np.ndarray:
    """As `_external`; `entries` has the file and the offset."""
    location, begin = entries.get("location", ""), entries.get("offset", "0")
    path = None if folder is None or "\0" in location else (folder / location).resolve()
    if folder is None or path is None or not location or not path.is_relative_to(folder):
        raise ValueError(f"onnx: tensor {tensor.name!r} lies in {location!r:.100}, outside of the model's folder")
    offset = int(begin) if begin.isascii() and begin.isdigit() and len(begin) < 19 else -1
    if offset < 0 or not path.is_file() or path.stat().st_size < offset + length:
        raise ValueError(f"onnx: tensor {tensor.name!r}: {location!r:.100} has no {length} bytes from {begin:.40} on")
    return np.fromfile(path, np.uint8, length, offset=offset)


def _checked_bytes(onnx, tensor) -> int:
    """The bytes of a tensor's numbers; ValueError if there cannot be so many."""
    nbytes = -1 if min(tensor.dims, default=0) < 0 else _bytes_of(onnx, tensor)
    if not 0 <= nbytes <= MAX_BYTES:
        raise ValueError(f"onnx: tensor {tensor.name!r} has shape {list(tensor.dims)}: impossible or too large")
    return nbytes


def _bytes_of(onnx, tensor) -> int:
    """The bytes of a tensor's numbers."""
    n = _dtype(onnx, tensor.data_type, tensor.name).itemsize
    for extent in tensor.dims:
        n *= extent
    return n


def _dtype(onnx, code: int, name: str) -> np.dtype:
    """The element type of tensor `name`, by ONNX's number; Unsupported if it is none of `TYPES`."""
    types = onnx.TensorProto.DataType
    element = types.Name(code) if code in types.values() else str(code)
    if element not in TYPES:
        raise Unsupported(f"onnx: tensor {name!r} has elements of type {element}, which is not supported")
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))


def _type_of(onnx, value) -> TensorType:
    """The declared type and shape of an input of the model."""
    if not value.type.HasField("tensor_type"):
        raise Unsupported(f"onnx: input {value.name!r} is no tensor")
    of = value.type.tensor_type
    shape = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or f"{value.name}.{i}"
                  for i, d in enumerate(of.shape.dim))  # fmt: skip
    return TensorType(_dtype(onnx, of.elem_type, value.name), shape)


class _Reader:
    """Nodes of a graph as they are read, and its constants; `outer`: the reader of the graph around it."""

    def __init__(
        self, onnx, proto, version: int, folder: Path | None, constants: MutableMapping[str, np.ndarray],
        names: set[str], outer: _Reader | None = None,
    ) -> None:  # fmt: skip
        self.onnx, self.version, self._proto, self._outer = onnx, version, proto, outer
        self._schemas = type(onnx.checker.DEFAULT_CONTEXT)()
        self._schemas.ir_version = max(3, proto.ir_version)
        self._schemas.opset_imports = dict.fromkeys(DOMAINS, version)
        self.constants, self._names = constants, names
        self._folder = folder  # of external tensors
        self.nodes: list[Node] = []
        self.sequences: dict[str, list[str] | Pieces] = {}
        self.of_four_bits: set[str] = set()  # constants that are

    def add(self, proto) -> None:
        """Read a node."""
        conversions = CONTRIBUTED if proto.domain == DOMAIN or proto.op_type in IN_ONNX else CONVERSIONS
        try:  # checks the number of inputs and outputs and the types of attributes, not their values
            if conversions is CONVERSIONS:
                self.onnx.checker.check_node(self._without_graphs(proto), self._schemas)
        except self.onnx.checker.ValidationError as error:
            reason = str(error).split("\n")[0]
            raise ValueError(f"onnx: {proto.op_type} {proto.name or ' '.join(proto.output)}: {reason}") from error
        attributes = {a.name: self._value(a, proto) for a in proto.attribute}
        outputs = list(proto.output)
        if outputs and not outputs[0]:  # omitted, but every node is known by its first result
            outputs[0] = fresh(f"{proto.op_type}.{len(self.nodes)}", self._names)
        bodies = [value for value in attributes.values() if isinstance(value, Body)]
        captured = tuple(dict.fromkeys(name for body in bodies for name in body.captured))
        if bodies:
            attributes["captured"] = captured
        node = Node(proto.op_type, (*proto.input, *captured), tuple(outputs), attributes, proto.name)
        for i, name in enumerate(node.inputs):
            if name in self.of_four_bits and not (node.op == "DequantizeLinear" and i in (0, 2)):
                raise Unsupported(f"onnx: {node}: {name!r} has integers of 4 bits, which are for DequantizeLinear")
        self._names.update(node.outputs)
        convert = conversions.get(node.op)
        converted = convert(self, node) if convert else node
        if converted is not None:
            self.nodes.append(converted)

    def name(self, owner: str, role: str) -> str:
        """A new name of a tensor."""
        name = fresh(f"{owner}.{role}", self._names)
        self._names.add(name)
        return name

    def constant(self, values: Any, owner: str, dtype: Any = np.int64) -> str:
        """The name of a new constant."""
        name = self.name(owner, "constant")
        self.constants[name] = np.asarray(values, dtype)
        return name

    def rank(self, name: str) -> int | None:
        """How many axes a tensor has, if it is a constant or declared, or one of another type that is; else None."""
        makers = {output: node for node in self.nodes for output in node.outputs}
        while name not in self.constants and name in makers and makers[name].op in ("Cast", "Identity"):
            name = makers[name].inputs[0]
        if name in self.constants:
            return self.constants[name].ndim
        graph = self._proto.graph
        return next((_declared_rank(v) for v in (*graph.input, *graph.value_info) if v.name == name), None)

    def dtype(self, code: Any, name: str) -> np.dtype:
        """The element type of tensor `name`, by ONNX's number or name."""
        return _dtype(self.onnx, code if isinstance(code, int) else self.onnx.TensorProto.DataType.Value(code), name)

    def _value(self, a, proto) -> Any:
        """The value of an attribute of a node."""
        kinds = self.onnx.AttributeProto
        if a.type == kinds.TENSOR:
            return _array(self.onnx, a.t, None)
        if a.type == kinds.GRAPH:
            return self._body(a.g)
        if a.type in (kinds.GRAPHS, kinds.SPARSE_TENSOR):
            raise Unsupported(f"onnx: {proto.op_type} {proto.name}: attribute {a.name!r} holds graphs or few elements")
        value = self.onnx.helper.get_attribute_value(a)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, Sequence) and not isinstance(value, str):
            return [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in value]
        return value

    def _without_graphs(self, proto):
        """A node with empty graphs, for the checker, which does not know the tensors around these."""
        kind = self.onnx.AttributeProto.GRAPH
        if all(a.type != kind for a in proto.attribute):
            return proto
        copy = self.onnx.NodeProto()
        copy.CopyFrom(proto)
        for a in copy.attribute:
            if a.type == kind:
                a.g.Clear()
                a.g.name = "graph"
        return copy

    def _body(self, graph) -> Body:
        """A graph inside a node. Constants around it become its own, other tensors are captured."""
        constants = {t.name: _array(self.onnx, t, self._folder) for t in graph.initializer}
        inputs = tuple((v.name, _declared_rank(v)) for v in graph.input)
        names = {*(name for name, _ in inputs), *constants}
        reader = _Reader(self.onnx, self._proto, self.version, self._folder, constants, set(names), self)
        for node in graph.node:
            reader.add(node)
        outputs = tuple(v.name for v in graph.output)
        for name in outputs:
            if name in reader.sequences:
                raise Unsupported(f"onnx: output {name!r} of a graph in a node is no tensor")
        inner = names | constants.keys() | {name for node in reader.nodes for name in node.outputs}
        read = dict.fromkeys([*(name for node in reader.nodes for name in node.present_inputs()), *outputs])
        captured = []
        for name in read:
            if name and name not in inner:
                value = self._constant_around(name)
                if value is None:
                    captured.append(name)
                else:
                    constants[name] = value
        return Body(tuple(reader.nodes), inputs, tuple(captured), outputs, constants)

    def _constant_around(self, name: str) -> np.ndarray | None:
        """A constant of this graph or one around it; None if it is another tensor."""
        if name in self.of_four_bits:
            raise Unsupported(f"onnx: a graph in a node reads {name!r}, which has integers of 4 bits")
        value = self.constants.get(name)
        return value if value is not None or self._outer is None else self._outer._constant_around(name)


def _declared_rank(value) -> int | None:
    """How many axes an input of a graph is declared to have, if it is."""
    of = value.type.tensor_type
    return len(of.shape.dim) if value.type.HasField("tensor_type") and of.HasField("shape") else None
