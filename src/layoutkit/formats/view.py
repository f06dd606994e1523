"""View or copy: whether going from one layout to another moves any bytes, and what it takes if it does.

Paddle asks it of every tensor between two kernels: framework to accelerated kernel (only the layout flag
changes), accelerated to framework, accelerated to fetch (a view if the arrangement fits, else a reorder).
All three are this one question; it has an exact answer, and needs no data to be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

from . import algebra
from .families import check_names
from .layout import Layout


class Move(NamedTuple):
    """What it takes to go from `src` to `dst` on `shape`: the certificate of a reorder.

    Attributes
    ----------
    view : bool
        No byte moves: the memory of `src`, read as `dst`, is the result, and has room for its pads.
    reason : str
        Why, or why not.
    elements : int
        Logical elements.
    pads : int
        Elements of `dst` that hold no logical element.
    one_to_one : bool
        No two logical elements share a place, in `src` nor in `dst`: the way back exists.
    exhaustive : bool
        Elements and pads make up all of the memory of `dst`: it has no gaps.
    """

    src: Layout
    dst: Layout
    shape: tuple[int, ...]
    view: bool
    reason: str
    elements: int
    pads: int
    one_to_one: bool
    exhaustive: bool


def is_view(src: Layout | str, dst: Layout | str, shape: Sequence[int]) -> bool:
    """Whether a reorder of `shape` from `src` to `dst` would move no bytes. Exact.

    True when every logical element stays at its offset, and the pads of `dst`, if any, are pads of `src` too
    (so that what `src` promises of their content holds).

    Parameters
    ----------
    src, dst : str or Layout
        From where, to where.
    shape : sequence of int
        The logical shape.

    Returns
    -------
    bool

    Raises
    ------
    ValueError
        A layout is malformed or of another rank than `shape`, or they have names of different dimensions.
    """
    return _asked(Layout(src), Layout(dst), shape, "is_view")[0]


def explain(src: Layout | str, dst: Layout | str, shape: Sequence[int]) -> Move:
    """`is_view` with its reason, and all else that is certain of the move before data is seen.

    Parameters
    ----------
    src, dst : str or Layout
        From where, to where.
    shape : sequence of int
        The logical shape.

    Returns
    -------
    Move
        `view` is what `is_view` says, `reason` why.

    Raises
    ------
    ValueError
        As `is_view`.
    """
    src, dst = Layout(src), Layout(dst)
    shape = src.check_shape(shape)
    view, reason = _asked(src, dst, shape, "explain_view")
    pads = len(dst.pads(shape))
    return Move(
        src,
        dst,
        shape,
        view,
        reason,
        elements=prod(shape),
        pads=pads,
        one_to_one=src.is_one_to_one(shape) and dst.is_one_to_one(shape),
        exhaustive=dst.is_exhaustive(dst.full_shape(shape)),
    )


def _asked(src: Layout, dst: Layout, shape: Sequence[int], what: str) -> tuple[bool, str]:
    """`why`, of layouts that a tensor can have both of: which is no question of equal layouts, as caches are."""
    answer = why(src, dst, src.check_shape(shape))
    check_names(src, dst, what)
    return answer


@lru_cache(maxsize=1024)
def why(src: Layout, dst: Layout, shape: tuple[int, ...]) -> tuple[bool, str]:
    """(view, reason) of `explain`, nothing more."""
    dst.check_shape(shape)
    if 0 in shape:
        return True, "view: the shape has no elements"
    if src == dst:
        return True, "view: the layouts are the same"
    for dim, (a, b, n) in enumerate(zip(src.modes(shape), dst.modes(shape), shape)):
        a, b = algebra.restrict(a, n), algebra.restrict(b, n)
        if a != b:
            # Canonical maps that differ do so first where a digit of one of them starts.
            starts = sorted({*algebra.units(a), *algebra.units(b)})
            i = next(u for u in starts if algebra.apply(a, u) != algebra.apply(b, u))
            places = f"{algebra.apply(a, i)} in {src} and at {algebra.apply(b, i)} in {dst}"
            return False, f"copy: index {i} of dimension {src.dims[dim]} lies at {places}"
    have, need = src.required_span_size(shape), dst.required_span_size(shape)
    if need > have:
        return False, f"copy: elements stay in place, but {dst} with pads takes {need}, {src} has {have}"
    if not src.is_exhaustive(src.full_shape(shape)) and not dst.pads(shape) <= src.pads(shape):
        return False, f"copy: elements stay in place, but pads of {dst} fall into gaps of {src}"
    if src.full_shape(shape) == dst.full_shape(shape):
        return True, "view: every element stays in place"
    return True, f"view: every element stays in place, and {dst} leaves pads of {src} off"
