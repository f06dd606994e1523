"""The ranges of tensors over a user's samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

METHODS = "min-max", "percentile", "entropy"
BINS = 4096
LEVELS = 128  # of magnitudes, where numbers have both signs
STRIDE = 16  # of the bins that entropy tries to cut behind

Range = tuple[float, float]
Runs = Callable[[], Iterable[Mapping[str, np.ndarray]]]  # the values of the tensors, run by run


def ranges(runs: Runs, method: str, percentile: float) -> dict[str, Range]:
    """The least and the largest number that is represented, by tensor; not of those with NaN or infinity.

    ``"min-max"``: all numbers. ``"percentile"``: so many of a hundred, the least and largest left out in equal shares.
    ``"entropy"``: cut where the distribution of magnitudes, told by 128 levels (255 where no number is negative),
    differs the least from that of all (Kullback and Leibler's divergence).
    """
    found: dict[str, Range] = {}
    for values in runs():
        for name, x in values.items():
            low, high = float(x.min(initial=0)), float(x.max(initial=0))  # 0 is represented: padding is
            before = found.get(name, (0.0, 0.0))
            # of NaN as well: `min` and `max` of Python would lose it
            found[name] = float(np.minimum(low, before[0])), float(np.maximum(high, before[1]))
    found = {name: r for name, r in found.items() if np.isfinite(r).all()}
    if method == "min-max":
        return found
    counts = {name: np.zeros(BINS, np.int64) for name, (low, high) in found.items() if low < high}
    for values in runs():
        for name, count in counts.items():
            x = values[name].astype(np.float64)  # in which ranges of the least numbers have bins as well
            count += np.histogram(x, BINS, _span(found[name], method))[0]
    cut = _by_percentile if method == "percentile" else _by_entropy
    return found | {name: cut(count, found[name], percentile) for name, count in counts.items()}


def _span(of: Range, method: str) -> Range:
    """What a histogram is of: entropy takes both signs alike."""
    largest = max(-of[0], of[1])
    return of if method == "percentile" else (-largest, largest)


def _by_percentile(counts: np.ndarray, of: Range, percentile: float) -> Range:
    edges = np.linspace(*of, BINS + 1)
    share = np.concatenate([[0], np.cumsum(counts)]) / counts.sum()
    left_out = (1 - percentile / 100) / 2
    # the last edge with at most that share below it, and the first with at most that above it
    low = edges[np.searchsorted(share, left_out, "right") - 1]
    high = edges[np.searchsorted(share, 1 - left_out)]
    return min(float(low), 0.0), max(float(high), 0.0)


def _by_entropy(counts: np.ndarray, of: Range, percentile: float) -> Range:
    largest = max(-of[0], of[1])
    magnitudes = (counts[: BINS // 2][::-1] + counts[BINS // 2 :]).astype(np.float64)
    levels = LEVELS if of[0] < 0 else 2 * LEVELS - 1
    magnitudes[0] = 0  # zeros are represented whatever is cut, and would hide what is not
    ends = range(len(magnitudes), levels - 1, -STRIDE)  # of equal ones, the widest
    best = min(ends, key=lambda end: _divergence(magnitudes, end, levels)) if magnitudes.any() else len(magnitudes)
    cut = largest * best / len(magnitudes)
    return max(of[0], -cut), min(of[1], cut)


def _divergence(counts: np.ndarray, end: int, levels: int) -> float:
    """Of the distribution cut behind a bin, what lies beyond counted there, and the same told by so many levels."""
    cut = counts[:end].copy()
    level = np.arange(end) * levels // end
    filled = counts[:end] > 0
    held = np.bincount(level, counts[:end], levels)
    bins = np.bincount(level, filled, levels)
    told = np.where(filled, held[level] / np.maximum(bins[level], 1), 0)
    cut[-1] += counts[end:].sum()
    if not told.any():
        return np.inf
    p, q = cut / cut.sum(), told / told.sum()
    if (q[p > 0] == 0).any():  # nothing tells of what is cut off
        return np.inf
    return float(np.sum(p[p > 0] * np.log(p[p > 0] / q[p > 0])))
