"""PyTorch's memory formats, from sizes and strides, by its exact rules.

A torch tensor carries no memory format: sizes and strides are all there is, in logical order. Whether it *is*
in a format skips dimensions of size 1; which format torch *suggests* for results reads their strides all the
same. So one tensor can be contiguous, channels_last contiguous, and suggested either way
(`layoutkit.read_strides` says when). The rules are those of c10 (Contiguity.h, MemoryFormat.h) and of
empty_like; where they look odd here, they are odd there. Nothing here imports torch; formats are given by
name, or as torch's own objects.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..formats.channels_last import ORDERS, suggest
from ..formats.layout import Layout

__all__ = ["is_contiguous", "is_non_overlapping_and_dense", "layout_of", "preserve", "strides_of", "suggest"]


def _name(memory_format: object) -> str:
    name = str(memory_format).removeprefix("torch.")
    if name not in ("contiguous_format", *ORDERS):
        known = ", ".join(("contiguous_format", *ORDERS))
        raise ValueError(f"memory format {name!r}: expected one of {known}")
    return name


def layout_of(memory_format: object, rank: int) -> Layout:
    """The layout that a memory format stands for at this rank.

    Parameters
    ----------
    memory_format : str or torch.memory_format
        "contiguous_format", "channels_last" or "channels_last_3d".
    rank : int
        How many dimensions the tensor has.

    Raises
    ------
    ValueError
        There is no such format, or not at this rank: channels_last has 4 dimensions, channels_last_3d has 5.
    """
    name = _name(memory_format)
    if name == "contiguous_format":
        return Layout.from_factors([(d, 0) for d in range(rank)], dims={4: "nchw", 5: "ncdhw"}.get(rank), named=False)
    if rank != len(ORDERS[name]):
        raise ValueError(f"memory format {name} has {len(ORDERS[name])} dimensions, the tensor has {rank}")
    return Layout("torch:" + name)


def strides_of(memory_format: object, sizes: Sequence[int]) -> tuple[int, ...]:
    """The strides that torch gives a new tensor of this format.

    Parameters
    ----------
    memory_format : str or torch.memory_format
    sizes : sequence of int
        As ``tensor.shape``.
    """
    layout = layout_of(memory_format, len(sizes))
    name = _name(memory_format)
    if name == "contiguous_format":
        return layout.strides(sizes)
    strides = [0] * len(sizes)
    stride = 1
    for d in ORDERS[name]:
        strides[d] = stride
        stride *= sizes[d]  # an empty dimension makes 0 of it here, though not in contiguous_format
    return tuple(strides)


def is_contiguous(sizes: Sequence[int], strides: Sequence[int], memory_format: object = "contiguous_format") -> bool:
    """As ``tensor.is_contiguous(memory_format=..)``: dense in that order, dimensions of size 1 aside.

    Parameters
    ----------
    sizes, strides : sequence of int
        As ``tensor.shape`` and ``tensor.stride()``.
    memory_format : str or torch.memory_format, optional
    """
    name = _name(memory_format)
    if name == "contiguous_format":
        if 0 in sizes:
            return True
        order: Sequence[int] = range(len(sizes) - 1, -1, -1)
    elif len(sizes) != len(ORDERS[name]):
        return False
    else:
        order = ORDERS[name]
    expected = 1
    for d in order:
        if sizes[d] != 1:
            if strides[d] != expected:
                return False
            expected *= sizes[d]
    return True


def is_non_overlapping_and_dense(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether some order of the dimensions is contiguous.

    Parameters
    ----------
    sizes, strides : sequence of int
        As ``tensor.shape`` and ``tensor.stride()``.
    """
    if is_contiguous(sizes, strides):
        return True
    expected = 1
    for stride, size in sorted((st, s) for s, st in zip(sizes, strides) if s >= 2):
        if stride != expected:
            return False
        expected *= size
    return True


def preserve(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides of a result that preserves the format (``torch.preserve_format``: clone, empty_like, to).

    Those of the input where it is dense; else dense ones in the order of the input's.

    Parameters
    ----------
    sizes, strides : sequence of int
        As ``tensor.shape`` and ``tensor.stride()``.
    """
    sizes, strides = tuple(sizes), tuple(strides)
    if is_non_overlapping_and_dense(sizes, strides):
        return strides
    out = [0] * len(sizes)
    stride = 1
    for d in _ascending(sizes, strides):
        out[d] = stride
        stride *= max(sizes[d], 1)
    return tuple(out)


def _ascending(sizes: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """The dimensions by stride as TensorIterator sorts them: by insertion, as a stride of 0 ties with all."""

    def goes_after(a: int, b: int) -> int:
        if strides[a] == 0 or strides[b] == 0:
            return 0
        if strides[a] != strides[b]:
            return 1 if strides[a] > strides[b] else -1
        return 1 if sizes[a] > sizes[b] else 0

    order = list(range(len(sizes) - 1, -1, -1))
    for start in range(1, len(order)):
        at = start
        for before in range(start - 1, -1, -1):
            comparison = goes_after(order[before], order[at])
            if comparison > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif comparison < 0:
                break
    return order


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__name__"]
