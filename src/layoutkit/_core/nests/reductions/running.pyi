import numpy as np

from ..operation import Operation

RUNNING: tuple[str, ...]

class Running(Operation):
    def __init__(
        self, x: np.ndarray, y: np.ndarray, axis: int, exclusive: bool, reverse: bool, product: bool, threads: int
    ) -> None: ...  # fmt: skip
