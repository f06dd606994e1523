"""What a kernel of an operator says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ...ir import Node
from ..base import Known

F32 = np.dtype(np.float32)


class Kernel(NamedTuple):
    """`suits`: whether it can run a node in a kind of layout; `strided`: whether its result may be a part of a larger
    array; `any_reals`: whether it also reads and writes bfloat16 and float16."""

    suits: Callable[[Node, Mapping[str, Known], int], bool]
    strided: bool = False
    any_reals: bool = False
