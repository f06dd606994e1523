"""The conversion of models to the layers of layoutkit."""

from __future__ import annotations

import torch

from .layers import LAYERS
from .modules import OURS
from .sequential import Sequential

CONVERTED: dict[type, type] = OURS | LAYERS | {torch.nn.Sequential: Sequential}


def convert(model: torch.nn.Module) -> torch.nn.Module:
    """Replace the convolutions of a model by those of layoutkit; returns the model.

    Modules that are exactly `torch.nn.Conv2d`, and so on, become `layoutkit.torch.Conv2d` in place: parameters,
    hooks, names in a `state_dict` and references to modules stay. Subclasses do not change: their `forward` may differ.

    In eval mode without gradients, and in training, torch's convolution and ours take turns in the first calls of a
    layer for a shape, and the faster one stays, in training for each gradient too. Batch normalisation and pooling
    change in the same way; they call torch's own wherever that is as fast. In an `nn.Sequential` a convolution, the
    batch normalisation behind it and its ReLU are one operation in training where that is faster, and the latter two
    elsewhere; `layoutkit.torch.conv_batch_norm` and `batch_norm` do the same, with a residual if there is one.

    Parameters
    ----------
    model : torch.nn.Module
        Changed in place.

    Examples
    --------
    >>> import torch, layoutkit.torch
    >>> model = layoutkit.torch.convert(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()))
    >>> model(torch.zeros(1, 3, 8, 8)).shape
    torch.Size([1, 8, 6, 6])
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"convert: expected a torch.nn.Module, got {type(model).__name__}")
    for module in model.modules():
        ours = CONVERTED.get(type(module))
        if ours is not None:
            module.__class__ = ours
    return model
