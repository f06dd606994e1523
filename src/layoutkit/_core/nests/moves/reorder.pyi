from collections.abc import Sequence
from typing import Any

import numpy as np

from .reordering import Reordering

class Program(Reordering):
    def __new__(
        cls, nests: Sequence[Any], width: int, pad: bytes, stream: bool, panels: bool = ..., slabs: Sequence[Any] = ...
    ) -> Program: ...
    def __call__(self, src: np.ndarray, dst: np.ndarray, threads: int) -> None: ...
    def attempt(
        self, src: np.ndarray, dst: np.ndarray, threads: int, limit: float, slack: float, *ratios: float
    ) -> tuple[float, float]: ...
