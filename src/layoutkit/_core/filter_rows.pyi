from collections.abc import Sequence
from typing import Any

from .executor import Executor

class FilterRows(Executor):
    def __init__(
        self, kernel: str, geometry: Any, threads: int, x_strides: Sequence[int], y_strides: Sequence[int],
        channels: Sequence[int], in_place: bool, by_channel: bool,
    ) -> None: ...  # fmt: skip
