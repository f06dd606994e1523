from typing import NamedTuple

FAMILIES: tuple[str, ...]

class Kernel(NamedTuple):
    name: str
    family: str
    isa: str
    bits: int
    mr: int
    nr: int

def isas() -> list[str]: ...
def isa() -> str: ...
def use_isa(name: str) -> str: ...
def kernels(family: str | None = None, bits: int | None = None, *, all_isas: bool = False) -> list[Kernel]: ...
def best(family: str, bits: int) -> list[Kernel]: ...
