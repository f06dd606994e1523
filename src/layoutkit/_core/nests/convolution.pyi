from typing import Any

import numpy as np

from .operation import Operation
from .route import Epilogue, Route

class Convolution(Operation):
    def __init__(
        self,
        arrays: tuple[np.ndarray, ...],
        route: Route,
        filter: np.ndarray,
        bias: np.ndarray | None,
        epilogue: Epilogue | None,
        spread: tuple[Any, int] | None = None,
    ) -> None: ...
