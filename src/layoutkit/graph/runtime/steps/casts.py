"""Conversions of numbers to another type."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._core.nests.reorder_operation import ReorderOperation
from ....reorders.binding import compiled
from ....reorders.convert import Numbers
from ...ir import Node
from ...layout.costs import conversion
from ...operators.kernels.casts import meant_by
from .building import LETTERS, Build, Building, Place


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
    assert integers is not None
    at = ("DequantizeLinear", "QuantizeLinear").index(node.op)  # of the integers
    stored = [integers if i == at else program.known[name].stored_type for i, name in enumerate(names)]
    operand, result = program.operand(names[0], kinds[0]), program.result(names[1], kinds[0])
    _converted(program, node, operand, result, conversion(*stored))


def _converted(program: Building, node: Node, operand: Place, result: Place, numbers: dict[str, Any]) -> None:
    """Append the step that converts an array to another of the same axes."""

    def make(x: np.ndarray, y: np.ndarray) -> ReorderOperation:
        axes = LETTERS[: x.ndim]
        move = compiled(x, axes, axes, x.shape, y, program.costs.threads, Numbers(**numbers))
        return ReorderOperation((x, y), [] if move is None else [(move[0], 0, 0, 1, 0, move[1])])

    program.operation(node, make, (operand,), (result,))


BUILDS: dict[str, Build] = {
    "Cast": _cast, "Identity": _identity, "QuantizeLinear": _quantisation, "DequantizeLinear": _quantisation,
}  # fmt: skip
