from typing import Self

import numpy as np

from ..operation import Operation

CELLS: dict[str, tuple[int, ...]]

class Recurrent(Operation):
    def __new__(
        cls,
        arrays: tuple[np.ndarray, ...],
        cell: str,
        r: np.ndarray,
        bias: np.ndarray | None,
        backward: tuple[bool, ...],
        batch_first: bool,
        initial_h: int,
        initial_c: int,
        threads: int,
    ) -> Self: ...
