from collections.abc import Sequence

import numpy as np

from ..operation import Operation

class Columns(Operation):
    def __init__(
        self, x: np.ndarray, y: np.ndarray, windows: Sequence[tuple[int, int, int, int, int]], threads: int
    ) -> None: ...  # fmt: skip

class Bins(Operation):
    def __init__(
        self, x: np.ndarray, rows: np.ndarray, columns: np.ndarray, images: np.ndarray, y: np.ndarray, threads: int
    ) -> None: ...  # fmt: skip
