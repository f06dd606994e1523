"""The order of a sum: what accuracy "reproducible" promises, and whether all convolutions are held to it.

The order depends on the problem alone, not on its layouts. A sum begins with the bias and goes through the taps of the
filter (depth, height, width), and for each of them through the input channels of its group, one fused multiply-add
after another. It does so in chunks of taps, or of a part of a tap where there are many channels (`chunks`): what each
comes to is added to the total of those before. So rounding errors grow as the root of a chunk, not of the whole sum.

In small groups a sum goes through the channels, and for each of them through the taps, in one piece: that is how
vectors of such groups are fastest.
"""

from __future__ import annotations

import os
from functools import lru_cache
from math import prod

import numpy as np

from .._core.nests.executor import NEVER
from .._core.runtime import registry
from ..choosing.table import cost_table
from .problem import ConvProblem

VECTOR_BYTES = 16, 32, 64  # of all instruction sets: the order of a sum depends on none of them
MAX_CHUNK_PRODUCTS = 192
CHANNEL_BLOCK = 16  # a chunk that ends within a tap ends at a multiple of it
MAX_ROUNDED_CHUNK_PRODUCTS = 1536  # where results are rounded to a narrow type
SMALL_GROUP_CHANNELS = 16  # with more, they fill the columns of the register tile
REPRODUCIBLE = "LAYOUTKIT_REPRODUCIBLE"
_setting = os.environ.get(REPRODUCIBLE) or "0"
if _setting not in ("0", "1"):
    raise ImportError(f"{REPRODUCIBLE}={_setting!r}: expected 0 or 1")
_on = _setting == "1"


def windows_of(p: ConvProblem, vector_channels: int, vectors: int, lanes: int) -> np.ndarray | None:
    """The input channel of the first lane, for each vector and each of the channels of a group: (vectors, depth).

    One for all channels of a group where `lanes` reach that far, else one for each; None if not even that does.
    """
    depth, per_group = p.ic // p.groups, p.oc // p.groups
    first = np.minimum(np.arange(vectors) * vector_channels, max(0, p.oc - 1)) // per_group * depth
    last = np.minimum(np.arange(1, vectors + 1) * vector_channels - 1, max(0, p.oc - 1)) // per_group * depth
    if (last - first >= lanes).any():
        return None
    if (last + depth - first <= lanes).all():
        return np.repeat(first[:, None], depth, axis=1)
    return first[:, None] + np.arange(depth)


def within_vectors(p: ConvProblem) -> bool:
    """Whether the input channels of a vector of output channels lie within a vector, whatever its length."""
    lengths = [width // p.types.sum.itemsize for width in VECTOR_BYTES]
    return all(windows_of(p, lanes, -(-p.oc // lanes), lanes) is not None for lanes in lengths)


@lru_cache
def _has_vectors(types: str) -> bool:
    """Whether any instruction set has kernels that go over vectors of channels."""
    return bool(registry.kernels("depthwise", types, all_isas=True))


def by_channel(p: ConvProblem) -> bool:
    """Whether sums go through channels first, and for each through the taps."""
    small = p.groups > 1 and 1 < p.ic // p.groups <= SMALL_GROUP_CHANNELS
    return small and prod(p.kernel) > 1 and _has_vectors(p.types.wide.rows) and within_vectors(p)


def chunks(p: ConvProblem, unit: int = 1, at_once: int = 1) -> tuple[int, int]:
    """The steps of a chunk, each of `unit` input channels, and the steps after which chunks begin anew; see lk_gemm.

    The whole taps that have at most MAX_CHUNK_PRODUCTS channels together; of a tap with more than that, even parts.
    A tile unit sums `at_once` steps before it adds what they come to, which rounds once: its chunks are so much longer.
    """
    rounded = unit > 1 and p.types.dst != p.types.sum
    most = at_once * (MAX_ROUNDED_CHUNK_PRODUCTS if rounded else MAX_CHUNK_PRODUCTS) // unit
    steps = -(-p.ic // p.groups // unit)
    if not steps or p.types.integers or by_channel(p):
        return NEVER, NEVER
    if steps <= most:
        return most // steps * steps, most // steps * steps
    parts = -(-steps // most)
    return -(-steps // parts // CHANNEL_BLOCK) * CHANNEL_BLOCK, steps


def unbroken(p: ConvProblem) -> str:
    """The strictest accuracy of algorithms that take every sum in one piece."""
    return "reproducible" if chunks(p)[0] >= prod(p.kernel) * (p.ic // p.groups) else "strict"


def by_taps(p: ConvProblem) -> str:
    """The strictest accuracy of algorithms that always sum tap by tap."""
    return "strict" if by_channel(p) else "reproducible"


def reproducible(on: bool | None = None) -> bool:
    """Let every convolution from now on be of accuracy "reproducible"; returns the mode before.

    A result then has the same bits with any number of threads, any cost table and mode of tuning, on AVX2 and AVX-512,
    in any layout: it depends on the numbers alone. Every sum begins with the bias and goes through the filter's taps
    (depth, height, width) and for each of them through the input channels (in groups of 2 to 16 channels through the
    channels and for each of them through the taps), one fused multiply-add after another, long ones in chunks of at
    most 192 whose totals are added; only algorithms that do so are candidates. ``LAYOUTKIT_REPRODUCIBLE=1`` sets it
    from the start.

    Parameters
    ----------
    on : bool, optional
        It goes before what an operation asks for: with ``accuracy="fast"`` it is "reproducible" nevertheless, and with
        ``algorithm="winograd"``, which is not, a ValueError. None only asks for the mode.

    Returns
    -------
    bool
        Whether it was on before.

    Raises
    ------
    TypeError
        `on` is neither a bool nor None.

    Notes
    -----
    Which bits of a NaN are set is not part of it. The portable instruction set has no fused multiply-add on x86, and
    other bits than the others for that reason. Threads that flush denormal numbers to zero go on to do so.

    Examples
    --------
    >>> import layoutkit as lk
    >>> before = lk.reproducible(True)
    >>> lk.reproducible(before)
    True
    """
    global _on
    if on is not None and not isinstance(on, bool):
        raise TypeError(f"reproducible: expected True or False, got {on!r}")
    before = _on
    if on is not None and on != before:
        _on = on
        cost_table.generation += 1  # what was decided is decided again
    return before
