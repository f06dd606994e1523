"""torch.nn.Sequential, in which a convolution, the batch normalisation behind it and its ReLU are one operation."""

from __future__ import annotations

from typing import Any

import torch
from torch.compiler import is_compiling

from . import layers
from .conv_norms import conv_batch_norm_by_kernel, is_large
from .layers import RELUS, is_bare
from .modules import Conv2d, Conv3d

CONVOLUTIONS = {Conv2d, Conv3d}  # subclasses may compute other things
NORMS = {layers.BatchNorm1d, layers.BatchNorm2d, layers.BatchNorm3d}


class Sequential(torch.nn.Sequential):
    """`torch.nn.Sequential`, in which a convolution, a batch normalisation and a ReLU are one operation in training.

    Or the last two, each where it is faster; modules are called as ever if one of them has hooks.
    """

    def forward(self, input):
        if not self.training:
            return super().forward(input)
        modules: list[Any] = list(self._modules.values())
        at, count = 0, len(modules)
        modules += [None, None]  # behind the last
        while at < count:
            module, y, used = modules[at], None, 1
            if type(module) in CONVOLUTIONS:
                y, used = _convolution(input, *modules[at : at + 3])
            elif type(module) in NORMS:
                y, used = _batch_norm(input, *modules[at : at + 2])
            if y is None:
                y, used = module(input), 1
            input, at = y, at + used
        return input


def _batch_norm(x: Any, norm: Any, after: Any) -> tuple[torch.Tensor | None, int]:
    """The result of two modules, where they are one operation."""
    if type(after) not in RELUS or not norm.training or not is_bare(norm) or not is_bare(after):
        return None, 1
    return layers.batch_norm(norm, x, RELUS[type(after)]), 2


def _convolution(x: Any, conv: Any, norm: Any, after: Any) -> tuple[torch.Tensor | None, int]:
    """The result of two or three modules, where they are one operation, and how many they are."""
    if type(norm) not in NORMS or type(x) is not torch.Tensor or is_compiling() or conv.bias is not None:
        return None, 1
    if not is_large(x, conv.out_channels, conv.stride) or conv.padding_mode != "zeros":
        return None, 1
    if norm.num_features != conv.out_channels or not layers.moves(norm):
        return None, 1
    used = 3 if type(after) in RELUS and is_bare(after) else 2
    if not is_bare(conv) or not is_bare(norm):
        return None, 1
    attributes = conv.stride, conv.padding, conv.dilation, conv.groups
    limit = RELUS[type(after)] if used == 3 else 0.0
    norm._check_input_dim(x)
    arguments = *layers.statistics(norm), norm.momentum, norm.eps, limit, None, attributes
    y = conv_batch_norm_by_kernel(x, conv.weight, *arguments)
    return (None, 1) if y is None else (layers.counted(norm, y), used)
