from collections.abc import Sequence
from typing import Any

import numpy as np

from ..operation import Operation

ELEMENTS: dict[str, int]
NUMBERS: dict[str, int]
STEPS: dict[str, float]

class Elementwise(Operation):
    def __init__(
        self, steps: Sequence[tuple[str, np.ndarray | None, Any]], tensors: Sequence[np.ndarray], y: np.ndarray,
        elements: Sequence[tuple[str, float, int]], threads: int, table: np.ndarray | None = None,
    ) -> None: ...  # fmt: skip
