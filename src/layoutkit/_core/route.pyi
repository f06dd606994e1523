from typing import Any

import numpy as np

from .executor import Executor
from .pool import Pool
from .reorder import Program

ACTIVATIONS: dict[str, int]

class Epilogue:
    def __init__(self, name: str | None = None, numbers: np.ndarray | None = None) -> None: ...

class Route:
    start: int
    workspace: int
    def __init__(
        self, before: Program | None, executor: Executor, after: Program | None, residual: Program | None,
        x_bytes: int, y_bytes: int, pool: Pool, seconds: float = 0, pads: Any = None,
    ) -> None: ...  # fmt: skip
    def __call__(
        self, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, y: np.ndarray, epilogue: Epilogue | None = None,
        add: np.ndarray | None = None, workspace: np.ndarray | None = None,
    ) -> None: ...  # fmt: skip
    def needs(self, y: np.ndarray, add: np.ndarray | None = None) -> int: ...

def epilogue_pixels(types: str, epilogue: Epilogue, y: np.ndarray, add: np.ndarray | None = None) -> None: ...
