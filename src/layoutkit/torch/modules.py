"""The convolutions of torch.nn, computed by layoutkit, and the conversion of models to them and to other layers."""

from __future__ import annotations

import torch
from torch.compiler import is_compiling
from torch.nn import functional

from . import direct
from .chosen import chosen_convolution
from .functions import conv, conv_transpose
from .kept import kept_convolution
from .layers import LAYERS
from .small import calls


class _Convolution:
    """A convolution of torch.nn, computed by layoutkit."""

    def forward(self, input):
        if calls is not None and not is_compiling() and self.padding_mode == "zeros":
            parameters = self._parameters  # in a tenth of the time of `self.weight`; parametrised ones are not there
            weight = parameters.get("weight")
            if weight is not None and "bias" in parameters:
                y = calls.call(
                    direct.LAYER_CONV, direct.differentiable, input, weight, parameters["bias"], self.stride,
                    self.padding, self.dilation, self.groups,
                )  # fmt: skip
                if y is not None:
                    return y
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode == "zeros":
            attributes = self.stride, padding, self.dilation, self.groups
            y = None if self.training else kept_convolution(self, input, weight, bias)
            if y is None:
                y = chosen_convolution(input, weight, bias, attributes)
            if y is not None:
                return y
        else:
            input = functional.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return conv(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Convolution, torch.nn.Conv1d):
    """`torch.nn.Conv1d`, computed by layoutkit."""


class Conv2d(_Convolution, torch.nn.Conv2d):
    """`torch.nn.Conv2d`, computed by layoutkit."""


class Conv3d(_Convolution, torch.nn.Conv3d):
    """`torch.nn.Conv3d`, computed by layoutkit."""


class _Transposed:
    """A transposed convolution of torch.nn, computed by layoutkit."""

    def forward(self, input, output_size=None):
        rank = len(self.kernel_size)
        extra = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, rank, self.dilation
        )
        return conv_transpose(
            input, self.weight, self.bias, self.stride, self.padding, tuple(extra), self.groups, self.dilation
        )


class ConvTranspose1d(_Transposed, torch.nn.ConvTranspose1d):
    """`torch.nn.ConvTranspose1d`, computed by layoutkit."""


class ConvTranspose2d(_Transposed, torch.nn.ConvTranspose2d):
    """`torch.nn.ConvTranspose2d`, computed by layoutkit."""


class ConvTranspose3d(_Transposed, torch.nn.ConvTranspose3d):
    """`torch.nn.ConvTranspose3d`, computed by layoutkit."""


OURS: dict[type, type] = {
    getattr(torch.nn, cls.__name__): cls
    for cls in (Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
}


def convert(model: torch.nn.Module) -> torch.nn.Module:
    """Replace the convolutions of a model by those of layoutkit; returns the model.

    Modules that are exactly `torch.nn.Conv2d`, and so on, become `layoutkit.torch.Conv2d` in place: parameters,
    hooks, names in a `state_dict` and references to modules stay. Subclasses do not change: their `forward` may differ.

    In eval mode without gradients, and in training, torch's convolution and ours take turns in the first calls of a
    layer for a shape, and the faster one stays, in training for each gradient too. Batch normalisation and pooling
    change in the same way; they call torch's own wherever that is as fast. In an `nn.Sequential` a batch normalisation
    and the ReLU behind it are one operation in training; elsewhere `layoutkit.torch.batch_norm` can be called with
    `add` and `activation`.

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
        ours = OURS.get(type(module)) or LAYERS.get(type(module))
        if ours is not None:
            module.__class__ = ours
    return model
