from ..executor import WeightSums

BLOCK_PIXELS: int
SINGLE_BLOCK_PIXELS: int
IN_PLACE_PANELS: int

class OuterSums(WeightSums):
    mr: int
    nr: int
    panels_x: int
    panels_y: int

    def __init__(
        self, kernel: str, geometry: tuple, threads: int, slabs: int, chunks: int, x_strides: tuple[int, ...],
        y_strides: tuple[int, ...], x_channels: tuple[int, int, int, int], y_channels: tuple[int, int, int, int],
        parts: tuple[int, int, int],
    ) -> None: ...  # fmt: skip
