from collections.abc import Sequence
from typing import Any

import numpy as np

from .operation import Operation

class Reorders(Operation):
    def __init__(self, arrays: Sequence[np.ndarray], moves: Sequence[tuple[Any, int, int, int, int, int]]) -> None: ...
