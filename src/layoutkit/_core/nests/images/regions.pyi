import numpy as np

from ..operation import Operation

class Regions(Operation):
    def __init__(
        self, x: np.ndarray, corners: np.ndarray, counts: np.ndarray, images: np.ndarray, y: np.ndarray, most: int,
        least_span: float, mean: bool, threads: int,
    ) -> None: ...  # fmt: skip
