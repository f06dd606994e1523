import numpy as np

from ..operation import Operation

WHAT: dict[str, int]
DIVIDED: dict[str, str]

class Divide(Operation):
    def __init__(self, x: np.ndarray, d: np.ndarray, y: np.ndarray, what: str, threads: int) -> None: ...
