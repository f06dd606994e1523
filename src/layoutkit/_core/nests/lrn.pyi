from collections.abc import Sequence

import numpy as np

from .operation import Operation

class Lrn(Operation):
    def __init__(
        self, arrays: Sequence[np.ndarray], pixels: Sequence[np.ndarray], types: str, size: int, alpha: float,
        bias: float, threads: int,
    ) -> None: ...  # fmt: skip
