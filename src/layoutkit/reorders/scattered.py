"""Scattered runs: read in the order of the source, and joined to whole lines in strings of the destination.

A string is a run of the destination that many runs of the source go to, see scatter.c. As many strings as possible are
written side by side, so that the source is read from its beginning to its end, or in long pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .loops import Loop, cut, ordered
from .nest import Digits, Fused, Nest, Strings

MIN_RUN_BYTES = 64  # slabs take less time for shorter ones
MAX_RUN_BYTES = 1 << 15  # copies of longer ones are as fast, and cut for threads
MAX_STRINGS = 256  # at a time, so that their lines stay in L1; at most LK_MAX_STRINGS of transpose.h
LONG_BYTES = 4096  # of a string: what its ends take hardly counts
TASK_BYTES = 1 << 20  # roughly, so that threads share tasks
MAX_TASK_BYTES = 1 << 24  # a task is not interrupted
MAX_DIGITS = 16  # LK_MAX_FUSED


def nests(rest: Sequence[Loop], run: int, src: int, dst: int) -> list[Nest]:
    """Nests of runs of `run` bytes, contiguous on both sides, at every step of `rest`; none if there are no strings."""
    parts, others = _parts(rest, run)
    size = run * prod(x.n for x in parts)
    if not MIN_RUN_BYTES <= run <= MAX_RUN_BYTES or not parts:
        return []
    if any(x.src <= 0 or x.dst <= 0 or x.offsets for x in rest):
        return []
    side, outer = _side_by_side(parts, others, size)
    if len(parts) + len(side) > MAX_DIGITS:
        return []
    result = []
    *lower, last = parts
    string = size // last.n
    steps = max(-(-LONG_BYTES // string), TASK_BYTES // (string * prod(x.n for x in side)), 1)
    for many, few, at in _cut_strings(side, max(1, min(MAX_STRINGS, MAX_TASK_BYTES // string))):
        for over, part, first in cut(last, steps):
            loops = ordered([*outer, *many, over], 1)
            s, d = src + at[0] + first * last.src, dst + at[1] + first * last.dst
            result.append(_nest(loops, [*lower, part], few, run, s, d))
    return result


def _parts(rest: Sequence[Loop], run: int) -> tuple[list[Loop], list[Loop]]:
    """The loops that go on in a string, innermost first, and the others. In the source the former are nested alike."""
    parts: list[Loop] = []
    others, size = list(rest), run
    while True:
        loop = next((x for x in others if x.dst == size), None)
        if loop is None or size >= TASK_BYTES or (parts and loop.src <= parts[-1].src):
            return parts, others
        parts.append(loop)
        others.remove(loop)
        size *= loop.n


def _side_by_side(parts: Sequence[Loop], others: Sequence[Loop], size: int) -> tuple[list[Loop], list[Loop]]:
    """The loops of strings that are written side by side, and those around them.

    The former are within those of parts in the source; or they go on where a string of `size` bytes, a short one, ends.
    """
    side = [x for x in others if x.src < parts[-1].src]
    while size < LONG_BYTES and prod(x.n for x in side) < MAX_STRINGS:
        loop = next((x for x in others if x.dst == size), None)
        if loop is None:
            break
        side += [loop] * (loop not in side)
        size *= loop.n
    return side, [x for x in others if x not in side]


def _cut_strings(side: Sequence[Loop], most: int) -> list[tuple[list[Loop], list[Loop], tuple[int, int]]]:
    """Cuts loops of strings, innermost in the source first, so that there are at most `most` of them at a time. Each
    part is (loops around, loops of strings, offsets)."""
    few: list[Loop] = []
    left = sorted(side, key=lambda x: x.src)
    while left and prod(x.n for x in few) * left[0].n <= most:
        few.append(left.pop(0))
    if not left:
        return [([], few, (0, 0))]
    step = most // prod(x.n for x in few)
    cuts = cut(left[0], step)
    return [([*left[1:], over], [*few, part], (first * part.src, first * part.dst)) for over, part, first in cuts]


def _nest(loops: tuple[Loop, ...], parts: Sequence[Loop], side: Sequence[Loop], run: int, src: int, dst: int) -> Nest:
    steps: dict[Loop, tuple[int, int]] = {}
    strings = count = 1
    for x in parts:
        steps[x] = 0, count
        count *= x.n
    starts = [0]
    for x in sorted(side, key=lambda x: x.src):
        steps[x] = strings, 0
        strings *= x.n
        starts = [at + i * x.dst for i in range(x.n) for at in starts]
    digits = sorted(steps, key=lambda x: x.src)
    begins = {at: i for i, at in enumerate(starts)}
    follows = tuple([begins.get(at + run * count) for at in starts])
    read, written = (Digits(tuple([(x.n, (x.src, x.dst)[k]) for x in digits])) for k in (0, 1))
    fused = Fused(written, read, 1, 1, strings=Strings(run, tuple([steps[x] for x in digits]), follows))
    return Nest("scatter", 8, loops, (Loop(run, 1, 1), Loop(count * strings, 0, 0)), src, dst, fused=fused)
