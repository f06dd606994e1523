"""The operations on arrays past memory: lazily, by dask, on the cores of a machine or on many machines.

    array's chunks, or regions of a file -> windows of tiles -> tasks -> chunks of the result

A result is cut into tiles, and each tile reads exactly the inputs that it is made of: its own and, where windows
overlap, a border from its neighbours. Nothing is chunked anew, and no window is kept.
"""

try:
    import dask.array as _dask_array  # noqa: F401
except ImportError as error:
    raise ImportError("layoutkit.dask needs dask: pip install 'layoutkit[dask]'") from error

from .convolutions import conv1d, conv2d, conv3d
from .networks import run
from .planning import Plan, plan
from .pooling import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from .reorders import reorder
from .storing import store

__all__ = [
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "conv1d", "conv2d", "conv3d", "max_pool1d", "max_pool2d", "max_pool3d",
    "Plan", "plan", "reorder", "run", "store",
]  # fmt: skip


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__name__"]
