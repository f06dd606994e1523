from collections.abc import Sequence
from typing import Any

import numpy as np

from ..executor import Executor, LoopNest

RUN: int
EXPANDED_RUN: int

class Winograd(Executor):
    def __init__(
        self, nest: LoopNest, transforms: Sequence[str], table: np.ndarray, ic: int, x_channels: Sequence[int],
        y_channels: Sequence[int], pieces: tuple[Any, Any], high: tuple[int, int], wide: tuple[int, int], groups: int,
        blocks: int, expand: tuple[str, np.ndarray] | None = None, part: int = 0,
    ) -> None: ...  # fmt: skip
