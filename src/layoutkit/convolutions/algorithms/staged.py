"""Convolution of rows of the input that are copied with their padding first, most of all on tile units.

A tile unit loads the pixels of a tile from one address and one distance. The pixels that a tap reads lie so in the
input itself only within a row of outputs, if none of them is in the padding, and if channels are whole cache lines. So
the rows that a block of outputs reads are staged, once for all taps and panels, where im2col copies them for each tap:
see `_core/nests/convolutions/staged_rows.pyx`. Other kernels read staged rows where the channels of groups of integers
do not fill their units.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..._core.nests.convolutions.pixel_rows import PixelRows
from ..._core.nests.convolutions.pixel_tiles import PixelTiles
from ..._core.nests.convolutions.staged_rows import StagedRows, pitch_of
from ..._core.runtime.registry import Kernel
from ...choosing.machine_profile import scale
from ...formats.layout import Layout
from ...memory.arrays import contiguous_strides
from ..geometry import Geometry, geometry, spatial_strides, strides_of
from ..order import chunks
from ..padded import PaddedInput
from ..problem import ConvProblem
from ..route import Arrays
from .base import steps_at_once, tile_of
from .folded import Folded, folded
from .sums import (
    GATHER_BYTES_PER_SECOND,
    LOADED_BYTES_PER_SECOND,
    MAX_ROW_BLOCK_BYTES,
    PixelSums,
    panels_of,
    seconds_of,
    units_of,
)

RUN_SECONDS = 1.3e-9  # of a run that is copied with the others of its row
MAX_STAGED_BYTES = 1 << 20  # of the rows that one row of outputs reads


class Staged(PixelSums):
    """As direct convolution, from staged rows."""

    name, variant, stages = "direct", "staged", True
    folds = False  # the taps of a row are channels

    def supports(self, p: ConvProblem) -> str | None:
        if p.src.rank == 5 and (p.kernel[0] > 1 or any(p.padding[0])):
            return f"kernel {p.kernel} with padding {p.padding} reads several planes"
        return super().supports(p)

    def redundant(self, p: ConvProblem) -> bool:
        return p.taps == 1  # im2col copies the same

    def kernels(self, p: ConvProblem) -> Sequence[Kernel]:
        """Those of tile units; for groups of integers whose channels do not fill units all of them, since im2col would
        copy each pixel for every tap."""
        depth = p.ic // p.groups
        ragged = p.groups > 1 and p.types.integers and p.types.dst != p.types.sum
        all_of_them = super().kernels(p)
        return [k for k in all_of_them if tile_of(k).cycles.rows_at_once > 1 or (ragged and depth % k.kr)]

    def fits(self, p: ConvProblem, kernel: Kernel) -> bool:
        g = geometry(p)
        nbytes = g.kernel[1] * self.positions(g) * self.row_bytes(p, kernel)
        return super().fits(p, kernel) and nbytes <= MAX_STAGED_BYTES

    def lacks_padding(self, p: ConvProblem) -> bool:
        return False  # it sums zeros

    def whole_runs(self, p: ConvProblem) -> tuple[int, ...]:
        return ()

    def computed(self, p: ConvProblem) -> ConvProblem:
        """The convolution that the loop nest computes of what is staged."""
        return folded(p, 1) if self.folds else p

    def pitch(self, p: ConvProblem, kernel: Kernel) -> int:
        """Bytes from a staged pixel to the next."""
        unit = kernel.kr * p.types.src.itemsize
        return pitch_of(units_of(self.computed(p).ic // p.groups, kernel) * unit)

    def row_bytes(self, p: ConvProblem, kernel: Kernel) -> float:
        """Bytes that are staged for each position, those of rows that blocks share aside."""
        g = geometry(p)
        sorts = len({i * g.dilation[1] % g.stride[1] for i in range(min(g.kernel[1], g.stride[1]))})
        return self.pitch(p, kernel) * sorts * self.step(g)

    def step(self, g: Geometry) -> int:
        """Staged pixels from a position to the next."""
        return 1 if self.folds or g.kernel[2] == 1 else g.stride[2]

    def positions(self, g: Geometry) -> int:
        """Those of a row of outputs: pixels lie equally far apart beyond its end, where some are no output."""
        if self.folds or g.kernel[2] == 1:
            return g.out[2]
        end = (g.out[2] - 1) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2] + 1
        pixels = max(min(end, g.size[2] + g.before[2]), end - max(0, g.before[2]))
        return max(g.out[2], -(-pixels // g.stride[2]))

    def block_bytes(self, p: ConvProblem, kernel: Kernel) -> int:
        return MAX_ROW_BLOCK_BYTES

    def tiles(self, p: ConvProblem, kernel: Kernel, threads: int) -> PixelTiles:
        """The tiles of its positions, which read no padding."""
        g, computed = geometry(p), self.computed(p)
        taps = geometry(computed).kernel
        out = (*g.out[:2], self.positions(g))
        size = tuple((n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(out, g.stride, taps, g.dilation))
        padded = Geometry(g.n, g.groups, g.oc, size, out, taps, g.stride, g.dilation, (0, 0, 0))
        return self.tiles_of(padded, computed, self.row_bytes(p, kernel), kernel, threads)

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        g, tiles, pitch = geometry(p), self.tiles(p, kernel, threads), self.pitch(p, kernel)
        width, lines = self.positions(g), g.n * g.out[0] * g.out[1]
        row = width * self.row_bytes(p, kernel)
        blocks = max(1.0, lines * row / self.block_bytes(p, kernel))
        rows = lines + blocks * (1 + (g.kernel[1] - 1) * g.dilation[1] / g.stride[1])
        # read and written; the pixels of a folded row overlap where they are read
        moved = row * (1 + (min(1.0, g.stride[2] / g.kernel[2]) if self.folds else 1))
        copied = moved / GATHER_BYTES_PER_SECOND * scale().copy_l2
        copied += row / pitch * self.runs(p, kernel) * RUN_SECONDS * scale().run
        loaded = panels_of(p, kernel) * lines * g.kernel[1] * width * self.step(g) * pitch
        seconds = rows * p.groups * copied + loaded / LOADED_BYTES_PER_SECOND * scale().copy_l2
        return seconds_of(tiles.cycles, kernel) + seconds / threads

    def runs(self, p: ConvProblem, kernel: Kernel) -> float:
        """Runs that are copied one by one for each staged pixel."""
        channels, run = p.ic // p.groups, max(1, self.run_in_memory(p))
        if self.folds:
            return 1
        return 0 if run == channels and run * p.types.src.itemsize == self.pitch(p, kernel) else -(-channels // run)

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> PixelRows:
        computed, item = self.computed(p), p.types.src.itemsize
        xs = strides_of(p.src, arrays.x_strides)
        blocks, block_stride, run, last, _ = self.channels_of(p, xs)
        g, unit = geometry(p), kernel.k_step * item
        staged = StagedRows(
            g, (xs[0][0].stride, *spatial_strides(xs)), (blocks, block_stride, run * item, last * item), unit,
            self.positions(g), self.folds,
        )  # fmt: skip
        in_chunks = chunks(computed, kernel.kr, steps_at_once(kernel))
        tiles = self.tiles(p, kernel, threads)
        return self.rows_of(computed, kernel, threads, arrays, in_chunks, tiles=tiles, staged=staged)


class FoldedStaged(Staged, Folded):
    """First layers: the taps of a row of the kernel are the channels of a staged pixel, one for each output."""

    name, folds, reads_padded = "folded", True, False

    def redundant(self, p: ConvProblem) -> bool:
        return False

    def padded(self, p: ConvProblem, x_strides: tuple[int, ...] | None) -> PaddedInput | None:
        return None

    def takes_strides(self, layout: Layout, shape: Sequence[int], strides: Sequence[int], width: int) -> bool:
        """Pixels of a row must follow one another."""
        contiguous = tuple(strides[-2:]) == contiguous_strides(layout, shape, width)[-2:]
        return contiguous and super().takes_strides(layout, shape, strides, width)
