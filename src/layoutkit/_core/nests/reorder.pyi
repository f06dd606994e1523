from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

class Reordering: ...

class Program(Reordering):
    def __new__(
        cls, nests: Sequence[Any], width: int, pad: bytes, stream: bool, panels: bool = ..., staging: Any = ...
    ) -> Program: ...
    def __call__(self, src: np.ndarray, dst: np.ndarray, threads: int) -> None: ...
    def attempt(
        self, src: np.ndarray, dst: np.ndarray, threads: int, limit: float, slack: float, *ratios: float
    ) -> tuple[float, float]: ...

class BoundReorder:
    def __new__(
        cls,
        moves: Reordering,
        dtypes: tuple[np.dtype[Any], np.dtype[Any]],
        src: Any,
        dst: Any,
        threads: int,
        what: str,
        check: Callable[[Any, str], object],
    ) -> BoundReorder: ...
    def __call__(self, array: np.ndarray, out: np.ndarray) -> None: ...
