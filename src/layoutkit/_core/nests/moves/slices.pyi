from collections.abc import Sequence

import numpy as np

from ..operation import Operation

REDUCED: tuple[str, ...]
REDUCTIONS: tuple[str, ...]

class Slices(Operation):
    def __init__(
        self, x: np.ndarray, at: np.ndarray, updates: np.ndarray | None, y: np.ndarray, sizes: Sequence[int],
        batches: int, count: int, shared: bool, reduction: str, threads: int,
    ) -> None: ...  # fmt: skip
