"""ONNX models as graphs: `lk.onnx.load`. Needs the package onnx.

Operators of older versions are converted to the newest one here, so that the rest of the package knows only one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .ir import Body, Graph, Node, TensorType, fresh
from .model import Model
from .operators import OPERATORS, Unsupported
from .shapes import MAX_BYTES

__all__ = ["Unsupported", "load"]

DOMAINS = ("", "ai.onnx")
MAX_DEPTH = 16  # of graphs inside of one another
# operators of our graphs that ONNX does not have
OURS = {"Affine", "AlongAxis", "ChannelShuffle", "Elementwise", "RecurrentSteps", "TiledAttention"}
TYPES = {
    "FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32",
    "UINT64",
}  # fmt: skip


def load(model: Any, *, threads: int | None = None, accuracy: str = "standard", dtype: str = "float32") -> Model:
    """A model that runs, from an ONNX file.

    Parameters
    ----------
    model : str, path, bytes or onnx.ModelProto
        External tensors must be in files in its folder or below.
    threads : int, optional
        At most this many.
    accuracy : {"standard", "reproducible", "strict", "fast"}
        Of its convolutions, see `conv2d`.
    dtype : {"float32", "bfloat16", "float16"}
        What convolutions and products multiply; they sum in float32, and everything else is in the model's types.

    Returns
    -------
    Model
        ``.run({name: array})`` gives the outputs by name; `explain()` tells how.

    Raises
    ------
    Unsupported
        Operators that are not supported: all are named.
    ValueError, TypeError
        Something that is no model, or a model that violates ONNX's definition of an operator.
    OSError
        A file of the model that cannot be read.
    """
    return Model(graph_of(model), threads=threads, accuracy=accuracy, dtype=dtype)


def graph_of(model: Any) -> Graph:
    """The graph of an ONNX model; see `load`."""
    onnx = _package()
    proto, folder = _proto(onnx, model)
    versions = {entry.domain: entry.version for entry in proto.opset_import}
    version = versions.get("", versions.get("ai.onnx", 1))
    graph = proto.graph
    supported = (OPERATORS.keys() | _READ.keys()) - OURS
    unknown = sorted({f"{n.domain}.{n.op_type}".lstrip(".") for n in _all_nodes(onnx, graph)
                      if n.domain not in DOMAINS or n.op_type not in supported})  # fmt: skip
    if unknown:
        raise Unsupported(f"onnx: operators that are not supported: {', '.join(unknown)}")
    constants = {t.name: _array(onnx, t, folder) for t in graph.initializer}
    inputs = {}
    for value in graph.input:
        if value.name not in constants:
            inputs[value.name] = _type_of(onnx, value)
    reader = _Reader(onnx, proto, version, constants, {*inputs, *constants})
    reader._folder = folder
    for node in graph.node:
        reader.add(node)
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


def _package():
    try:
        import onnx
    except ImportError as error:
        raise ImportError("layoutkit.onnx needs the package onnx: pip install 'layoutkit[onnx]'") from error
    return onnx


def _proto(onnx, model):
    """The model, and the folder that its external tensors may be in."""
    if isinstance(model, onnx.ModelProto):
        return model, None
    proto, folder = onnx.ModelProto(), None
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        folder, data = path.resolve().parent, path.read_bytes()
    elif isinstance(model, bytes):
        data = model
    else:
        raise TypeError(f"onnx.load: expected a path, bytes or a ModelProto, got {type(model).__name__}")
    try:
        proto.ParseFromString(data)
    except Exception as error:  # protobuf's own, which it does not export
        raise ValueError(f"onnx.load: this is no ONNX model: {error}") from error
    if not proto.graph.node and not proto.graph.output:
        raise ValueError("onnx.load: this is no ONNX model: it has no graph")
    return proto, folder


def _array(onnx, tensor, folder: Path | None) -> np.ndarray:
    """The numbers of a tensor; external data is read only from files below the model's folder."""
    if min(tensor.dims, default=0) < 0 or _bytes_of(onnx, tensor) > MAX_BYTES:
        raise ValueError(f"onnx: tensor {tensor.name!r} has shape {list(tensor.dims)}: impossible or too large")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        where = {entry.key: entry.value for entry in tensor.external_data}
        try:
            return _external(onnx, tensor, folder, where)
        except (OSError, RuntimeError) as error:  # names that are too long, cyclic links
            why = error.strerror if isinstance(error, OSError) else "links that lead to themselves"
            raise ValueError(f"onnx: tensor {tensor.name!r} lies in {where.get('location')!r:.100}: {why}") from error
    try:
        return onnx.numpy_helper.to_array(tensor)
    except Exception as error:
        raise ValueError(f"onnx: tensor {tensor.name!r}: {error}") from error


