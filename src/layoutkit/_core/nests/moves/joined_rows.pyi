from collections.abc import Sequence
from typing import Self

import numpy as np

from ..operation import Operation

class JoinedRows(Operation):
    def __new__(
        cls,
        arrays: Sequence[np.ndarray],
        whole: tuple[int, int, int],
        pieces: Sequence[tuple[int | np.ndarray, int, int, int]],
        joins: bool,
        threads: int,
    ) -> Self: ...
