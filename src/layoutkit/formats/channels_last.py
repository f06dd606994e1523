"""Which memory format torch reads in strides, by the rules of c10/core/MemoryFormat.h."""

from __future__ import annotations

from collections.abc import Sequence

# Dimensions from innermost to outermost.
ORDERS = {"channels_last": (1, 3, 2, 0), "channels_last_3d": (1, 4, 3, 2, 0)}


def _strides_like(sizes: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> bool:
    """Whether strides do not decrease along `order`, and more: see the rules in c10/core/MemoryFormat.h."""
    if len(sizes) != len(order) or strides[1] == 0:
        return False
    least = 0
    for d in order:
        # The last test tells N111 apart, whose strides are all alike: contiguous by default.
        if sizes[d] == 0 or strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * max(sizes[d], 1)
    return True


def suggest(sizes: Sequence[int], strides: Sequence[int]) -> str:
    """As C++ ``suggest_memory_format``: the format that operators give their results.

    It reads the strides of size-1 dimensions, so that (2, 1, 4, 5) with strides (20, 1, 5, 1) is
    channels_last and with (20, 20, 5, 1) is not, though both are the same memory.

    Parameters
    ----------
    sizes, strides : sequence of int
        As ``tensor.shape`` and ``tensor.stride()``.
    """
    for name, order in ORDERS.items():
        if _strides_like(sizes, strides, order):
            return name
    return "contiguous_format"
