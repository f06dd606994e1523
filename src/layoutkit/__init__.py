"""layoutkit: reorders between any tensor memory formats, and convolutions in whatever format the data has."""

from .layout import Layout
from .reorder import reorder
from .threads import get_num_threads, set_num_threads

__version__ = "0.1.0"
__all__ = ["Layout", "get_num_threads", "reorder", "set_num_threads"]
