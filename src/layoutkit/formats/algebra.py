"""Maps from an index to an offset, and their algebra: pure functions on tuples of integers.

A map is a tuple of modes, outermost first. ``map_((2, 16), (4, 1))`` takes an index below 8 apart into the
digits of a mixed radix, outer digit below 2, inner digit below 4, and sums digit x stride: 5 = (1, 1) -> 17.
It is what a layout becomes on an exact shape. The theory is CuTe's (NVIDIA, "CuTe layout algebra"); there
the leftmost mode runs fastest, here the rightmost does, as in the shapes of numpy.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from math import gcd, prod
from typing import NamedTuple

__all__ = [
    "Mode",
    "apply",
    "coalesce",
    "complement",
    "compose",
    "divide",
    "inverse",
    "is_exhaustive",
    "is_one_to_one",
    "map_",
    "refine",
    "restrict",
    "size",
    "solutions",
    "span",
    "split",
    "units",
]


class Mode(NamedTuple):
    """One digit of an index: below `extent`, worth `stride` in the offset.

    Attributes
    ----------
    extent : int
        The digit takes this many values.
    stride : int
        Offset of one step.
    """

    extent: int
    stride: int


Map = tuple[Mode, ...]


def map_(*modes: tuple[int, int]) -> Map:
    """The map of (extent, stride) pairs, outermost first.

    Parameters
    ----------
    *modes : tuple of (int, int)
        Extent and stride of each mode.
    """
    return tuple(Mode(*m) for m in modes)


def size(m: Map) -> int:
    """How many indices the map takes.

    Parameters
    ----------
    m : tuple of Mode
    """
    return prod(mode.extent for mode in m)


def span(m: Map) -> int:
    """One past the largest offset (0 when the map takes no index).

    Parameters
    ----------
    m : tuple of Mode
    """
    return 1 + sum((e - 1) * s for e, s in m) if size(m) else 0


def apply(m: Map, index: int) -> int:
    """The offset of `index`. The outermost digit is not bounded, so that indices past the end extrapolate.

    Parameters
    ----------
    m : tuple of Mode
    index : int
        Not negative.
    """
    return sum(digit * mode.stride for digit, mode in zip(_digits(m, index), m))


def _digits(m: Map, index: int) -> list[int]:
    """The digits of `index`, outermost first; the outermost is not bounded."""
    return [index // u % (m[k].extent if k else index + 1) for k, u in enumerate(units(m))]


def coalesce(m: Map) -> Map:
    """The same function with the fewest modes, and the only such: two maps are equal iff these are.

    Parameters
    ----------
    m : tuple of Mode
    """
    out: list[Mode] = []
    for extent, stride in m:
        if extent == 1:
            continue
        if out and out[-1].stride == stride * extent:
            out[-1] = Mode(out[-1].extent * extent, stride)
        else:
            out.append(Mode(extent, stride))
    return tuple(out)


def restrict(m: Map, n: int) -> Map:
    """The canonical map that agrees with `m` on ``range(n)``, n <= size; the outermost digit may pass n.

    Parameters
    ----------
    m : tuple of Mode
    n : int
        How many indices count.
    """
    out: list[Mode] = []
    unit = 1
    for extent, stride in reversed(coalesce(m)):
        if unit >= n:
            break
        out.append(Mode(extent, stride))
        unit *= extent
    if out:
        inner = prod(mode.extent for mode in out[:-1])
        out[-1] = Mode(-(-n // inner), out[-1].stride)
    return coalesce(tuple(reversed(out)))


def units(m: Map) -> tuple[int, ...]:
    """What one step of each digit is worth in the index, outermost first.

    Parameters
    ----------
    m : tuple of Mode
    """
    return tuple(prod(mode.extent for mode in m[k + 1 :]) for k in range(len(m)))


def refine(a: Map, b: Map, n: int) -> tuple[Map, Map]:
    """`a` and `b` on ``range(n)``, n <= size of both, cut into the same extents, as few as can be.

    Parameters
    ----------
    a, b : tuple of Mode
    n : int
        How many indices count.

    Raises
    ------
    ValueError
        No common digits exist, as for blocks of 4 and 6: neither divides the other.
    """
    a, b = restrict(a, n), restrict(b, n)
    if n <= 1:
        return (), ()
    cuts = sorted({*units(a), *units(b), 1})
    for inner, outer in itertools.pairwise(cuts):
        if outer % inner:
            raise ValueError(f"blocks of {inner} and {outer} have no common factors")
    extents = [outer // inner for inner, outer in itertools.pairwise(cuts)] + [-(-n // cuts[-1])]
    digits = list(zip(cuts, extents))[::-1]
    return tuple(Mode(e, apply(a, u)) for u, e in digits), tuple(Mode(e, apply(b, u)) for u, e in digits)


def split(m: Map, at: int) -> tuple[Map, Map]:
    """(outer, inner) such that m(i) = outer(i // at) + inner(i % at).

    Parameters
    ----------
    m : tuple of Mode
    at : int
        How many indices go inside.

    Raises
    ------
    ValueError
        `at` falls inside a digit that it does not divide.
    """
    if at < 1:
        raise ValueError(f"a map is split at a positive number, got {at}")
    inner: list[Mode] = []
    rest, left = list(m), at
    while left > 1:
        extent, stride = rest.pop() if rest else Mode(1, 0)
        if not rest:  # the outermost digit is not bounded: whatever is left is taken from it
            inner.append(Mode(left, stride))
            rest.append(Mode(-(-extent // left), stride * left))
            break
        if left % extent == 0:
            inner.append(Mode(extent, stride))
            left //= extent
        elif extent % left == 0:
            inner.append(Mode(left, stride))
            rest.append(Mode(extent // left, stride * left))
            break
        else:
            raise ValueError(f"{at} divides no digit boundary of extents {tuple(x.extent for x in m)}")
    return tuple(rest), tuple(reversed(inner))


MAX_COMPARED = 1 << 12  # indices of a map that are compared one by one


def compose(a: Map, b: Map) -> Map:
    """The map i -> a(b(i)).

    Parameters
    ----------
    a, b : tuple of Mode
        `b` is applied first.

    Raises
    ------
    ValueError
        It is not a map: the digits of `b` carry into one another in `a`, or an offset lies outside `a`. Digits that
        carry may happen to give a map; beyond `MAX_COMPARED` indices that is not looked for.
    """
    if not size(b):
        return tuple(Mode(e, 0) for e, _ in b)
    if span(b) > size(a):
        raise ValueError(f"offset {span(b) - 1} of the second map lies outside the first, of size {size(a)}")
    try:
        return _composed(a, b)
    except ValueError:
        composed = tuple(Mode(e, apply(a, s) if e > 1 else 0) for e, s in b)  # the only one that it could be
        if size(b) > MAX_COMPARED or any(apply(composed, i) != apply(a, apply(b, i)) for i in range(size(b))):
            raise
        return coalesce(composed)


def _composed(a: Map, b: Map) -> Map:
    """`compose` where no digits carry."""
    a = coalesce(a)
    top = [0] * len(a)  # the largest value that each digit of `a` takes: past its extent it would carry
    out = [piece for mode in b for piece in _walk(a, mode, top)]
    for mode, value in zip(a, top):
        if value >= mode.extent:
            raise ValueError(f"digits of the second map carry past extent {mode.extent} of the first")
    return coalesce(tuple(out))


def _walk(a: Map, mode: Mode, top: list[int]) -> Map:
    """`a` seen along ``extent`` steps of ``stride``; adds to `top` the largest value of each digit."""
    left, step = mode
    out: list[Mode] = []
    while left > 1:
        digits = _digits(a, step)
        take = min([left, *(1 + (m.extent - 1) // d for m, d in zip(a, digits) if d)])
        if take == 1 or left % take:
            raise ValueError(f"{left} steps of {step} do not fill whole digits of {a}")
        out.append(Mode(take, sum(d * m.stride for m, d in zip(a, digits))))
        top[:] = [t + (take - 1) * d for t, d in zip(top, digits)]
        left, step = left // take, step * take
    return tuple(reversed(out))


def inverse(m: Map) -> Map:
    """The map from offset to index of a one-to-one map that leaves no gap.

    Parameters
    ----------
    m : tuple of Mode

    Raises
    ------
    ValueError
        The map leaves gaps or meets itself.
    """
    pairs = [(mode.stride, mode.extent, unit) for mode, unit in zip(m, units(m)) if mode.extent != 1]
    pairs.sort(reverse=True)
    expected = 1
    for stride, extent, _ in reversed(pairs):
        if stride != expected:
            kind = "leaves gaps" if stride > expected else "meets itself"
            raise ValueError(f"no inverse: the map {kind} (stride {stride}, expected {expected})")
        expected *= extent
    return tuple(Mode(extent, unit) for _, extent, unit in pairs)


def complement(m: Map, n: int) -> Map:
    """The map of what `m` leaves out: sums of both offsets meet every number below n (rounded up) once.

    Parameters
    ----------
    m : tuple of Mode
    n : int
        The numbers to be met.

    Raises
    ------
    ValueError
        The strides of `m` do not nest.
    """
    out: list[Mode] = []
    done = 1
    for extent, stride in sorted((x for x in m if x.extent > 1), key=lambda x: x.stride):
        if stride == 0 or stride % done:
            raise ValueError(f"no complement: a stride of {stride} does not nest over {done}")
        out.append(Mode(stride // done, done))
        done = stride * extent
    out.append(Mode(-(-n // done), done))
    return coalesce(tuple(reversed(out)))


def divide(m: Map, tile: Map) -> tuple[Map, Map]:
    """(rest, inside): the map seen tile by tile; `tile` picks indices of `m`, `rest` steps over tiles.

    Sums of both meet every offset of `m` once.

    Parameters
    ----------
    m : tuple of Mode
    tile : tuple of Mode
        From an index inside the tile to an index of `m`.

    Raises
    ------
    ValueError
        As `compose` and `complement`; also where tiles do not fill `m`.
    """
    rest = complement(tile, size(m))
    compose(m, rest + tile)  # refuses what would carry from one into the other
    return compose(m, rest), compose(m, tile)


def solutions(modes: Sequence[tuple[int, int, int]], target: int) -> Iterator[tuple[int, ...]]:
    """All digits (d, ..) with low <= d <= high and sum of d x stride = target, for (low, high, stride) modes.

    Strides are not negative. The largest are tried first, and what the rest can reach bounds the search:
    strides that nest, as those of any sane layout, cost one path.

    Parameters
    ----------
    modes : sequence of (int, int, int)
        Least digit, largest digit, stride.
    target : int
        The sum.
    """
    order = sorted(range(len(modes)), key=lambda k: -modes[k][2])
    lows, highs, steps = [0], [0], [0]  # what the modes after a position reach, and what divides it
    for k in reversed(order):
        low, high, stride = modes[k]
        lows.append(lows[-1] + low * stride)
        highs.append(highs[-1] + high * stride)
        steps.append(gcd(steps[-1], stride))
    digits = [0] * len(modes)

    def search(at: int, target: int) -> Iterator[tuple[int, ...]]:
        if at == len(order):
            if target == 0:
                yield tuple(digits)
            return
        low, high, stride = modes[order[at]]
        left = len(order) - at - 1
        if stride:
            low = max(low, -((highs[left] - target) // stride))
            high = min(high, (target - lows[left]) // stride)
        for digit in range(low, high + 1):
            rest = target - digit * stride
            if rest % steps[left] == 0 if steps[left] else rest == 0:
                digits[order[at]] = digit
                yield from search(at + 1, rest)

    yield from search(0, target)


def is_one_to_one(m: Map) -> bool:
    """Whether no two indices share an offset. Exact for any strides.

    Parameters
    ----------
    m : tuple of Mode
    """
    zero = (0,) * len(m)
    return not size(m) or all(d == zero for d in solutions([(1 - e, e - 1, s) for e, s in m], 0))


def is_exhaustive(m: Map) -> bool:
    """Whether every offset below the span belongs to an index.

    Parameters
    ----------
    m : tuple of Mode
    """
    if is_one_to_one(m):
        return size(m) == span(m)
    return all(any(True for _ in solutions([(0, e - 1, s) for e, s in m], x)) for x in range(span(m)))


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__name__"]
