"""Where problems lie among one another, for the model: in powers of two, one apart is as far as twice the size."""

from __future__ import annotations

from math import log2

APART = 4.0  # what differs in kind lies as far apart as sixteen times the size


def log(n: float) -> float:
    """The power of two that `n` is, of at least 1."""
    return log2(max(n, 1))
