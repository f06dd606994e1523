"""Reorder: the same tensor in another memory format."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from ._core import registry
from ._core.reorder import Program
from .arrays import as_array, check_movable, check_out, empty
from .layout import Layout
from .machine import last_level_cache
from .nests import copy_nests, digits, fill_nests
from .threads import check_threads

SMALL = 1 << 18  # bytes below which a second thread costs more than it brings


def reorder(
    array,
    src: str | Layout,
    dst: str | Layout,
    *,
    shape: Sequence[int] | None = None,
    out: np.ndarray | None = None,
    pad_value=0,
    threads: int | None = None,
) -> np.ndarray:
    """Move a tensor from memory format `src` to `dst`.

    Parameters
    ----------
    array : array_like
        The tensor as it lies in `src`: one axis per factor of the layout (an NHWC array has shape
        (N, H, W, C), an nChw16c one (N, ceil(C/16), H, W, 16)). Any strides. Elements of 1, 2, 4, 8 or
        16 bytes of any dtype; they are moved as they are, bit for bit.
    src, dst : str or Layout
        Formats of equal rank.
    shape : sequence of int, optional
        The logical shape, in logical order, where blocks of `src` are padded. By default all of `array`.
    out : ndarray, optional
        Where to write: shape ``dst.physical_shape(shape)``, dtype of `array`, any strides, no overlap.
    pad_value : scalar, optional
        What the pads of `dst` are set to.
    threads : int, optional
        At most this many threads.

    Returns
    -------
    ndarray
        The physical array of `dst`: `out`, or a new one aligned to 64 bytes.

    Raises
    ------
    TypeError, ValueError
        Before anything is written: dtype, shapes, layouts or `out` do not fit.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> image = np.arange(6).reshape(1, 2, 1, 3)        # N H W C
    >>> lk.reorder(image, "NHWC", "NCHW").tolist()
    [[[[0, 3]], [[1, 4]], [[2, 5]]]]
    """
    src, dst = Layout(src), Layout(dst)
    array = as_array(array, "reorder")
    check_movable(array, "reorder")
    what = f"reorder {src} -> {dst}"
    if src.rank != dst.rank:
        raise ValueError(f"{what}: layouts of {src.rank} and {dst.rank} dimensions")
    held = src.padded_shape(array.shape)
    shape = held if shape is None else src.check_shape(shape)
    if src.physical_shape(shape) != array.shape:
        raise ValueError(
            f"{what}: shape {shape} is held by an array of {src.physical_shape(shape)}, got {array.shape}"
        )
    physical = dst.physical_shape(shape)
    if out is None:
        out = empty(physical, array.dtype, what)
    else:
        check_out(out, physical, array.dtype, (array,), what)
    pad = np.asarray(pad_value).astype(array.dtype).tobytes()
    threads = check_threads(threads)
    if out.nbytes:
        program = plan(src, dst, shape, array.itemsize, array.strides, out.strides, pad, registry.isa())
        program(array.ctypes.data, out.ctypes.data, 1 if out.nbytes < SMALL else threads)
    return out


@lru_cache(4096)
def plan(
    src: Layout,
    dst: Layout,
    shape: tuple[int, ...],
    width: int,
    src_strides: tuple[int, ...],
    dst_strides: tuple[int, ...],
    pad: bytes,
    isa: str,
) -> Program:
    """The reorder of exactly these arrays, ready to run; `isa` is the instruction set it is made for."""
    axes = dst.axes(shape)
    s = digits(src.axes(shape), src_strides, src.rank)
    d = digits(axes, dst_strides, dst.rank)
    padded = dst.padded_shape([a.extent for a in axes])
    nests = copy_nests(shape, s, d, width) + fill_nests(shape, padded, d)
    return Program(nests, width, pad, prod(padded) * width > last_level_cache())
