"""What a variant of a reorder costs: beyond the caches by counting what it moves, within them by counting tiles.

    seconds = sum of count * cost        counts: those of `Counts`, costs: `COSTS`, by how elements are moved

A piece is what is read of a run of the source before another run is read: where pieces are short, lines are read more
than once, and neither prefetchers nor the pages of memory are used well. Partial lines are written where a run of the
destination ends within a line and nothing is joined to it. Tiles are filled in part where runs are shorter than
vectors, or no multiples of them: as many lines are counted as would fill them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ..choosing.profile import scale
from .fused import MIN_RUN_BYTES, fused_loops, joined_loops
from .loops import LINE_BYTES, Loop
from .nest import Nest
from .slabs import Slab
from .variants import Variant

# Within the caches, seconds: of a call of a kernel, of an element or a short run that is moved, of a line of a longer
# one, of a shuffle.
CALL_SECONDS, MOVE_SECONDS, MOVED_LINE_SECONDS, SHUFFLE_SECONDS = 8e-9, 1e-9, 0.6e-9, 0.3e-9
PANEL_READ_BYTES = 1024  # pieces that panels are read in, about
TAILED_SLABS = 8  # about so many slabs go on where the one before ended


class Counts(NamedTuple):
    """What a reorder moves; or nanoseconds of each on one core of the machine that `scale` is 1 for."""

    lines: float
    pieces: float  # of the source
    partial: float  # runs of the destination that end within lines
    tiles8: float  # lines of tiles of elements of 8 bits
    tiles16: float
    tiles: float  # of wider ones
    rest: float  # of those lines: what the end of runs of the destination leaves empty


# By least squares from reorders drawn at random: `bench/fit.py` of what `bench/unseen.py --exhaustive --json` told.
COSTS = {
    "copy fused": Counts(4.96, 1.84, 0, 0, 0, 0, 0),
    "copy store": Counts(7.84, 0.348, 0.0705, 0, 0, 0, 0),
    "copy stream": Counts(6.96, 0, 0.374, 0, 0, 0, 0),
    "fused x1024": Counts(3.57, 0.702, 11.8, 2.64, 3.17, 1.56, 0),
    "fused x256": Counts(3.45, 0.0361, 10, 3.19, 3.43, 2.43, 1.12),
    "fused x64": Counts(4.95, 0, 10.3, 2.98, 3.51, 2.39, 2.73),
    "joined": Counts(2.94, 1.52, 0, 0.71, 2.97, 1.42, 0),
    "panels": Counts(4.52, 34.6, 3.26, 0.889, 1.69, 1.2, 0),
    "slabs": Counts(6.53, 2.49, 60.1, 0.00382, 0, 0.135, 0.363),
    "store lines": Counts(11.7, 1.05, 0, 0.00344, 0.574, 0, 1.32),
    "store lines ahead": Counts(10.5, 0.84, 0.604, 0.101, 0.573, 0, 0.357),
    "store runs ahead": Counts(8.16, 0.617, 1.14, 0.161, 0.557, 0, 0),
    "store whole": Counts(9.46, 0.467, 0.942, 0.2, 0.585, 0, 0),
    "stream lines": Counts(9.75, 0.968, 0, 0.156, 0.476, 0, 0.657),
    "stream lines ahead": Counts(8.11, 1.12, 0.931, 0.107, 0.578, 0, 0),
    "stream runs ahead": Counts(7, 0.837, 1.09, 0.125, 0.317, 0, 0),
    "stream whole": Counts(8.8, 0.664, 0.132, 0.165, 0.302, 0, 0.898),
    # Nothing drawn at random was so scattered: by a gather of 4-byte elements from memory.
    "gather slabs": Counts(4, 2, 0, 0, 0, 0, 0),
    "gather store": Counts(8, 2, 0, 0, 0, 0, 0),
    "gather stream": Counts(7, 2, 0, 0, 0, 0, 0),
}


def streamed_seconds(loops: Sequence[Loop], width: int, variant: Variant, slab: Slab | None = None) -> float:
    """Seconds of a reorder of these loops (of `merge`) on one thread, its arrays in memory; of slabs like this one."""
    by = scale()
    way, counts = counted(loops, width, variant, slab)
    line = by.stream if variant.stream else by.copy_memory
    scales = line, by.element if way.startswith("gather") else by.piece, by.partial, *[by.copy_l2] * 4
    return 1e-9 * sum(n * cost * x for n, cost, x in zip(counts, COSTS[way], scales))


def counted(loops: Sequence[Loop], width: int, variant: Variant, slab: Slab | None = None) -> tuple[str, Counts]:
    """How a variant moves these loops, a key of `COSTS`, and what it moves."""
    b = variant.blocking
    how = "stream" if variant.stream else "store"
    nbytes = width * prod(x.n for x in loops)
    lines = nbytes / LINE_BYTES
    inner = next((x for x in loops if x.dst == width), None)
    along = next((x for x in loops if x.src == width), None)
    if inner is None or along is None:  # every element by itself
        return f"gather {'slabs' if slab else how}", Counts(lines, nbytes / width, 0, 0, 0, 0, 0)
    rest = [x for x in loops if x not in (inner, along)]
    aligned = all(x.dst % LINE_BYTES == 0 for x in loops if x is not inner)
    read, written = along.n * width, inner.n * width
    columns, rows = read, written
    if slab:
        way, read, written = "slabs", slab.reads.bytes, slab.out.tile[1].n
        aligned = written % LINE_BYTES == 0 and all(x.dst % LINE_BYTES == 0 for x in slab.out.loops)
        written *= TAILED_SLABS if any(x.dst == written for x in slab.boxes) else 1
    elif inner is along:
        joined = b.fused and written >= MIN_RUN_BYTES
        partial = 0 if joined or (aligned and written % LINE_BYTES == 0) else nbytes / written
        return f"copy {'fused' if b.fused else how}", Counts(lines, nbytes / read, partial, 0, 0, 0, 0)
    elif b.joined and (taken := joined_loops(rest, along, inner, width)):
        way, written, rows = "joined", nbytes, taken.runs(width)[1]
    elif b.fused:
        columns, rows = fused_loops(rest, along, inner, width, b).runs(width)
        way, read, written = f"fused x{b.src_run}", min(columns, b.src_run), rows
    elif b.panel:
        way, read, written = "panels", max(read, PANEL_READ_BYTES), max(written, b.dst_run)
    else:
        runs = "lines" if b.dst_run == LINE_BYTES else "runs"
        way = f"{how} {runs} ahead" if b.prefetch else f"{how} {runs if b.dst_run else 'whole'}"
        read = min(read, b.src_run or read)
    partial = 0 if written >= nbytes or (aligned and written % LINE_BYTES == 0) else nbytes / written
    filled = lines * _over(columns) * _over(rows)
    tiles = filled * (width == 1), filled * (width == 2), filled * (width > 2)
    return way, Counts(lines, nbytes / read, partial, tiles[0], tiles[1], tiles[2], lines * (_over(rows) - 1))


def _over(run: int) -> float:
    """How many times as long a run of bytes is in whole lines."""
    return -(-run // LINE_BYTES) * LINE_BYTES / run


def tile_seconds(nests: Sequence[Nest], vector: int) -> float:
    """Seconds of nests of tiles within the caches, for kernels with vectors of `vector` bytes: where blocks cut
    dimensions into small pieces, most of it are calls and tiles that are filled in part."""
    return sum(prod(x.n for x in nest.loops) * (CALL_SECONDS + _tile(nest, vector)) for nest in nests) * scale().copy_l2


def _tile(nest: Nest, vector: int) -> float:
    (n0, *_), (n1, *_) = nest.tile
    width = nest.bits // 8
    if nest.family == "copy":
        return n0 * (MOVE_SECONDS + n1 / LINE_BYTES * MOVED_LINE_SECONDS)
    if nest.family != "transpose" or width > 8:
        return n0 * n1 * MOVE_SECONDS
    lanes = max(1, vector // width)
    if width <= 2 and min(n0, n1) < lanes:  # by tiles of one lane of 16 bytes each way
        lanes = 16 // width
    rounds = lanes.bit_length() - 1
    return -(-n0 // lanes) * -(-n1 // lanes) * lanes * rounds * SHUFFLE_SECONDS
