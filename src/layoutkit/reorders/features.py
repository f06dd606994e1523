"""Features of reorders for the cost model: reorders of similar cost have similar ones."""

from __future__ import annotations

from math import prod

from ..choosing.features import KIND, log
from .loops import Loop, merge
from .nests import digits
from .pieces import Side, pieces
from .program import Transfer

MAX_PIECES = 32  # of a reorder; one of more pieces has no features, as no other is comparable


def loops_of(t: Transfer) -> list[Loop]:
    """The loops of the largest region of a reorder of whole tensors, outermost in the destination first.

    Raises
    ------
    ValueError
        It is cut into more than `MAX_PIECES`.
    """
    loops, left = [], MAX_PIECES
    for n, a, b in zip(t.box.shape, digits(t.src, t.src_strides), digits(t.dst, t.dst_strides)):
        if len(a) == 1 and len(b) == 2:
            n = max(n, b[0].unit)  # the pads of a single block are written with its elements
        if n > 1:
            parts = pieces(0, n, (Side(a), Side(b)), left)
            left -= len(parts) - 1
            largest = max(parts, key=lambda p: prod(n for n, _ in p.loops))
            loops += [Loop(n, s, d) for n, (s, d) in largest.loops]
    return merge(loops)


def reorder_features(t: Transfer, threads: int) -> tuple[float, ...]:
    """The features of a reorder."""
    loops, width = loops_of(t), t.width
    nbytes = width * prod(x.n for x in loops)
    dst_loop = next((x for x in loops[::-1] if x.dst == width), None)
    src_loop = next((x for x in loops if x.src == width), None)
    dst_run = width * dst_loop.n if dst_loop else width
    src_run = width * src_loop.n if src_loop else width
    copies = dst_loop is not None and dst_loop is src_loop
    read_pitch = abs(dst_loop.src) if dst_loop else 0
    write_pitch = abs(src_loop.dst) if src_loop else 0
    return (
        KIND / 2 * (threads > 1), 2 * KIND * copies, KIND * (dst_loop is None), KIND * (src_loop is None),
        1.7 * log(nbytes), 0.5 * log(width), log(dst_run), log(src_run),
        0.5 * log(read_pitch), 0.5 * log(write_pitch),
        2.0 * (read_pitch % 4096 == 0), 2.0 * (write_pitch % 4096 == 0),
        1.0 * (write_pitch % 64 == 0),
    )  # fmt: skip
