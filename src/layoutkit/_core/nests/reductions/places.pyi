from collections.abc import Sequence

import numpy as np

from ..operation import Operation

COMPARED: tuple[str, ...]

class BestAlong(Operation):
    def __init__(self, x: np.ndarray, y: np.ndarray, largest: bool, last: bool, threads: int) -> None: ...

class PoolingPlaces(Operation):
    def __init__(
        self, x: np.ndarray, y: np.ndarray, places: np.ndarray, windows: Sequence[tuple[int, int, int, int]],
        by_column: bool, least: float, threads: int,
    ) -> None: ...  # fmt: skip
