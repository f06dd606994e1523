"""Running sums and products."""

from __future__ import annotations

import numpy as np

from ...._core.nests.reductions.running import Running
from ...ir import Node
from ...operators.base import own_type
from ...operators.layouts import PLAIN
from .building import Build, Building, contiguously


def _running(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    x, axis, threads = program.known[node.inputs[0]], program.known[node.inputs[1]].value, program.costs.threads
    assert axis is not None
    along, own = int(axis.reshape(())) % len(x.shape), own_type(x.dtype)
    exclusive, reverse = (bool(node.attributes.get(key)) for key in ("exclusive", "reverse"))

    def make(x: np.ndarray, y: np.ndarray) -> Running:
        return Running(x, y, along, exclusive, reverse, node.op == "CumProd", threads)

    operand, result = program.operand(node.inputs[0], PLAIN, own), program.result(node.outputs[0], PLAIN, own)
    program.operation(node, contiguously(make, threads), (operand,), (result,))


BUILDS: dict[str, Build] = dict.fromkeys(("CumSum", "CumProd"), _running)
