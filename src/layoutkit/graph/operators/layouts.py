"""The layouts that tensors of a graph may have, and which of them suit a node.

Blocks are as many channels as a vector has float32 numbers. Where a tile unit multiplies the type that a tensor is
stored in, they are whole cache lines: it loads rows that cross none, and multiplies them whole.

Inside a graph the pads of blocks may hold anything: convolutions do not read them, no operator that runs on blocks
mixes channels, and reorders drop them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from ..._core.runtime import registry
from ...convolutions.algorithms.base import steps_at_once
from ...formats.layout import Layout
from ...reorders.program import vector_bytes
from ...reorders.reorder import reorder
from .base import Known, StoredType, physical_axes

PLAIN, LAST, BLOCKED = range(3)  # the model's own; channels last; channels in blocks
NAMES = "plain", "channels last", "blocked"
LINE_BYTES = 64  # of the cache
ON_TILES = {"bfloat16": "bf16", "uint8": "u8s8", "int8": "u8s8"}  # the rows that multiply a type on a tile unit


def layouts_of(of: Known) -> tuple[Layout, ...]:
    """By kind, the layouts of a tensor; empty where no dimension is a channel, as such tensors always keep the model's
    layout."""
    rank = len(of.shape)
    return _layouts(rank, _block(of.stored_type.dtype, registry.isa())) if rank in (3, 4, 5) else ()


@lru_cache(64)
def _block(dtype: str, isa: str) -> int:
    """The channels of a block of tensors that are stored in a type."""
    rows = registry.kernels("gemm", ON_TILES[dtype]) if dtype in ON_TILES else ()
    on_tiles = any(steps_at_once(row) > 1 for row in rows)
    return LINE_BYTES // StoredType(dtype).itemsize if on_tiles else vector_bytes(isa) // 4


@lru_cache(64)
def _layouts(rank: int, block: int) -> tuple[Layout, ...]:
    letters = "DHW"[5 - rank :]
    return Layout(f"NC{letters}"), Layout(f"N{letters}C"), Layout(f"nC{letters.lower()}{block}c")


def physical_shape(of: Known, kind: int) -> tuple[int, ...]:
    """The shape of the array of a tensor in a kind of layout."""
    layouts = layouts_of(of)
    return layouts[kind].physical_shape(of.shape) if layouts else of.shape


def physical_axis(of: Known, axis: int, kind: int) -> int:
    """The axis of the array of a tensor that is one of its dimensions, which is not in blocks."""
    logical = axis % len(of.shape)
    physical = logical if kind == PLAIN else physical_axes(layouts_of(of)[kind])[logical]
    assert physical is not None
    return physical


def in_layout(value: np.ndarray, layout: Layout, shape: Sequence[int]) -> np.ndarray:
    """A constant in a layout, for an operator that broadcasts it over tensors of `shape`."""
    if value.size == 1:
        return value.reshape(())
    full = value.reshape((1,) * (layout.rank - value.ndim) + value.shape)
    blocked = [d for d in range(layout.rank) if layout.block(d) > 1 and full.shape[d] == 1]
    full = np.broadcast_to(full, [shape[d] if d in blocked else n for d, n in enumerate(full.shape)])
    return np.asarray(reorder(np.ascontiguousarray(full), Layout("abcde"[: layout.rank]), layout))


def share_layout(tensors: Iterable[Known], kind: int) -> bool:
    """Whether tensors of as many dimensions have the same layout of a kind; constants get it."""
    return len({layouts_of(of)[kind] for of in tensors if of.value is None}) <= 1


def fits(shape: Sequence[int], layout: Layout, result: Sequence[int]) -> bool:
    """Whether numpy broadcasts a tensor of this shape over `result` where both are physical arrays of this layout."""
    if not shape or shape == result:
        return True
    aligned = len(shape) == len(result)
    return aligned and all(layout.block(d) == 1 or shape[d] == result[d] for d in range(layout.rank))
