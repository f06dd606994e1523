"""Receptive fields along an axis: which pixels of its input a pixel of a result reads."""

from __future__ import annotations

from typing import NamedTuple


class ReceptiveField(NamedTuple):
    """Pixel i of a result reads pixels ``(times*i + first) // over`` to ``(times*i + last) // over``, both included."""

    times: int = 1
    over: int = 1
    first: int = 0
    last: int = 0

    def inputs(self, begin: int, end: int) -> tuple[int, int]:
        """The range of pixels that pixels [begin, end) of the result read, from the first to the last."""
        low = (self.times * begin + self.first) // self.over
        return low, (self.times * (end - 1) + self.last) // self.over + 1

    def outputs(self, begin: int, end: int) -> tuple[int, int]:
        """The pixels of the result that read only [begin, end)."""
        return -((self.first - self.over * begin) // self.times), -((self.last - self.over * end) // self.times)


PIXEL = ReceptiveField()  # each pixel reads the one at the same place


def of_window(stride: int, reach: int, before: int) -> ReceptiveField:
    """That of a convolution or pooling: `reach` pixels from the first to the last tap, `before` pixels of padding."""
    return ReceptiveField(stride, 1, -before, reach - 1 - before)
