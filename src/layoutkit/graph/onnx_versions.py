"""Nodes of ONNX models of any version as those of the newest one.

`CONVERSIONS` has, by operator, a function of the reader of the graph (`onnx._Reader`) and a node as it was read. It
returns the converted node, None if that is a constant, and appends nodes that must run before it to the reader's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .ir import Node
from .operators import Unsupported

Conversion = Callable[[Any, Node], "Node | None"]
CONVERSIONS: dict[str, Conversion] = {}


def _converts(*names: str):
    """Register the function below as the conversion of operators."""

    def register(function: Conversion) -> Conversion:
        CONVERSIONS.update(dict.fromkeys(names, function))
        return function

    return register


@_converts("Constant")
def _constant(r, node: Node) -> None:
    dtypes: Mapping[str, Any] = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64,
                                 "value_ints": np.int64}  # fmt: skip
    for name, value in node.attributes.items():
        if name != "value" and name not in dtypes:
            raise Unsupported(f"onnx: Constant of {name}")
        r.constants[node.outputs[0]] = np.asarray(value, dtypes.get(name))
        return
    raise ValueError(f"onnx: {node} has no value")


def _without(node: Node, *names: str) -> dict[str, Any]:
    """The attributes of a node but for some."""
    return {k: v for k, v in node.attributes.items() if k not in names}


def _to_inputs(r, node: Node, first: int, names: Sequence[str], dtype: Any = np.int64) -> Node:
    """A node whose attributes of an older version become inputs, from `first` on, as in the newest version."""
    if not any(name in node.attributes for name in names):
        return node
    inputs = [node.input(i) for i in range(first)]
    for name in names:
        value = node.attributes.get(name)
        inputs.append("" if value is None else r.constant(value, node.outputs[0], dtype))
    return node.with_(inputs=tuple(inputs), attributes=_without(node, *names))


@_converts("Clip")
def _clip(r, node):
    limits = {"min": float(np.finfo(np.float32).min), "max": float(np.finfo(np.float32).max)}
    if r.version < 11:  # an omitted limit is that of float32, whatever the type of the tensor is
        node = node.with_(attributes=limits | node.attributes)
    return _to_inputs(r, node, 1, tuple(limits), np.float32)


@_converts("Dropout", "Identity")
def _dropout(r, node):
    single = len(node.outputs) == 1 and not node.input(2)
    return node.with_(op="Identity", inputs=node.inputs[:1], attributes={}) if single else node


@_converts("Squeeze", "Unsqueeze")
def _squeeze(r, node):
    return _to_inputs(r, node, 1, ("axes",))


@_converts("Pad")
def _pad(r, node):
    a = dict(node.attributes)
    if "paddings" in a:
        a["pads"] = a.pop("paddings")
    return node.with_(attributes=a)


@_converts("Split")
def _split(r, node):
    node = _to_inputs(r, node, 1, ("split",))
    return node.with_(attributes={**_without(node, "num_outputs"), "count": len(node.outputs)})


@_converts("Reshape")
def _reshape(r, node):
    return _to_inputs(r, node, 1, ("shape",))


@_converts("Softmax", "LogSoftmax", "Hardmax")
def _softmax(r, node):
    """Before version 13 it goes along all axes from `axis` on, flattened."""
    if r.version >= 13:
        return node.with_(attributes={"axis": -1, **node.attributes})
    axis = node.attributes.get("axis", 1)
    flat, done, shape = (r.name(node.outputs[0], role) for role in ("flat", "done", "shape"))
    r.nodes.append(Node("Shape", (node.inputs[0],), (shape,)))
    r.nodes.append(Node("Flatten", node.inputs[:1], (flat,), {"axis": axis}))
    r.nodes.append(Node(node.op, (flat,), (done,), {"axis": 1}, node.name))
    return Node("Reshape", (done, shape), node.outputs, {"allowzero": 1})


@_converts("Upsample")
def _upsample(r, node):
    node = _to_inputs(r, node, 1, ("scales",), np.float32)
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor",
                  "mode": node.attributes.get("mode", "nearest")}  # fmt: skip
    return node.with_(op="Resize", inputs=(node.inputs[0], "", node.inputs[1]), attributes=attributes)


@_converts("Resize")
def _resize(r, node):
    if r.version >= 11:
        return node
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", **node.attributes}
    return node.with_(inputs=(node.inputs[0], "", node.inputs[1]), attributes=attributes)


@_converts("BatchNormalization")
def _batch_normalization(r, node):
    if node.attributes.get("training_mode") or (r.version < 7 and not node.attributes.get("is_test")):
        raise Unsupported(f"onnx: {node}: training")
    return node.with_(outputs=node.outputs[:1])


@_converts("QuantizeLinear")
def _quantize_linear(r, node):
    """The type of the result is that of the zero point."""
    code, scale = node.attributes.get("output_dtype", 0), r.constants.get(node.inputs[1])
    node = node.with_(attributes=_without(node, "output_dtype"))
    if not code or node.input(2):
        return node
    zeros = np.zeros(() if scale is None else scale.shape)
    return node.with_(inputs=(*node.inputs[:2], r.constant(zeros, node.outputs[0], r.dtype(code, node.outputs[0]))))


@_converts("MaxPool")
def _max_pool(r, node):
    return node.with_(attributes={**node.attributes, "indices": len([o for o in node.outputs if o]) > 1})


@_converts("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Equal", "Less", "Greater", "Xor")
def _binary(r, node):
    """Before version 7 the axes of the second operand are those of the first from `axis` on."""
    axis = node.attributes.get("axis")
    node = node.with_(attributes={})
    return node if axis is None else _along(r, node, axis)


@_converts("PRelu")
def _prelu(r, node):
    """Before version 7 the slopes are per channel."""
    slopes = r.constants.get(node.inputs[1])
    return _along(r, node, 1) if r.version < 7 and slopes is not None and slopes.size > 1 else node


def _along(r, node: Node, axis: int) -> Node:
    """A node whose second operand is aligned with the axes of the first from `axis` on."""
    name = r.name(node.outputs[0], "operand")
    r.nodes.append(Node("AlongAxis", node.inputs, (name,), {"axis": axis}))
    return node.with_(inputs=(node.inputs[0], name))


@_converts("Cast")
def _cast(r, node):
    return node.with_(attributes={"to": r.dtype(node.attributes["to"], node.outputs[0])})


@_converts("TopK")
def _top(r, node):
    return _to_inputs(r, node, 1, ("k",)) if r.version < 10 else node


@_converts("EyeLike", "BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix")
def _of_type(r, node):
    """The type of the result, which is an attribute or omitted."""
    codes = {k: v for k, v in node.attributes.items() if k in ("dtype", "output_datatype")}
    types = {k: r.dtype(code, node.outputs[0]) for k, code in codes.items()}
    return node.with_(attributes={**node.attributes, **types})


@_converts("DFT")
def _dft(r, node):
    return node.with_(attributes={"axis": 1, **node.attributes}) if r.version < 20 else node


@_converts("RoiAlign")
def _roi_align(r, node):
    """Before version 16 coordinates were not moved by half a pixel."""
    if r.version >= 16:
        return node
    return node.with_(attributes={**node.attributes, "coordinate_transformation_mode": "output_half_pixel"})


@_converts("GroupNormalization")
def _group_normalization(r, node):
    """Before version 21 there is a scale for each group."""
    return node.with_(attributes={**node.attributes, "per_group": r.version < 21})


@_converts("Scan")
def _scan(r, node):
    """Before version 9 all inputs had a batch."""
    if r.version < 9:
        raise Unsupported(f"onnx: {node}: Scan before version 9")
    return node
