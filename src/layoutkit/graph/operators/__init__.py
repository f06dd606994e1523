"""Operators by name: what they compute, and how they follow the layouts of their inputs.

A file a kind; each registers its operators in `OPERATORS` with `operator`.
"""

from . import (  # noqa: F401 these register
    attention,
    axes,
    control,
    detection,
    einsum,
    elementwise,
    indexed,
    integers,
    matrices,
    matrix,
    moves,
    neural,
    normalise,
    pool,
    recurrent,
    resize,
    scatter,
    signal,
)  # fmt: skip
from .base import OPERATORS, DataDependent, Follows, Known, Operator, StoredType, Unsupported, run

__all__ = ["OPERATORS", "DataDependent", "Follows", "Known", "Operator", "StoredType", "Unsupported", "run"]
