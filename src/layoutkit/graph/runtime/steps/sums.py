"""Sums of two tensors, and limits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...._core.nests.add import add
from ...ir import Node
from ...layout.costs import FLOAT
from ...operators import Known
from ...operators.kernels import limits_of, summands
from .building import SHORT, Build, Building, Slots


def _limits(node: Node, known: Mapping[str, Known]) -> tuple[float, float] | None:
    """Those of the result of a sum, and of what follows it."""
    if node.op == "Relu":
        return 0.0, np.inf
    if node.op != "Clip":
        return limits_of(node.attributes.get("activation"))
    values = [known[node.input(i)].value if node.input(i) else None for i in (1, 2)]
    low, high = (none if v is None else float(v.reshape(())) for v, none in zip(values, (-np.inf, np.inf)))
    return low, high


def _sum(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known, kind, names = program.known, kinds[0], summands(node)
    kept = [known[name].kept for name in (*names, *names, node.outputs[0])][-3:]
    real = None if len({k.dtype for k in kept}) == 1 else FLOAT
    types = SHORT[kept[0].dtype if real is None else real.dtype]
    at = [program.operand(name, kind, real) for name in names]
    to = program.result(node.outputs[0], kind, real)
    integers = [(k.scale, k.zero_point) for k in kept]
    limits, threads = _limits(node, known), program.costs.threads

    def compute(slots: Slots) -> None:
        a, b = (np.asarray(slots[place]) for place in (at[0], at[-1]))  # numpy gives single numbers, too
        add(types, a, b if at[1:] else None, slots[to], limits, integers, threads)

    program.step(node, compute, tuple(at), (to,))


BUILDS: dict[str, Build] = dict.fromkeys(("Add", "Sum", "Relu", "Clip"), _sum)
