from collections.abc import Sequence
from typing import Self

import numpy as np

from ..operation import Operation

class Lrn(Operation):
    def __new__(
        cls, arrays: Sequence[np.ndarray], pixels: Sequence[np.ndarray], types: str, size: int, alpha: float,
        bias: float, threads: int,
    ) -> Self: ...  # fmt: skip
