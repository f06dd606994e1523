from collections.abc import Sequence
from typing import Any

import numpy as np

from ..executor import WeightSums
from ..operation import Operation

class Small:
    attributes: tuple[Any, ...]
    def __init__(self, like: Any, attributes: tuple[Any, ...], item: int) -> None: ...

class SmallConvolution(Small):
    def __init__(
        self, like: Any, attributes: tuple[Any, ...], item: int, operation: Operation,
        fills: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray, int]],
    ) -> None: ...  # fmt: skip

class SmallSums(Small):
    def __init__(
        self, like: Any, attributes: tuple[Any, ...], item: int, sums: WeightSums, sources: np.ndarray
    ) -> None: ...

class SmallTotals(Small):
    def __init__(
        self, like: Any, attributes: tuple[Any, ...], item: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> None: ...
