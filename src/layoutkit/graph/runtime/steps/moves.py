"""Operators that move elements."""

from __future__ import annotations

from math import prod

import numpy as np

from ...._core.nests.operation import Operation
from ...._core.nests.reorders import Reorders
from ....memory.arrays import reshaped
from ....reorders.binding import compiled
from ...ir import Node
from ...operators.layouts import LAST
from .building import Build, Building


def _shuffle(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    """As a reorder of groups and the channels of each."""
    kind, of, kept = kinds[0], program.known[node.inputs[0]], program.known[node.outputs[0]].kept
    images, channels, pixels, groups = of.shape[0], of.shape[1], prod(of.shape[2:]), node.attributes["group"]
    each, threads = channels // groups, program.costs.threads
    src, dst = ("abc", "acb") if kind == LAST else ("abcd", "acbd")
    shape = (images * pixels, groups, each) if kind == LAST else (images, groups, each, pixels)
    exchanged = tuple(shape["abcd".index(letter)] for letter in dst)
    at, to = program.operand(node.inputs[0], kind, kept), program.result(node.outputs[0], kind)

    def make(x: np.ndarray, y: np.ndarray) -> Operation:
        move = compiled(reshaped(x, shape), src, dst, shape, y.reshape(exchanged), threads)
        return Reorders((x, y), [] if move is None else [(move[0], 0, 0, 1, 0, move[1])])

    program.operation(node, make, (at,), (to,))


BUILDS: dict[str, Build] = {"ChannelShuffle": _shuffle}
