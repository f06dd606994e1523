from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .step_list import Context, StepList

class WholeRun:
    def __init__(
        self,
        steps: StepList,
        inputs: Sequence[tuple[str, tuple[int, ...], np.dtype, Sequence[tuple[int, int]]]],
        outputs: Sequence[tuple[str, tuple[int, ...], np.dtype, int, Sequence[tuple[int, int]]]],
        new: Callable[[tuple[int, ...], np.dtype, int], np.ndarray],
    ) -> None: ...
    def taken(self, inputs: Any) -> list[np.ndarray] | None: ...
    def run(self, context: Context, arrays: list[np.ndarray]) -> dict[str, np.ndarray]: ...
