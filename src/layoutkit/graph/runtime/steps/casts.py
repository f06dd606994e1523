"""Conversions of numbers to another type."""

from __future__ import annotations

import numpy as np

from ...._core.nests.reorder_operation import ReorderOperation
from ....reorders.binding import compiled
from ....reorders.convert import Numbers
from ...ir import Node
from .building import LETTERS, Build, Building


def _cast(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    operand, result = program.operand(node.inputs[0], kinds[0]), program.result(node.outputs[0], kinds[0])

    def make(x: np.ndarray, y: np.ndarray) -> ReorderOperation:
        axes = LETTERS[: x.ndim]
        move = compiled(x, axes, axes, x.shape, y, program.costs.threads, Numbers(dtype=(str(x.dtype), str(y.dtype))))
        return ReorderOperation((x, y), [] if move is None else [(move[0], 0, 0, 1, 0, move[1])])

    program.operation(node, make, (operand,), (result,))


BUILDS: dict[str, Build] = {"Cast": _cast}
