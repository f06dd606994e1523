"""Conversions of numbers to another type, and to integers that stand for them and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._core.nests.moves.reorder_operation import ReorderOperation
from ...._core.nests.pointwise.dynamic import DynamicQuantisation
from ...._core.nests.pointwise.elementwise import Elementwise
from ....reorders.binding import compiled
from ....reorders.convert import Numbers
from ...ir import Node
from ...layout.factors import conversion
from ...operators.kernels.casts import meant_by
from .building import LETTERS, ROW_TYPES, Build, Building, Place, contiguously


def _cast(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    operand, result = program.operand(node.inputs[0], kinds[0]), program.result(node.outputs[0], kinds[0])
    types = tuple(str(program.known[name].dtype) for name in (node.inputs[0], node.outputs[0]))
    _converted(program, node, operand, result, {"dtype": types})


def _identity(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    operand, result = program.operand(node.inputs[0], kinds[0]), program.result(node.outputs[0], kinds[0])
    stored = [program.known[name].stored_type for name in (node.inputs[0], node.outputs[0])]
    _converted(program, node, operand, result, conversion(*stored))


def _quantisation(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    """The float32 numbers may be stored in another type already."""
    integers, names = meant_by(node, program.known), (node.inputs[0], node.outputs[0])
    if integers is None and node.op == "QuantizeLinear" and (numbers := _along_constants(program, node)):
        operand, result = program.operand(names[0], kinds[0]), program.result(names[1], kinds[0])
        _converted(program, node, operand, result, numbers)
        return
    if integers is None:
        _along_axis(program, node, kinds)
        return
    at = ("DequantizeLinear", "QuantizeLinear").index(node.op)  # of the integers
    stored = [integers if i == at else program.known[name].stored_type for i, name in enumerate(names)]
    operand, result = program.operand(names[0], kinds[0]), program.result(names[1], kinds[0])
    _converted(program, node, operand, result, conversion(*stored))


def _along_constants(program: Building, node: Node) -> dict[str, Any] | None:
    """The arguments of `reorder` that quantise by constants along an axis; None if they vary, or do not divide."""
    scale, zero = (program.known[name].value if name else None for name in (node.inputs[1], node.input(2)))
    if scale is None or (node.input(2) and zero is None) or scale.ndim != 1 or not np.isfinite(scale).all():
        return None
    if not (scale > 0).all():
        return None
    types = tuple(str(program.known[name].dtype) for name in (node.inputs[0], node.outputs[0]))
    rank = len(program.known[node.inputs[0]].shape)
    axis = node.attributes.get("axis", 1) % rank
    zero = np.zeros(len(scale), np.int64) if zero is None else zero.astype(np.int64)
    return {"dtype": types, "scale": scale, "zero_point": zero, "axis": axis}


def _converted(program: Building, node: Node, operand: Place, result: Place, numbers: dict[str, Any]) -> None:
    """Append the step that converts an array to another of the same axes."""

    def make(x: np.ndarray, y: np.ndarray) -> ReorderOperation:
        axes = LETTERS[: x.ndim]
        move = compiled(x, axes, axes, x.shape, y, program.costs.threads, Numbers(**numbers))
        return ReorderOperation((x, y), [] if move is None else [(move[0], 0, 0, 1, 0, move[1])])

    program.operation(node, make, (operand,), (result,))


def _along_axis(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    """By scales along an axis, or one that varies, as elementwise steps: ``round(x / scale) + zero``, limited to bytes,
    or ``(x - zero) * scale``."""
    known, threads, quantises = program.known, program.costs.threads, node.op == "QuantizeLinear"
    x, y, rank = known[node.inputs[0]], known[node.outputs[0]], len(known[node.inputs[0]].shape)
    reads: list[Place] = [program.operand(node.inputs[0], kinds[0])]
    zeros = np.zeros(1, np.int64) if not node.input(2) else known[node.inputs[2]].value
    same = int(zeros.flat[0]) if zeros is not None and zeros.size and (zeros == zeros.flat[0]).all() else None
    meant = same or 0  # the zero point as the kernel knows it; others are steps
    types = [(ROW_TYPES[str(x.dtype)], 1.0, 0 if quantises else meant)]

    def operand(i: int) -> np.ndarray | int:
        """An input as float32 along its axis, or which of the arrays it is."""
        of = known[node.inputs[i]]
        if of.value is not None:
            value = of.value.astype(np.float32)
            axis = node.attributes.get("axis", 1) % max(rank, 1)
            return value.reshape(()) if value.size == 1 else value.reshape(-1, *[1] * (rank - 1 - axis))
        reads.append(program.operand(node.inputs[i], kinds[0]))
        types.append((ROW_TYPES[str(of.dtype)], 1.0, 0))
        return len(reads) - 1

    steps: list[tuple[str, None, Any]]
    if quantises:
        steps = [("div", None, operand(1))]
        steps += [] if same is not None else [("round", None, None), ("add", None, operand(2))]
    else:
        steps = [] if same is not None else [("sub", None, operand(2))]
        steps.append(("mul", None, operand(1)))
    types.append((ROW_TYPES[str(y.dtype)], 1.0, meant if quantises else 0))

    def make(*arrays: np.ndarray) -> Elementwise:
        operands = (a.reshape(()) if a.size == 1 else a for a in arrays[1:-1])
        return Elementwise(steps, (arrays[0], *operands), arrays[-1], types, threads)

    program.operation(node, make, tuple(reads), (program.result(node.outputs[0], kinds[0]),))


def _dynamic(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    """Integers by the range of all numbers."""
    threads = program.costs.threads

    def make(x: np.ndarray, y: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> DynamicQuantisation:
        return DynamicQuantisation(x, y, scale, zero, threads)

    results = tuple(program.result(name, kinds[0]) for name in node.outputs)
    reads = (program.operand(node.inputs[0], kinds[0]),)
    program.operation(node, contiguously(make, threads), reads, results)


BUILDS: dict[str, Build] = {
    "Cast": _cast, "Identity": _identity, "QuantizeLinear": _quantisation, "DequantizeLinear": _quantisation,
    "DynamicQuantizeLinear": _dynamic,
}  # fmt: skip
