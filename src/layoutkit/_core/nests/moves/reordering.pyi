from collections.abc import Callable
from typing import Any

import numpy as np

class Reordering:
    def between(self, src: np.ndarray, src_at: int, dst: np.ndarray, dst_at: int, threads: int) -> None: ...

class BoundReorder:
    def __new__(
        cls,
        moves: Reordering,
        dtypes: tuple[np.dtype[Any], np.dtype[Any]],
        src: Any,
        dst: Any,
        threads: int,
        what: str,
        check: Callable[[Any, str], object],
    ) -> BoundReorder: ...
    def __call__(self, array: np.ndarray, out: np.ndarray) -> None: ...
