from collections.abc import Sequence
from typing import Any

from .executor import Executor

class PixelRows(Executor):
    def __init__(
        self, kernel: str, geometry: Any, threads: int, x_strides: Sequence[int], x_channels: Sequence[int],
        y_strides: Sequence[int], y_channels: Sequence[int], gather: bool, row_block: int, panel_bytes: int,
    ) -> None: ...  # fmt: skip
