"""What readers of operators that become several have in common: `r` is the reader of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from .ir import Node
from .onnx_integers import checked

__all__ = ["inputs_of", "like", "made"]


def made(r, node: Node, op: str, *inputs: str, **attributes: Any) -> str:
    """The result of a new node, which runs before `node`."""
    name = r.name(node.outputs[0], op.lower())
    r.nodes.append(Node(op, inputs, (name,), attributes))
    return name


def inputs_of(node: Node, least: int, most: int) -> tuple[str, ...]:
    """As `checked`, of nodes with further outputs."""
    return checked(node.with_(outputs=node.outputs[:1]), least, most)


def like(r, node: Node, value: Any, tensor: str) -> str:
    """A constant in the type of a tensor."""
    return made(r, node, "CastLike", r.constant(value, node.outputs[0], np.float32), tensor)
