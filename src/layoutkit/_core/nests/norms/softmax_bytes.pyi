import numpy as np

from ..operation import Operation

LEAST_STEP: float
MAX_STEP: float

class SoftmaxOfBytes(Operation):
    def __init__(self, x: np.ndarray, y: np.ndarray, scale: float, y_scale: float, zero: int, threads: int) -> None: ...

def tables(scale: float) -> tuple[np.ndarray, np.ndarray]: ...
