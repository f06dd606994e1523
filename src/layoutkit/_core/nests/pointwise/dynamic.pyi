import numpy as np

from ..operation import Operation

class DynamicQuantisation(Operation):
    def __init__(self, x: np.ndarray, y: np.ndarray, scale: np.ndarray, zero: np.ndarray, threads: int) -> None: ...
