from typing import NamedTuple

FAMILIES: tuple[str, ...]
STEPS: dict[str, float]
TYPES: dict[str, tuple[str, str, str, str]]

class Kernel(NamedTuple):
    name: str
    family: str
    isa: str
    types: str
    lanes: int
    mr: int
    nr: int
    unit: int

def isas() -> list[str]: ...
def isa() -> str: ...
def use_isa(name: str) -> str: ...
def kernels(family: str | None = None, types: str | None = None, *, all_isas: bool = False) -> list[Kernel]: ...
def best(family: str, types: str) -> list[Kernel]: ...
def address(name: str) -> int: ...
