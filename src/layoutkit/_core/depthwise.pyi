from collections.abc import Sequence
from typing import Any

from .executor import Executor

class Depthwise(Executor):
    def __init__(
        self, kernel: str, geometry: Any, threads: int, x_strides: Sequence[int], y_strides: Sequence[int],
        channels: int, padded: int, run: int, each: int, pixels: int, lanes: Sequence[Any], gathered: bool,
    ) -> None: ...  # fmt: skip
