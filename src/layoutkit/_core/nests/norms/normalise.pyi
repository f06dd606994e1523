from typing import Any

import numpy as np

from ..operation import Operation

WIDTHS: dict[str, int]

class Normalisation(Operation):
    def __init__(self, *args: Any) -> None: ...

class ShortRows(Normalisation):
    def __init__(
        self, types: str, x: np.ndarray, y: np.ndarray, scale: np.ndarray | None, bias: np.ndarray | None,
        epsilon: float, epilogue: Any, threads: int, axis: int, channels: int, *, about_zero: bool = False,
    ) -> None: ...  # fmt: skip

def suits_rows(x: np.ndarray, y: np.ndarray, axis: int) -> bool: ...
