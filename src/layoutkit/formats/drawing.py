"""A layout as a picture: memory row by row, and which element of the tensor lies at each place.

>>> from layoutkit.formats.layout import Layout
>>> print(Layout("nChw2c").draw((1, 3, 1, 2)))
nChw2c, aBcd2b: n c/2 h w 2c, outermost first
on (1, 3, 1, 2): 8 elements of memory, 6 of the tensor, 2 pads, 0 unused
axis  extent  stride
n          1       8
c/2        2       4
h          1       4
w          2       2
2c         2       1
memory, 2c across; numbers are elements in the order n c h w, . is a pad
at 0  C0 w0  0 2
at 2  C0 w1  1 3
at 4  C1 w0  4 .
at 6  C1 w1  5 .
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from html import escape
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from . import notation
from .describe import describe

if TYPE_CHECKING:
    from .layout import Layout

MAX_ROWS, MAX_COLUMNS = 24, 32  # of memory that are drawn
CELL, ROW, CHARACTER, MARGIN = 30, 22, 7.4, 8  # pixels
COLOURS = "#bfdbfe", "#fde68a", "#a7f3d0", "#f5d0fe", "#fed7aa", "#cbd5e1", "#fecaca", "#d9f99d"
INK, EDGE, PAD = "#1d2530", "#98a2b3", "#ffffff"


class Row(NamedTuple):
    """A row of memory. `cells`: the index of the element at each place, None of a pad."""

    offset: int
    label: str
    cells: tuple[tuple[int, ...] | None, ...]


class Drawing:
    """What `Layout.draw` returns: text when it is printed, SVG in notebooks; `save` writes the SVG to a file.

    Attributes
    ----------
    layout : Layout
        What is drawn.
    shape : tuple of int
        The logical shape that it is drawn on.
    """

    def __init__(self, layout: Layout, shape: Sequence[int]) -> None:
        self.layout, self.shape = layout, layout.check_shape(shape)
        self._axes, self._strides = layout.axes(self.shape), layout.axis_strides(self.shape)
        self._extents = [a.extent for a in self._axes]
        names = layout.dims
        self._coloured = names.index("c") if "c" in names else min(1, max(len(names) - 1, 0))

    def rows(self) -> Iterator[Row]:
        """The first rows of memory, outermost first: one for each place of all physical axes but the last."""
        *outer, last = self._extents or [1]
        seen: set[int] = set()
        inner = []  # whether an outer axis is a whole dimension of which blocks lie further inside
        for axis in self._axes[: len(outer)]:
            inner.append(axis.dim not in seen and self.layout.block(axis.dim) > 1)
            seen.add(axis.dim)
        for k in range(min(prod(outer), MAX_ROWS) if last else 0):
            at = _digits(k, outer)
            words = (
                f"{self.layout.dims[axis.dim].upper() if above else self.layout.dims[axis.dim]}{i}"
                for axis, above, i in zip(self._axes, inner, at)
                if axis.extent > 1
            )
            offset = sum(i * stride for i, stride in zip(at, self._strides))
            places = ((*at, i)[: len(self._axes)] for i in range(min(last, MAX_COLUMNS)))
            yield Row(offset, " ".join(words), tuple(map(self._element, places)))

    def _element(self, at: Sequence[int]) -> tuple[int, ...] | None:
        index = [0] * len(self.shape)
        for axis, i in zip(self._axes, at):
            index[axis.dim] += i * axis.unit
        return tuple(index) if all(i < n for i, n in zip(index, self.shape)) else None

    def _number(self, index: Sequence[int]) -> int:
        """Of an element, in logical order."""
        number = 0
        for i, n in zip(index, self.shape):
            number = number * n + i
        return number

    @property
    def _legend(self) -> str:
        across = f"{notation.words(self.layout)[-1]} across; " if self._extents else ""
        return f"memory, {across}numbers are elements in the order {' '.join(self.layout.dims)}"

    @property
    def _left_out(self) -> str:
        count, across = prod(self._extents[:-1]), self._extents[-1] if self._extents else 1
        more = [f"{count - MAX_ROWS} more rows"] * (count > MAX_ROWS)
        more += [f"{across - MAX_COLUMNS} more in each row"] * (across > MAX_COLUMNS)
        return f"and {', '.join(more)}" if more and across else ""

    def __str__(self) -> str:
        """As text: what `Layout.describe` says, then the rows of memory."""
        rows = list(self.rows())
        texts = [["." if index is None else str(self._number(index)) for index in row.cells] for row in rows]
        number = max((len(text) for of_row in texts for text in of_row), default=0)
        at = max((len(str(row.offset)) for row in rows), default=0)
        label = max((len(row.label) for row in rows), default=0)
        lines = [describe(self.layout, self.shape), f"{self._legend}, . is a pad"]
        for row, of_row in zip(rows, texts):
            cells = " ".join(f"{text:>{number}}" for text in of_row)
            lines.append(f"at {row.offset:>{at}}  {f'{row.label:<{label}}  ' * bool(label)}{cells}")
        return "\n".join(filter(None, [*lines, self._left_out]))

    def __repr__(self) -> str:
        return str(self)

    def _repr_svg_(self) -> str:
        rows = list(self.rows())
        head = [f"{self.layout} on {self.shape}", describe(self.layout, self.shape).split("\n")[1].partition(": ")[2]]
        strides = ", ".join(f"{word} {stride}" for word, stride in zip(notation.words(self.layout), self._strides))
        head += [f"strides: {strides}" if strides else "", self._legend, "colours are those of "
                 f"{self.layout.dims[self._coloured]}; white is a pad" if self.shape else ""]  # fmt: skip
        head = [line for line in head if line]
        digits = max((len(str(r.offset)) for r in rows), default=0)
        places = [f"at {r.offset:>{digits}}  {r.label}" for r in rows]
        label = round(MARGIN + CHARACTER * max(map(len, places), default=0) + MARGIN)
        columns = max((len(r.cells) for r in rows), default=0)
        lines = [*head, *[self._left_out] * bool(self._left_out)]
        width = round(max(label + CELL * columns, CHARACTER * max(map(len, lines)))) + 2 * MARGIN
        top = ROW * len(head) + MARGIN
        height = top + ROW * (len(rows) + bool(self._left_out)) + MARGIN
        parts = [_text(MARGIN, ROW * (i + 1) - 6, line, "title" if not i else "") for i, line in enumerate(head)]
        for k, (row, place) in enumerate(zip(rows, places)):
            y = top + ROW * k
            parts.append(_text(MARGIN, y + 15, place))
            parts += [self._cell(label + CELL * j, y, row, j) for j in range(len(row.cells))]
        if self._left_out:
            parts.append(_text(MARGIN, top + ROW * len(rows) + 15, self._left_out))
        name = escape(f"{self.layout} on {self.shape}: where each element lies in memory", True)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'role="img" aria-label="{name}" style="background: #ffffff; max-width: 100%; height: auto" '
            f'font-family="ui-monospace, monospace" font-size="12" fill="{INK}"><title>{name}</title>\n'
            + "\n".join(parts) + "\n</svg>\n"
        )  # fmt: skip

    def _cell(self, x: int, y: int, row: Row, j: int) -> str:
        index, offset = row.cells[j], row.offset + j * (self._strides[-1] if self._strides else 0)
        fill = PAD if index is None else COLOURS[index[self._coloured] % len(COLOURS)] if index else COLOURS[0]
        number = "" if index is None else str(self._number(index))
        dashes = ' stroke-dasharray="2 2"' * (index is None)
        names = "a pad" if index is None else " ".join(f"{d}{i}" for d, i in zip(self.layout.dims, index))
        rest = f'rx="3" fill="{fill}" stroke="{EDGE}"{dashes}/>'
        return (
            f"<g><title>{escape(names)}, at {offset}</title>"
            f'<rect x="{x}" y="{y}" width="{CELL - 2}" height="{ROW - 2}" {rest}'
            f'<text x="{x + CELL / 2 - 1}" y="{y + 14.5}" text-anchor="middle" font-size="11">{number}</text></g>'
        )

    def save(self, path: str | os.PathLike) -> Path:
        """Write the SVG to a file; returns its path.

        Parameters
        ----------
        path : path
            Of a file in a folder that exists.
        """
        path = Path(path)
        path.write_text(self._repr_svg_(), encoding="utf-8")
        return path


def _digits(k: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """The index of number `k`, the last axis counting fastest."""
    digits = []
    for n in reversed(sizes):
        k, digit = divmod(k, n)
        digits.append(digit)
    return tuple(reversed(digits))


def _text(x: int, y: int, text: str, weight: str = "") -> str:
    bold = ' font-weight="bold"' if weight else ""
    return f'<text x="{x}" y="{y}"{bold} xml:space="preserve">{escape(text)}</text>'
