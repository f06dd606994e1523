from collections.abc import Sequence
from typing import Any

import numpy as np

from .executor import Executor

RUN: int

class Winograd(Executor):
    def __init__(
        self, kernel: str, transforms: Sequence[str], table: Any, geometry: Any, threads: int,
        x_strides: Sequence[int], ic: int, x_channels: Sequence[int], y_strides: Sequence[int],
        y_channels: Sequence[int], groups: int, blocks: int,
    ) -> None: ...  # fmt: skip

def extent(w: np.ndarray) -> tuple[float, float]: ...
def pack(w: np.ndarray, gh: np.ndarray, gw: np.ndarray, u: np.ndarray) -> None: ...
