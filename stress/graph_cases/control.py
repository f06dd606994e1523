"""Nodes with graphs inside: branches, loops and scans."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

from .build import Build, Dropped, Tensor

UNARY = "Neg Abs Relu Identity Sin Tanh".split()
FLOATS = [np.dtype("float32"), np.dtype("float64")]


def _info(name: str, dtype: np.dtype, shape) -> object:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)


def _small(b: Build) -> Tensor:
    t = b.pick("Add", 0, 3, types=FLOATS)
    return t


def _condition(b: Build, t: Tensor) -> Tensor:
    """Constant, an input, or of the numbers of a tensor."""
    kind = b.int(0, 2)
    if kind == 0:
        return b.constant(b.maybe(), bool)
    if kind == 1 or not t.exact or not all(t.shape) or not t.shape or b.opset < 9:
        return b.new(bool, ())
    (most,) = b.add("ReduceMax", t, keepdims=0)
    (found,) = b.add("Greater", most, b.constant(0, t.dtype))
    return found


def branch(b: Build, op: str) -> None:
    t = _small(b)
    condition = _condition(b, t)
    same, graphs = b.maybe(0.6), []
    for name in ("then", "else"):
        nodes = [helper.make_node(b.one(UNARY), [t.name], [f"{name}_a"])]
        result, shape = f"{name}_a", t.shape
        if b.maybe(0.4):
            nodes.append(helper.make_node("Add", [result, t.name], [f"{name}_b"]))
            result = f"{name}_b"
        if not same and name == "else" and b.opset >= 13:
            axes = numpy_helper.from_array(np.array([0]), "axes")
            nodes += [helper.make_node("Constant", [], ["axes"], value=axes),
                      helper.make_node("Unsqueeze", [result, "axes"], ["else_c"])]  # fmt: skip
            result, shape = "else_c", (1, *t.shape)
        graphs.append(helper.make_graph(nodes, name, [], [_info(result, t.dtype, shape)]))
    b.add(op, condition, then_branch=graphs[0], else_branch=graphs[1], open=True)


def loop(b: Build, op: str) -> None:
    """A tensor is added to one that is carried; each iteration may leave a copy, or a loop may end early."""
    t = _small(b)
    count = b.int(0, 4)
    leaves, ends = b.maybe() and count > 0, b.maybe(0.3)
    start = b.operand(t.dtype, t.shape)
    nodes = [
        helper.make_node("Add", ["carried", t.name], ["sum"]),
        helper.make_node(b.one(UNARY[:4]), ["sum"], ["next"]),
    ]
    if ends:
        last = numpy_helper.from_array(np.array(b.int(0, 3)), "last")
        nodes += [helper.make_node("Constant", [], ["last"], value=last),
                  helper.make_node("Less", ["trip", "last"], ["on"])]  # fmt: skip
        if b.opset < 9:
            raise Dropped
    else:
        nodes.append(helper.make_node("Identity", ["going"], ["on"]))
    results = [_info("on", np.dtype(bool), ()), _info("next", t.dtype, t.shape)]
    if leaves:
        nodes.append(helper.make_node("Identity", ["next"], ["copy"]))
        results.append(_info("copy", t.dtype, t.shape))
    inputs = [
        _info("trip", np.dtype(np.int64), ()),
        _info("going", np.dtype(bool), ()),
        _info("carried", t.dtype, t.shape),
    ]
    body = helper.make_graph(nodes, "body", inputs, results)
    going = b.constant(True, bool) if b.maybe() else None
    b.add(op, b.constant(count), going, start, outputs=1 + leaves, body=body, open=True)


def scan(b: Build, op: str) -> None:
    """Running sums of slices."""
    if b.opset < 9:
        raise Dropped
    dtype, length, width = b.one(FLOATS), b.int(1, 4), b.int(1, 3)
    axis = b.int(0, 1)
    x = b.operand(dtype, (width, length) if axis else (length, width))
    start = b.operand(dtype, (width,))
    nodes = [helper.make_node("Add", ["state", "slice"], ["next"]), helper.make_node(b.one(UNARY), ["next"], ["left"])]
    inputs = [_info("state", dtype, (width,)), _info("slice", dtype, (width,))]
    body = helper.make_graph(nodes, "body", inputs, [_info("next", dtype, (width,)), _info("left", dtype, (width,))])
    b.add(op, start, x, outputs=2, body=body, num_scan_inputs=1, scan_input_axes=[axis],
          scan_input_directions=[b.int(0, 1)], scan_output_axes=[b.int(0, 1)],
          scan_output_directions=[b.int(0, 1)])  # fmt: skip


DRAWS = {"If": branch, "Loop": loop, "Scan": scan}
