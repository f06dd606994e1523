from typing import Any

import numpy as np

from .normalise import Normalisation

class Planes(Normalisation):
    def __init__(
        self, types: str, x: np.ndarray, y: np.ndarray, scale: np.ndarray | None, bias: np.ndarray | None,
        epsilon: float, epilogue: Any, threads: int, groups: int = 0, axis: int = 0, *, about_zero: bool = False,
    ) -> None: ...  # fmt: skip

class Pixels(Normalisation):
    def __init__(
        self, types: str, x: np.ndarray, y: np.ndarray, scale: np.ndarray | None, bias: np.ndarray | None,
        epsilon: float, epilogue: Any, threads: int, channels: int, groups: int, blocked: bool,
    ) -> None: ...  # fmt: skip

class Columns(Normalisation):
    def __init__(
        self, types: str, x: np.ndarray, y: np.ndarray, scale: np.ndarray | None, bias: np.ndarray | None,
        epsilon: float, epilogue: Any, threads: int, *, about_zero: bool = False,
    ) -> None: ...  # fmt: skip
