"""Layouts read back from strides, and what strides alone leave open."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .layout import Layout
from .strides import of_strides
from .written import order_of


class Reading(NamedTuple):
    """What sizes and strides say of a layout.

    Attributes
    ----------
    layout : Layout
        A plain layout that puts every element where the strides put it; dense if any dense one does.
    shape, strides : tuple of int
        What was read, in logical order.
    free : tuple of int
        The dimensions whose place is not determined: those of size 1 (all, if some size is 0). Their strides
        say where the writer had them, by convention only: PyTorch's suggested memory format reads that, and
        so does `layout`.
    """

    layout: Layout
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    free: tuple[int, ...]

    @property
    def is_ambiguous(self) -> bool:
        """Whether layouts of another order put every element at the same place."""
        return len(self.free) > 0 and len(self.shape) > 1

    def allows(self, layout: Layout | str) -> bool:
        """Whether `layout` puts every element where the strides put it: all that the strides can tell."""
        return self.layout.equivalent(layout, self.shape)

    def candidates(self) -> Iterator[Layout]:
        """Every plain layout that the strides allow, the most likely first."""
        if 0 in self.shape:
            orders: Iterator = itertools.permutations(range(len(self.shape)))
        else:
            orders = _orders([d for d in order_of(self.layout) if d not in self.free], list(self.free))
        pitch = dict(zip(order_of(self.layout), self.layout.pitches))
        yield self.layout
        for dims in orders:
            other = Layout.from_factors([(d, 0) for d in dims], [pitch[d] for d in dims])
            if other != self.layout:
                yield other

    def explain(self) -> str:
        """A sentence for people."""
        text = f"strides {self.strides} on shape {self.shape} read as {self.layout}"
        if not self.is_ambiguous:
            return text + "; no other order would do"
        names = ", ".join(self.layout.dims[d] for d in self.free)
        why = "no element is in it" if 0 in self.shape else "its index is always 0"
        return f"{text}; the place of {names} is open: {why}"


def _orders(fixed: list[int], free: list[int]) -> Iterator[list[int]]:
    """All orders of both lists that keep the order of `fixed`."""
    if not free:
        yield fixed
        return
    for rest in _orders(fixed, free[1:]):
        for at in range(len(rest) + 1):
            yield rest[:at] + free[:1] + rest[at:]


def read(shape: Sequence[int], strides: Sequence[int]) -> Reading:
    """The layout of a tensor from its sizes and element strides, both in logical order.

    Parameters
    ----------
    shape, strides : sequence of int
        As torch gives them, or numpy (divided by the item size).

    Returns
    -------
    Reading
        The layout, and what is ambiguous about it.

    Raises
    ------
    ValueError
        Their lengths differ, or one is negative.
    """
    written, free = of_strides(shape, strides)
    layout = Layout.from_factors(*written)
    return Reading(layout, tuple(int(s) for s in shape), tuple(int(s) for s in strides), free)
