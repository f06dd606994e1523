"""Normalisations, softmax, and reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._core.nests.norms.normalise import Normalisation, ShortRows, suits_rows
from ...._core.nests.norms.normalise_channels import Columns, Pixels, Planes
from ...._core.nests.norms.softmax import Softmax
from ...._core.nests.norms.softmax_bytes import SoftmaxOfBytes
from ...._core.nests.reductions.reduce import Reduction
from ....convolutions.epilogue import parse
from ...ir import Node
from ...layout.factors import FLOAT
from ...operators.axes import REDUCTIONS
from ...operators.kernels.normalise import NORMALISATIONS, OF_CHANNELS, is_softmax_of_bytes, parameter
from ...operators.layouts import BLOCKED, LAST, PLAIN, physical_axis
from .building import ROW_TYPES, Build, Building, real_type

MAX_SHORT_ROW = 16384  # elements of rows of which several are normalised at a time


def _normalisation(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known, kind, a = program.known, kinds[0], node.attributes
    shape, real = known[node.inputs[0]].shape, real_type(known[node.outputs[0]])
    operand, result = program.operand(node.inputs[0], kind, real), program.result(node.outputs[0], kind, real)
    common: dict[str, Any] = {
        "types": ROW_TYPES[real.dtype], "scale": parameter(node, 1, known), "bias": parameter(node, 2, known),
        "epsilon": float(a.get("epsilon", 1e-5)), "threads": program.costs.threads,
        "epilogue": parse(a.get("activation"), 1, np.dtype(np.float32), node.op).epilogue,
    }  # fmt: skip

    def make(x: np.ndarray, y: np.ndarray) -> Normalisation:
        arguments = {**common, "x": x, "y": y}
        if node.op in OF_CHANNELS:
            groups = shape[1] if node.op == "InstanceNormalization" else a["num_groups"]
            if kind != PLAIN:
                return Pixels(**arguments, channels=shape[1], groups=groups, blocked=kind == BLOCKED)
            if groups == shape[1] and suits_rows(x, y, 2) and x[0, 0].size <= MAX_SHORT_ROW:
                return ShortRows(**arguments, axis=2, channels=groups)
            return Planes(**arguments, groups=groups)
        arguments["about_zero"] = node.op == "RMSNormalization"
        if a.get("channels") and kind == PLAIN:
            return Columns(**arguments)
        axis = x.ndim - 1 if kind == LAST else a.get("axis", -1) % x.ndim
        if suits_rows(x, y, axis) and np.prod(x.shape[axis:]) <= MAX_SHORT_ROW:
            return ShortRows(**arguments, axis=axis, channels=0)
        return Planes(**arguments, axis=axis)

    program.operation(node, make, (operand,), (result,))


def _softmax(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    kind, real = kinds[0], real_type(program.known[node.outputs[0]])
    if is_softmax_of_bytes(node, program.known, kind):
        _softmax_of_bytes(program, node, kind)
        return
    axis = physical_axis(program.known[node.inputs[0]], node.attributes.get("axis", -1), kind)
    operand, result = program.operand(node.inputs[0], kind, real), program.result(node.outputs[0], kind, real)
    logarithm, threads = node.op == "LogSoftmax", program.costs.threads

    def make(x: np.ndarray, y: np.ndarray) -> Softmax:
        return Softmax(ROW_TYPES[real.dtype], x, y, axis, logarithm, threads)

    program.operation(node, make, (operand,), (result,))


def _softmax_of_bytes(program: Building, node: Node, kind: int) -> None:
    x, y = (program.known[name].stored_type for name in (node.inputs[0], node.outputs[0]))

    def make(source: np.ndarray, result: np.ndarray) -> SoftmaxOfBytes:
        return SoftmaxOfBytes(source, result, x.scale, y.scale, y.zero_point, program.costs.threads)

    program.operation(node, make, (program.operand(node.inputs[0], kind),), (program.result(node.outputs[0], kind),))


def _reduction(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    kind, x = kinds[0], program.known[node.inputs[0]]
    axes = node.attributes.get("axes") or range(len(x.shape))
    physical = [physical_axis(x, axis, kind) for axis in axes]
    operand, result = program.operand(node.inputs[0], kind, FLOAT), program.result(node.outputs[0], kind, FLOAT)
    threads = program.costs.threads

    def make(x: np.ndarray, y: np.ndarray) -> Reduction:
        return Reduction(node.op, x, y, physical, threads)

    program.operation(node, make, (operand,), (result,))


BUILDS: dict[str, Build] = {
    **dict.fromkeys(NORMALISATIONS, _normalisation),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(REDUCTIONS, _reduction),
}
