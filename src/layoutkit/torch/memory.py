"""Tensors as arrays of the same memory, and the memory format of results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from .._core.runtime.arrays import at_address
from ..formats.channels_last import suggest
from ..memory.pool import pool

LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}  # plain, channels last
POOLED: dict[torch.dtype, np.dtype] = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}
FROM_POOLED = 1 << 21  # bytes: blocks are of whole huge pages
FORMATS = {2: torch.channels_last, 3: torch.channels_last_3d}


class View(NamedTuple):
    """A tensor as an array of the same memory."""

    array: np.ndarray
    layout: str


def memory(tensor: torch.Tensor) -> np.ndarray:
    """A tensor as an array of the same memory; bfloat16, which NumPy lacks, as uint16."""
    tensor = tensor.detach()
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def view(tensor: torch.Tensor) -> View:
    """A tensor (N, C, ..) of any strides as an array, channels last if its channels are adjacent."""
    plain, last = LAYOUTS[tensor.dim() - 2]
    array = memory(tensor)
    if tensor.stride(1) != 1 or tensor.shape[1] == 1:
        return View(array, plain)
    return View(array.transpose(0, *range(2, array.ndim), 1), last)


class Form(NamedTuple):
    """How a tensor of some shape, strides and type is an array of the same memory."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    @classmethod
    def of(cls, array: np.ndarray) -> Form:
        """That of the array of a tensor."""
        return cls(array.shape, array.strides, array.dtype)

    def array(self, tensor: torch.Tensor) -> np.ndarray:
        """The array, which the tensor must outlive: in a fifth of the time that torch and numpy take."""
        return at_address(tensor.data_ptr(), *self)


def filter_view(w: torch.Tensor) -> View:
    """The same for a filter (O, I, ..): "OIHW" or "OHWI"."""
    tensor = view(w)
    return View(tensor.array, tensor.layout.replace("N", "O").replace("C", "I"))


def is_channels_last(tensor: torch.Tensor) -> bool:
    """Whether torch's operators would give a result like this tensor in channels_last."""
    sizes: Sequence[int] = tensor.shape
    if sizes[1] > 1 and sizes[-1] > 1 and tensor.is_contiguous():  # the usual case
        return False
    strides: Sequence[int] = tensor.stride()
    if len(sizes) == 3:  # torch computes it in two dimensions, with a height of 1
        sizes, strides = (*sizes[:2], 1, sizes[2]), (*strides[:2], sizes[2] * strides[2], strides[2])
    return suggest(sizes, strides) != "contiguous_format"


def gives_channels_last(x: torch.Tensor, w: torch.Tensor) -> bool:
    """Whether torch's convolution of `x` by `w` gives channels_last: if either suggests it.

    In one dimension torch makes the input contiguous first; channels last there means strides (C * W, 1, C).
    """
    return is_channels_last(w) or ((x.dim() > 3 or x.is_contiguous()) and is_channels_last(x))


def _pooled(kind: np.dtype, nbytes: int, shape: Sequence[int], channels_last: bool) -> torch.Tensor:
    """An uninitialised tensor in memory that returns to our pool: new pages cost as much as the work of many layers."""
    n, c, *size = shape
    array = pool.take(nbytes).view(kind)
    if not channels_last:
        return torch.from_numpy(array.reshape(shape))
    return torch.from_numpy(array.reshape(n, *size, c).transpose(0, len(shape) - 1, *range(1, len(shape) - 1)))


def new(like: torch.Tensor, shape: Sequence[int], channels_last: bool) -> torch.Tensor:
    """An uninitialised tensor of the type and device of `like`."""
    rank = len(shape) - 2
    # Tensors under a tracing mode are of other classes: theirs must be torch's own.
    if type(like) is torch.Tensor and like.is_cpu and (kind := POOLED.get(like.dtype)) is not None:
        nbytes = math.prod(shape) * kind.itemsize
        if nbytes >= FROM_POOLED:
            return _pooled(kind, nbytes, shape, channels_last)
    if channels_last and rank == 1:
        n, c, size = shape
        return torch.empty((n, size, c), dtype=like.dtype, device=like.device).transpose(1, 2)
    form = FORMATS[rank] if channels_last else torch.contiguous_format
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=form)
