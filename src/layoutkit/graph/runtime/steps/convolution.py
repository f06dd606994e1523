"""Convolutions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...._core.nests.operation import Operation
from ....convolutions.conv import CLASSES, bind
from ....convolutions.transposed import operation
from ...ir import Node
from ...layout.costs import arguments, factors_of, transposed_of
from ...operators.layouts import layouts_of
from .building import Build, Building


def _convolution(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known = program.known
    x = known[node.inputs[0]]
    layouts = layouts_of(len(x.shape))
    rank = len(x.shape) - 2
    b = known[node.inputs[2]].value if node.input(2) else None
    f = factors_of(node, known, program.costs.dtype)
    op = CLASSES[rank](
        f.w, b, layout=layouts[kinds[0]], out_layout=layouts[kinds[1]],
        filter_layout="OI" + "DHW"[3 - rank :], activation=node.attributes.get("activation"),
        accuracy=program.costs.accuracy, threads=program.costs.threads, **f.options,
        **arguments(node, known),
    )  # fmt: skip
    at = program.operand(node.inputs[0], kinds[0], f.x)
    add = program.operand(node.inputs[3], kinds[1], f.y) if node.input(3) else None
    to = program.result(node.outputs[0], kinds[1], f.y)

    def make(x: np.ndarray, *rest: np.ndarray) -> Operation | Callable[..., None]:
        return bind(op, x, rest[-1], rest[0] if len(rest) > 1 else None)

    how = partial(_algorithm, op, x.shape)
    program.operation(node, make, (at,) if add is None else (at, add), (to,), how)


def _algorithm(op: Any, shape: tuple[int, ...]) -> str:
    return op.plan(shape).choices[0].candidate.name


def _transposed(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    x, f = program.known[node.inputs[0]], factors_of(node, program.known, program.costs.dtype)
    src, dst = (layouts_of(len(x.shape))[kind] for kind in kinds)
    op = transposed_of(node, program.known, src, dst, program.costs)
    at, to = program.operand(node.inputs[0], kinds[0], f.x), program.result(node.outputs[0], kinds[1], f.y)
    w = program.known[node.inputs[1]].value
    if w is not None and np.isfinite(w).all():
        program.operation(node, lambda source, result: operation(op, source, result, x.shape), (at,), (to,))
    else:  # its phases are summed tap by tap
        program.step(node, lambda slots: op(slots[at], slots[to], shape=x.shape), (at,), (to,))


BUILDS: dict[str, Build] = {"Conv": _convolution, "ConvTranspose": _transposed}
