from collections.abc import Sequence
from typing import Any

import numpy as np

from ..runtime.pool import Pool
from .reorder import Program, Reordering

TYPES: dict[str, int]
ELEMENT_BYTES: dict[str, int]

class Converting(Reordering):
    def __call__(self, src: np.ndarray, dst: np.ndarray, threads: int, *parameters: Any) -> None: ...

class Converter(Converting):
    def __new__(
        cls, nests: Sequence[Any], types: Any, real: str, sum: bool, fill: Program | None, stream: bool,
        pairs: bool = False,
    ) -> Converter: ...  # fmt: skip

class Packing(Converting):
    def __new__(
        cls, parts: Sequence[tuple[Converting, int, int, int, int]], is_signed: bool, pool: Pool
    ) -> Packing: ...

class Conversion(Reordering):
    def __new__(cls, converter: Converting, *parameters: Any) -> Conversion: ...
