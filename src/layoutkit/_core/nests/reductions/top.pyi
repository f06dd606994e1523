import numpy as np

from ..operation import Operation

LISTED: int

class TopOfRows(Operation):
    def __init__(
        self, x: np.ndarray, values: np.ndarray, places: np.ndarray, largest: bool, threads: int
    ) -> None: ...  # fmt: skip
