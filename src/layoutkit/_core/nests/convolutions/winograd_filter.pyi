import numpy as np

def extent(w: np.ndarray, threads: int = 1) -> tuple[float, float]: ...
def pack(
    types: str, w: np.ndarray, places: np.ndarray, gh: np.ndarray, gw: np.ndarray, u: np.ndarray, threads: int = 1
) -> None: ...  # fmt: skip
