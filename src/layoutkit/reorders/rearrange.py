"""Reorders in the notation of einops: ``"b c h w -> b h w c"``, axes split and merged in parentheses.

A pattern becomes an order of elementary axes: the left side splits the axes of the array into them, which is a view of
any array; one reorder puts them into the order of the right side; what that merges is contiguous in the result.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from operator import index
from typing import Any, NamedTuple

from ..formats.layout import Layout
from ..memory.arrays import as_array, as_out, check_movable
from ..memory.foreign import as_torch_like
from ..memory.tensor import Tensor
from .reorder import reorder

_TOKEN = re.compile(r"\s*(\.\.\.|[A-Za-z][A-Za-z_0-9]*|1|[()])")
MAX_AXES = 15  # as many as layouts have letters for

Group = tuple[str, ...]  # of the axes that one axis of an array is split into


class _Pattern(NamedTuple):
    left: tuple[Group, ...]
    right: tuple[Group, ...]


@lru_cache(256)
def _parse(pattern: str) -> _Pattern:
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("expected one '->'")
    left, right = map(_groups, sides)
    names = [[name for group in side for name in group] for side in (left, right)]
    for side in names:
        if twice := next((name for i, name in enumerate(side) if name in side[:i]), None):
            raise ValueError(f"axis {twice!r} stands twice on one side")
    if missing := set(names[0]) ^ set(names[1]):
        raise ValueError(f"axis {min(missing)!r} stands on one side only; rearrange neither repeats nor reduces")
    return _Pattern(left, right)


def _groups(text: str) -> tuple[Group, ...]:
    groups: list[list[str]] = []
    at, inside = 0, False
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if not match:
            raise ValueError(f"expected an axis, '1', '...' or a parenthesis at {text[at:].strip()[:12]!r}")
        token, at = match[1], match.end()
        if token in "()":
            if inside == (token == "("):
                raise ValueError("parentheses do not nest" if inside else "a parenthesis is closed that was not opened")
            inside = not inside
            if inside:
                groups.append([])
        elif token == "...":
            if inside:
                raise ValueError("'...' stands for whole axes, and cannot be inside parentheses")
            groups.append([token])
        elif inside:
            groups[-1] += [token] * (token != "1")
        else:
            groups.append([token] * (token != "1"))
    if inside:
        raise ValueError("a parenthesis is not closed")
    return tuple(map(tuple, groups))


def _expanded(groups: tuple[Group, ...], more: int) -> list[Group]:
    """Groups with the axes that ``...`` stands for, named by number."""
    out: list[Group] = []
    for group in groups:
        out += [(f"axis {k}",) for k in range(more)] if group == ("...",) else [group]
    return out


def rearrange(x: Any, pattern: str, *, out: Any = None, threads: int | None = None, **sizes: int) -> Any:
    """Permute, split and merge the axes of an array, as ``einops.rearrange``, at the speed of `reorder`.

    Parameters
    ----------
    x : array_like, torch tensor or Tensor
        Its axes are those of the left side; of a `Tensor` the logical dimensions are. Any strides, any dtype of 1, 2,
        4, 8 or 16 bytes.
    pattern : str
        ``"b c h w -> b h w c"``: names of axes, free to choose; ``(h b)`` is an axis that consists of two, the first
        of which is the outer one; ``...`` is any number of axes; ``1`` is an axis of size 1.
    out : ndarray, optional
        Where to write: a contiguous array of the shape of the result.
    threads : int, optional
        At most this many threads.
    **sizes : int
        Sizes of axes that do not follow from the shape of `x`: ``rearrange(x, "b c (h k) w -> b k c h w", k=2)``.

    Returns
    -------
    ndarray, torch tensor or Tensor, as `x`
        A new array, contiguous; of a `Tensor` one in the plain layout of as many dimensions.

    Raises
    ------
    TypeError, ValueError
        The pattern is malformed, or does not fit the shape of `x`.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> x = np.arange(24).reshape(1, 4, 2, 3)
    >>> lk.rearrange(x, "b c h w -> b h w c").shape
    (1, 2, 3, 4)
    >>> lk.rearrange(x, "b (k c) h w -> b (c h) (w k)", k=2).shape
    (1, 4, 6)
    """
    what = f"rearrange {pattern!r}"
    if not isinstance(pattern, str):
        raise TypeError(f"rearrange: pattern: expected a text such as 'b c h w -> b h w c', got {pattern!r}")
    array = x.numpy() if isinstance(x, Tensor) else as_array(x, f"{what}: x")
    check_movable(array, what)
    try:
        r = _rearrangement(pattern, array.shape, tuple((name, _whole(name, size)) for name, size in sizes.items()))
    except ValueError as error:
        raise ValueError(f"{what}: {error}; x has shape {array.shape}") from None
    to = None
    if out is not None:
        to = as_out(out, what)
        if to.shape != r.shape or not to.flags.c_contiguous:
            got = f"shape {to.shape}" if to.shape != r.shape else f"byte strides {to.strides}"
            raise ValueError(f"{what}: out must be a contiguous array of shape {r.shape}, got {got}")
        to = to.reshape(r.moved)
    result = reorder(array.reshape(r.parts), r.src, r.dst, out=to, threads=threads).reshape(r.shape)
    if out is not None:
        return out
    if isinstance(x, Tensor):
        return Tensor(result, Layout.from_factors([(d, 0) for d in range(len(r.shape))]))
    return as_torch_like(result, x)


class _Rearrangement(NamedTuple):
    """A reorder, and how the array is seen before and after it."""

    parts: tuple[int, ...]  # a view of the array: axes are only split
    src: Layout
    dst: Layout
    moved: tuple[int, ...]
    shape: tuple[int, ...]


@lru_cache(256)
def _rearrangement(pattern: str, shape: tuple[int, ...], named: tuple[tuple[str, int], ...]) -> _Rearrangement:
    left, right = _sides(_parse(pattern), len(shape))
    extents = _sizes(left, shape, dict(named))
    axes, order = ([name for group in side for name in group] for side in (left, right))
    if len(axes) > MAX_AXES:
        raise ValueError(f"{len(axes)} axes, at most {MAX_AXES}")
    src = Layout.from_factors([(d, 0) for d in range(len(axes))])
    dst = Layout.from_factors([(axes.index(name), 0) for name in order])
    parts, moved = (tuple(extents[name] for name in names) for names in (axes, order))
    return _Rearrangement(parts, src, dst, moved, tuple(prod(extents[name] for name in group) for group in right))


def _whole(name: str, size: Any) -> int:
    try:
        return index(size)
    except TypeError:
        raise ValueError(f"{name}={size!r}: expected an integer") from None


def _sides(pattern: _Pattern, ndim: int) -> tuple[list[Group], list[Group]]:
    more = ndim - len(pattern.left) + 1 if ("...",) in pattern.left else 0
    left, right = (_expanded(side, max(more, 0)) for side in pattern)
    if len(left) != ndim or more < 0:
        raise ValueError(f"the left side has {len(left)} axes")
    return left, right


def _sizes(left: list[Group], shape: tuple[int, ...], named: dict[str, int]) -> dict[str, int]:
    """The size of every axis: an argument, or what remains of the axis of `x` that it is a part of."""
    names = {name for group in left for name in group}
    if unknown := sorted(set(named) - names):
        raise ValueError(f"{unknown[0]}={named[unknown[0]]!r} is no axis of the pattern")
    sizes = dict(named)
    for name, value in sizes.items():
        if value < 0:
            raise ValueError(f"{name}={value!r} is negative")
    for group, size in zip(left, shape):
        open_ = [name for name in group if name not in sizes]
        known = prod(sizes[name] for name in group if name in sizes)
        if len(open_) > 1:
            raise ValueError(f"the sizes of {' and '.join(open_)} are open: give all but one")
        if open_ and known and size % known == 0:
            sizes[open_[0]] = size // known
        if (open_ and open_[0] not in sizes) or prod(sizes[name] for name in group) != size:
            parts = " x ".join(f"{name} = {sizes.get(name, '?')}" for name in group) or "1"
            raise ValueError(f"an axis of size {size} cannot be ({parts})")
    return sizes
