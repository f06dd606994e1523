"""How far the results of a model are from those of another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

Outputs = Mapping[str, np.ndarray]


def error_of(runs: Iterable[tuple[Outputs, Outputs]]) -> float:
    """The error of what was found, beside what was wanted, over all runs.

    Of an output the largest difference divided by the largest magnitude wanted, both over all runs; of several outputs
    the largest. Outputs that are not real numbers count, by the share that differs, where there are no others.
    Infinite where one of the two is not finite and the other is not the same.
    """
    apart: dict[str, float] = {}
    largest: dict[str, float] = {}
    unequal: dict[str, list[int]] = {}
    for found, wanted in runs:
        for name, want in wanted.items():
            have = found[name]
            if have.shape != want.shape:
                apart[name] = np.inf
            elif want.dtype.kind != "f":
                count = unequal.setdefault(name, [0, 0])
                count[0] += int(np.count_nonzero(have != want))
                count[1] += want.size
            else:
                apart[name] = max(apart.get(name, 0.0), _apart(have, want))
                finite = np.abs(want[np.isfinite(want)], dtype=np.float64)
                largest[name] = max(largest.get(name, 0.0), float(finite.max(initial=0)))
    if apart:
        return max(_share(of, largest.get(name, 0.0)) for name, of in apart.items())
    return max((wrong / n if n else 0.0 for wrong, n in unequal.values()), default=0.0)


def _apart(have: np.ndarray, want: np.ndarray) -> float:
    have, want = have.astype(np.float64), want.astype(np.float64)
    same = (have == want) | (np.isnan(have) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(have - want))
    return float(np.nan_to_num(difference, nan=np.inf).max(initial=0))


def _share(apart: float, largest: float) -> float:
    if apart == 0 or np.isinf(apart):
        return apart
    return apart / largest if largest else np.inf
