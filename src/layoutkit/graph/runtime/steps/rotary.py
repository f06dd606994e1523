"""Rotary embeddings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...._core.nests.operation import Operation
from ...._core.nests.pointwise.rotary import Rotary
from ....memory.arrays import reshaped
from ...ir import Node
from ...operators.attention import rotary_sizes
from ...operators.base import own_type
from ...operators.layouts import PLAIN
from .building import Build, Building, contiguously, with_constants


def _rotary(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known, a, threads = program.known, node.attributes, program.costs.threads
    names = [name for name in node.inputs if name]
    values, shapes = [known[name].value for name in names], [known[name].shape for name in names]
    real = own_type(known[names[0]].dtype)
    reads = tuple(program.operand(name, PLAIN, real if i < 3 else None)
                  for i, (name, value) in enumerate(zip(names, values)) if value is None)  # fmt: skip
    packed, (size, _) = len(shapes[0]) == 3, rotary_sizes(shapes, a)

    def by_heads(x: np.ndarray) -> np.ndarray:
        return reshaped(x, (*x.shape[:2], x.shape[2] // size, size)).swapaxes(1, 2) if packed else x

    def make(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, *others: np.ndarray) -> Operation:
        *positions, y = others
        return Rotary(x, cos, sin, positions[0] if positions else None, y, bool(a.get("interleaved")), packed, threads,
                      (by_heads(x), by_heads(y)))  # fmt: skip

    made = with_constants(make, values)

    def bound(*arrays: np.ndarray) -> Operation | Callable[..., None]:
        in_place = all(x.shape[-1] == 1 or x.strides[-1] == x.itemsize for x in (arrays[0], arrays[-1]))
        in_place = in_place and all(x.flags.c_contiguous for x in arrays[1:-1])
        return made(*arrays) if in_place else contiguously(made, threads)(*arrays)

    program.operation(node, bound, reads, (program.result(node.outputs[0], PLAIN, real),))


BUILDS: dict[str, Build] = {"RotaryEmbedding": _rotary}
