from collections.abc import Sequence

import numpy as np

def add(
    types: str, a: np.ndarray, b: np.ndarray | None, y: np.ndarray, limits: tuple[float, float] | None,
    integers: Sequence[tuple[float, int]], threads: int,
) -> None: ...  # fmt: skip
