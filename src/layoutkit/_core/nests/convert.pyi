from collections.abc import Sequence
from typing import Any

import numpy as np

from ..runtime.pool import Pool
from .reorder import Program, Reordering

TYPES: dict[str, int]
ELEMENT_BYTES: dict[str, int]

class Converting(Reordering):
    def __call__(
        self, src: np.ndarray, dst: np.ndarray, threads: int, sub: np.ndarray | None = None,
        mul: np.ndarray | None = None, inv: np.ndarray | None = None, off: np.ndarray | None = None,
        add: np.ndarray | None = None, high: np.ndarray | None = None, low: np.ndarray | None = None,
        divide: bool = False, alpha: float = 1, beta: float = 0,
    ) -> None: ...  # fmt: skip

class Converter(Converting):
    def __new__(
        cls, nests: Sequence[Any], types: Any, real: str, sum: bool, fill: Program | None, stream: bool,
        pairs: bool = False,
    ) -> Converter: ...  # fmt: skip

class Packing(Converting):
    def __new__(
        cls, parts: Sequence[tuple[Converting, int, int, int, int]], is_signed: bool, pool: Pool
    ) -> Packing: ...

class Conversion(Reordering):
    def __new__(
        cls, converter: Converting, *arrays: np.ndarray | None, divide: bool, alpha: float, beta: float
    ) -> Conversion: ...
