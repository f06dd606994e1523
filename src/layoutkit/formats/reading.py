"""Layouts read back from strides, and what strides alone leave open."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any, NamedTuple

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


def read(shape: Any, strides: Sequence[int] | None = None) -> Reading:
    """The layout of a tensor from its sizes and element strides, both in logical order.

    Parameters
    ----------
    shape : sequence of int, or array
        The sizes. Of an array of numpy or torch, whose axes are the logical dimensions, sizes and strides are read.
    strides : sequence of int, optional
        In elements, as torch gives them; numpy's are in bytes: pass the array instead.

    Returns
    -------
    Reading
        The layout, and what is ambiguous about it.

    Raises
    ------
    TypeError, ValueError
        Their lengths differ, one is negative, they are no integers; or strides of the array are no whole elements.

    Warns
    -----
    RuntimeWarning
        The strides look like numpy's, in bytes: 2, 4, 8 or 16 divides all of them, and without it they are dense.
    """
    if strides is None:
        shape, strides = _of_array(shape)
    elif width := _byte_width(shape, strides):
        text = f"read_strides: strides {tuple(strides)} look like bytes of elements of {width}; expected elements"
        warnings.warn(f"{text} (an array in place of shape and strides brings its own)", RuntimeWarning, stacklevel=2)
    return reading_of(shape, strides)


def reading_of(shape: Sequence[int], strides: Sequence[int]) -> Reading:
    """`read` of strides that are known to be elements."""
    written, free = of_strides(shape, strides)
    layout = Layout.from_factors(*written)
    return Reading(layout, tuple(int(s) for s in shape), tuple(int(s) for s in strides), free)


def layout_of(value: Any) -> Layout:
    """The layout that a tensor lies in.

    Parameters
    ----------
    value : Tensor, or array of numpy or torch
        A `Tensor` knows its layout. The axes of an array are taken for the logical dimensions (N C H W), and its
        strides say their order in memory, as `read_strides` reads them.

    Returns
    -------
    Layout
        Of as many dimensions as `value` has, without explicit strides where it is dense.

    Raises
    ------
    TypeError, ValueError
        It has no strides, or strides that no layout has: negative, or of parts of elements.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> image = np.zeros((1, 20, 20, 3), np.float32)                     # N H W C in memory
    >>> lk.layout_of(image.transpose(0, 3, 1, 2))
    Layout('NHWC')
    >>> lk.layout_of(lk.Tensor(image, "NHWC").to("nChw4c")) == "nChw4c"
    True
    """
    layout = getattr(value, "layout", None)
    return layout if isinstance(layout, Layout) else read(value).layout


def _of_array(value: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and element strides of an array of numpy or torch."""
    try:
        if callable(getattr(value, "stride", None)):  # torch
            if str(value.layout) != "torch.strided":
                raise ValueError(f"read_strides: a tensor of {value.layout} has no strides")
            return tuple(value.shape), tuple(value.stride())
        shape, strides, width = tuple(value.shape), tuple(value.strides), value.itemsize
    except (AttributeError, TypeError):
        raise TypeError(
            f"read_strides: expected an array, or a shape and strides; got {type(value).__name__} without strides"
        ) from None
    if any(s % width for n, s in zip(shape, strides) if n > 1):
        raise ValueError(f"read_strides: byte strides {strides} of the array are no multiples of its items' {width}")
    return shape, tuple(s // width for s in strides)


def _byte_width(shape: Any, strides: Any) -> int:
    """The bytes of an element if these strides look like bytes, else 0."""
    try:
        steps = [(int(s), int(n)) for n, s in zip(shape, strides) if n > 1]
    except (TypeError, ValueError):
        return 0
    width = gcd(*(s for s, _ in steps))
    if width not in (2, 4, 8, 16):
        return 0
    inner = width
    for step, size in sorted(steps):
        if step != inner:
            return 0
        inner *= size
    return width
