"""Local response normalisation."""

from __future__ import annotations

import numpy as np

from ...._core.nests.norms.lrn import Lrn
from ....memory.arrays import reshaped
from ...ir import Node
from .building import ROW_TYPES, Build, Building, contiguously, real_type


def _response(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    a, channels = node.attributes, program.known[node.inputs[0]].shape[1]
    size, alpha, bias = int(a["size"]), float(a.get("alpha", 1e-4)), float(a.get("bias", 1.0))
    real = real_type(program.known[node.outputs[0]])
    operand, result = program.operand(node.inputs[0], kinds[0], real), program.result(node.outputs[0], kinds[0], real)
    threads, types = program.costs.threads, ROW_TYPES[real.dtype]

    def make(x: np.ndarray, y: np.ndarray) -> Lrn:
        pixels = reshaped(x, (-1, channels)), reshaped(y, (-1, channels))
        return Lrn((x, y), pixels, types, size, alpha, bias, threads)

    program.operation(node, contiguously(make, threads), (operand,), (result,))


BUILDS: dict[str, Build] = {"LRN": _response}
