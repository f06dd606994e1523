"""Convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....convolutions.conv import CLASSES, Bound, bind
from ....convolutions.transposed import operation
from ...ir import Node
from ...layout.costs import arguments, factors_of, transposed_of
from ...operators.layouts import layouts_of
from .building import SCRATCH, Arrays, Build, Building, Slots, reading


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
    read, added = reading(program, at, layouts[kinds[0]].physical_shape(x.shape), f.x), None
    if add is not None:
        added = reading(program, add, layouts[kinds[1]].physical_shape(known[node.outputs[0]].shape), f.y)

    def arrays(slots: Slots) -> Arrays:
        return read(slots), slots[to], None if added is None else added(slots)

    convolution = bound(program, op, arrays)

    def convolve(slots: Slots) -> None:
        convolution[0](*arrays(slots), slots[SCRATCH])

    program.step(node, convolve, (at,) if add is None else (at, add), (to,))


def _transposed(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    x, f = program.known[node.inputs[0]], factors_of(node, program.known, program.costs.dtype)
    src, dst = (layouts_of(len(x.shape))[kind] for kind in kinds)
    op = transposed_of(node, program.known, src, dst, program.costs)
    at, to = program.operand(node.inputs[0], kinds[0], f.x), program.result(node.outputs[0], kinds[1], f.y)
    if np.isfinite(program.known[node.inputs[1]].value).all():
        program.operation(node, lambda *arrays: operation(op, *arrays, x.shape), (at,), (to,))
    else:  # its phases are summed tap by tap
        program.step(node, lambda slots: op(slots[at], slots[to], shape=x.shape), (at,), (to,))


def bound(program: Building, op: Any, arrays: Callable[[Slots], Arrays]) -> list[Bound]:
    """A place for what a convolution does on its arrays, which is known once there are buffers."""
    bound: list[Bound] = []

    def needed(slots: Slots) -> int:
        bound.append(bind(op, *arrays(slots)))
        return bound[0].needs

    program.workspace(needed)
    return bound


BUILDS: dict[str, Build] = {"Conv": _convolution, "ConvTranspose": _transposed}
