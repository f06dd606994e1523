from collections.abc import Sequence
from typing import Any

import numpy as np

from ..operation import Operation

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

def segments_of(offsets: Any, unit: int) -> Any: ...
def is_straight(segment: Any, unit: int) -> bool: ...
def straightened(segments: Any, unit: int) -> Any: ...
def row_offsets(axes: Any) -> Any: ...
