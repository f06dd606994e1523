from typing import Any, NamedTuple

import numpy as np

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

class WeightSums:
    slabs: int
    slab_bytes: int
    thread_bytes: int

    def __init__(self, geometry: tuple, threads: int, slabs: int, chunks: int) -> None: ...
    def __call__(self, x: np.ndarray, y: np.ndarray, c: np.ndarray, workspace: np.ndarray) -> None: ...
    def footprint(self) -> Footprint: ...
