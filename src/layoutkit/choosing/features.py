"""The space of features in which the model looks for neighbours: logarithmic, one apart is twice the size."""

from __future__ import annotations

from math import log2

KIND = 4.0  # octaves: what differs in kind is as distant as sixteen times the size


def log(n: float) -> float:
    """The base-2 logarithm of `n`; 0 below 1."""
    return log2(max(n, 1))
