from ..executor import WeightSums

MAX_TAPS: int

class TapSums(WeightSums):
    def __init__(
        self, kernel: str, geometry: tuple, threads: int, slabs: int, chunks: int, x_strides: tuple[int, ...],
        y_strides: tuple[int, ...], whole: bool,
    ) -> None: ...  # fmt: skip
