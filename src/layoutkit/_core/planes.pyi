from collections.abc import Sequence
from typing import Any

from .executor import Executor

class Planes(Executor):
    def __init__(
        self, kernel: str, geometry: Any, threads: int, x_strides: Sequence[int], y_strides: Sequence[int], ic: int,
        folds: bool, by_channel: bool,
    ) -> None: ...  # fmt: skip
