import numpy as np

from ..operation import Operation

class Suppression(Operation):
    def __init__(
        self, corners: np.ndarray, scores: np.ndarray, chosen: np.ndarray, counts: np.ndarray, overlap: float,
        least: float | None, threads: int,
    ) -> None: ...  # fmt: skip
