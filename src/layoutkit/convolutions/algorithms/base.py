"""The base class of the algorithms of convolution: each says what it supports and what it costs, and builds its nest.

An algorithm works on its native layouts and packs the filter in its own way; a route adds the reorders around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..._core.nests.executor import Executor
from ..._core.runtime import registry
from ..._core.runtime.registry import Kernel, Tile, TileCycles
from ...choosing.machine_profile import TILE_STEPS, scale
from ...formats.layout import Layout
from ..padded import PaddedInput, padded_input
from ..problem import ConvProblem
from ..route import Arrays, ConvRoute, Route, convert_seconds, move_seconds

CHANNELS_LAST = {3: "NWC", 4: "NHWC", 5: "NDHWC"}
NATIVE = {
    "channels": CHANNELS_LAST,
    "pixels": {3: "NCW", 4: "NCHW", 5: "NCDHW"},
    "blocks": {3: "nCw16c", 4: "nChw16c", 5: "nCdhw16c"},
}
CALL_SECONDS = 1e-6


class Algorithm:
    """One way to convolve.

    Attributes
    ----------
    name : str
        The name that `algorithm=` selects it by.
    variant : str
        Tells apart algorithms that share the name.
    family : str
        The family of its micro-kernels.
    via : str
        A key of `NATIVE`: the layout that tensors in an unsupported one are reordered to.
    detour : str
        A key of `NATIVE`: a layout that may be worth reorders there and back, although the problem's own is supported.
    filters : str
        The kind of packing: filters of the same kind are packed alike if their panels and blocks are equal.
    packs : float
        The cost of packing, in reorders of the filter.
    gather : bool
        Whether taps are copied into a matrix first, with zeros for the padding (im2col).
    stages : bool
        Whether the loop nest copies what register tiles read to a buffer with equidistant rows, as im2col does.
    reads_padded : bool
        Whether it always reads a padded copy of the input.
    narrow : bool
        Whether its loop nest takes numbers that are narrower than their sums.
    widens : tuple of str
        Narrow numbers that routes may convert to the type of the sums for it.
    strided : bool
        Whether it packs filters of any strides, of numbers as wide as their sums.
    register_tile : str
        The register tile in words: a format string over the fields of a row.
    """

    name: str
    filters: str
    variant = ""
    family = "gemm"
    via = "channels"
    detour = ""
    packs = 1.0
    gather = stages = reads_padded = narrow = strided = False
    widens: tuple[str, ...] = "f16", "bf16"
    register_tile = "{mr} pixels x {nr} channels"

    @property
    def buffered(self) -> bool:
        """Whether register tiles read a buffer that their pixels are copied to."""
        return self.gather or self.stages

    # What it takes

    def supports(self, p: ConvProblem) -> str | None:
        """Why it cannot do `p` in its own layouts; None if it can."""
        raise NotImplementedError

    def accuracy(self, p: ConvProblem, threads: int) -> str:
        """The strictest accuracy that it meets: "reproducible" if it sums in the order that `order` describes."""
        return "reproducible"

    def natives(self, p: ConvProblem, reorders: bool = True) -> list[ConvProblem] | str:
        """`p` in layouts that it supports, with as few sides changed as possible, and in those of its detour; without
        `reorders` in its own layouts only; or the reason why there are none."""
        reason, via = self.supports(p), Layout(NATIVE[self.via][p.src.rank])
        copies = self.lacks_padding(p) and not self.reads_padded  # the padded copy is in `via`
        natives = [p] if reason is None and not (copies and p.src != via) else []
        if reorders and not natives and (self.via == "channels" or self.reads_padded):
            sides = [(via, p.dst), (via, via)] if copies else [(p.src, via), (via, p.dst), (via, via)]
            changed = (p.between(src, dst) for src, dst in sides)
            natives += [native for native in changed if self.supports(native) is None][:1]
        if reorders and self.detour and not copies:
            blocks = Layout(NATIVE[self.detour][p.src.rank])
            native = p.between(blocks, blocks)
            if native not in natives and self.supports(native) is None:
                natives.append(native)
        if self.reads_padded and natives:
            padded = self.padded(natives[0], None)
            if padded and not p.copy_fits(padded.bytes):
                return f"its padded copy of the input would take {padded.bytes} bytes"
        return natives or reason or ""

    def read_once(self, p: ConvProblem) -> Algorithm:
        """What takes its place where the filter is in no cache when it is read, or is packed for a single call."""
        return self

    def redundant(self, p: ConvProblem) -> bool:
        """Whether another algorithm is always cheaper."""
        return False

    def kernels(self, p: ConvProblem) -> Sequence[Kernel]:
        """The rows that it can run on; empty if there are none for the types."""
        takes = self.narrow or not p.types.narrow
        return rows_of(self.family, p.types.rows, registry.isa()) if takes else ()

    def fits(self, p: ConvProblem, kernel: Kernel) -> bool:
        """Whether a row can compute `p`, in native layouts, at its accuracy, given how the data is aligned and run."""
        tile = tile_of(kernel)
        read = (self.buffered or not tile.strided_a) and self.alignment(p, kernel) % tile.alignment == 0
        whole = not any(n % kernel.k_step for n in self.whole_runs(p))
        return read and whole and (kernel.kr == 1 or p.types.integers or p.accuracy != "reproducible")

    def whole_runs(self, p: ConvProblem) -> tuple[int, ...]:
        """Lengths of the runs that its loop nest cannot pad to whole `k_step`s of a row."""
        return ()

    def alignment(self, p: ConvProblem, kernel: Kernel) -> int:
        """The alignment, in bytes, of the rows that a register tile reads, whatever that of the caller's arrays."""
        return 1

    def takes_strides(self, layout: Layout, shape: Sequence[int], strides: Sequence[int], width: int) -> bool:
        """Whether an array of these byte strides, of elements of `width` bytes, is read or written without a copy."""
        return strides[-1] == width and all(s % width == 0 for s in strides)  # contiguous channels, aligned elements

    def lacks_padding(self, p: ConvProblem) -> bool:
        """Whether it needs a padded copy: zeros of the padding must be summed, but register tiles skip some of them."""
        return p.zeros and p.pads and not self.gather

    def padded(self, p: ConvProblem, x_strides: tuple[int, ...] | None) -> PaddedInput | None:
        """The padded copy that it reads in place of an array of these strides; None if it reads the array itself."""
        return padded_input(p, p.n, p.types.src.itemsize * p.ic) if self.lacks_padding(p) else None

    # What it costs

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        """Seconds of its loop nest, by counting what it would execute."""
        raise NotImplementedError

    def saving(self, p: ConvProblem) -> float:
        """The direct sum's multiplications divided by its own, at most."""
        return 1.0

    def seconds(self, p: ConvProblem, native: ConvProblem, kernel: Kernel, threads: int) -> float:
        """Seconds of a route: of its loop nest, and of the bytes that reorders move, or convert as they lie."""
        moved = converted = 0
        copied = self.reads_padded or self.lacks_padding(native)
        if native.src != p.src or copied:
            moved += p.src_bytes + native.src_bytes
        elif native.types.elements[0] != p.types.elements[0]:
            converted += p.src_bytes + native.src_bytes
        if native.dst != p.dst:
            moved += p.dst_bytes + native.dst_bytes
        elif native.types.elements[3] != p.types.elements[3]:
            converted += p.dst_bytes + native.dst_bytes
        reordered = (move_seconds(moved) + convert_seconds(converted)) / threads
        return self.estimate(native, kernel, threads) + reordered + CALL_SECONDS

    # What runs

    def packing(self, native: ConvProblem, kernel: Kernel) -> str:
        """The name of its packing: filters packed under the same name are the same."""
        kind = self.filters if kernel.kr == 1 else f"{self.filters} of {kernel.kr}"
        if kernel.k_step > kernel.kr:
            kind = f"{kind} in {kernel.k_step}"
        return f"{kind} {kernel.nr} {native.dst.block(1)}"

    def pack(self, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None) -> Any:
        """Filter (O, I/G, *k) and bias as the loop nest reads them."""
        raise NotImplementedError

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> Executor:
        """The loop nest between arrays of exact strides, in native layouts."""
        raise NotImplementedError

    def route(self, p: ConvProblem, native: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> ConvRoute:
        """The complete route that a call runs."""
        return Route(p, native, self, kernel, threads, arrays)

    def describe(self, kernel: Kernel) -> str:
        """The name of a candidate in the cost table, without the layouts that it goes through."""
        return " ".join(filter(None, (self.name, self.variant, kernel.name)))


@lru_cache(64)
def rows_of(family: str, types: str, isa: str) -> Sequence[Kernel]:
    """The rows of a family for these types that are worth a candidate; `isa` is the instruction set in use."""
    return tuple(worth_trying(registry.kernels(family, types)))


def worth_trying(rows: Sequence[Kernel]) -> list[Kernel]:
    """Rows, best instruction set first, without those of lower sets that a row of a higher set replaces.

    It replaces them if it needs the same of A and B and its vectors are as long: then it is never slower. All rows of
    one set are kept.
    """
    kept: list[Kernel] = []
    for row in rows:
        if not any(k.isa != row.isa and k.lanes >= row.lanes and _demands(k) == _demands(row) for k in kept):
            kept.append(row)
    return kept


def _demands(kernel: Kernel) -> tuple[int, ...]:
    """What a row requires of its caller: the layout of A and B if it multiplies, else the tile that it works on."""
    t = kernel.tile
    if t is None:
        return kernel.kr, kernel.mr, kernel.nr
    return kernel.kr, t.k_tile, t.fills_k, t.strided_a, t.alignment


def tile_of(kernel: Kernel) -> Tile:
    """The tile of a row that multiplies."""
    assert kernel.tile is not None, f"{kernel.name} does not multiply"
    return kernel.tile


def steps_at_once(kernel: Kernel) -> int:
    """The steps of k that a row sums at once."""
    tile = tile_of(kernel)
    return tile.k_tile // kernel.kr if tile.cycles.rows_at_once > 1 else 1


def cycles_of(kernel: Kernel) -> TileCycles:
    """What a tile of a row that multiplies takes on this machine.

    Latency and pointers take cycles of the clock, while a cycle of `lk_tile` is the time of two multiplications, which
    take more of the clock here than where its constants are of, or less. A tile unit has a clock of its own.
    """
    tile, scales = tile_of(kernel), scale()
    if tile.peak in TILE_STEPS:
        return tile.cycles
    by = scales.cycle / (scales.step(tile.peak) or scales.fma_f32)
    return tile.cycles._replace(pointer=tile.cycles.pointer * by, step=tile.cycles.step * by)


def flops_per_second(kernel: Kernel) -> float:
    """The estimated rate of a row on one thread: `kr` times that of steps of one value of K."""
    tile, scales = tile_of(kernel), scale()
    return kernel.lanes * tile.lane_flops / (scales.step(tile.peak) or scales.fma_f32)
