from typing import NamedTuple

FAMILIES: tuple[str, ...]
STEPS: dict[str, float]
TYPES: dict[str, tuple[str, str, str, str]]

class TileCycles(NamedTuple):
    tile: float
    row: float
    load: float
    pointer: float
    step: float
    rows_at_once: int

class Tile(NamedTuple):
    peak: str
    lane_flops: float
    k_tile: int
    fills_k: bool
    strided_a: bool
    alignment: int
    cycles: TileCycles
    components: int = 0

class Kernel(NamedTuple):
    name: str
    family: str
    isa: str
    types: str
    lanes: int
    mr: int
    nr: int
    kr: int
    tile: Tile | None = None
    @property
    def k_step(self) -> int: ...

def isas(emulated: bool = False) -> list[str]: ...
def emulated() -> set[str]: ...
def tiles() -> str: ...
def isa() -> str: ...
def use_isa(name: str) -> str: ...
def kernels(family: str | None = None, types: str | None = None, *, all_isas: bool = False) -> list[Kernel]: ...
def best(family: str, types: str) -> list[Kernel]: ...
def address(name: str) -> int: ...
