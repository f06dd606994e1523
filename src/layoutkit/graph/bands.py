"""A depthwise convolution after one of one tap, some rows after the other: what is between the two stays in the caches.

Worth it only where the tensor between them is large: `bench/bands.py` measures from which size on.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from ..convolutions.conv import Bound, bind
from .costs import arguments, array_type, factors_of
from .ir import Node
from .kernels import Building, Slots, is_convolution, operation, reading
from .layouts import LAST, layouts_of
from .plan import Laid

FROM_BYTES = 4 << 20  # of the tensor between: below, it is faster as a whole
BAND_BYTES = 1 << 20  # of it that are made at a time
KINDS = LAST, LAST


class Band(NamedTuple):
    """Rows [first, end) of the input, and those of the result that they make."""

    first: int
    end: int
    out_first: int
    out_end: int
    padding: tuple[int, int]  # above and below


def pairs_of(laid: Laid) -> dict[int, Node]:
    """By the id of a depthwise convolution, the one before it, where the two run band by band."""
    graph, known = laid.graph, laid.known
    makers = {node.outputs[0]: (node, kinds) for node, kinds in zip(graph.nodes, laid.kinds)}
    users, found = graph.users(), {}
    for node, kinds in zip(graph.nodes, laid.kinds):
        before, its_kinds = makers.get(node.input(0), (None, kinds))
        if before is None or kinds != KINDS or its_kinds != KINDS or len(users[node.inputs[0]]) > 1:
            continue
        between = known[node.inputs[0]]
        large = len(between.shape) == 4 and between.itemsize * prod(between.shape) >= FROM_BYTES
        if (
            large
            and node.inputs[0] not in graph.outputs
            and _is_depthwise(node, known)
            and _is_pointwise(before, known)
        ):
            found[id(node)] = before
    return found


def _is_depthwise(node: Node, known) -> bool:
    if node.op != "Conv" or len(node.inputs) > 3 or not is_convolution(node, known):
        return False
    return node.attributes.get("group", 1) == known[node.inputs[0]].shape[1] and known[node.inputs[1]].shape[2] > 1


def _is_pointwise(node: Node, known) -> bool:
    if node.op != "Conv" or len(node.inputs) > 3 or not is_convolution(node, known):
        return False
    a = arguments(node, known)
    return known[node.inputs[1]].shape[2:] == (1, 1) and a["stride"] == (1, 1) and not np.any(a["padding"])


def bands(rows: int, out: int, band: int, kernel: int, stride: int, dilation: int, above: int) -> list[Band]:
    """Bands of `band` rows of a result with `out` rows, of an input with `rows` rows and `above` more before it."""
    found = []
    for o in range(0, out, band):
        end = min(out, o + band)
        first, last = o * stride - above, (end - 1) * stride + (kernel - 1) * dilation + 1 - above
        inside = max(0, first), max(1, min(rows, last))
        found.append(Band(*inside, o, end, (max(0, -first), max(0, last - rows))))
    return found


def build(program: Building, first: Node, second: Node) -> None:
    """Append the step of a pair."""
    known, costs = program.known, program.costs
    x, between, y = (known[name] for name in (first.inputs[0], second.inputs[0], second.outputs[0]))
    f, g, a = factors_of(first, known, costs.dtype), factors_of(second, known, costs.dtype), arguments(second, known)
    n, channels, rows, columns = between.shape
    row_bytes = n * channels * columns * between.itemsize
    taps = known[second.inputs[1]].shape[2]
    all_bands = bands(
        rows, y.shape[2], max(1, BAND_BYTES // (row_bytes * a["stride"][0])), taps, a["stride"][0], a["dilation"][0],
        a["padding"][0][0],
    )  # fmt: skip
    at, to = program.brought(first.inputs[0], LAST, f.x), program.result(second.outputs[0], LAST, g.y)
    read = reading(program, at, layouts_of(4)[LAST].physical_shape(x.shape), f.x)
    dtype = array_type(f.y.dtype)
    held = -(-max(b.end - b.first for b in all_bands) * row_bytes // 64) * 64
    point = operation(first, known, costs, KINDS)
    depth = {b.padding: operation(second, known, costs, KINDS, padding=(b.padding, a["padding"][1])) for b in all_bands}
    bound: list[tuple[Bound, Bound]] = []

    def some(memory: np.ndarray, b: Band) -> np.ndarray:
        shape = n, b.end - b.first, columns, channels
        return memory[: prod(shape) * dtype.itemsize].view(dtype).reshape(shape)

    def needed(slots: Slots) -> int:
        memory = np.empty(held, np.uint8)
        for b in all_bands:
            middle = some(memory, b)
            one = bind(point, read(slots)[:, b.first : b.end], middle, None)
            two = bind(depth[b.padding], middle, slots[to][:, b.out_first : b.out_end], None)
            bound.append((one, two))
        depth.clear()
        return held + max(each.needs for pair in bound for each in pair)

    def convolve(slots: Slots) -> None:
        whole, result, rest = read(slots), slots[to], program.scratch[held:]
        for b, (one, two) in zip(all_bands, bound):
            middle = some(program.scratch, b)
            one(whole[:, b.first : b.end], middle, None, rest)
            two(middle, result[:, b.out_first : b.out_end], None, rest)

    program.workspace(needed)
    program.step(second.with_(name=f"{first.name} and {second.name}, band by band"), convolve, (at,), (to,))
