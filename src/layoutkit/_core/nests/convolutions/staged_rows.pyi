from collections.abc import Sequence

def pitch_of(pixel_bytes: int) -> int: ...

class StagedRows:
    def __init__(
        self, geometry: Sequence[object], x_strides: Sequence[int], channels: tuple[int, int, int, int],
        unit_bytes: int, width: int, folded: bool,
    ) -> None: ...  # fmt: skip
    def source(self, groups: int, group_stride: int) -> list[tuple[list[tuple[int, int, int]], int]]: ...
