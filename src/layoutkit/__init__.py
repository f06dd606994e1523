"""layoutkit: reorders between any tensor memory formats, and convolutions in whatever format the data has.

array + "NCHW"   -> Layout --+
        "nChw16c" -> Layout -+-> problem -> candidates -> choosing by measured cost -> plan
                                                                                         |
array ---------------------------------> run (nogil, one parallel region) -> micro-kernels -> array

The rooms, each of which imports only those before it: `formats`, `memory`, `choosing`, `reorders`, `convolutions`,
`graph`, `grad`, `interop`, `ndimage`, `dask`, `bench`; `_core`, the compiled half, stands beside them.
"""

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from .choosing import verbose as _verbose  # noqa: F401 prints what is executed, where it is asked for
from .choosing.plan import SlowPathWarning, plan
from .choosing.recording import profile
from .choosing.table import cost_table
from .choosing.threads import get_num_threads, set_num_threads
from .choosing.tuning import tuning
from .config import show_config
from .convolutions import winograd_matrices as winograd
from .convolutions.conv import Conv1d, Conv2d, Conv3d, conv1d, conv2d, conv3d
from .convolutions.order import reproducible
from .embedding import get_include
from .formats import algebra
from .formats.layout import Axis, Factor, Layout
from .formats.reading import layout_of
from .formats.reading import read as read_strides
from .formats.view import explain as explain_view
from .formats.view import is_view
from .interop import mace, torch_format
from .interop.mace import Image
from .memory.empty import empty
from .memory.pool import memory_limit, release_memory
from .memory.tensor import UNDEFINED, Tensor
from .reorders import plan as _plan_of_reorder  # noqa: F401 registers what lk.plan(lk.reorder, ..) does
from .reorders.compensation import compensation
from .reorders.rearrange import rearrange
from .reorders.reorder import reorder
from .version import __version__ as __version__

if _TYPE_CHECKING:
    from . import grad, ndimage, onnx
    from .convolutions.transposed import (
        ConvTranspose1d,
        ConvTranspose2d,
        ConvTranspose3d,
        conv_transpose1d,
        conv_transpose2d,
        conv_transpose3d,
    )
    from .grad.norm import batch_norm
    from .grad.pool import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
    from .graph.quantize.quantizing import quantize
    from .interop.descriptor import BYTE, Dim, DimsOrder, MemDim, MemShape, MemStrides, Shape, Strides
    from .interop.stride_reqs import Aligned, Compact, Fixed, StrideReqs

__all__ = [
    # formats
    "Axis", "Factor", "Image", "Layout", "algebra", "explain_view", "is_view", "layout_of", "mace", "read_strides",
    "torch_format", "BYTE", "Aligned", "Compact", "Dim", "DimsOrder", "Fixed", "MemDim", "MemShape", "MemStrides",
    "Shape", "StrideReqs", "Strides",
    # data
    "UNDEFINED", "Tensor", "compensation", "empty", "memory_limit", "rearrange", "release_memory", "reorder",
    # convolution
    "Conv1d", "Conv2d", "Conv3d", "conv1d", "conv2d", "conv3d", "winograd",
    "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d",
    # training
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "grad", "max_pool1d", "max_pool2d", "max_pool3d",
    # networks
    "onnx", "quantize",
    # images
    "ndimage",
    # choosing
    "SlowPathWarning",
    "cost_table", "get_include", "get_num_threads", "plan", "profile", "reproducible", "set_num_threads", "show_config",
    "tuning",
]  # fmt: skip


# Imported when they are first used: importing layoutkit stays cheap.
_LATER = {
    "grad": ".grad",
    "ndimage": ".ndimage",
    "onnx": ".onnx",
    "batch_norm": ".grad.norm",
    "quantize": ".graph.quantize.quantizing",
}
_LATER |= {f"{what}_pool{rank}d": ".grad.pool" for what in ("avg", "max") for rank in (1, 2, 3)}
_LATER |= {
    f"{what}{rank}d": ".convolutions.transposed" for what in ("conv_transpose", "ConvTranspose") for rank in (1, 2, 3)
}
_LATER |= dict.fromkeys(("Aligned", "Compact", "Fixed", "StrideReqs"), ".interop.stride_reqs")
_LATER |= dict.fromkeys(
    ("BYTE", "Dim", "DimsOrder", "MemDim", "MemShape", "MemStrides", "Shape", "Strides"), ".interop.descriptor"
)


def __getattr__(name: str) -> _Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _import_module(_LATER[name], __name__)
    value = module if _LATER[name] == f".{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "__doc__", "__name__"])


for _name in ("algebra", "mace", "torch_format", "winograd"):  # modules that are imported by their public names too
    _sys.modules[f"{__name__}.{_name}"] = globals()[_name]
