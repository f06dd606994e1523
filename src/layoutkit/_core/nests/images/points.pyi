import numpy as np

from ..operation import Operation

MODES: dict[str, int]
PADDINGS: dict[str, int]

class Samples(Operation):
    def __init__(
        self, x: np.ndarray, grid: np.ndarray, y: np.ndarray, mode: str, padding: str, aligned: bool, absolute: bool,
        threads: int,
    ) -> None: ...  # fmt: skip
