"""Pooling."""

from __future__ import annotations

from math import prod  # noqa: F401

import numpy as np

from ...._core.nests.pooling import pool
from ...ir import Node
from ...operators.layouts import BLOCKED, layouts_of
from ...operators.pool import counts, window
from .building import SHORT, Build, Building, Slots, made_in, reading


def _pooling(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known, kind = program.known, kinds[0]
    x = known[node.inputs[0]].shape
    spatial = x[2:]
    windows = [(1, 1, 1, 0)] * (5 - len(x))
    means: list[np.ndarray] | None = None
    if node.op.startswith("Global"):
        windows += [(n, 1, 1, 0) for n in spatial]
        average = [np.full(1, 1 / n, np.float32) for n in spatial]
    else:
        taps = window(node.attributes, spatial)
        windows += [(k, s, d, p) for k, s, d, (p, _) in zip(taps.kernel, taps.stride, taps.dilation, taps.pads)]
        average = [np.reciprocal(np.maximum(c, 1), dtype=np.float32) for c in counts(node.attributes, spatial)]
    if "Average" in node.op:
        means = [np.ones(1, np.float32)] * (5 - len(x)) + average
    real = made_in(known[node.outputs[0]])
    at, to = program.operand(node.inputs[0], kind, real), program.result(node.outputs[0], kind, real)
    threads, types = program.costs.threads, SHORT[real.dtype]

    def six(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """With axes image, run of channels, depth, height, width, channel."""
        spatial = (1,) * (5 - len(shape)) + shape[2:]
        runs = array.shape[1] if kind == BLOCKED else 1
        return array.reshape(shape[0], runs, *spatial, array.shape[-1])

    y = known[node.outputs[0]].shape
    read = reading(program, at, layouts_of(len(x))[kind].physical_shape(x), real)

    def reduce(slots: Slots) -> None:
        pool(types, six(read(slots), x), six(slots[to], y), windows, means, threads)

    program.step(node, reduce, (at,), (to,))


BUILDS: dict[str, Build] = dict.fromkeys(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"), _pooling)
