from collections.abc import Sequence
from typing import Self

import numpy as np

from ..operation import Operation

MARGIN: int
TYPES: dict[str, int]
MAX_RANK: int

class Sampling(Operation):
    def __new__(
        cls, arrays: Sequence[np.ndarray], types: tuple[str, str], offsets: list[np.ndarray], order: int, mode: int,
        constant: float, limits: tuple[float, float] | None, points: list[np.ndarray], matrix: np.ndarray | None,
        kind: str, threads: int,
    ) -> Self: ...  # fmt: skip
