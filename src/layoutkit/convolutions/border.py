"""Padding modes other than zeros, and negative padding, which crops the input.

    x'[i] = x[edge(i)]    reflect: .. 2 1 | 0 1 2 ..     circular: .. n-2 n-1 | 0 1 ..     edge: .. 0 0 | 0 1 ..

The input is copied with its border, or with negative padding is a view of a part; the convolution of that has the
padding that remains: zeros, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..formats.layout import Layout
from ..memory.arrays import contiguous_strides, empty, lay_out, nbytes_of
from ..reorders.reorder import reorder
from .algorithms.base import CHANNELS_LAST
from .problem import Pairs
from .route import ConvRoute

MODES = ("zeros", "reflect", "circular", "edge")
SYNONYMS = {"replicate": "edge", "wrap": "circular"}  # torch's and numpy's names
# Those of scipy, skimage and OpenCV are refused, with a hint: some mean something else in another library.
OTHER_NAMES = {"nearest": "edge", "border": "edge", "mirror": "reflect", "reflect101": "reflect", "constant": "zeros",
             "grid-wrap": "circular", "periodic": "circular", **SYNONYMS}  # fmt: skip
LINE_BYTES = 64
Ranges = tuple[tuple[int, int], ...]


class Border(NamedTuple):
    """How an input is prepared: a part of it, and the border that is put around that.

    Parameters
    ----------
    layout : Layout
        Of the input.
    shape : tuple of int
        Its logical shape.
    crop, grow : Pairs
        Elements that are removed, and added, before and after along each spatial axis.
    mode : str
        One of `MODES`.
    """

    layout: Layout
    shape: tuple[int, ...]
    crop: Pairs
    grow: Pairs
    mode: str
    threads: int

    @property
    def in_place(self) -> bool:
        """Whether the part is a view: nothing is added, and no spatial axis is blocked."""
        return not any(map(any, self.grow)) and self.spatial_whole

    @property
    def spatial_whole(self) -> bool:
        return all(f.dim < 2 or not f.size for f in self.layout.factors)

    @property
    def convolved_layout(self) -> Layout:
        """The layout of the prepared input."""
        return self.layout if self.spatial_whole else Layout(CHANNELS_LAST[self.layout.rank])

    @property
    def part(self) -> Ranges:
        """The part of the input that is left, along each spatial axis."""
        return tuple((a, max(a, n - b)) for n, (a, b) in zip(self.shape[2:], self.crop))

    @property
    def convolved_shape(self) -> tuple[int, ...]:
        """Logical shape of the prepared input."""
        size = [stop - start + a + b for (start, stop), (a, b) in zip(self.part, self.grow)]
        return (*self.shape[:2], *size)

    def strides(self, x_strides: tuple[int, ...], width: int) -> tuple[int, ...]:
        """Byte strides of the prepared input."""
        return x_strides if self.in_place else contiguous_strides(self.convolved_layout, self.convolved_shape, width)

    def nbytes(self, dtype: np.dtype) -> int:
        """Bytes of the copy, in whole cache lines; 0 where there is none."""
        if self.in_place:
            return 0
        nbytes = nbytes_of(self.convolved_layout.physical_shape(self.convolved_shape), dtype, "border")
        return -(-nbytes // LINE_BYTES) * LINE_BYTES

    def prepared(self, x: np.ndarray, memory: np.ndarray | None) -> np.ndarray:
        """The prepared input: a view of `x`, or a copy, in `memory` if that is not None."""
        if self.in_place:
            return x[tuple(slice(*self.part[f.dim - 2]) if f.dim > 1 else slice(None) for f in self.layout.factors)]
        to = self.convolved_layout
        physical = to.physical_shape(self.convolved_shape)
        if memory is None:
            y = empty(physical, x.dtype, "border")
        else:
            y = lay_out(memory[: nbytes_of(physical, x.dtype, "border")].view(x.dtype), to, self.convolved_shape)
        inside = tuple((a, a + stop - start) for (a, _), (start, stop) in zip(self.grow, self.part))
        reorder(
            x, self.layout, to, shape=self.shape, out=y, region=(None, None, *self.part),
            at=(0, 0, *(a for a, _ in inside)), threads=self.threads,
        )  # fmt: skip
        for axis, ((start, stop), (before, after)) in enumerate(zip(inside, self.grow)):
            if before:
                self._copy(y, axis, slice(start - before, start), self._repeated(start, stop, before, True))
            if after:
                self._copy(y, axis, slice(stop, stop + after), self._repeated(start, stop, after, False))
        return y

    def _repeated(self, start: int, stop: int, count: int, before: bool) -> slice:
        """The elements that the border repeats, of an axis that holds the input from `start` to `stop`."""
        if self.mode == "edge":
            return slice(start, start + 1) if before else slice(stop - 1, stop)
        if self.mode == "circular":
            return slice(stop - count, stop) if before else slice(start, start + count)
        first, end = (start + count, start) if before else (stop - 2, stop - 2 - count)
        return slice(first, None if end < 0 else end, -1)

    def _copy(self, y: np.ndarray, axis: int, to: slice, of: slice) -> None:
        """Copy slices of a spatial axis."""
        outer = (slice(None),) * self.convolved_layout.digits(axis + 2)[0]
        y[(*outer, to)] = y[(*outer, of)]


def border_of(
    layout: Layout, shape: Sequence[int], pads: Pairs, mode: str, threads: int, what: str
) -> tuple[Border | None, Pairs]:
    """How an input of `shape` is prepared, and the padding by zeros that remains.

    Raises
    ------
    ValueError
        More is cropped than there is, or the border is wider than the input that it repeats.
    """
    crop = tuple((max(0, -a), max(0, -b)) for a, b in pads)
    grow = tuple((max(0, a), max(0, b)) for a, b in pads)
    if mode == "zeros" and not any(map(any, crop)):
        return None, pads
    size = tuple(n - a - b for n, (a, b) in zip(shape[2:], crop))
    if min(size, default=1) < 0:
        raise ValueError(f"{what}: padding {pads} crops more than the input of {tuple(shape[2:])}")
    if mode == "zeros":
        return Border(layout, tuple(shape), crop, ((0, 0),) * len(crop), mode, threads), grow
    reach = {"reflect": -1, "circular": 0}  # elements that a border repeats at most, less those of the input
    for n, pair in zip(size, grow):
        if any(pair) and (n < 1 or (mode in reach and max(pair) > n + reach[mode])):
            hint = "" if mode == "edge" else f": {mode} reaches {max(0, n + reach[mode])} elements at most"
            raise ValueError(
                f"{what}: padding {pads} of mode {mode!r} does not fit the input of {tuple(shape[2:])}{hint}"
            )
    return Border(layout, tuple(shape), crop, grow, mode, threads), ((0, 0),) * len(grow)


class BorderedRoute:
    """A route of a convolution whose input gets a border first: see `route.ConvRoute`."""

    def __init__(self, border: Border, route: ConvRoute, dtype: np.dtype) -> None:
        self.run, self.packing, self.pack = _Run(border, route.run, dtype), route.packing, route.pack


class _Run:
    def __init__(self, border: Border, run: Any, dtype: np.dtype) -> None:
        self._border, self._run, self._nbytes = border, run, border.nbytes(dtype)

    def __call__(self, x, w, bias, y, epilogue=None, add=None, workspace=None) -> None:
        memory = None
        if workspace is not None and self._nbytes:
            flat = workspace.reshape(-1).view(np.uint8)
            first = -flat.ctypes.data % LINE_BYTES
            memory, workspace = flat[first : first + self._nbytes], flat[first + self._nbytes :]
        self._run(self._border.prepared(x, memory), w, bias, y, epilogue, add, workspace)

    def needs(self, y: np.ndarray, add: np.ndarray | None = None, epilogue: Any = None) -> int:
        """Bytes of workspace of a call, the copy of the input among them."""
        more = self._nbytes + LINE_BYTES if self._nbytes else 0
        return self._run.needs(y, add, epilogue) + more
