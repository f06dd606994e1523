"""float32 on tile units: each number is the sum of two or three of bfloat16, its components, whose products are summed.

A number x of float32 has 24 bits, one of bfloat16 8: x = x1 + x2 + x3, each of them what bfloat16 keeps of the rest.
Of the nine products of x and w the six largest are summed ("standard"), or of two components three of four ("fast"). A
tile unit multiplies bfloat16 some fifteen times as fast as FMA does float32, so six products take 0.4 of the time.
Pixels are gathered as by im2col, for 1x1 as well, and split on the way; filters are split when they are packed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._core.nests.convolutions.pixel_rows import PixelRows, split_panels
from ..._core.nests.executor import NEVER
from ..._core.runtime import registry
from ..._core.runtime.registry import Kernel
from ...choosing.machine import caches
from ...choosing.machine_profile import scale
from ...memory.arrays import empty
from ..problem import ConvProblem
from ..route import Arrays
from .base import rows_of, tile_of
from .sums import LINE_BYTES, MAX_ROW_BLOCK_BYTES, PixelSums, panels_of, seconds_of, units_of

BYTES = 2  # of bfloat16
CHUNK_K = 1024  # products whose sum is added to a total: 6 sums of 32 and the total each round once
SPLIT_SECONDS = 0.19e-9  # of a number, on one thread: 27 instructions for 32
SPLIT_RUN_SECONDS = 0.8e-9  # of each contiguous run of numbers
FILTER_LINE_SECONDS = 1.4e-9  # of a line of a filter that is read from the last cache, ahead
# Where other guests of a server run on the same cores, tile units lose more time than FMA does: by so many times in the
# mean on one thread, and on more threads, which wait for the slowest.
SHARED_RATIOS = 1.35, 1.8


def has_components(types: str) -> bool:
    """Whether this machine multiplies numbers of these types by their components."""
    return types == "f32" and bool(rows_of("gemm", "bf16x3", registry.isa()))


class Bf16Components(PixelSums):
    """im2col whose matrix and filter hold the components of numbers."""

    name, gather, packs = "im2col", True, 2.0
    widens = ("f16",)  # one of bfloat16 is a component

    def __init__(self, components: int, accuracy: str) -> None:
        self.filters, self._accuracy = f"bf16x{components}", accuracy

    def accuracy(self, p: ConvProblem, threads: int) -> str:
        return self._accuracy

    def kernels(self, p: ConvProblem) -> Sequence[Kernel]:
        return rows_of(self.family, self.filters, registry.isa()) if p.types.name == "f32" else ()

    def alignment(self, p: ConvProblem, kernel: Kernel) -> int:
        return LINE_BYTES

    def depth(self, p: ConvProblem, kernel: Kernel) -> float:
        return units_of(p.ic // p.groups * p.taps, kernel) / p.taps

    def row_bytes(self, p: ConvProblem, kernel: Kernel) -> float:
        return self.depth(p, kernel) * p.taps * kernel.kr * BYTES * tile_of(kernel).components

    def block_bytes(self, p: ConvProblem, kernel: Kernel) -> int:
        """Half of the second cache: filters do not stay there, and are read as seldom as that allows."""
        return max(caches().get(2, 0) // 2, MAX_ROW_BLOCK_BYTES)

    def gathering(self, p: ConvProblem) -> float:
        split = p.ic * p.taps * SPLIT_SECONDS * scale().fma_f32
        return self.pixels(p) * (split + self.gathered_runs(p) * SPLIT_RUN_SECONDS * scale().run)

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        """Tiles multiply so fast that they wait for the filter, which the other layers of a network have driven out of
        the second cache."""
        tiles = self.tiles(p, kernel, threads)
        filter_bytes = panels_of(p, kernel) * kernel.nr * self.row_bytes(p, kernel)
        blocks = max(1.0, self.pixels(p) * self.row_bytes(p, kernel) / self.block_bytes(p, kernel))
        times = blocks if filter_bytes > self.block_bytes(p, kernel) else 1.0  # each block of rows reads it again
        read = times * filter_bytes / LINE_BYTES * FILTER_LINE_SECONDS / threads
        # threads that share a block each split its rows
        seconds = seconds_of(tiles.cycles, kernel) + read + self.gathering(p) / min(threads, blocks)
        return SHARED_RATIOS[threads > 1] * seconds

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> PixelRows:
        return self.rows_of(p, kernel, threads, arrays, (CHUNK_K // kernel.kr, NEVER))

    def pack(self, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
        """Filter (O, I/G, *k) -> [G][panels][K tiles][components][units][nr][kr], K: taps and channels; bias ->
        [G][panels][nr] or None."""
        whole, bias = super().pack(p, kernel._replace(kr=1, tile=None), w, bias)
        panels = whole.reshape(whole.shape[0] * whole.shape[1], whole.shape[2], kernel.nr)
        tile = tile_of(kernel)
        steps = -(-panels.shape[1] // tile.k_tile)
        shape = len(panels), steps, tile.components, tile.k_tile // kernel.kr, kernel.nr, kernel.kr
        packed = empty(shape, np.dtype(np.uint16), "filter")
        split_panels(kernel.name, panels, packed)
        return packed, bias
