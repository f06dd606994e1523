"""layoutkit: reorders between any tensor memory formats, and convolutions in whatever format the data has.

    array + "NCHW" -> Layout --+
            "nChw16c" -> Layout +-> problem -> candidates (kernel rows that support it) -> cost table -> plan
                                                                                                          |
    array ----------------------------------------------------------> execute (nogil, one parallel region) -> array
"""

__version__ = "0.1.0"

from .config import show_config
from .conv import Conv1d, Conv2d, Conv3d, conv2d
from .cost import cost_table
from .layout import Layout
from .plan import plan, tuning
from .reorder import reorder
from .threads import get_num_threads, set_num_threads

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "Layout", "conv2d", "cost_table", "get_num_threads", "plan",
    "reorder", "set_num_threads", "show_config", "tuning",
]  # fmt: skip
