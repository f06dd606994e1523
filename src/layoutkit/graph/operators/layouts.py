"""The layouts that tensors of a graph may have, and which of them suit a node.

Inside a graph the pads of blocks may hold anything: convolutions do not read them, no operator that runs on blocks
mixes channels, and reorders drop them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..._core.runtime import registry
from ...formats.layout import Layout
from ...reorders.program import vector_bytes
from ...reorders.reorder import reorder

PLAIN, LAST, BLOCKED = range(3)  # the model's own; channels last; channels in blocks of a vector
NAMES = "plain", "channels last", "blocked"


def layouts_of(rank: int) -> tuple[Layout, ...]:
    """By kind, the layouts of tensors of this rank; empty where no dimension is a channel, as such tensors always keep
    the model's layout."""
    return _layouts(rank, vector_bytes(registry.isa()) // 4) if rank in (3, 4, 5) else ()


@lru_cache(64)
def _layouts(rank: int, block: int) -> tuple[Layout, ...]:
    letters = "DHW"[5 - rank :]
    return Layout(f"NC{letters}"), Layout(f"N{letters}C"), Layout(f"nC{letters.lower()}{block}c")


def in_layout(value: np.ndarray, layout: Layout, shape: Sequence[int]) -> np.ndarray:
    """A constant in a layout, for an operator that broadcasts it over tensors of `shape`."""
    if value.size == 1:
        return value.reshape(())
    full = value.reshape((1,) * (layout.rank - value.ndim) + value.shape)
    blocked = [d for d in range(layout.rank) if layout.block(d) > 1 and full.shape[d] == 1]
    full = np.broadcast_to(full, [shape[d] if d in blocked else n for d, n in enumerate(full.shape)])
    plain = layouts_of(layout.rank)[PLAIN]
    return np.asarray(reorder(np.ascontiguousarray(full), plain, layout))


def fits(shape: Sequence[int], layout: Layout, result: Sequence[int]) -> bool:
    """Whether numpy broadcasts a tensor of this shape over `result` where both are physical arrays of this layout."""
    if not shape or shape == result:
        return True
    aligned = len(shape) == len(result)
    return aligned and all(layout.block(d) == 1 or shape[d] == result[d] for d in range(layout.rank))
