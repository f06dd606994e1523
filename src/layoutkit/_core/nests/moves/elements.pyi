import numpy as np

from ..operation import Operation

REDUCED: tuple[str, ...]
REDUCTIONS: tuple[str, ...]

class Elements(Operation):
    def __init__(
        self, x: np.ndarray, at: np.ndarray, updates: np.ndarray | None, y: np.ndarray, axis: int, reduction: str,
        threads: int,
    ) -> None: ...  # fmt: skip
