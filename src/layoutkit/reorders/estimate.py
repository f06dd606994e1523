"""What a variant of a reorder costs: beyond the caches by counting cache lines, within them by counting tiles.

    seconds = lines read and written * LINE + partial lines written * PARTIAL + pieces of the source * PIECE

A piece is what is read of a run of the source before another run is read: where pieces are short, lines are read more
than once, and neither prefetchers nor the pages of memory are used well. Partial lines are written where a run of the
destination ends within a line and nothing is joined to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..choosing.profile import scale
from .fused import MIN_RUN_BYTES, fused_loops, joined_loops
from .loops import LINE_BYTES, Loop
from .nest import Nest
from .slabs import Slab
from .variants import Variant

# Seconds on one core of the machine that `scale` is 1 for: of a line that is read or written whole, of a partial line,
# of a piece.
LINE_SECONDS, PARTIAL_SECONDS, PIECE_SECONDS = 1.2e-9, 20e-9, 4e-9
ELEMENT_SECONDS = 2e-9  # of one that is gathered by itself
LEAF_SECONDS = 2e-9  # of a piece that a slab is made of
SLAB_PASSES = 2.0  # a slab is read, and then written
# Within the caches: of a call of a kernel, of an element or a short run that is moved, of a line of a longer one, of a
# shuffle.
CALL_SECONDS, MOVE_SECONDS, MOVED_LINE_SECONDS, SHUFFLE_SECONDS = 8e-9, 1e-9, 0.6e-9, 0.3e-9
PANEL_READ_BYTES = 1024  # pieces that panels are read in, about
PANEL_PASSES = 1.9  # a panel is copied once more, within the caches
STORE_PASSES = 2.8  # a line that is not streamed is read before it is written


def streamed_seconds(loops: Sequence[Loop], width: int, variant: Variant) -> float:
    """Seconds of a reorder of these loops (of `merge`) on one thread, its arrays in memory."""
    by = scale()
    line = LINE_SECONDS * (by.stream if variant.stream else by.copy_memory)
    piece, partial = PIECE_SECONDS * by.piece, PARTIAL_SECONDS * by.partial
    nbytes = width * prod(x.n for x in loops)
    lines = nbytes / LINE_BYTES
    inner = next((x for x in loops if x.dst == width), None)
    along = next((x for x in loops if x.src == width), None)
    if inner is None or along is None:
        return 2 * lines * line + nbytes / width * ELEMENT_SECONDS * by.element
    b, rest = variant.blocking, [x for x in loops if x not in (inner, along)]
    aligned = all(x.dst % LINE_BYTES == 0 for x in loops if x is not inner)
    read, written = along.n * width, inner.n * width
    if inner is along:
        if b.fused and written >= MIN_RUN_BYTES:
            written = nbytes
    elif b.joined and joined_loops(rest, along, inner, width):
        written = nbytes
    elif b.fused:
        read, written = fused_loops(rest, along, inner, width, b).runs(width)
        read = min(read, b.src_run)
    elif b.panel:
        read, written = max(read, PANEL_READ_BYTES), max(written, b.dst_run)
    else:
        read = min(read, b.src_run or read)
    if aligned and written % LINE_BYTES == 0:
        written = nbytes
    pieces = nbytes / read
    seconds = (2 * lines + pieces) * line + pieces * piece
    if written < nbytes:
        seconds += 2 * nbytes / written * partial
    if b.panel:
        seconds *= PANEL_PASSES
    return seconds if variant.stream else seconds * STORE_PASSES


def slab_seconds(loops: Sequence[Loop], width: int, slab: Slab) -> float:
    """As `streamed_seconds`, of slabs like this one."""
    nbytes = width * prod(x.n for x in loops)
    leaf = min(next((x.n for x in loops if x[side] == width), 1) for side in (1, 2)) * width
    written = slab.out.tile[1].n
    by = scale()
    seconds = 2 * nbytes / LINE_BYTES * LINE_SECONDS * SLAB_PASSES * by.stream
    seconds += nbytes / slab.reads.bytes * PIECE_SECONDS * by.piece
    if written % LINE_BYTES or any(x.dst % LINE_BYTES for x in slab.out.loops):
        seconds += 2 * nbytes / written * PARTIAL_SECONDS * by.partial
    return seconds + nbytes / min(leaf, LINE_BYTES) * LEAF_SECONDS * by.run


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
