from collections.abc import Sequence
from typing import Self

import numpy as np

from ..operation import Operation

TYPES: dict[str, int]

class Zooming(Operation):
    def __new__(
        cls, arrays: Sequence[np.ndarray], element: str, taps: Sequence[tuple[np.ndarray, np.ndarray]],
        points: Sequence[np.ndarray], offsets: Sequence[np.ndarray], doubt: float, slope: float,
        limits: tuple[float, float], threads: int,
    ) -> Self: ...  # fmt: skip
