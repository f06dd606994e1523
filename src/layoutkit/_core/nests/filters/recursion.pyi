from typing import Self

import numpy as np

from ..operation import Operation

TYPES: dict[str, int]

class Recursion(Operation):
    def __new__(
        cls, x: np.ndarray, y: np.ndarray, weights: np.ndarray, source: np.ndarray, reach: int, constant: float,
        threads: int,
    ) -> Self: ...  # fmt: skip
