"""Nests of windows, which assemble a run of the destination from elements anywhere in the source. See windows.c.

The run is a pattern: relative to the first one, its elements have the same offsets in the source in every step of the
loops around it. It spans digits of the destination that are adjacent in memory. A dimension with digits in the pattern
is walked in blocks of as many indices as the pattern has of it; a table holds the offsets within a block, so that
neither pads nor blocks of the source that do not line up end a run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import inf, prod
from typing import NamedTuple

import numpy as np

from .._core.runtime import registry
from .loops import LINE_BYTES, Loop, merge, ordered
from .nest import Digits, Fused, Nest
from .pieces import Digit, Piece, Side, pieces

MIN_PATTERN_BYTES = 256  # unless the whole destination is shorter
MAX_PATTERN_BYTES = 1024  # longer patterns gain nothing, and their tables leave L1
UNALIGNED_STORE_COST = 1.3  # of a store across two cache lines, in aligned stores
TAIL_COST = 2.0  # of the partial vector at the end of a digit, in aligned stores
MAX_NESTS = 64
VECTOR_SECONDS = 0.1e-9  # to store a vector
# To load and shuffle one window of a vector of so many bytes: of few, whose orders stay in registers, and of more.
WINDOW_SECONDS = {16: (0.26e-9, 0.52e-9), 32: (0.66e-9, 1.2e-9), 64: (0.66e-9, 1.2e-9)}
FEW_WINDOWS = 8
# To store a vector shuffled from lanes of 16 bytes, by the number of registers that these fill.
LANES_SECONDS = {1: 1.1e-9, 2: 1.9e-9, 3: 3.2e-9, 4: 5.2e-9}
LANE_BYTES = 16
# Of a cache line, by bytes of an element: nests that take longer do not count as fast. The narrower the elements, the
# longer tiles take.
MAX_FAST_LINE_SECONDS = {1: 7.5e-9, 2: 4.1e-9, 4: 2.5e-9, 8: 2.5e-9}
MAX_CONTIGUOUS_SHARE = 0.75  # of elements that have the same successor on both sides
SAMPLED_VECTORS = 4
MIN_STEPS, STEPS_BYTES = 4, 16384  # of the destination, between one vector and the next: as in windows.c
PAD = np.iinfo(np.int64).min


class PatternDigit(NamedTuple):
    """A digit of the destination of which the pattern has `n` values, each of `unit` indices of dimension `dim`."""

    dim: int
    unit: int
    n: int


class PatternSpan(NamedTuple):
    """A part of a dimension: loops, its offsets on both sides, and the offsets of the pattern's indices from there in
    the source; PAD: pads."""

    loops: tuple[Loop, ...]
    src: int
    dst: int
    table: np.ndarray


def window_nests(
    shape: Sequence[int], src: Sequence[Side], dst: Sequence[Side], width: int, whole: bool = True
) -> tuple[list[Nest], set[int]] | None:
    """As `copy_nests`; None where there is no pattern."""
    pattern, parts, padded = _plan(shape, src, dst, width, whole)
    if not pattern:
        return None
    return [_nest(chosen, pattern, width) for chosen in itertools.product(*parts)], padded


class WindowSteps(NamedTuple):
    """What `window_nests` do, judged by the first of them."""

    steps: int  # in each of which a pattern is written
    nbytes: int  # of the pattern
    line_ns: float  # of each of its lines, within the caches
    starts: float  # how often the orders of a vector are loaded, for the steps of the innermost loop


def window_steps(shape: Sequence[int], src: Sequence[Side], dst: Sequence[Side], width: int) -> WindowSteps | None:
    """The steps of `window_nests`; None where there is no pattern."""
    pattern, parts, _ = _plan(shape, src, dst, width, True)
    if not pattern:
        return None
    steps = prod(sum(prod(x.n for x in part.loops) for part in spans) for spans in parts)
    nest = _nest([spans[0] for spans in parts], pattern, width)
    nbytes, vector = nest.tile[1].n * width, _kernel(width, registry.isa())[0]
    together = min(nest.loops[-1].n if nest.loops else 1, max(MIN_STEPS, STEPS_BYTES // nbytes))
    return WindowSteps(steps, nbytes, 1e9 * line_seconds(nest), steps / together * -(-nbytes // vector))


def _plan(
    shape: Sequence[int], src: Sequence[Side], dst: Sequence[Side], width: int, whole: bool
) -> tuple[list[PatternDigit], list[list[PatternSpan]], set[int]]:
    """The pattern (empty if there is none), the parts of every dimension, and the dimensions whose pads are in the
    pattern."""
    no_plan: tuple[list[PatternDigit], list[list[PatternSpan]], set[int]] = [], [], set()
    if width > 8 or not all(shape) or any(d.stride % width for side in src for d in side.digits):
        return no_plan
    pattern = _pattern(shape, dst, width)
    if len(pattern) == 1 and not src[pattern[0].dim].digits[-1].stride:
        return no_plan  # long runs of one element, as arrays have that are broadcast
    parts, padded = [], set()
    for dim, (n, s, d) in enumerate(zip(shape, src, dst)):
        block = prod(x.n for x in pattern if x.dim == dim)
        full = -(-n // d.digits[0].unit) * d.digits[0].unit if len(d.digits) > 1 else n
        if block > 1 and full > n:
            if not whole or block % d.digits[0].unit:
                return no_plan
            padded.add(dim)
        spans = _parts(n, full, s, d, block)
        if spans is None:
            return no_plan
        parts.append(spans)
    return no_plan if prod(map(len, parts)) > MAX_NESTS else (pattern, parts, padded)


def _pattern(shape: Sequence[int], dst: Sequence[Side], width: int) -> list[PatternDigit]:
    """The adjacent digits of the destination, innermost first, up to a pattern that is long enough."""
    digits: list[PatternDigit] = []
    run, indices = width, [1] * len(shape)
    for stride, dim, unit, count, outermost in sorted(_digits(shape, dst)):
        if count == 1:
            continue
        if stride != run or unit != indices[dim] or run >= MIN_PATTERN_BYTES:
            break
        n = _share(run, count, outermost)
        if n > 1:
            digits.append(PatternDigit(dim, unit, n))
        if n < count:
            break
        run *= n
        indices[dim] = unit * n
    return digits


def _share(run: int, count: int, any_number: bool) -> int:
    """How many values a pattern has of a digit whose stride is `run` bytes: all, unless that is too long; else the
    number that takes the fewest vectors. It must divide `count` unless `any_number`."""
    if run * count <= MIN_PATTERN_BYTES:
        return count
    least, most = -(-MIN_PATTERN_BYTES // run), min(count, max(1, MAX_PATTERN_BYTES // run))
    allowed = [n for n in range(min(least, most), most + 1) if any_number or count % n == 0]
    return min(allowed or [1], key=lambda n: _store_cost(run, count, n))


def _store_cost(run: int, count: int, n: int) -> float:
    """The cost of patterns of n of `count` values of a digit, in aligned stores."""
    rest = run * (count % n)
    lines = count // n * -(-run * n // LINE_BYTES) * (1 if run * n % LINE_BYTES == 0 else UNALIGNED_STORE_COST)
    return lines + (-(-rest // LINE_BYTES) * UNALIGNED_STORE_COST + TAIL_COST if rest else 0)


def _digits(shape: Sequence[int], dst: Sequence[Side]) -> Iterator[tuple[int, int, int, int, bool]]:
    """Of every digit its stride, dimension, unit and number of values, and whether it is the outermost of its
    dimension."""
    for dim, (n, side) in enumerate(zip(shape, dst)):
        above = None
        for unit, stride in side.digits:
            yield stride, dim, unit, -(-n // unit) if above is None else above // unit, above is None
            above = unit


def _parts(n: int, full: int, src: Side, dst: Side, block: int) -> list[PatternSpan] | None:
    """A dimension of n indices, of `full` with its pads, in blocks; None where they do not fit the digits."""
    if block == 1:
        one = np.zeros(1, np.int64)
        return [PatternSpan(_loops(p), src.offset(p.start), dst.offset(p.start), one) for p in pieces(0, n, (src, dst))]
    whole = n // block
    spans = []
    if len(dst.digits) > 1 and dst.shift % min(block, dst.digits[0].unit):
        return None  # the pattern would continue in another block
    if whole:
        sides = [blocks for side in (src, dst) if (blocks := _of_blocks(side, block, whole))]
        if len(sides) < 2:
            return None
        table = _table(src, 0, block, block)
        for p in pieces(0, whole, sides):
            at = p.start * block
            spans.append(PatternSpan(_loops(p), src.offset(at), dst.offset(at), table))
    if n % block:
        at = whole * block
        spans.append(PatternSpan((), src.offset(at), dst.offset(at), _table(src, at, n - at, min(block, full - at))))
    return spans


def _loops(piece: Piece) -> tuple[Loop, ...]:
    return tuple(Loop(n, s, d) for n, (s, d) in piece.loops)


def _of_blocks(side: Side, block: int, count: int) -> Side | None:
    """`side` in blocks of so many indices; None if blocks have different offsets."""
    if count == 1:
        return Side((Digit(1, 0),))
    if len(side.digits) > 1 and side.shift % side.digits[0].unit:
        return None
    digits = []
    for unit, stride in side.digits:
        if unit > block and unit % block == 0:
            digits.append(Digit(unit // block, stride))
        elif block % unit == 0:
            digits.append(Digit(1, block // unit * stride))
            break
        else:
            return None
    shift = side.shift // block if len(digits) > 1 else 0
    return Side(tuple(digits), shift) if len(digits) == 1 or side.shift % block == 0 else None


def _table(src: Side, start: int, n: int, size: int) -> np.ndarray:
    """The offsets of the n indices from `start` on, relative to the first, and pads up to `size`."""
    index, offsets = np.arange(start, start + n) + src.shift, np.zeros(n, np.int64)
    for unit, stride in src.digits:
        offsets += index // unit * stride
        index %= unit
    return np.concatenate([offsets - offsets[0], np.full(size - n, PAD)])


def _nest(parts: Sequence[PatternSpan], pattern: Sequence[PatternDigit], width: int) -> Nest:
    """The nest of one part of each dimension."""
    n, index = 1, dict.fromkeys((x.dim for x in pattern), np.zeros(1, np.int64))
    for x in pattern:
        values = min(x.n, -(-len(parts[x.dim].table) // x.unit))
        for dim, below in index.items():
            index[dim] = np.tile(below, values)
        index[x.dim] += np.repeat(np.arange(values) * x.unit, n)
        n *= values
    offsets = [parts[dim].table[i] for dim, i in index.items()]
    at = np.where(np.minimum.reduce(offsets) == PAD, PAD, sum(offsets))
    table = tuple(None if x == PAD else x for x in at.tolist())
    loops = ordered(merge([x for part in parts for x in part.loops]), 2)
    src, dst = sum(part.src for part in parts), sum(part.dst for part in parts)
    digits = Fused(Digits(((1, 0),)), Digits(((n, 0),), table), 1, n)
    return Nest("windows", 8 * width, loops, (Loop(1, 0, 0), Loop(n, 0, width)), src, dst, fused=digits)


@lru_cache(64)
def _kernel(width: int, isa: str) -> tuple[int, bool]:
    """Bytes of a vector of the windows kernel, and whether it can shuffle lanes of 16 bytes of several registers."""
    row = registry.best("windows", f"x{8 * width}")[0]
    return row.nr * width, row.nr * width == 4 * LANE_BYTES


def line_seconds(nest: Nest) -> float:
    """Seconds of a line that a nest writes within the caches, on average over its first vectors."""
    width = nest.bits // 8
    vector, lanes = _kernel(width, registry.isa())
    elements, seconds_of = vector // width, []
    window_seconds = WINDOW_SECONDS.get(vector, WINDOW_SECONDS[64])  # another: elements are copied one by one
    table = nest.fused.rows.table if nest.fused else ()
    for first in range(0, min(len(table), SAMPLED_VECTORS * elements), elements):
        offsets = sorted(x for x in table[first : first + elements] if x is not None)
        windows = _spans(offsets, vector, width)
        seconds = VECTOR_SECONDS + windows * window_seconds[windows > FEW_WINDOWS]
        registers = -(-_spans(offsets, LANE_BYTES, width) // 4)
        seconds_of.append(min(seconds, LANES_SECONDS.get(registers, inf) if lanes else inf))
    return sum(seconds_of) / len(seconds_of) * LINE_BYTES / vector


def _spans(offsets: Sequence[int], size: int, width: int) -> int:
    """How many windows of `size` bytes cover all elements at `offsets`, which are sorted."""
    count, stop = 0, -inf
    for at in offsets:
        if at + width > stop:
            count, stop = count + 1, at + size
    return count


def is_scattered(nest: Nest) -> bool:
    """Whether hardly any elements of a nest are adjacent on both sides, so that tiles and runs are slow, and windows
    are fast."""
    table, width = nest.fused.rows.table if nest.fused else (), nest.bits // 8
    follow = sum(a is not None and b == a + width for a, b in itertools.pairwise(table))
    return follow < MAX_CONTIGUOUS_SHARE * len(table) and line_seconds(nest) <= MAX_FAST_LINE_SECONDS[width]
