from collections.abc import Sequence
from typing import Any

from ..executor import Executor, LoopNest

class Depthwise(Executor):
    def __init__(
        self, nest: LoopNest, channels: int, padded: int, run: int, vector_channels: int, pixels: int,
        lanes: Sequence[Any], gathered: bool,
    ) -> None: ...  # fmt: skip
