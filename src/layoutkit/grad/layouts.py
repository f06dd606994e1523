"""Layouts and shapes of filters as gradients see them."""

from __future__ import annotations

from ..convolutions.problem import out_sizes
from ..formats.layout import Layout


def exchanged(layout: Layout) -> Layout:
    """The layout of a filter whose logical outputs and inputs change places, without its strides."""
    return Layout.from_factors([({0: 1, 1: 0}.get(f.dim, f.dim), f.size) for f in layout.factors])


def split_groups(layout: Layout) -> Layout:
    """A plain layout of a filter (O, I/groups, *kernel) as that of (groups, O/groups, I/groups, *kernel)."""
    following = {c: chr(ord(c) + 1) for c in "bcde"} | {"a": "ab"}
    return Layout("".join(following[c] for c in layout.tag))


def without_groups(layout: Layout) -> Layout:
    """The layout of (groups, O/groups, ..), its first factor the groups, as that of (O, ..)."""
    return Layout(layout.tag[1:].translate({ord(c): ord(c) - 1 for c in "bcdefBCDEF"}))


def sizes(value, rank: int, what: str) -> tuple[int, ...]:
    """The shape of a tensor or a filter with so many spatial axes; ValueError that `what` is none."""
    try:
        numbers = tuple(int(n) for n in value)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != rank + 2 or min(numbers) < 0 or min(numbers[2:]) < 1:
        raise ValueError(f"{what}: expected {rank + 2} numbers of at least 0, and 1 along spatial axes, got {value!r}")
    return numbers


def outputs(size, kernel, stride, pads, dilation, what: str) -> tuple[int, ...]:
    """The spatial size of what such a convolution gives; ValueError if there is none."""
    out = out_sizes(size, kernel, stride, pads, dilation)
    if min(out) < 1:
        raise ValueError(f"{what}: kernel {kernel} with dilation {dilation} does not fit into {size} padded by {pads}")
    return out
