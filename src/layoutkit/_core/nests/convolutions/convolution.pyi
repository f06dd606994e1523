from typing import Any, Self

import numpy as np

from ..operation import Operation
from .route import Epilogue, Route

class Convolution(Operation):
    def __new__(
        cls,
        arrays: tuple[np.ndarray, ...],
        route: Route,
        filter: np.ndarray,
        bias: np.ndarray | None,
        epilogue: Epilogue | None,
        add_reorder: tuple[Any, int] | None = None,
    ) -> Self: ...
