"""scipy.ndimage's filters of images and volumes: the same names and arguments, at the speed of memory."""

from .boxes import maximum_filter1d, minimum_filter1d, uniform_filter, uniform_filter1d
from .correlation import convolve1d, correlate1d
from .gaussian import gaussian_filter, gaussian_filter1d

__all__ = [
    "convolve1d", "correlate1d", "gaussian_filter", "gaussian_filter1d", "maximum_filter1d", "minimum_filter1d",
    "uniform_filter", "uniform_filter1d",
]  # fmt: skip
