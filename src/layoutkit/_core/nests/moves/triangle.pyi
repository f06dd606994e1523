import numpy as np

from ..operation import Operation

class Triangle(Operation):
    def __init__(self, x: np.ndarray, y: np.ndarray, diagonal: int, upper: bool, threads: int) -> None: ...
