from typing import Any, NamedTuple

NEVER: int

class LoopNest(NamedTuple):
    kernel: str
    geometry: Any
    threads: int
    x_strides: tuple[int, ...]
    y_strides: tuple[int, ...]
    types: str = ""
    chunks: tuple[int, int] = ...

class Footprint(NamedTuple):
    source: tuple[Any, ...]
    destination: tuple[Any, ...]
    filter: int
    bias: int

class Executor:
    threads: int
    positive: bool
    def __init__(self, nest: LoopNest) -> None: ...
    def footprint(self) -> Footprint: ...

NOTHING: Footprint