def _external(onnx, tensor, folder: Path | None, where: Mapping[str, str]) -> np.ndarray:
    """The numbers of a tensor in external data."""
    place, begin = where.get("location", ""), where.get("offset", "0")
    path = None if folder is None or "\0" in place else (folder / place).resolve()
    if folder is None or path is None or not place or not path.is_relative_to(folder):
        raise ValueError(f"onnx: tensor {tensor.name!r} lies in {place!r:.100}, outside of the model's folder")
    dtype, length = _dtype(onnx, tensor.data_type, tensor.name), _bytes_of(onnx, tensor)
    offset = int(begin) if begin.isascii() and begin.isdigit() and len(begin) < 19 else -1
    if offset < 0 or not path.is_file() or path.stat().st_size < offset + length:
        raise ValueError(f"onnx: tensor {tensor.name!r}: {place!r:.100} has no {length} bytes from {begin:.40} on")
    return np.fromfile(path, dtype, length // dtype.itemsize, offset=offset).reshape(tensor.dims)


def _bytes_of(onnx, tensor) -> int:
    n = _dtype(onnx, tensor.data_type, tensor.name).itemsize
    for extent in tensor.dims:
        n *= extent
    return n


def _dtype(onnx, code: int, name: str) -> np.dtype:
    types = onnx.TensorProto.DataType
    element = types.Name(code) if code in types.values() else str(code)
    if element not in TYPES:
        raise Unsupported(f"onnx: tensor {name!r} has elements of type {element}, which is not supported")
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))


def _type_of(onnx, value) -> TensorType:
    if not value.type.HasField("tensor_type"):
        raise Unsupported(f"onnx: input {value.name!r} is no tensor")
    of = value.type.tensor_type
    shape = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or f"{value.name}.{i}"
                  for i, d in enumerate(of.shape.dim))  # fmt: skip
    return TensorType(_dtype(onnx, of.elem_type, value.name), shape)


class _Reader:
    """Nodes as they are read, and the constants that older versions had as attributes."""

    def __init__(
        self,
        onnx,
        proto,
        version: int,
        constants: dict[str, np.ndarray],
        taken: set[str],
        around: _Reader | None = None,
    ) -> None:
        self.onnx, self.version, self._proto, self._around = onnx, version, proto, around
        self._schemas = type(onnx.checker.DEFAULT_CONTEXT)()
        self._schemas.ir_version = max(3, proto.ir_version)
        self._schemas.opset_imports = dict.fromkeys(DOMAINS, version)
        self.constants, self._taken = constants, taken
        self._folder: Path | None = None  # of external tensors
        self.nodes: list[Node] = []

    def add(self, proto) -> None:
        try:  # checks the number of inputs and outputs and the types of attributes, not their values
            self.onnx.checker.check_node(self._without_graphs(proto), self._schemas)
        except self.onnx.checker.ValidationError as error:
            why = str(error).split("\n")[0]
            raise ValueError(f"onnx: {proto.op_type} {proto.name or ' '.join(proto.output)}: {why}") from error
        attributes = {a.name: self._value(a, proto) for a in proto.attribute}
        outputs = list(proto.output)
        if outputs and not outputs[0]:  # omitted, but every node is known by its first result
            outputs[0] = fresh(f"{proto.op_type}.{len(self.nodes)}", self._taken)
        inside = [value for value in attributes.values() if isinstance(value, Body)]
        captured = tuple(dict.fromkeys(name for body in inside for name in body.captured))
        if inside:
            attributes["captured"] = captured
        node = Node(proto.op_type, (*proto.input, *captured), tuple(outputs), attributes, proto.name)
        self._taken.update(node.outputs)
        change = _READ.get(node.op)
        changed = change(self, node) if change else node
        if changed is not None:
            self.nodes.append(changed)

    def constant(self, values: Any, like: str, dtype: Any = np.int64) -> str:
        """The name of a new constant."""
        name = fresh(f"{like}.constant", self._taken)
        self._taken.add(name)
        self.constants[name] = np.asarray(values, dtype)
        return name

    def _value(self, a, proto) -> Any:
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
        """A node whose graphs are empty: the checker knows nothing of the tensors around them."""
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
        reader = _Reader(self.onnx, self._proto, self.version, constants, set(names), self)
        reader._folder = self._folder
        for node in graph.node:
            reader.add(node)
        outputs = tuple(v.name for v in graph.output)
        made = names | constants.keys() | {name for node in reader.nodes for name in node.outputs}
        read = dict.fromkeys([*(name for node in reader.nodes for name in node.present_inputs()), *outputs])
        captured = []
        for name in read:
            if name and name not in made:
                value = self._constant_around(name)
                if value is None:
                    captured.append(name)
                else:
                    constants[name] = value
        return Body(tuple(reader.nodes), inputs, tuple(captured), outputs, constants)

    def _constant_around(self, name: str) -> np.ndarray | None:
        """A constant of this graph or one around it; None if it is another tensor."""
        found = self.constants.get(name)
        return found if found is not None or self._around is None else self._around._constant_around(name)


