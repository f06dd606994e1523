"""Estimates of the variants of a reorder: counts of what they move, times the cost of each.

    seconds = sum of count * cost        costs: `costs.py`, by level of memory and by how elements are moved

There are three levels: source and destination are in the inner caches (L1 and L2), in the last one, or in memory. At
each the calls, vectors and stores of a variant's nests are counted, and the runs of the source that are far apart;
beyond the inner caches the lines of the destination as well, in memory those that several nests write parts of. Of
slabs it is the contiguous parts that are read, the runs that end within a line, and what assembling them takes within
the caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import mul

from ..choosing.machine import caches, last_level_cache
from ..choosing.machine_profile import scale
from .costs import COSTS, INNER, MEMORY, SHARED, Counts, SlabCounts, WindowCounts
from .loops import LINE_BYTES, Loop
from .nest import Digits, Nest
from .slabs import Slab
from .variants import Variant
from .windows import WindowSteps

MAX_INTERLEAVED = 4  # channels that are put together, or taken apart, by whole vectors
SHORT_ROW = 8  # elements: gathers go by columns where rows are shorter
TAILED_SLABS = 8  # slabs of which each continues the line of the one before, roughly


def level_of(nbytes: int) -> str:
    """The level of memory that holds the bytes which a reorder reads and writes, when it is repeated."""
    if nbytes > last_level_cache() // 2:
        return MEMORY
    return SHARED if nbytes > 2 * caches().get(2, last_level_cache()) else INNER


def scales(level: str, key: str, counts: Sequence[str]) -> list[float]:
    """What the costs of these counts are multiplied by on this machine."""
    by = scale()
    line = {INNER: by.copy_l2, SHARED: by.copy_l3}.get(level, by.copy_memory if "store" in key.split() else by.stream)
    special = {"lines": line, "pieces": by.piece, "partial": by.partial}
    return [special.get(name, by.run) for name in counts]


def seconds_of(level: str, key: str, counts: Sequence[float]) -> float:
    """Seconds of what was counted, on one thread."""
    costs = COSTS[level][key]
    return 1e-9 * sum(n * cost * by for n, cost, by in zip(counts, costs, scales(level, key, costs._fields)))


def inner_ns(key: str, counts: Sequence[float]) -> float:
    """Nanoseconds of what was counted, within the inner caches of the machine whose `scale` is 1."""
    return sum(map(mul, counts, COSTS[INNER][key]))


def _plain(variant: Variant, nests: Sequence[Nest], vector: int) -> str:
    b, store = variant.blocking, "stream" if variant.stream and _streams(nests, vector) else "store"
    runs = "lines" if b.dst_run == LINE_BYTES else "runs"
    return f"{store} {runs} ahead" if b.prefetch else f"{store} {runs if b.dst_run else 'whole'}"


def _streams(nests: Sequence[Nest], vector: int) -> bool:
    """Whether the tiles of the largest nest can be streamed: transposes are stored where rows begin within vectors."""
    largest = max(nests, key=lambda nest: prod(x.n for x in (*nest.loops, *nest.tile)))
    rows = (*largest.loops, largest.tile[0])
    return largest.family != "transpose" or all(x.dst % vector == 0 for x in rows) or largest.tile[1].n < vector


def counted_tiles(nests: Sequence[Nest], vector: int, variant: Variant, more: float = 0) -> tuple[str, Counts]:
    """How the nests of a variant move elements, as a key of `COSTS`, and counts, for vectors of `vector` bytes; `more`:
    bytes that are written besides, or brought from beyond the inner caches."""
    b = variant.blocking
    if all(nest.family == "runs" for nest in nests):
        key = "runs"
    else:
        key = variant.name if b.fused or b.scattered else "panels" if b.panel else _plain(variant, nests, vector)
    total = [*Counts(0, lines=more / LINE_BYTES)]
    for nest in nests:
        calls = prod(x.n for x in nest.loops)
        for i, n in enumerate(_of_tile(nest, vector)._replace(far=_far_runs(nest))):
            total[i] += calls * n
    return key, Counts(*total)


def repeated_bytes(nests: Sequence[Nest]) -> float:
    """Bytes of lines of the destination that are brought once more, since several nests write parts of them."""
    if len(nests) == 1 or any(nest.fused for nest in nests):
        return 0
    repeated = 0.0
    for nest in nests:
        run, runs, step = nest.bits // 8, 1, 0  # of the destination: bytes of each, their number, from one to the next
        for loop in sorted((*nest.loops, *nest.tile), key=lambda x: abs(x.dst)):
            if runs == 1 and abs(loop.dst) == run:
                run *= loop.n
            elif loop.n > 1:
                step = step or abs(loop.dst)
                runs *= loop.n
        repeated += runs * min(max(step - run, 0), LINE_BYTES)
    return repeated


def _far_runs(nest: Nest) -> int:
    """How many runs of the source a call of a nest's kernel reads that are not near the one before."""
    (columns, rows), width = nest.tile, nest.bits // 8
    if nest.fused:
        (_, step), *_ = nest.fused.rows.digits
        run, count = columns.n * width, 0 if nest.fused.strings else nest.fused.rows.indices
    elif nest.family == "copy":
        run, count, step = rows.n, columns.n, columns.src
    elif width > 8:
        run, count, step = width, columns.n * rows.n, rows.src
    elif nest.family == "transpose":
        run, count, step = columns.n * width, rows.n, rows.src
    else:
        return 0
    return count if abs(step) > run + 2 * LINE_BYTES else 0


