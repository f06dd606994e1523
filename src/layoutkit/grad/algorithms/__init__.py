"""The algorithms that sum the gradient of a filter: this is the only list of them."""

from .base import Algorithm, channels_last
from .depthwise import Depthwise
from .direct import Direct, Folded
from .winograd import Winograd

__all__ = ["ALGORITHMS", "AUTO", "Algorithm", "NAMES", "channels_last"]

ALGORITHMS: tuple[Algorithm, ...] = (Direct(), Folded("folded", 1), Folded("im2col", 2), Winograd(), Depthwise())
AUTO = "auto"
NAMES = (AUTO, *(a.name for a in ALGORITHMS))
