"""Operators whose inputs say where elements come from or go to."""

from __future__ import annotations

import numpy as np

from ...._core.nests.operation import Operation
from ...ir import Node
from ...operators.base import own_type
from ...operators.indexed import gathering, moved, scattering
from ...operators.kernels.indexed import GATHERS, SCATTERS
from ...operators.kernels.moves import is_taken
from ...operators.layouts import PLAIN
from .building import Build, Building, contiguously, with_constants
from .moves import take


def _gather(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known = program.known
    if node.op == "Gather" and is_taken(node, known, kinds[0]):
        take(program, node, kinds)
        return
    _indexed(program, node, kinds)


def _indexed(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known, reduction = program.known, node.attributes.get("reduction", "none")
    attributes = {**node.attributes, "op": node.op, "threads": program.costs.threads}
    values, own = [known[name].value for name in node.inputs], own_type(known[node.inputs[0]].dtype)
    reads = tuple(program.operand(name, PLAIN, None if i == 1 else own)
                  for i, (name, value) in enumerate(zip(node.inputs, values)) if value is None)  # fmt: skip

    def make(*arrays: np.ndarray) -> Operation:
        x, at, *updates, y = (a if i == 1 else moved(a, reduction) for i, a in enumerate(arrays))
        return scattering(x, at, updates[0], y, attributes) if updates else gathering(x, at, y, attributes)

    program.operation(node, contiguously(with_constants(make, values), program.costs.threads), reads,
                      (program.result(node.outputs[0], PLAIN, own),))  # fmt: skip


BUILDS: dict[str, Build] = {**dict.fromkeys(GATHERS, _gather), **dict.fromkeys(SCATTERS, _indexed)}
