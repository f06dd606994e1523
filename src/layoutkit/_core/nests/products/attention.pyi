from collections.abc import Sequence
from typing import Any

import numpy as np

from ..operation import Operation

ROUNDED_CYCLES: float
TYPES: dict[str, Any]

class Attention(Operation):
    def __init__(
        self,
        q: np.ndarray,
        k: np.ndarray,
        v: np.ndarray,
        o: np.ndarray,
        mask: np.ndarray | None = None,
        *,
        scale: float = 1,
        constant_mask: bool = False,
        arrays: Sequence[np.ndarray] | None = None,
        threads: int = 1,
        pairs: bool = False,
    ) -> None: ...
