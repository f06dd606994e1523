"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Node
from ..base import Known
from ..layouts import BLOCKED
from .base import Kernel


def is_shuffle(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """A shuffle of channels that are not in blocks."""
    return kind != BLOCKED and len(known[node.inputs[0]].shape) in (3, 4, 5)


KERNELS = {"ChannelShuffle": Kernel(is_shuffle)}
