"""Estimates of the variants of a reorder: counts of what they move, times the cost of each.

    seconds = sum of count * cost        costs: `costs.py`, by level of memory and by how elements are moved

There are three levels: source and destination are in the inner caches (L1 and L2), in the last one, or in memory.

For memory and the last-level cache whole reorders are counted by their loops. A piece is the part of a run of the
source that is read before another run is: with short pieces lines are read more than once, and neither hardware
prefetchers nor open DRAM pages are used well. A partial line is written where a run of the destination ends within a
line and is not joined to the next run. Tiles are not full where runs are no multiples of vectors: lines are counted as
if they were. In the inner caches plain variants are counted by the calls and vectors of their nests.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..choosing.machine import caches, last_level_cache
from ..choosing.machine_profile import scale
from .costs import COSTS, INNER, MEMORY, SHARED, Counts, TileCounts, WindowCounts
from .fused import MIN_RUN_BYTES, fused_loops, joined_loops
from .loops import LINE_BYTES, Loop
from .nest import Nest
from .slabs import Slab
from .variants import Variant
from .windows import WindowSteps

PANEL_READ_BYTES = 1024  # size of the pieces that panels are read in, roughly
MAX_INTERLEAVED = 4  # channels that are put together, or taken apart, by whole vectors
TAILED_SLABS = 8  # slabs of which each continues the line of the one before, roughly


def level_of(nbytes: int) -> str:
    """The level of memory that holds the bytes which a reorder reads and writes, when it is repeated."""
    if nbytes > last_level_cache() // 2:
        return MEMORY
    return SHARED if nbytes > 2 * caches().get(2, last_level_cache()) else INNER


def scales(level: str, key: str, counts: Sequence[str]) -> list[float]:
    """What the costs of these counts are multiplied by on this machine."""
    by = scale()
    if level != MEMORY:
        return [by.copy_l3 if level == SHARED and name == "lines" else by.copy_l2 for name in counts]
    line = by.copy_memory if "store" in key.split() else by.stream
    special = {"lines": line, "pieces": by.element if key.startswith("gather") else by.piece, "partial": by.partial}
    return [special.get(name, by.copy_l2) for name in counts]


def seconds_of(level: str, key: str, counts: Sequence[float]) -> float:
    """Seconds of what was counted, on one thread."""
    costs = COSTS[level][key]
    return 1e-9 * sum(n * cost * by for n, cost, by in zip(counts, costs, scales(level, key, costs._fields)))


def counted(loops: Sequence[Loop], width: int, variant: Variant, slab: Slab | None = None) -> tuple[str, Counts]:
    """How a variant moves these loops (of `merge`), as a key of `COSTS`, and counts of what it moves; `slab`: one of
    its slabs, if it has any."""
    b = variant.blocking
    store = "stream" if variant.stream else "store"
    nbytes = width * prod(x.n for x in loops)
    lines = nbytes / LINE_BYTES
    dst_loop = next((x for x in loops if x.dst == width), None)
    src_loop = next((x for x in loops if x.src == width), None)
    if dst_loop is None or src_loop is None:  # element by element
        return f"gather {'slabs' if slab else store}", Counts(lines, nbytes / width, 0, 0, 0, 0, 0)
    rest = [x for x in loops if x not in (dst_loop, src_loop)]
    aligned = all(x.dst % LINE_BYTES == 0 for x in loops if x is not dst_loop)
    read, written = src_loop.n * width, dst_loop.n * width
    columns, rows = read, written
    if slab:
        key, read, written = "slabs", slab.reads.bytes, slab.out.tile[1].n
        aligned = written % LINE_BYTES == 0 and all(x.dst % LINE_BYTES == 0 for x in slab.out.loops)
        written *= TAILED_SLABS if any(x.dst == written for x in slab.boxes) else 1
    elif dst_loop is src_loop:
        joined = b.fused and written >= MIN_RUN_BYTES
        partial = 0 if joined or (aligned and written % LINE_BYTES == 0) else nbytes / written
        return f"copy {'fused' if b.fused else store}", Counts(lines, nbytes / read, partial, 0, 0, 0, 0)
    elif b.joined and (fused := joined_loops(rest, src_loop, dst_loop, width)):
        key, written, rows = "joined", nbytes, fused.runs(width)[1]
    elif b.fused:
        columns, rows = fused_loops(rest, src_loop, dst_loop, width, b).runs(width)
        key, read, written = f"fused x{b.src_run}", min(columns, b.src_run), rows
    elif b.panel:
        key, read, written = "panels", max(read, PANEL_READ_BYTES), max(written, b.dst_run)
    else:
        key, read = _plain(variant), min(read, b.src_run or read)
        if 2 <= dst_loop.n <= MAX_INTERLEAVED and src_loop.dst == written:  # by whole vectors: see move_packed.inc
            rows = nbytes
        elif 2 <= src_loop.n <= MAX_INTERLEAVED and dst_loop.src == src_loop.n * width:
            columns = nbytes
    partial = 0 if written >= nbytes or (aligned and written % LINE_BYTES == 0) else nbytes / written
    filled = lines * _line_ratio(columns) * _line_ratio(rows)
    tiles = filled * (width == 1), filled * (width == 2), filled * (width > 2)
    return key, Counts(lines, nbytes / read, partial, tiles[0], tiles[1], tiles[2], lines * (_line_ratio(rows) - 1))


def _plain(variant: Variant) -> str:
    b, store = variant.blocking, "stream" if variant.stream else "store"
    runs = "lines" if b.dst_run == LINE_BYTES else "runs"
    return f"{store} {runs} ahead" if b.prefetch else f"{store} {runs if b.dst_run else 'whole'}"


def _line_ratio(run: int) -> float:
    """The bytes of the whole lines that a run fills, divided by its own."""
    return -(-run // LINE_BYTES) * LINE_BYTES / run


def counted_tiles(nests: Sequence[Nest], vector: int, variant: Variant, more: float = 0) -> tuple[str, TileCounts]:
    """How the nests of a variant move elements within the caches, and counts, for vectors of `vector` bytes; `more`:
    bytes that are written besides, or brought from the last-level cache."""
    total = [*TileCounts(0, lines=more / LINE_BYTES)]
    for nest in nests:
        calls = prod(x.n for x in nest.loops)
        for i, n in enumerate(_of_tile(nest, vector)):
            total[i] += calls * n
    return f"tiles {variant.name if variant.blocking.fused else _plain(variant)}", TileCounts(*total)


def _of_tile(nest: Nest, vector: int) -> TileCounts:
    (n0, *_), (n1, *_) = nest.tile
    width = nest.bits // 8
    if nest.family == "copy":
        return TileCounts(1, n0, n0 * (n1 // LINE_BYTES), n0 * (n1 % LINE_BYTES > 0))
    if nest.family == "runs" and nest.fused:
        return TileCounts(1, lines=n0 * n1 / LINE_BYTES, elements=nest.fused.rows.indices)
    if width > 8:
        return TileCounts(1, rows=n0 * n1, lines=n0 * n1 * width / LINE_BYTES)
    if nest.family == "gather":
        return TileCounts(1, elements=n0 * n1)
    lanes = max(1, vector // width)
    if nest.family == "joined":
        return _of_joined(n0, n1, width, lanes)
    if nest.fused:  # runs of the destination are stored one by one
        stored = {"ends" if n1 * width < 16 else "rows": n0 * -(-n1 // lanes)}
        return TileCounts(1, **stored)._replace(**{f"tails{8 * width}": -(-n0 // lanes) * n1})
    if _fills_vectors(nest, lanes, vector):
        kind, count = "vectors" if width <= 2 else "tails", 2 * n0 * n1 / lanes
    elif nest.valid and n1 * width <= 16:  # each row of the destination is a lane of a vector
        kind, count = "tails", -(-n0 // lanes) * n1 + n0
    elif nest.valid or min(n0, n1) >= lanes:  # whole tiles; the last ones are shifted back
        kind, count = "vectors", 2 * lanes * -(-n0 // lanes) * -(-n1 // lanes)
    else:
        lanes = 16 // width if width <= 2 else lanes  # in tiles of 16 bytes each way
        kind, count = "tails", -(-n0 // lanes) * n1 + -(-n1 // lanes) * n0
    return TileCounts(1)._replace(**{f"{kind}{8 * width}": count})


def _of_joined(columns: int, rows: int, width: int, lanes: int) -> TileCounts:
    """Whole tiles; where few rows are left, tiles of 16 bytes of them, each column of which is stored by itself; few
    columns 16 bytes at a time. See joined_width.inc."""
    per, (whole, left) = 16 // width, divmod(rows, lanes)
    narrow = 0 if left > lanes - per else -(-left // per)
    whole += left > lanes - per
    full, tail = divmod(columns, lanes)
    few = -(-tail // per) if tail <= lanes // 2 else 0
    counts = {
        f"vectors{8 * width}": 2 * lanes * whole * (full + (tail > lanes // 2)),
        f"tails{8 * width}": whole * few * (lanes + per) + per * narrow * (full + (tail > 0)),
    }
    return TileCounts(1, rows=narrow * full * lanes, ends=narrow * tail)._replace(**counts)


def _fills_vectors(nest: Nest, lanes: int, vector: int) -> bool:
    """Whether a transpose between long rows and short ones, without gaps between the latter, is done by whole vectors
    on both sides. See move_packed.inc."""
    columns, rows = nest.tile
    width = nest.bits // 8
    if nest.valid or any(nest.outer):
        return False
    if rows.n < lanes <= columns.n and columns.dst == rows.n * width:
        short = rows.n
    elif columns.n < lanes <= rows.n and rows.src == columns.n * width:
        short = columns.n
    else:
        return False
    return 2 <= short <= MAX_INTERLEAVED or (vector // 16 > 1 and short >= vector // 16 and short & (short - 1) == 0)


def counted_runs(nests: Sequence[Nest], nbytes: int) -> tuple[str, Counts] | None:
    """Counts of runs that are put one after another beyond the inner caches, where fused nests do so; None where none
    does."""
    pieces = sum(prod(x.n for x in nest.loops) * nest.fused.rows.indices for nest in nests if nest.family == "runs")
    return ("runs", Counts(nbytes / LINE_BYTES, pieces, 0, 0, 0, 0, 0)) if pieces else None


def counted_windows(of: WindowSteps) -> tuple[str, WindowCounts]:
    """Counts of windows."""
    lines = of.steps * -(-of.nbytes // LINE_BYTES)
    return "windows", WindowCounts(lines, of.steps, lines * of.line_ns, of.starts)
