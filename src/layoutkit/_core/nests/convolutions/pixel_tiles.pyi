from collections.abc import Iterator, Sequence

from ...runtime.registry import TileCycles

def tile_cycles(
    cycles: TileCycles, rows: float, vectors: float, steps: float, run: float, lines: float = 1.0
) -> float: ...

class PixelTiles:
    listed: bool
    padded: bool
    tiles: int
    cycles: float
    def __init__(
        self, geometry: Sequence[object], sizes: tuple[int, int, int], cycles: TileCycles,
        channels: tuple[int, float, float], leaves_out: bool, max_block_tiles: int, threads: int,
        by_pixels: bool = False,
    ) -> None: ...  # fmt: skip
    def pixels(self) -> Iterator[tuple[int, int, int, int]]: ...
    def of_threads(self) -> list[set[int]]: ...
