import numpy as np

def lrn(
    types: str, x: np.ndarray, y: np.ndarray, size: int, alpha: float, bias: float, threads: int
) -> None: ...
