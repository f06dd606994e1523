"""Weights as integers, for sums of small integers: `_core/kernels/filters/whole.c`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import windows as w

WORD = 16  # bits
SMALL = {"uint8": w.MOST_BYTES, "uint16": w.MOST_WORDS, "int8": 0, "int16": 0}  # elements of a mean at most
MOST_NUMBERS = 128  # whose low words a sum of 32 bits can hold
LEAST_SHARE = 32  # of a unit, of which at most one part may be in doubt
LEAST_SHARE_OF_PAIRS = 100  # the same of words as they are, whose vectors have more places that may be
MOST_TAPS = 255  # of such windows


@dataclass(frozen=True)
class Fixed:
    """What `lk_combine` calls fixed, fraction and doubt."""

    words: np.ndarray
    fraction: int
    doubt: int
    smooth: bool = False  # a result is not negative, and fits: LK_WEIGH_BAND_SUMS and LK_WEIGH_LINE_SUMS make it
    pairs: bool = False  # LK_WEIGH_BAND_PAIRS and LK_WEIGH_LINE_PAIRS make it


def fixed_of(kind: int, weights: np.ndarray, dtype: np.dtype) -> Fixed | None:
    """The weights of the numbers of a sum of elements of a type; None if 32 bits do not hold such sums."""
    largest = float(np.max(np.abs(weights)))
    if not (len(weights) <= MOST_NUMBERS and largest < 1 << 14):  # NaN is not less
        return None
    times = np.full(len(weights), 1.0 if kind == w.EACH else 2.0)
    times[0] = 1
    bound = float(np.sum(np.abs(weights) * times)) * (1 << 8 * dtype.itemsize)
    if bound >= 1 << 30:
        return None
    most = 20
    while most and not (largest * 2.0**most < (1 << 15) - 2 and bound * 2.0**most < 1 << 30):
        most -= 1
    for fraction in range(most + 1):
        whole = weights * 2.0**fraction
        if (whole == np.rint(whole)).all():
            return Fixed(_paired(whole.astype(np.int64), np.zeros(len(weights), np.int64)), fraction, 0)
    scaled = weights * 2.0 ** (most + WORD)
    whole = np.rint(scaled)
    error = float(np.sum(np.abs(scaled - whole) * times)) * (1 << 8 * dtype.itemsize) / (1 << WORD)
    doubt = int(np.ceil(error)) + 2  # that of words that are left out, of a sum of doubles
    if 2 * doubt * LEAST_SHARE > 1 << most:
        return None
    high = (whole.astype(np.int64) + (1 << WORD - 1)) >> WORD
    words = _paired(high, whole.astype(np.int64) - (high << WORD))
    return Fixed(words, most, doubt, _smooth(kind, weights, dtype, doubt / 2**most))


def _smooth(kind: int, weights: np.ndarray, dtype: np.dtype, doubt: float) -> bool:
    """Whether windows are mirrored, and their sums as far as they are in doubt in the range of an unsigned type."""
    if kind != w.SUMS or dtype.kind != "u" or np.min(weights) < 0:
        return False
    return (weights[0] + 2 * float(np.sum(weights[1:]))) * np.iinfo(dtype).max + 2 * doubt < 1 << 8 * dtype.itemsize


def _paired(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Words of even numbers in the lower halves, of odd ones in the upper halves."""
    words = np.zeros((2, len(high) + len(high) % 2), np.int16)
    words[0, : len(high)], words[1, : len(high)] = high, low
    pairs = words.view(np.uint16).astype(np.uint32)
    return np.ascontiguousarray((pairs[:, ::2] | pairs[:, 1::2] << WORD).T).view(np.int32).reshape(-1)


def pairs_of(weights: np.ndarray, dtype: np.dtype) -> Fixed | None:
    """The weights of the middle of a mirrored window and of the pairs around it, of words as they are; None if such
    sums are exact, do not fit in 32 bits, or would often be in doubt."""
    window = np.concatenate([weights[1:], weights[:1], weights[:0:-1]])  # the outermost pair comes first
    if dtype.itemsize != 2 or len(window) > MOST_TAPS or not 0 < float(np.sum(np.abs(window))) < 1 << 14:
        return None
    offset = 1 << WORD - 1 if dtype.kind == "u" else 0
    most = float(np.sum(np.abs(window))) * max(-int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))  # of a sum
    largest, fraction = float(np.max(np.abs(window))), WORD - 1
    while fraction and not (largest * 2.0**fraction < (1 << 15) - 2 and most * 2.0**fraction < 2.0**31):
        fraction -= 1
    whole = window * 2.0**fraction
    if (whole == np.rint(whole)).all():
        return None
    for shift in range(WORD - 1, 0, -1):
        scaled = whole * 2.0**shift
        rounded = np.rint(scaled).astype(np.int64)
        high = (rounded + (1 << shift - 1)) >> shift
        low = rounded - (high << shift)
        if int(np.sum(np.abs(low))) << WORD - 1 < 1 << 31:
            break
    error = float(np.sum(np.abs(scaled - rounded))) * 2.0 ** (WORD - 1 - shift)
    doubt = int(np.ceil(error)) + 3  # that of words that are left out, of the start, of a sum of doubles
    if 2 * doubt * LEAST_SHARE_OF_PAIRS > 1 << fraction or most * 2.0**fraction + 2 * doubt >= 2.0**31:
        return None
    start = round(offset * float(np.sum(whole)))
    natural = _smooth(w.SUMS, weights, dtype, doubt / 2**fraction)
    zero = np.zeros(1, np.int64)
    words = [np.array([start, shift, natural])]
    for before, behind in (((), zero), (zero, ())):
        words += [_paired(np.concatenate([before, high, behind]), np.concatenate([before, low, behind]))]
    return Fixed(np.concatenate(words).astype(np.int32), fraction, doubt, pairs=True)
