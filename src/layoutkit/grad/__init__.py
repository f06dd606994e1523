"""Gradients of convolutions, pooling, batch normalisation and activations, in the layouts that the data has."""

from .activation import activation_input
from .bias import conv1d_bias, conv2d_bias, conv3d_bias
from .input import (
    conv1d_input,
    conv2d_input,
    conv3d_input,
    conv_transpose1d_input,
    conv_transpose2d_input,
    conv_transpose3d_input,
)
from .norm import batch_norm_gradients as batch_norm
from .pool import (
    avg_pool1d_input,
    avg_pool2d_input,
    avg_pool3d_input,
    max_pool1d_input,
    max_pool2d_input,
    max_pool3d_input,
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
    "activation_input", "batch_norm",
    "avg_pool1d_input", "avg_pool2d_input", "avg_pool3d_input",
    "conv1d_bias", "conv2d_bias", "conv3d_bias",
    "conv1d_input", "conv2d_input", "conv3d_input",
    "conv_transpose1d_input", "conv_transpose2d_input", "conv_transpose3d_input",
    "conv1d_weight", "conv2d_weight", "conv3d_weight",
    "conv_transpose1d_weight", "conv_transpose2d_weight", "conv_transpose3d_weight",
    "max_pool1d_input", "max_pool2d_input", "max_pool3d_input",
]  # fmt: skip


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__name__"]
