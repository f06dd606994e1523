"""layoutkit: reorders between any tensor memory formats, and convolutions in whatever format the data has.

    array + "NCHW" -> Layout --+
            "nChw16c" -> Layout +-> problem -> candidates (kernel rows that support it) -> cost table -> plan
                                                                                                          |
    array ----------------------------------------------------------> execute (nogil, one parallel region) -> array
"""

__version__ = "0.1.0"

from . import algebra, mace, torch_format, winograd
from .compensation import compensation
from .config import show_config
from .conv import Conv1d, Conv2d, Conv3d, conv1d, conv2d, conv3d
from .cost import cost_table
from .descriptor import BYTE, Dim, DimsOrder, MemDim, MemShape, MemStrides, Shape, Strides
from .embedding import get_include
from .formats.stride_reqs import Aligned, Compact, Fixed, StrideReqs
from .formats.strides import read as read_strides
from .formats.view import explain as explain_view
from .formats.view import is_view
from .layout import Axis, Factor, Layout
from .mace import Image
from .memory import empty
from .plan import SlowPathWarning, plan, tuning
from .pool import memory_limit, release_memory
from .reorder import reorder
from .reproducible import reproducible
from .tensor import UNDEFINED, Tensor
from .threads import get_num_threads, set_num_threads
from .transposed import (
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)

__all__ = [
    # formats
    "Axis", "Factor", "Image", "Layout", "algebra", "explain_view", "is_view", "mace", "read_strides", "torch_format",
    "BYTE", "Aligned", "Compact", "Dim", "DimsOrder", "Fixed", "MemDim", "MemShape", "MemStrides", "Shape",
    "StrideReqs", "Strides",
    # data
    "UNDEFINED", "Tensor", "compensation", "empty", "memory_limit", "release_memory", "reorder",
    # convolution
    "Conv1d", "Conv2d", "Conv3d", "conv1d", "conv2d", "conv3d", "winograd",
    "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d",
    # choosing
    "SlowPathWarning",
    "cost_table", "get_include", "get_num_threads", "plan", "reproducible", "set_num_threads", "show_config", "tuning",
]  # fmt: skip
