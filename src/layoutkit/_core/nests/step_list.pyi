from collections.abc import Sequence
from typing import Self

import numpy as np

from .operation import Operation

class StepFault(ValueError):
    step: int
    def __init__(self, step: int, reason: object) -> None: ...

class Context:
    places: int
    def __new__(cls, places: int) -> Self: ...
    def set(self, place: int, array: np.ndarray, offset: int = ...) -> None: ...

class StepList:
    count: int
    def __new__(cls, steps: Sequence[tuple[Operation | None, bool, Sequence[int], int]]) -> Self: ...
    def run(self, context: Context, first: int, times: np.ndarray | None = ...) -> int: ...
