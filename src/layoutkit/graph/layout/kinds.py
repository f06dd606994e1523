"""The kinds of layouts that nodes can run in."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import Node
from ..operators import OPERATORS, Follows, Known
from ..operators.base import by_kernel
from ..operators.kernels import is_convolution, kernel_of
from ..operators.layouts import PLAIN, fits, layouts_of, share_layout
from ..operators.moves import channels_moved
from .costs import convolution_kinds, relabelled_kinds


def is_relabelled(node: Node, known: Mapping[str, Known]) -> bool:
    return node.op == "Transpose" and bool(channels_moved(node, len(known[node.inputs[0]].shape)))


def pairs_of(node: Node, known: Mapping[str, Known]) -> list[tuple[int, int]]:
    """The kinds of layouts of inputs and outputs that a node can have."""
    if is_relabelled(node, known):
        return relabelled_kinds(node, known[node.inputs[0]])
    if is_convolution(node, known):
        return convolution_kinds(node, known)
    return [(kind, kind) for kind in kinds_of(node, known)]


def kinds_of(node: Node, known: Mapping[str, Known]) -> set[int]:
    """The layouts that a node can run in whose inputs and outputs share one."""
    of = OPERATORS[node.op]
    y = known[node.outputs[0]]
    layouts = layouts_of(y)
    inputs = [known[name] for name in node.present_inputs()]
    results = [known[name] for name in node.outputs if name]
    shapes = [x.shape for x in inputs]
    if of.kind is Follows.SOURCE or not layouts or of.follow is None or node.attributes.get("indices"):
        return {PLAIN}
    kinds = {PLAIN}
    for kind, layout in enumerate(layouts):
        if of.follow is by_kernel:
            suits = kernel_of(node, known, kind) is not None
        elif of.elementwise:
            suits = all(fits(x.shape, layout, y.shape) or x.value is not None for x in inputs)
            suits = suits and any(x.shape == y.shape and x.value is None for x in inputs)
        else:
            suits = all(len(x.shape) == len(y.shape) and x.value is None for x in inputs)
            suits = suits and of.follow({**node.attributes, "op": node.op}, layout, shapes) is not None
        if suits and share_layout([x for x in (*inputs, *results) if len(x.shape) == len(y.shape)], kind):
            kinds.add(kind)
    return kinds
