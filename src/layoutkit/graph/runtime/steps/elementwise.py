"""Elementwise operators, and chains of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...._core.nests.elementwise import Elementwise
from ....convolutions.epilogue import step_of
from ...ir import Node
from ...operators import Kept
from ...operators.kernels.elementwise import KERNELS, chain_of
from ...operators.layouts import PLAIN, in_layout, layouts_of
from .building import SHORT, Build, Building

NAMES = {**SHORT, "float64": "f64", "bool": "u8"}


def _elementwise(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known, kind = program.known, kinds[0]
    chain, y = chain_of(node, known), known[node.outputs[0]]
    assert chain is not None
    layout = None if kind == PLAIN else layouts_of(len(y.shape))[kind]
    names, steps = [chain.x], []
    for written, operand in chain.steps:
        kernel, numbers, other = step_of(*written)
        value: Any = other if other is None else np.array(other)
        if operand and (constant := known[operand].value) is not None:
            value = constant if layout is None else in_layout(constant, layout, y.shape)
        elif operand:
            names += [operand] * (operand not in names)
            value = names.index(operand)
        steps.append((kernel, np.array(numbers) if numbers else None, value))
    elements = [_element(known[name].kept) for name in (*names, node.outputs[0])]
    make = partial(_made, steps, elements, program.costs.threads)
    program.operation(
        node, make, tuple(program.operand(n, kind) for n in names), (program.result(node.outputs[0], kind),)
    )


def _made(steps: list, elements: list, threads: int, *arrays: np.ndarray) -> Elementwise:
    return Elementwise(steps, arrays[:-1], arrays[-1], elements, threads)


def _element(kept: Kept) -> tuple[str, float, int]:
    return NAMES[kept.dtype], kept.scale, kept.zero_point


BUILDS: dict[str, Build] = dict.fromkeys(KERNELS, _elementwise)
