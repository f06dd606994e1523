from collections.abc import Sequence

import numpy as np

from .executor import Executor, LoopNest

RUN: int

class Winograd(Executor):
    def __init__(
        self, nest: LoopNest, transforms: Sequence[str], table: np.ndarray, ic: int, x_channels: Sequence[int],
        y_channels: Sequence[int], high: tuple[int, int], wide: tuple[int, int], groups: int, blocks: int,
    ) -> None: ...  # fmt: skip

def taps_follow(w: np.ndarray, sign: int) -> bool: ...
def extent(w: np.ndarray, threads: int = 1) -> tuple[float, float]: ...
def pack(types: str, w: np.ndarray, gh: np.ndarray, gw: np.ndarray, u: np.ndarray, threads: int = 1) -> None: ...
