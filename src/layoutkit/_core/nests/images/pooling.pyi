from collections.abc import Sequence
from typing import Self

import numpy as np

from ..operation import Operation

WIDTHS: dict[str, int]

def pool(
    types: str, x: np.ndarray, y: np.ndarray, windows: Sequence[tuple[int, int, int, int]],
    scales: Sequence[np.ndarray] | None, threads: int,
) -> None: ...  # fmt: skip
def pool_back(
    types: str, x: np.ndarray, dy: np.ndarray, dx: np.ndarray, windows: Sequence[tuple[int, int, int, int]],
    scales: Sequence[np.ndarray] | None, threads: int,
) -> None: ...  # fmt: skip

class Pooling(Operation):
    def __new__(
        cls, arrays: Sequence[np.ndarray], six: Sequence[np.ndarray], types: str,
        windows: Sequence[tuple[int, int, int, int]], scales: Sequence[np.ndarray] | None, threads: int,
        integers: tuple[int, float, int] = (0, 1.0, 0),
    ) -> Self: ...  # fmt: skip

class PlanePooling(Operation):
    def __init__(
        self, arrays: Sequence[np.ndarray], five: Sequence[np.ndarray], windows: Sequence[tuple[int, int, int, int]],
        scales: Sequence[np.ndarray] | None, threads: int,
    ) -> None: ...  # fmt: skip
