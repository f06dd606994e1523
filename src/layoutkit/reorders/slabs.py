"""Slabs: parts of boxes of indices with long runs on both sides, assembled in a buffer and streamed out.

Where blocks of the two sides overlap in few elements, or rows are short and odd, no tile reads and writes whole lines.
A box has enough indices of each dimension to have long runs in the source and in the destination. While one box is
moved, the source of the next one is prefetched into L2. A box is moved slab by slab: a slab has some of its runs of the
destination. The buffer holds them in the order of the destination, pads included, and stays in L1.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import lcm, prod
from typing import NamedTuple

from .loops import LINE_BYTES, SINGLE_STEP, Loop
from .nest import Nest
from .pieces import Digit, Side

MIN_BOX_BYTES = 2 << 10  # smaller ones are not worth a second copy
MAX_BOX_BYTES = 128 << 10  # two of them are in the second-level cache
MAX_SLAB_BYTES = 16 << 10  # of a slab in the buffer, approximately
MAX_BUFFER_BYTES = 96 << 10  # with gaps between runs: LK_SLAB_BYTES of transpose.h
RUN_BYTES = 4 << 10  # of a run: longer ones gain nothing
MIN_SLAB_RUN_BYTES = 1 << 10  # of the runs of a slab, unless those of its box are shorter
MAX_CUTS = 3  # dimensions of a box that are cut; each gives up to two sizes, so a box has at most eight kinds of slabs
VECTOR_BYTES = 64


class Runs(NamedTuple):
    """What a box reads: runs of so many bytes, at every step of loops (count, stride), outermost first."""

    bytes: int
    loops: tuple[tuple[int, int], ...]


class Slab(NamedTuple):
    """All slabs of one shape: one for each step of `loops` in a box, and one box for each step of `boxes`; the first
    slab begins at offsets `src` and `dst`."""

    shape: tuple[int, ...]
    full: tuple[int, ...]  # with pads of the destination
    boxes: tuple[Loop, ...]
    loops: tuple[Loop, ...]
    src: int
    dst: int
    source: tuple[Side, ...]  # from where a slab begins
    buffer: tuple[Side, ...]
    bytes: int  # of the buffer
    out: Nest  # copies the buffer to the destination
    reads: Runs
    leads: bool  # whether it comes first in its boxes


class _BoxDigit(NamedTuple):
    """A digit of a dimension; a box has `n` of its `total` values."""

    stride: int
    n: int
    total: int
    dim: int
    level: int


def slabs_of(
    shape: Sequence[int], full: Sequence[int], src: Sequence[Side], dst: Sequence[Side], width: int
) -> list[Slab]:
    """The slabs of a destination; none if there are no such boxes, or if a single box is everything.

    `full`: the sizes of the destination with its pads.
    """
    if not all(shape) or any(side.shift for side in dst):
        return []
    if any(digit.stride < 0 for side in dst for digit in side.digits):
        return []  # a run would begin before its first element
    box = _box(shape, full, src, dst, width)
    if box is None or box == list(shape):
        return []
    cuts = [[(0, n // e, e), (n // e * e, 1, n % e)][: 1 + (n % e > 0)] for n, e in zip(shape, box)]
    slabs = [x for parts in itertools.product(*cuts) for x in _slabs(parts, shape, full, src, dst, width)]
    return slabs if all(slab.bytes <= MAX_BUFFER_BYTES for slab in slabs) else []


def _box(shape, full, src: Sequence[Side], dst: Sequence[Side], width: int) -> list[int] | None:
    """The sizes of a box: it begins with the least that the blocks of both sides allow; then the dimension that ends
    the shorter of the two runs grows."""
    units = [_unit(*sides) for sides in zip(src, dst, shape)]
    box, growing = list(units), {1, 2}
    if prod(box) * width > MAX_BOX_BYTES:
        return None
    while growing:
        padded = [f if e == n else e for e, n, f in zip(box, shape, full)]
        runs = {1: _run(_steps(src, box, shape), width), 2: _run(_steps(dst, padded, full), width)}
        side = min(growing, key=lambda k: runs[k][0])
        run, dim = runs[side]
        size = 0
        if dim is not None and run < RUN_BYTES:
            unit, most = units[dim], MAX_BOX_BYTES // width // (prod(box) // box[dim])
            size = min(shape[dim], max(2, 2 * box[dim] // unit) * unit)
            size = size if size <= most else most // unit * unit
        if dim is None or size <= box[dim]:
            growing.remove(side)
        else:
            box[dim] = size
    even = [min(n, -(-n // -(-n // e) // unit) * unit) for n, e, unit in zip(shape, box, units)]
    return even if prod(even) * width >= MIN_BOX_BYTES else None


def _unit(src: Side, dst: Side, n: int) -> int:
    """The least number of indices that is a multiple of the blocks of both sides, or all of them."""
    unit = lcm(src.digits[0].unit, dst.digits[0].unit)
    return n if unit > n or src.shift % src.digits[0].unit else unit


def _steps(sides: Sequence[Side], box: Sequence[int], shape: Sequence[int]) -> list[_BoxDigit]:
    """The digits of a box of a tensor of `shape`, innermost first."""
    digits = []
    for dim, (side, n, total) in enumerate(zip(sides, box, shape)):
        for level, (unit, stride) in enumerate(side.digits):
            digits.append(_BoxDigit(stride, -(-n // unit), -(-total // unit), dim, level))
            n, total = min(n, unit), min(total, unit)
    return sorted(digits, key=lambda x: abs(x.stride))


def _run(steps: Sequence[_BoxDigit], width: int) -> tuple[int, int | None]:
    """Bytes of a run of a box, and the dimension that ends it, if a larger box would have longer runs."""
    run = width
    for x in steps:
        if x.total > 1 and x.stride:
            if x.stride != run:
                return run, None
            run *= x.n
            if x.n < x.total:
                return run, x.dim
    return run, None


def _slabs(parts, shape, full, src: Sequence[Side], dst: Sequence[Side], width: int) -> list[Slab]:
    """The slabs of boxes of one shape; for every dimension: the first index of the boxes, their number and size."""
    starts, counts, box = zip(*parts)
    padded = [f - at if at + n == size else n for at, n, size, f in zip(starts, box, shape, full)]
    boxes, reads = _loops(counts, box, src, dst), _reads(_steps(src, box, shape), width)
    source = tuple(Side(side.digits, side.shift % side.digits[0].unit) for side in src)
    slabs: list[Slab] = []
    for cut in itertools.product(*_cuts(box, padded, shape, src, dst, width)):
        firsts, numbers, sizes = zip(*cut)
        begins = [i + first for i, first in zip(starts, firsts)]
        at = sum(side.offset(i) - begin.offset(0) for side, begin, i in zip(src, source, begins))
        to = sum(side.offset(i) for side, i in zip(dst, begins))
        filled = [f - i if i + e == n else e for i, e, n, f in zip(firsts, sizes, box, padded)]
        buffer, size, out = _buffer(dst, filled, width)
        loops = _loops(numbers, sizes, src, dst)
        slabs.append(Slab(sizes, tuple(filled), boxes, loops, at, to, source, buffer, size, out, reads, not slabs))
    return slabs


def _loops(counts: Sequence[int], box: Sequence[int], src: Sequence[Side], dst: Sequence[Side]) -> tuple[Loop, ...]:
    """The loops over so many boxes, outermost in the destination first."""
    steps = [(s.offset(n) - s.offset(0), d.offset(n)) for s, d, n in zip(src, dst, box)]
    loops = [Loop(count, *step) for count, step in zip(counts, steps) if count > 1]
    return tuple(sorted(loops, key=lambda x: x.dst, reverse=True))


def _cuts(box, padded, shape, src: Sequence[Side], dst: Sequence[Side], width: int) -> list[list[tuple[int, int, int]]]:
    """For every dimension of a box the first index, number and size of slabs: equal ones, and a smaller one.

    The outermost dimension of the destination is cut first, so that runs stay long. The digits that make the first
    `MIN_SLAB_RUN_BYTES` of a run stay whole unless the buffer cannot hold them; then no run gets shorter than that.
    What is contiguous in the source is cut only into whole vectors, so that tiles are full.
    """
    sizes, steps = list(box), _steps(dst, box, box)
    run = min(MIN_SLAB_RUN_BYTES, _run(steps, width)[0])
    contiguous = {x.dim for x in _steps(src, box, box) if x.stride == width and x.n > 1}
    fewest, size = {}, width  # how many values of these digits a run of so many bytes takes
    for x in steps:
        if size < run:
            fewest[x.dim, x.level] = min(x.n, -(-run // size))
            size *= x.n
    for x in reversed(steps):
        most = MAX_SLAB_BYTES // width // (prod(sizes) // sizes[x.dim])
        unit = _unit(src[x.dim], dst[x.dim], shape[x.dim])
        if x.level or most >= box[x.dim] or (box[x.dim] % unit and padded[x.dim] == box[x.dim]):
            continue
        few = fewest.get((x.dim, 0), 0) * dst[x.dim].digits[0].unit
        if few >= box[x.dim] or (few and prod(sizes) * width <= MAX_BUFFER_BYTES):
            continue
        if sum(e < n for e, n in zip(sizes, box)) == MAX_CUTS:
            break
        least = lcm(unit, VECTOR_BYTES // width if x.dim in contiguous else 1)
        sizes[x.dim] = min(box[x.dim], max(-(-max(few, 1) // least), most // least) * least)
    counts = [(n - (f > n)) // e for n, f, e in zip(box, padded, sizes)]  # the last one has the pads
    cuts = [[(0, k, e), (k * e, 1, n - k * e)] for n, k, e in zip(box, counts, sizes)]
    return [[cut for cut in of_dim if cut[1] and cut[2]] for of_dim in cuts]


def _buffer(dst: Sequence[Side], box: Sequence[int], width: int) -> tuple[tuple[Side, ...], int, Nest]:
    """The sides of a buffer for a box, its bytes, and the nest that copies it to the destination."""
    strides: dict[tuple[int, int], int] = {}
    size, run = width, 0
    loops: list[Loop] = []
    for x in _steps(dst, box, box):
        if x.n > 1 and (run or x.stride != size):
            run = run or size
            size = (-(-size // LINE_BYTES) | 1) * LINE_BYTES  # an odd number of lines: rows spread over all cache sets
            loops.append(Loop(x.n, size, x.stride))
        strides[x.dim, x.level] = size
        size *= x.n
    sides = (Side(tuple(Digit(x.unit, strides[dim, k]) for k, x in enumerate(d.digits))) for dim, d in enumerate(dst))
    return tuple(sides), size, Nest("copy", 8, tuple(loops[::-1]), (SINGLE_STEP, Loop(run or size, 1, 1)), 0, 0)


def _reads(steps: Sequence[_BoxDigit], width: int) -> Runs:
    loops: list[tuple[int, int]] = []
    run = width
    for x in steps:
        if x.n > 1 and x.stride:
            if x.stride == run and not loops:
                run *= x.n
            else:
                loops.append((x.n, x.stride))
    return Runs(run, tuple(loops[::-1]))
