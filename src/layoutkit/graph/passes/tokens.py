"""Pixels as tokens, rows of channels: a Transpose beside a Reshape that joins or divides the pixels moves to the image.

    (N, pixels, C) Transpose (N, C, pixels) Reshape (N, C, H, W)    to    Reshape (N, H, W, C) Transpose (N, C, H, W)
    (N, C, H, W) Reshape (N, C, pixels) Transpose (N, pixels, C)    to    Transpose (N, H, W, C) Reshape (N, pixels, C)

There the layout "channels last" says already what the Transpose does, and a Reshape of contiguous elements is a view.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from ..ir import Graph, Node
from ..operators import OPERATORS, Follows
from .axes_last import to_last
from .rewriting import Knowledge, Rewriting


def transposes_at_images(graph: Graph, known: Knowledge) -> Graph:
    """The graph with the Transposes between tokens and images at the images."""
    r = Rewriting(graph, known)
    return r.graph([new for node in graph.nodes for new in _moved(r, node)])


def _moved(r: Rewriting, node: Node) -> Iterator[Node]:
    """The nodes instead of the second one of a pair; the first has no reader then."""
    first = {"Reshape": "Transpose", "Transpose": "Reshape"}.get(node.op)
    before = r.maker(node.input(0), first) if first else None
    if before is None or before.inputs[0] in r.constants or not r.is_internal(before.outputs[0]):
        yield node
        return
    tensors = (before.inputs[0], before.outputs[0], node.outputs[0])
    x, between, y = (r.known[name].shape for name in tensors)
    transpose, image = (before, y) if first == "Transpose" else (node, x)
    pixels = (*image[:2], prod(image[2:]))
    at_image = r.users.get(node.outputs[0], ()) if first == "Transpose" else [r.makers.get(before.inputs[0])]
    if (
        len(image) not in (4, 5) or between != pixels or transpose.attributes.get("perm") != [0, 2, 1]
        or any(r.known[name].stored is not None for name in tensors)
        or not any(of is not None and OPERATORS[of.op].kind is not Follows.SOURCE for of in at_image)
    ):  # fmt: skip
        yield node
        return
    last = (image[0], *image[2:], image[1])
    name = r.tensor(node.outputs[0], "channels_last", r.known[node.outputs[0]].dtype, last)
    back = [0, len(image) - 1, *range(1, len(image) - 1)]
    if first == "Transpose":
        shape = r.constant(name, "shape", np.array(last, np.int64))
        yield Node("Reshape", (before.inputs[0], shape), (name,), {}, node.name)
        yield Node("Transpose", (name,), node.outputs, {"perm": back}, before.name)
    else:
        shape = r.constant(name, "shape", np.array(y, np.int64))
        yield Node("Transpose", before.inputs[:1], (name,), {"perm": to_last(len(image))}, node.name)
        yield Node("Reshape", (name, shape), node.outputs, {}, before.name)
