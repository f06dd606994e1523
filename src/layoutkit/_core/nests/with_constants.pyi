from collections.abc import Sequence

import numpy as np

from .operation import Operation

class WithConstants(Operation):
    def __init__(self, inner: Operation, arrays: Sequence[np.ndarray], constant: Sequence[bool]) -> None: ...
