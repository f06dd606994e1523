"""`empty`: new arrays for results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..formats.layout import Layout
from .arrays import bfloat16, new


def empty(shape: Sequence[int], layout: Any = None, dtype: Any = np.float32) -> np.ndarray:
    """A new physical array for a tensor, its content undefined. As `out` it can be used for many results.

    It is aligned to 64 bytes. From 4 MB on it lies in huge pages where the system has them, and when it is gone its
    memory is kept for a later array of about the same size (see `release_memory`).

    Parameters
    ----------
    shape : sequence of int
        The logical shape.
    layout : str or Layout, optional
        By default the logical order.
    dtype : dtype-like, optional
        float32 by default; ``"bfloat16"`` is that of ml_dtypes, or uint16 where that is not installed.

    Returns
    -------
    ndarray
        Of shape ``layout.physical_shape(shape)``.

    Raises
    ------
    TypeError, ValueError
        `shape` does not fit `layout`, or is too large for any array; `dtype` is none, or of objects.
    MemoryError
        The system has no memory left.

    Examples
    --------
    >>> import layoutkit as lk
    >>> lk.empty((1, 20, 5, 5), "nChw16c").shape
    (1, 2, 5, 5, 16)
    """
    if not hasattr(shape, "__len__"):
        raise TypeError(f"empty: shape: expected a sequence of integers, got {shape!r}")
    layout = Layout.from_factors([(d, 0) for d in range(len(shape))]) if layout is None else Layout(layout)
    what = f"empty in {layout}"
    if isinstance(dtype, str) and dtype == "bfloat16":
        dtype = bfloat16() or np.uint16
    try:
        element = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{what}: dtype {dtype!r} is none") from None
    if element.hasobject:
        raise TypeError(f"{what}: dtype {element} has no plain bytes")
    return new(layout, shape, element, what)
