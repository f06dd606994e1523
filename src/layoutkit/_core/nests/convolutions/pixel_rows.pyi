from collections.abc import Sequence

import numpy as np

from ..executor import Executor, LoopNest
from .pixel_tiles import PixelTiles
from .staged_rows import StagedRows

class PixelRows(Executor):
    def __init__(
        self, nest: LoopNest, x_channels: Sequence[int], y_channels: Sequence[int], gather: bool, tiles: PixelTiles,
        panel_bytes: int, staged: StagedRows | None = None, order: np.ndarray | None = None,
    ) -> None: ...  # fmt: skip

def split_panels(kernel: str, panels: np.ndarray, out: np.ndarray) -> None: ...
