from collections.abc import Sequence

import numpy as np

from ...runtime.registry import Kernel
from ..operation import Operation

MAX_K: int
MAX_SCALE: float

class ByteMatmul(Operation):
    def __init__(
        self,
        a: np.ndarray,
        b: np.ndarray,
        c: np.ndarray,
        zeros: Sequence[int],
        scale: float,
        *,
        arrays: Sequence[np.ndarray] | None = None,
        threads: int = 1,
    ) -> None: ...

def best_kernel(m: int, n: int, k: int) -> tuple[float, Kernel] | None: ...
