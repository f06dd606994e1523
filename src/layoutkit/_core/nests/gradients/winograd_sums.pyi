import numpy as np

from ..executor import WeightSums

BLOCK_TILES: int

class WinogradSums(WeightSums):
    mr: int
    nr: int

    def __init__(
        self, kernels: tuple[str, str], geometry: tuple, threads: int, slabs: int, chunks: int,
        x_strides: tuple[int, ...], y_strides: tuple[int, ...], x_channels: tuple[int, int, int, int],
        y_channels: tuple[int, int, int, int], parts: tuple[int, int],
        tables: tuple[np.ndarray, np.ndarray, np.ndarray],
    ) -> None: ...  # fmt: skip
