"""layoutkit: tensors in any memory format."""

from . import algebra, mace, torch_format, winograd
from .descriptor import BYTE, Dim, DimsOrder, MemDim, MemShape, MemStrides, Shape, Strides
from .layout import Axis, Factor, Layout
from .mace import Image
from .stride_reqs import Aligned, Compact, Fixed, StrideReqs
from .strides import read as read_strides
from .tensor import UNDEFINED, Tensor
from .view import explain as explain_view
from .view import is_view

__all__ = [
    "BYTE",
    "UNDEFINED",
    "Aligned",
    "Axis",
    "Compact",
    "Dim",
    "DimsOrder",
    "Factor",
    "Fixed",
    "Image",
    "Layout",
    "MemDim",
    "MemShape",
    "MemStrides",
    "Shape",
    "StrideReqs",
    "Strides",
    "Tensor",
    "algebra",
    "explain_view",
    "is_view",
    "mace",
    "read_strides",
    "torch_format",
    "winograd",
]
