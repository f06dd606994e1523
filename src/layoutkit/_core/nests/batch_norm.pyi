import numpy as np

WIDTHS: dict[str, int]

def batch_norm(
    types: str, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, mean: np.ndarray,
    variance: np.ndarray, epsilon: float, threads: int, *, dy: np.ndarray | None = None,
    sums: np.ndarray | None = None, products: np.ndarray | None = None, given: bool = False, limit: float = 0.0,
    add: np.ndarray | None = None, result: np.ndarray | None = None,
) -> None: ...  # fmt: skip
