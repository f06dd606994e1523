from collections.abc import Sequence

from .executor import Executor, LoopNest

class PixelRows(Executor):
    def __init__(
        self, nest: LoopNest, x_channels: Sequence[int], y_channels: Sequence[int], gather: bool, row_block: int,
        panel_bytes: int,
    ) -> None: ...  # fmt: skip
