from collections.abc import Sequence
from typing import Any

import numpy as np

def address(array: np.ndarray) -> int: ...

class Program:
    def __new__(cls, nests: Sequence[Any], width: int, pad: bytes, stream: bool) -> Program: ...
    def __call__(self, src: np.ndarray, dst: np.ndarray, threads: int) -> None: ...
