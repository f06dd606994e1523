"""First layers: few input channels, whole rows of taps folded into the sum over channels.

A tap of a layer with 3 channels is a sum of 3, too short to pay for what a tap costs. In an image padded along its
width and with channels innermost, the kw taps of a row are kw * C consecutive floats: the convolution is one of
kd * kh taps with kw * C channels, whose pixels overlap. The filter is packed as for the direct way: [taps][C].
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..._core.registry import Kernel
from ...formats.layout import Layout
from ..geometry import contiguous_strides
from ..problem import ConvProblem
from .sums import Algorithm, rows_build, rows_pack, rows_strides_ok, rows_support

CHANNELS_LAST = {3: "NWC", 4: "NHWC", 5: "NDHWC"}


class Room(NamedTuple):
    """A copy of an input padded with zeros: where everything lies that is not the input's."""

    problem: ConvProblem  # on the copy
    strides: tuple[int, ...]  # of its physical axes, in bytes
    n: int
    planes: tuple[int, int, int]  # along the depth: before, the input's, after
    rows: tuple[int, int, int]  # along the height
    row: tuple[int, int, int]  # bytes of a row
    behind: int = 0  # bytes that vectors read behind it

    @property
    def bytes(self) -> int:
        """What the copy takes."""
        return self.n * sum(self.planes) * sum(self.rows) * sum(self.row) + self.behind


def folded_support(p: ConvProblem) -> str | None:
    """Why the taps of a row do not fold; None if they do."""
    if p.groups > 1:
        return f"{p.groups} groups: the channels of a pixel are not all summed"
    if p.kernel[-1] == 1 or p.dilation[-1] > 1:
        return f"kernel {p.kernel} with dilation {p.dilation} has no consecutive taps along the width"
    if any(n < 0 for pair in p.padding for n in pair):
        return f"padding {p.padding} leaves out inputs"
    if p.src != Layout(CHANNELS_LAST[p.src.rank]):
        return f"input layout {p.src} is not {CHANNELS_LAST[p.src.rank]}"
    return rows_support(p)


def folded_room(p: ConvProblem, x_strides) -> Room | None:
    """The padded copy that an input of these byte strides needs; None if it can be read where it lies."""
    before, after = p.padding[-1]
    pixel = 4 * p.ic
    if x_strides is not None and not before + after and rows_strides_ok(p.src, x_strides, p.src_shape):
        if x_strides[-2] == pixel:
            return None
    return padded_room(p, p.n, pixel)


def padded_room(p: ConvProblem, images: int, pixel: int) -> Room:
    """The copy of an input padded on all sides: so many images, pixels of so many bytes."""
    padded = [(a, n, b) for n, (a, b) in zip(p.size, p.padding)]
    size = tuple(map(sum, padded))
    planes, rows, (first, inner, last) = [(0, 1, 0)] * (3 - len(padded)) + padded
    return Room(
        replace(p, size=size, padding=((0, 0),) * len(size)), contiguous_strides(p.src, (p.n, p.ic, *size)),
        images, planes, rows, (pixel * first, pixel * inner, pixel * last),
    )  # fmt: skip


def folded_build(p: ConvProblem, kernel: Kernel, threads: int, x_strides, y_strides, gather: bool):
    """Executor for an input without padding along its width and an output of these byte strides."""
    folded = replace(
        p,
        ic=p.ic * p.kernel[-1],
        size=(*p.size[:-1], (p.out[-1] - 1) * p.stride[-1] + 1),
        kernel=(*p.kernel[:-1], 1),
        padding=(*p.padding[:-1], (0, 0)),
    )
    return rows_build(folded, kernel, threads, x_strides, y_strides, gather)


FOLDED = Algorithm("folded", False, "channels", folded_support, rows_pack, folded_build, rows_strides_ok, "rows",
                   room=folded_room)  # fmt: skip
