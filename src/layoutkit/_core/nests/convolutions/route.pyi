from collections.abc import Sequence
from typing import Any

import numpy as np

from ...runtime.pool import Pool
from ..executor import Executor
from ..moves.reordering import Reordering

TENSOR: str
NUMBERS: dict[str, int]
STEPS: dict[str, float]

class Epilogue:
    steps: tuple[tuple[str, np.ndarray | None, Any], ...]
    tensors: tuple[np.ndarray, ...]
    def __init__(
        self, steps: Sequence[tuple[str, np.ndarray | None, Any]] = (), tensors: Sequence[np.ndarray] = (),
        mul: np.ndarray | None = None, off: np.ndarray | None = None, scale: float = 1, zero: int = 0, x_zero: int = 0,
    ) -> None: ...  # fmt: skip
    def over(self, tensors: Sequence[np.ndarray]) -> Epilogue: ...
    def of_channels(self, channels: np.ndarray, tensors: Sequence[np.ndarray] = ()) -> Epilogue: ...

class Route:
    start: int
    workspace: int
    def __init__(
        self, before: Reordering | None, executor: Executor, after: Reordering | None, residual: Reordering | None,
        x_bytes: int, y_bytes: int, pool: Pool, seconds: float = 0, pads: Any = None,
        items: tuple[int, int] | None = None,
    ) -> None: ...  # fmt: skip
    def __call__(
        self, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, y: np.ndarray, epilogue: Epilogue | None = None,
        add: np.ndarray | None = None, workspace: np.ndarray | None = None,
    ) -> None: ...  # fmt: skip
    def needs(self, y: np.ndarray, add: np.ndarray | None = None, epilogue: Epilogue | None = None) -> int: ...

def laid_out_as(a: np.ndarray, y: np.ndarray) -> np.ndarray: ...
def view_at(y: np.ndarray, start: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray: ...
def epilogue_pixels(
    types: str, epilogue: Epilogue, y: np.ndarray, add: np.ndarray | None = None, sums: np.ndarray | None = None
) -> None: ...
