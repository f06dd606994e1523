from collections.abc import Sequence
from typing import Any

import numpy as np

from ..operation import Operation

WIDTHS: dict[str, int]

class Interpolation(Operation):
    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray,
        axes: int,
        unit: int,
        taps: Sequence[tuple[np.ndarray, np.ndarray] | None],
        threads: int,
        types: str = "f32",
    ) -> None: ...

def fits(taps: Any, n: int, m: int) -> bool: ...
