from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..operation import Operation

class ReorderOperation(Operation):
    def __new__(
        cls, arrays: Sequence[np.ndarray], moves: Sequence[tuple[Any, int | np.ndarray, int, int, int, int]]
    ) -> Self: ...

class OnContiguousCopies(Operation):
    def __new__(
        cls, arrays: Sequence[np.ndarray], inner: Operation, copies: Sequence[tuple[int, Any, int]]
    ) -> Self: ...
