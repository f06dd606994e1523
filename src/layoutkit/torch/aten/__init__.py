"""ATen operators as operators of our graphs: a file for each family, one function for each translation."""

from . import convolutions, elementwise, matrices, moves, normalise, pooling, recurrent, resize  # noqa: F401 these register
from .base import TABLE, TYPES, Builder, NoTranslationError, Result, Value

__all__ = ["TABLE", "TYPES", "Builder", "NoTranslationError", "Result", "Value"]
