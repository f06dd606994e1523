from collections.abc import Sequence

import numpy as np

from .operation import Operation

class Context:
    places: int
    scratch: np.ndarray
    def __init__(self, places: int, scratch: np.ndarray) -> None: ...
    def set(self, place: int, array: np.ndarray, offset: int = ...) -> None: ...

class StepList:
    count: int
    workspace: int
    def __init__(self, steps: Sequence[tuple[Operation | None, bool, Sequence[int]]]) -> None: ...
    def run(self, context: Context, first: int, times: np.ndarray | None = ...) -> int: ...
