"""Steps of recurrent layers."""

from __future__ import annotations

import numpy as np

from ...._core.nests.products.recurrent import Recurrent
from ...ir import Node
from ...operators.layouts import PLAIN
from ...operators.recurrent import cell_of, compiled_cell
from .building import Build, Building


def _recurrent(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    cell = cell_of(node.attributes["of"]["op"], node.attributes["of"])
    kind, threads = compiled_cell(cell), program.costs.threads
    r, bias = (program.known[name].value if name else None for name in node.inputs[1:3])
    assert kind is not None and r is not None
    states = [name for name in node.inputs[3:] if name]
    h, c = (1 + states.index(name) if name else -1 for name in node.inputs[3:])
    reads = tuple(program.operand(name, PLAIN) for name in (node.inputs[0], *states))
    writes = tuple(program.result(name, PLAIN) for name in node.outputs)

    def make(*arrays: np.ndarray) -> Recurrent:
        return Recurrent(arrays, kind, r, bias, cell.directions, cell.batch_first, h, c, threads)

    program.operation(node, make, reads, writes)


BUILDS: dict[str, Build] = {"RecurrentSteps": _recurrent}