def _declared_rank(value) -> int | None:
    of = value.type.tensor_type
    return len(of.shape.dim) if value.type.HasField("tensor_type") and of.HasField("shape") else None


Change = Callable[[_Reader, Node], Node | None]
_READ: dict[str, Change] = {}


def _reads(*names: str):
    def register(function: Change) -> Change:
        _READ.update(dict.fromkeys(names, function))
        return function

    return register


@_reads("Constant")
def _constant(r: _Reader, node: Node) -> None:
    dtypes: Mapping[str, Any] = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64,
                                 "value_ints": np.int64}  # fmt: skip
    for name, value in node.attributes.items():
        if name != "value" and name not in dtypes:
            raise Unsupported(f"onnx: Constant of {name}")
        r.constants[node.outputs[0]] = np.asarray(value, dtypes.get(name))
        return
    raise ValueError(f"onnx: {node} has no value")


def _without(node: Node, *names: str) -> dict[str, Any]:
    return {k: v for k, v in node.attributes.items() if k not in names}


def _to_inputs(r: _Reader, node: Node, first: int, names: Sequence[str], dtype: Any = np.int64) -> Node:
    """A node whose attributes of an older version become inputs, from `first` on, as in the newest version."""
    if not any(name in node.attributes for name in names):
        return node
    inputs = [node.input(i) for i in range(first)]
    for name in names:
        value = node.attributes.get(name)
        inputs.append("" if value is None else r.constant(value, node.outputs[0], dtype))
    return node.with_(inputs=tuple(inputs), attributes=_without(node, *names))


@_reads("Clip")
def _clip(r, node):
    ends = {"min": float(np.finfo(np.float32).min), "max": float(np.finfo(np.float32).max)}
    if ends.keys() & node.attributes:  # before version 11 an omitted limit is that of float32
        node = node.with_(attributes=ends | node.attributes)
    return _to_inputs(r, node, 1, tuple(ends), np.float32)


@_reads("Dropout", "Identity")
def _dropout(r, node):
    single = len(node.outputs) == 1 and not node.input(2)
    return node.with_(op="Identity", inputs=node.inputs[:1], attributes={}) if single else node


@_reads("Squeeze", "Unsqueeze")
def _squeeze(r, node):
    return _to_inputs(r, node, 1, ("axes",))


@_reads("Pad")
def _pad(r, node):
    a = dict(node.attributes)
    if "paddings" in a:
        a["pads"] = a.pop("paddings")
    return node.with_(attributes=a)


@_reads("Split")
def _split(r, node):
    node = _to_inputs(r, node, 1, ("split",))
    return node.with_(attributes={**_without(node, "num_outputs"), "count": len(node.outputs)})


@_reads("Reshape")
def _reshape(r, node):
    return _to_inputs(r, node, 1, ("shape",))


