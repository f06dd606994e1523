from collections.abc import Sequence
from typing import Any

import numpy as np

from ...runtime.pool import Pool
from .reorder import Program
from .reordering import Reordering

TYPES: dict[str, int]
ELEMENT_BYTES: dict[str, int]

class ConverterBase(Reordering):
    def __call__(self, src: np.ndarray, dst: np.ndarray, threads: int, *parameters: Any) -> None: ...

class Converter(ConverterBase):
    def __new__(
        cls, nests: Sequence[Any], types: Any, real: str, sum: bool, fill: Program | None, stream: bool,
        pairs: bool = False,
    ) -> Converter: ...  # fmt: skip

class PackingConverter(ConverterBase):
    def __new__(
        cls, parts: Sequence[tuple[ConverterBase, int, int, int, int]], is_signed: bool, pool: Pool
    ) -> PackingConverter: ...

class Conversion(Reordering):
    def __new__(cls, converter: ConverterBase, *parameters: Any) -> Conversion: ...
