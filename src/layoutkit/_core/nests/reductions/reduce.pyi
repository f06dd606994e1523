from collections.abc import Sequence

import numpy as np

from ..operation import Operation

FOLDS: dict[str, tuple[int, int]]

class Reduction(Operation):
    def __init__(self, op: str, x: np.ndarray, y: np.ndarray, axes: Sequence[int], threads: int) -> None: ...
