"""Compensation of a zero point: the filter sums by which it shifts the result of an integer convolution."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..formats.families import FILTERS
from ..formats.layout import Layout
from ..memory.arguments import tensor_argument
from ..memory.tensor import Tensor
from .convert import dimension
from .reorder import reorder


def compensation(
    w, filter_layout: str | Layout | None = None, axis: int = 0, *, shape: Sequence[int] | None = None
) -> np.ndarray:
    """The sum of an integer filter's elements for each output channel, exactly.

    ``conv(x - zero_point, w) == conv(x, w) - zero_point * compensation(w)``, channel by channel, where no padding
    takes part: it lets a convolution read quantized activations as they are.

    Parameters
    ----------
    w : array_like of int8 or uint8, or Tensor
        The filter, an array in `filter_layout`; its pads do not count. A `Tensor` has its own layout and shape.
    filter_layout : str or Layout, optional
        "OIHW" by default.
    axis : int, optional
        The logical dimension of the output channels.
    shape : sequence of int, optional
        The logical shape, where blocks are padded. By default all of `w`.

    Returns
    -------
    ndarray of int32
        One sum for each index of dimension `axis`.

    Raises
    ------
    TypeError, ValueError
        `w` is not of int8 or uint8, arguments do not fit, or sums could leave int32.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> lk.compensation(np.full((2, 3, 1, 1), -5, np.int8)).tolist()
    [-15, -15]
    """
    if filter_layout is None and not isinstance(w, Tensor):
        filter_layout = "OIHW"
    w, layout, shape = tensor_argument(w, filter_layout, shape, "compensation: w")
    what = f"compensation of {layout}"
    if layout.family is not None and layout.family.kind != FILTERS:
        raise ValueError(f"{what}: its names are those of {layout.family.kind}, expected a filter's")
    if w.dtype not in (np.int8, np.uint8):
        raise TypeError(f"{what}: expected int8 or uint8, got {w.dtype}")
    axis = dimension(axis, layout.rank, what)
    first = Layout.from_factors([(axis, 0), *((d, 0) for d in range(layout.rank) if d != axis)])
    rows = reorder(w, layout, first, shape=shape)
    rows = rows.reshape(rows.shape[0], prod(rows.shape[1:]))
    if rows.shape[1] * (255 if w.dtype == np.uint8 else 128) >= 2**31:
        raise ValueError(f"{what}: sums of {rows.shape[1]} elements may not fit int32")
    return rows.sum(axis=1, dtype=np.int32)
