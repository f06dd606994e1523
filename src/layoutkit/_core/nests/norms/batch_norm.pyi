import numpy as np

WIDTHS: dict[str, int]

def images_of_unit(pixels: int, images: int) -> int: ...

class BatchNorm:
    def __new__(
        cls, types: str, x: np.ndarray, y: np.ndarray | None, weight: np.ndarray | None, bias: np.ndarray | None,
        mean: np.ndarray, variance: np.ndarray, epsilon: float, threads: int, *, dy: np.ndarray | None = None,
        sums: np.ndarray | None = None, products: np.ndarray | None = None, given: bool = False, limit: float = 0.0,
        add: np.ndarray | None = None, result: np.ndarray | None = None,
    ) -> BatchNorm: ...  # fmt: skip
    def run(self) -> None: ...
    def begin(self) -> None: ...
    def measure(self, first: int, last: int) -> None: ...
    def combine(self) -> None: ...
    def apply(self, first: int, last: int, into: np.ndarray | None = None) -> None: ...

def batch_norm(
    types: str, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, mean: np.ndarray,
    variance: np.ndarray, epsilon: float, threads: int, *, dy: np.ndarray | None = None,
    sums: np.ndarray | None = None, products: np.ndarray | None = None, given: bool = False, limit: float = 0.0,
    add: np.ndarray | None = None, result: np.ndarray | None = None,
) -> None: ...  # fmt: skip
