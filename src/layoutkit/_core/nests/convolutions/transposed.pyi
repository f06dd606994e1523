from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..operation import Operation
from .route import Epilogue

class TransposedConvolution(Operation):
    def __new__(
        cls,
        arrays: tuple[np.ndarray, np.ndarray],
        steps: Sequence[
            tuple[Any, np.ndarray | None, np.ndarray | None, Epilogue | None, tuple[int, int], tuple[int, int]]
        ],
        kept: int = 0,
    ) -> Self: ...
