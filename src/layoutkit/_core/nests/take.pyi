from collections.abc import Sequence

import numpy as np

from .operation import Operation

class Take(Operation):
    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray,
        indices: Sequence[np.ndarray],
        fill: np.ndarray,
        threads: int,
        views: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None: ...
