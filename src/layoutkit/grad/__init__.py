"""Gradients of convolutions, in the layouts that the data has."""

from .bias import conv1d_bias, conv2d_bias, conv3d_bias
from .input import (
    conv1d_input,
    conv2d_input,
    conv3d_input,
    conv_transpose1d_input,
    conv_transpose2d_input,
    conv_transpose3d_input,
)
from .weight import (
    conv1d_weight,
    conv2d_weight,
    conv3d_weight,
    conv_transpose1d_weight,
    conv_transpose2d_weight,
    conv_transpose3d_weight,
)

__all__ = [
    "conv1d_bias", "conv2d_bias", "conv3d_bias",
    "conv1d_input", "conv2d_input", "conv3d_input",
    "conv_transpose1d_input", "conv_transpose2d_input", "conv_transpose3d_input",
    "conv1d_weight", "conv2d_weight", "conv3d_weight",
    "conv_transpose1d_weight", "conv_transpose2d_weight", "conv_transpose3d_weight",
]  # fmt: skip
