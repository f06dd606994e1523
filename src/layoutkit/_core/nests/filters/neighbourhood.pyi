from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..operation import Operation

TYPES: dict[str, int]

class Neighbourhood(Operation):
    def __new__(
        cls, arrays: Sequence[np.ndarray], kind: str, types: tuple[str, str, str], outer: Sequence[tuple[int, ...]],
        leading: Sequence[tuple[int, int, int, np.ndarray]], planes: tuple[int, int, int, np.ndarray, int, int],
        lines: tuple[int, int, int, np.ndarray, int, int], points: tuple[int, int, int, np.ndarray, int, int],
        places: np.ndarray, stacks: np.ndarray, unit: int,
        constant: np.ndarray, fields: dict[str, Any], threads: int, streams: bool = False,
    ) -> Self: ...  # fmt: skip
