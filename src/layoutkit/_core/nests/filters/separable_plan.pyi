from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from ..operation import Operation

RUNNING_STRIP: int
TYPES: dict[str, int]

class SeparablePlan(Operation):
    def __new__(
        cls, arrays: Sequence[np.ndarray], kind: str, types: tuple[str, str, str], outer: Sequence[tuple[int, ...]],
        windows: Sequence[Any], count: int, unit: int, constant: Callable[[int, int, int], np.ndarray], threads: int,
        streams: bool = False, cache: int = 0,
    ) -> Self: ...  # fmt: skip
