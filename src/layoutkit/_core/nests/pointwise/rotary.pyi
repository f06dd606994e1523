import numpy as np

from ..operation import Operation

class Rotary(Operation):
    def __init__(
        self,
        x: np.ndarray,
        cos: np.ndarray,
        sin: np.ndarray,
        positions: np.ndarray | None,
        y: np.ndarray,
        interleaved: bool,
        packed: bool,
        threads: int,
        views: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None: ...
