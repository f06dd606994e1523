from collections.abc import Sequence
from typing import Self

import numpy as np

from .operation import Operation
from .reordering import Reordering
from .route import Epilogue, Route

class TransposedConvolution(Operation):
    def __new__(
        cls,
        arrays: tuple[np.ndarray, np.ndarray],
        phases: Sequence[tuple[Route, np.ndarray, np.ndarray | None, int]],
        epilogue: Epilogue | None,
        before: tuple[Reordering, int] | None = None,
        after: tuple[Reordering, int] | None = None,
        x_bytes: int = 0,
        y_bytes: int = 0,
    ) -> Self: ...
