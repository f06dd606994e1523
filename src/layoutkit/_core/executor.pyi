from typing import Any, NamedTuple

class Footprint(NamedTuple):
    source: tuple[Any, ...]
    destination: tuple[Any, ...]
    filter: int
    bias: int

class Executor:
    threads: int
    positive: bool
    def __init__(self, kernel: str, geometry: Any, threads: int) -> None: ...
    def footprint(self) -> Footprint: ...

NOTHING: Footprint
