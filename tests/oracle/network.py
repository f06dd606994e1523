"""What a graph computes: every node by its operator's own function, in the layout of the model, nothing changed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from layoutkit.graph.ir import Graph
from layoutkit.graph.operators import run


def evaluate(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a graph, by name."""
    values: dict[str, np.ndarray] = {**graph.constants, **inputs}
    last = {name: i for i, node in enumerate(graph.nodes) for name in node.present_inputs()}
    for i, node in enumerate(graph.nodes):
        results = run(node, [values[name] if name else None for name in node.inputs])
        values.update((name, np.asarray(value)) for name, value in zip(node.outputs, results) if name)
        for name in node.present_inputs():
            if last[name] == i and name not in graph.ends:
                values.pop(name, None)
    return {name: values[name] for name in graph.outputs}
