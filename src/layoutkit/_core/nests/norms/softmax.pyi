import numpy as np

from ..operation import Operation

WIDTHS: dict[str, int]

class Softmax(Operation):
    def __init__(
        self, types: str, x: np.ndarray, y: np.ndarray, axis: int, logarithm: bool, threads: int
    ) -> None: ...  # fmt: skip
