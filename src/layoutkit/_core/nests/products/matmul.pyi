from collections.abc import Sequence
from typing import Any

import numpy as np

from ..convolutions.route import Epilogue
from ..operation import Operation

SOURCES: dict[str, int]
TYPES: dict[str, Any]

class Matmul(Operation):
    def __init__(
        self,
        a: np.ndarray,
        b: np.ndarray,
        c: np.ndarray,
        *,
        bias: np.ndarray | None = None,
        epilogue: Epilogue | None = None,
        add: np.ndarray | None = None,
        constant: str = "",
        arrays: Sequence[np.ndarray] | None = None,
        threads: int = 1,
    ) -> None: ...
