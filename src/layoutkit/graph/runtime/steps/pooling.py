"""Pooling."""

from __future__ import annotations

import numpy as np

from ...._core.nests.pooling import Pooling
from ....memory.arrays import reshaped
from ...ir import Node
from ...operators.layouts import BLOCKED
from ...operators.pool import counts, window
from .building import SHORT, Build, Building, made_in


def _pooling(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known, kind = program.known, kinds[0]
    x_shape = known[node.inputs[0]].shape
    spatial = x_shape[2:]
    windows = [(1, 1, 1, 0)] * (5 - len(x_shape))
    means: list[np.ndarray] | None = None
    if node.op.startswith("Global"):
        windows += [(n, 1, 1, 0) for n in spatial]
        average = [np.full(1, 1 / n, np.float32) for n in spatial]
    else:
        taps = window(node.attributes, spatial)
        windows += [(k, s, d, p) for k, s, d, (p, _) in zip(taps.kernel, taps.stride, taps.dilation, taps.pads)]
        average = [np.reciprocal(np.maximum(c, 1), dtype=np.float32) for c in counts(node.attributes, spatial)]
    if "Average" in node.op:
        means = [np.ones(1, np.float32)] * (5 - len(x_shape)) + average
    real = made_in(known[node.outputs[0]])
    at, to = program.operand(node.inputs[0], kind, real), program.result(node.outputs[0], kind, real)
    threads, types = program.costs.threads, SHORT[real.dtype]

    def six(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """With axes image, run of channels, depth, height, width, channel."""
        spatial = (1,) * (5 - len(shape)) + shape[2:]
        runs = array.shape[1] if kind == BLOCKED else 1
        return reshaped(array, (shape[0], runs, *spatial, array.shape[-1]))

    y_shape = known[node.outputs[0]].shape

    def make(x: np.ndarray, y: np.ndarray) -> Pooling:
        return Pooling((x, y), (six(x, x_shape), six(y, y_shape)), types, windows, means, threads)

    program.operation(node, make, (at,), (to,))


BUILDS: dict[str, Build] = dict.fromkeys(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"), _pooling)