@_reads("Softmax", "LogSoftmax", "Hardmax")
def _softmax(r, node):
    """Before version 13 it goes along all axes from `axis` on, flattened."""
    if r.version >= 13:
        return node.with_(attributes={"axis": -1, **node.attributes})
    axis = node.attributes.get("axis", 1)
    flat, done, shape = (fresh(f"{node.outputs[0]}.{x}", r._taken) for x in ("flat", "done", "shape"))
    r._taken.update((flat, done, shape))
    r.nodes.append(Node("Shape", (node.inputs[0],), (shape,)))
    r.nodes.append(Node("Flatten", node.inputs[:1], (flat,), {"axis": axis}))
    r.nodes.append(Node(node.op, (flat,), (done,), {"axis": 1}, node.name))
    return Node("Reshape", (done, shape), node.outputs, {"allowzero": 1})


@_reads("Upsample")
def _upsample(r, node):
    node = _to_inputs(r, node, 1, ("scales",), np.float32)
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor",
                  "mode": node.attributes.get("mode", "nearest")}  # fmt: skip
    return node.with_(op="Resize", inputs=(node.inputs[0], "", node.inputs[1]), attributes=attributes)


@_reads("Resize")
def _resize(r, node):
    if r.version >= 11:
        return node
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", **node.attributes}
    return node.with_(inputs=(node.inputs[0], "", node.inputs[1]), attributes=attributes)


@_reads("BatchNormalization")
def _batch_normalization(r, node):
    if node.attributes.get("training_mode") or (r.version < 7 and not node.attributes.get("is_test")):
        raise Unsupported(f"onnx: {node}: training")
    return node.with_(outputs=node.outputs[:1])


@_reads("MaxPool")
def _max_pool(r, node):
    return node.with_(attributes={**node.attributes, "indices": len([o for o in node.outputs if o]) > 1})


@_reads("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Equal", "Less", "Greater", "Xor")
def _binary(r, node):
    """Before version 7 the axes of the second operand are those of the first from `axis` on."""
    axis = node.attributes.get("axis")
    node = node.with_(attributes={})
    return node if axis is None else _along(r, node, axis)


@_reads("PRelu")
def _prelu(r, node):
    """Before version 7 the slopes are per channel."""
    slopes = r.constants.get(node.inputs[1])
    return _along(r, node, 1) if r.version < 7 and slopes is not None and slopes.size > 1 else node


def _along(r: _Reader, node: Node, axis: int) -> Node:
    """A node whose second operand is aligned with the axes of the first from `axis` on."""
    name = fresh(f"{node.outputs[0]}.operand", r._taken)
    r._taken.add(name)
    r.nodes.append(Node("AlongAxis", node.inputs, (name,), {"axis": axis}))
    return node.with_(inputs=(node.inputs[0], name))


@_reads("Cast")
def _cast(r, node):
    to = node.attributes["to"]
    code = to if isinstance(to, int) else r.onnx.TensorProto.DataType.Value(to)
    return node.with_(attributes={"to": _dtype(r.onnx, code, node.outputs[0])})


@_reads("TopK")
def _top(r, node):
    return _to_inputs(r, node, 1, ("k",)) if r.version < 10 else node


@_reads("EyeLike", "BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix")
def _of_type(r, node):
    """A type as an attribute, or none."""
    codes = {k: v for k, v in node.attributes.items() if k in ("dtype", "output_datatype")}
    types = {k: _dtype(r.onnx, code, node.outputs[0]) for k, code in codes.items()}
    return node.with_(attributes={**node.attributes, **types})


@_reads("DFT")
def _dft(r, node):
    return node.with_(attributes={"axis": 1, **node.attributes}) if r.version < 20 else node


@_reads("RoiAlign")
def _roi_align(r, node):
    """Before version 16 coordinates were not moved by half a pixel."""
    if r.version >= 16:
        return node
    return node.with_(attributes={**node.attributes, "coordinate_transformation_mode": "output_half_pixel"})


@_reads("GroupNormalization")
def _group_normalization(r, node):
    """Before version 21 there is a scale for each group."""
    return node.with_(attributes={**node.attributes, "per_group": r.version < 21})


@_reads("Scan")
def _scan(r, node):
    """Before version 9 all inputs had a batch."""
    if r.version < 9:
        raise Unsupported(f"onnx: {node}: Scan before version 9")
    return node
