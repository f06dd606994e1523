"""scipy.ndimage's filters of images and volumes: the same names and arguments, at the speed of memory."""

from . import tiles as _tiles  # noqa: F401 takes arrays of dask
from .binary import binary_closing, binary_dilation, binary_erosion, binary_opening, generate_binary_structure
from .boxes import maximum_filter1d, minimum_filter1d, uniform_filter, uniform_filter1d
from .correlation import convolve, convolve1d, correlate, correlate1d
from .dispatch import in_place_of_scipy
from .edges import gaussian_gradient_magnitude, gaussian_laplace, laplace, prewitt, sobel
from .extremes import maximum_filter, minimum_filter
from .gaussian import gaussian_filter, gaussian_filter1d
from .interpolation import affine_transform, map_coordinates, shift, spline_filter, spline_filter1d, zoom
from .morphology import (
    black_tophat,
    grey_closing,
    grey_dilation,
    grey_erosion,
    grey_opening,
    morphological_gradient,
    morphological_laplace,
    white_tophat,
)
from .ranks import median_filter, percentile_filter, rank_filter

__all__ = [
    "affine_transform", "binary_closing", "binary_dilation", "binary_erosion", "binary_opening", "black_tophat",
    "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "gaussian_filter1d",
    "gaussian_gradient_magnitude", "gaussian_laplace", "generate_binary_structure", "grey_closing", "grey_dilation",
    "grey_erosion", "grey_opening", "in_place_of_scipy", "laplace", "map_coordinates", "maximum_filter",
    "maximum_filter1d", "median_filter", "minimum_filter", "minimum_filter1d", "morphological_gradient",
    "morphological_laplace", "percentile_filter", "prewitt", "rank_filter", "shift", "sobel", "spline_filter",
    "spline_filter1d", "uniform_filter", "uniform_filter1d", "white_tophat", "zoom",
]  # fmt: skip


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__name__"]
