"""The convolutions of torch.nn, computed by layoutkit."""

from __future__ import annotations

import torch
from torch.compiler import is_compiling
from torch.nn import functional

from . import direct
from .chosen import chosen_convolution
from .functions import conv, conv_transpose
from .kept import kept_convolution
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