def _of_tile(nest: Nest, vector: int) -> Counts:
    """Counts of a call of a nest's kernel."""
    (n0, *_), (n1, *_) = nest.tile
    width = nest.bits // 8
    if nest.family in ("copy", "fill"):
        whole, rest = divmod(n1 * width, LINE_BYTES)
        return Counts(1, n0, n0 * whole, n0 * (rest > 0))
    if nest.family == "runs" and nest.fused:
        lines = n0 * n1 / LINE_BYTES
        return Counts(1, rows=lines * (_far_runs(nest) > 0), lines=lines, elements=nest.fused.rows.indices)
    if nest.fused and nest.fused.strings:
        strings = nest.fused.strings
        runs, seams = nest.fused.rows.indices, strings.follows.count(None)
        return Counts(1, rows=runs, lines=runs * strings.run / LINE_BYTES, ends=seams)
    lanes = max(1, vector // width)
    if nest.family == "gather" and not nest.valid and (width <= 8 or not nest.tile[1].src):
        return _of_gather(*nest.tile, width, lanes)
    if width > 8:
        return Counts(1, rows=n0 * n1, lines=n0 * n1 * width / LINE_BYTES)
    if nest.family == "gather":
        return Counts(1, elements=n0 * n1)
    if nest.family == "joined":
        return _of_joined(n0, n1, width, lanes)
    if nest.fused:  # runs of the destination are stored one by one
        ends = n0 * _partial_lines(nest.fused.columns, n1 * width)
        return Counts(1, rows=n0 * -(-n1 // lanes), ends=ends)._replace(**{f"tails{8 * width}": -(-n0 // lanes) * n1})
    if fills_vectors(nest, vector):
        kind, count = "vectors" if width <= 2 else "tails", 2 * n0 * n1 / lanes
    elif nest.valid and n1 * width <= 16:  # each row of the destination is a lane of a vector
        kind, count = "tails", -(-n0 // lanes) * n1 + n0
    elif nest.valid or min(n0, n1) >= lanes:  # whole tiles; the last ones are shifted back
        kind, count = "vectors", 2 * lanes * -(-n0 // lanes) * -(-n1 // lanes)
    else:
        lanes = 16 // width if width <= 2 else lanes  # in tiles of 16 bytes each way
        kind, count = "tails", -(-n0 // lanes) * n1 + -(-n1 // lanes) * n0
    return Counts(1)._replace(**{f"{kind}{8 * width}": count})


def _partial_lines(columns: Digits, run: int) -> int:
    """How many lines of a column's run in the destination are stored in part by a fused nest. See fused.c."""
    if run % LINE_BYTES == 0 and all(step % LINE_BYTES == 0 for _, step in columns.digits):
        return 0
    joined = any(step == run for _, step in columns.digits)  # where they follow one another
    if joined and run > 2 * LINE_BYTES:
        return 0
    return 2 if run > LINE_BYTES else 1


def _of_gather(rows: Loop, row: Loop, width: int, lanes: int) -> Counts:
    """Rows of elements, or columns where these are longer; by vectors where the source has none or one between them,
    backwards too, or repeats one. See move_gather.inc."""
    if row.n < SHORT_ROW < rows.n:
        rows, row = row, rows
    elements, step = rows.n * row.n, abs(row.src)
    if row.dst == width and step in (0, width, 2 * width) and (row.n > lanes or not step):
        return Counts(1, rows=rows.n, lines=elements * (width + step) / LINE_BYTES)
    return Counts(1, near=elements) if step < LINE_BYTES else Counts(1, elements=elements)


def _of_joined(columns: int, rows: int, width: int, lanes: int) -> Counts:
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
    return Counts(1, rows=narrow * full * lanes, ends=narrow * tail)._replace(**counts)


def fills_vectors(nest: Nest, vector: int) -> bool:
    """Whether a transpose between long rows and short ones, without gaps between the latter, is done by whole vectors
    on both sides. See move_packed.inc."""
    columns, rows = nest.tile
    width = nest.bits // 8
    lanes = max(1, vector // width)
    if nest.family != "transpose" or nest.valid or any(nest.outer):
        return False
    if rows.n < lanes <= columns.n and columns.dst == rows.n * width:
        short = rows.n
    elif columns.n < lanes <= rows.n and rows.src == columns.n * width:
        short = columns.n
    else:
        return False
    return 2 <= short <= MAX_INTERLEAVED or (vector // 16 > 1 and short >= vector // 16 and short & (short - 1) == 0)


def counted_slabs(slab: Slab, read: int, written: int, inside: float) -> tuple[str, SlabCounts]:
    """Counts of slabs like this one, which read and write so many bytes in all; `inside`: nanoseconds of assembling
    each."""
    run = slab.out.tile[1].n
    aligned = run % LINE_BYTES == 0 and all(x.dst % LINE_BYTES == 0 for x in slab.out.loops)
    run *= TAILED_SLABS if any(x.dst == run for x in slab.boxes) else 1
    count = written / (slab.out.tile[1].n * prod(x.n for x in slab.out.loops))
    partial = 0 if aligned else written / run
    return "slabs", SlabCounts(written / LINE_BYTES, read / slab.reads.bytes, partial, count * inside)


def counted_windows(of: WindowSteps) -> tuple[str, WindowCounts]:
    """Counts of windows."""
    lines = of.steps * -(-of.nbytes // LINE_BYTES)
    return "windows", WindowCounts(lines, of.steps, lines * of.line_ns, of.starts)
