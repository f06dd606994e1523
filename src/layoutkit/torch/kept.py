"""Packed filters of modules, kept between calls without gradients, and freed with the module.

torch counts the changes of a tensor in place, but not those through ``weight.data``. So some of a filter's numbers are
looked at as well: whatever changes all of them, or many, is seen.

For each shape torch's convolution and ours take turns at first, and the faster one stays.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from ..convolutions.conv import Conv1d, Conv2d, Conv3d
from ..convolutions.order import reproducible
from ..grad.arguments import outputs
from . import direct
from .chosen import TORCHS
from .dispatching import dispatches_to_kernel
from .functions import TYPES, attributes_of
from .kernels import pairs
from .memory import filter_view, gives_channels_last, memory, new, view
from .threads import on_torch_threads
from .trials import Trial

CLASSES = {1: Conv1d, 2: Conv2d, 3: Conv3d}
SAMPLES = 64  # numbers of a filter that are looked at
MAX_SHAPES = 64  # of inputs whose outputs' are remembered
_kept: WeakKeyDictionary[torch.nn.Module, Kept] = WeakKeyDictionary()


class Kept:
    """The convolution of a module, packed, or by torch where the first calls were faster so.

    Parameters
    ----------
    weight, bias : Tensor
    attributes : (stride, padding, dilation, groups)
        Those of the module.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, attributes: tuple[Any, ...]) -> None:
        self._weight, self._bias, self._attributes = weight, bias, attributes
        self._checked = attributes_of("layoutkit.torch.conv", weight, *attributes)
        self._state = _state(weight, bias)
        samples = [sample(tensor) for tensor in (weight, bias) if tensor is not None]
        self._samples = [some for some in samples if some is not None]
        self._seen = len(self._samples) == len(samples)
        self._sampled = [some.tobytes() for some in self._samples]
        self._convolutions: dict[Any, Any] = {}  # by layouts and threads
        self._trials: dict[Any, Trial] = {}  # by shapes, strides and threads
        self._shapes: dict[torch.Size, tuple[int, ...]] = {}

    def fits(self, weight: torch.Tensor, bias: torch.Tensor | None, attributes: tuple[Any, ...]) -> bool:
        """Whether nothing has changed, as far as can be seen."""
        same = self._seen and self._weight is weight and self._bias is bias and self._attributes == attributes
        return same and self._state == _state(weight, bias) and self._sampled == [s.tobytes() for s in self._samples]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if reproducible():
            return self._ours(x)
        key = x.shape, x.stride(), torch.get_num_threads()
        trial = self._trials.get(key)
        if trial is None:
            if len(self._trials) >= MAX_SHAPES:
                self._trials.clear()
            trial = self._trials[key] = Trial()
            given = x, self._weight, self._bias, *self._attributes
            direct.keep_layer(given, *self._checked, gives_channels_last(x, self._weight))
        y = trial.call(lambda: self._ours(x), lambda: self._torchs(x))
        if trial.winner and all(other.winner for other in self._trials.values()):
            self._convolutions.clear()  # nobody needs the packed filters
        return y

    def is_torchs(self, x: torch.Tensor) -> bool:
        """Whether torch was found to be faster for inputs like this one."""
        trial = self._trials.get((x.shape, x.stride(), torch.get_num_threads()))
        return trial is not None and bool(trial.winner) and not reproducible()

    def _torchs(self, x: torch.Tensor) -> torch.Tensor:
        return TORCHS[x.dim() - 2](x, self._weight, self._bias, *self._attributes)

    @on_torch_threads
    def _ours(self, x: torch.Tensor) -> torch.Tensor:
        weight, bias = self._weight, self._bias
        stride, pads, dilation, groups = self._checked
        shape = self._shapes.get(x.shape)
        if shape is None:
            size, rank = x.shape[2:], x.dim() - 2
            out = outputs(size, weight.shape[2:], stride, pairs(pads), dilation, f"layoutkit.torch.conv{rank}d")
            if len(self._shapes) >= MAX_SHAPES:
                self._shapes.clear()
            shape = self._shapes[x.shape] = (x.shape[0], weight.shape[0], *out)
        y = new(x, shape, gives_channels_last(x, weight))
        src, dst, threads = view(x), view(y), torch.get_num_threads()
        key = src.layout, dst.layout, threads
        convolution = self._convolutions.get(key)
        if convolution is None:
            filters, narrow = filter_view(weight), weight.dtype == torch.bfloat16
            convolution = self._convolutions[key] = CLASSES[x.dim() - 2](
                filters.array, None if bias is None else memory(bias), stride=tuple(stride), padding=pairs(pads),
                dilation=tuple(dilation), groups=groups, layout=src.layout, out_layout=dst.layout,
                filter_layout=filters.layout, dtype=("bfloat16", "bfloat16") if narrow else None, threads=threads,
            )  # fmt: skip
        if y.numel():
            convolution(src.array, dst.array)
        return y


def sample(tensor: torch.Tensor, count: int = SAMPLES) -> np.ndarray | None:
    """Some numbers of a tensor, as they are now and later; None if it has gaps.

    Parameters
    ----------
    tensor : Tensor
    count : int, optional
    """
    array = memory(tensor)
    flat = array.ravel(order="K")
    return flat[:: max(1, flat.size // count)] if np.shares_memory(flat, array) or not flat.size else None


def _state(weight: torch.Tensor, bias: torch.Tensor | None) -> tuple[int, ...]:
    """What changes with a tensor's memory, or its numbers in place."""
    state = weight.data_ptr(), weight._version
    return state if bias is None else (*state, bias.data_ptr(), bias._version)


def kept_convolution(
    module: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor | None:
    """The convolution of a module in eval mode by its packed filter, or by torch where that was found to be faster.

    None where the filter may not be kept, or of arguments that do not fit.

    Parameters
    ----------
    module : Module
        `weight` and `bias` must be its parameters, not what is computed of them.
    x : Tensor
        (N, C, ..)
    weight, bias : Tensor
    """
    if torch.is_grad_enabled() or type(x) is not torch.Tensor or torch.compiler.is_compiling():
        return None
    kept = _kept.get(module)
    if kept is not None and kept.is_torchs(x):
        attributes = module.stride, module.padding, module.dilation, module.groups
        return TORCHS[len(module.kernel_size)](x, weight, bias, *attributes)
    parameters = module._parameters
    if weight is not parameters.get("weight") or bias is not parameters.get("bias"):
        return None
    if torch.is_autocast_enabled("cpu"):
        return None
    if weight.is_inference() or not dispatches_to_kernel(x, weight, bias):
        return None
    if x.dim() != weight.dim() or x.dtype != weight.dtype or x.shape[1] != weight.shape[1] * module.groups:
        return None
    if not x.numel() or not weight.numel() or weight.dtype not in TYPES:
        return None
    attributes = module.stride, module.padding, module.dilation, module.groups
    if kept is None or not kept.fits(weight, bias, attributes):
        kept = _kept[module] = Kept(weight, bias, attributes)
    return kept(x)
