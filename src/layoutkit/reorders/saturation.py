"""The warning of conversions to integers without a scale, of floats beyond the range of the integers."""

from __future__ import annotations

import numpy as np

from ..choosing.warn import warn
from .binding import Bound, Call
from .convert import INTEGERS, LIMITS, Types, types

MAX_SAMPLES = 1 << 20  # numbers of an array, at most: a fraction of a millisecond
_warned = False  # once per process is enough


def warn_of_saturation(call: Call, bound: Bound) -> None:
    """Warn, once per process, of floats converted without a scale to integers that do not hold them.

    Only the first of calls that share a plan is checked.
    """
    global _warned
    array, numbers = call.array, call.numbers
    if _warned or array.dtype.kind != "f" or any(p is not None for p in numbers.parameters()):
        return
    if numbers.alpha != 1 or numbers.beta or call.region is not None or call.shape is not None or not array.size:
        return  # the numbers that are converted are not those of the array
    t: Types = types(array.dtype, numbers.dtype, bound.what)
    if t.dst not in INTEGERS:
        return
    low, high = _extent(array)
    limits = LIMITS[t.dst]
    if low < limits.min - 0.5 or high >= limits.max + 0.5:
        _warned = True
        name = t.words.rpartition(" ")[2]
        warn(
            f"{bound.what}: numbers of {array.dtype} from {low:.6g} to {high:.6g} saturate in {name}, which holds "
            f"{limits.min} to {limits.max}: scale= maps them there (said once, of the first array that it is true of)"
        )


def _extent(array: np.ndarray) -> tuple[float, float]:
    """The least and the greatest number of an array, or of evenly spaced ones along its longest axis, without NaN."""
    longest = int(np.argmax(array.shape)) if array.ndim else 0
    step = -(-array.size // MAX_SAMPLES)
    if step > 1:
        array = array[(slice(None),) * longest + (slice(None, None, step),)]
    return float(np.fmin.reduce(array, axis=None)), float(np.fmax.reduce(array, axis=None))
