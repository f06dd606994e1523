"""Elementwise operators, and chains of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._core.nests.pointwise.elementwise import Elementwise
from ....convolutions.epilogue import step_of
from ...ir import Node
from ...operators.kernels.elementwise import KERNELS, chain_of
from ...operators.layouts import PLAIN, in_layout, layouts_of
from .building import ROW_TYPES, Build, Building
from .integers import in_bytes

TYPES = {**ROW_TYPES, "float64": "f64", "bool": "u8"}


def _elementwise(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known, kind = program.known, kinds[0]
    chain, y = chain_of(node, known), known[node.outputs[0]]
    assert chain is not None
    layout = None if kind == PLAIN else layouts_of(y)[kind]
    names, steps = [chain.x], []
    for op, tensor in chain.steps:
        kernel, numbers, constant = step_of(*op)
        operand: Any = None if constant is None else np.array(constant)
        if tensor and (value := known[tensor].value) is not None:
            operand = value if layout is None else in_layout(value, layout, y.shape)
        elif tensor:
            names += [tensor] * (tensor not in names)
            operand = names.index(tensor)
        steps.append((kernel, np.array(numbers) if numbers else None, operand))
    types = [known[name].stored_type for name in (*names, node.outputs[0])]
    elements = [(TYPES[of.dtype], of.scale, of.zero_point) for of in types]
    steps, elements = in_bytes(steps, elements) or (steps, elements)
    threads = program.costs.threads

    def make(*arrays: np.ndarray) -> Elementwise:
        return Elementwise(steps, arrays[:-1], arrays[-1], elements, threads)

    operands = tuple(program.operand(name, kind) for name in names)
    program.operation(node, make, operands, (program.result(node.outputs[0], kind),))


def _table(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    names, table = (node.inputs[0], node.outputs[0]), node.attributes["table"].view(np.uint8)
    elements = [(TYPES[program.known[name].stored_type.dtype], 1.0, 0) for name in names]
    threads = program.costs.threads

    def make(x: np.ndarray, y: np.ndarray) -> Elementwise:
        return Elementwise((), (x,), y, elements, threads, table)

    program.operation(node, make, (program.operand(names[0], kinds[0]),), (program.result(names[1], kinds[0]),))


BUILDS: dict[str, Build] = {**dict.fromkeys(KERNELS, _elementwise), "Table": _table}
