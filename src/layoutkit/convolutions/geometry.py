"""A problem as executors read it: its spatial part on three axes, strides of arrays, which dimension is innermost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..formats.layout import Layout
from ..reorders.nests import Digits, digits
from .problem import ConvProblem


class Geometry(NamedTuple):
    """The spatial part of a problem on three axes, as the executors read it."""

    n: int
    groups: int
    oc: int  # output channels of a group
    size: tuple[int, ...]
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]

    @property
    def together(self) -> Geometry:
        """The same with all groups as one."""
        return self._replace(groups=1, oc=self.groups * self.oc)


def geometry(p: ConvProblem) -> Geometry:
    """The geometry of `p`, missing axes of size 1 in front; it is kept with `p`, as candidates ask for it often."""
    found: Geometry | None = p.__dict__.get("_geometry")
    if found is None:
        found = p.__dict__["_geometry"] = _geometry(p)
    return found


def _geometry(p: ConvProblem) -> Geometry:
    def three(values: Sequence[int]) -> tuple[int, ...]:
        return (1,) * (3 - len(values)) + tuple(values)

    before = (0,) * (3 - len(p.size)) + tuple(a for a, _ in p.padding)
    # The stride of a single output and the dilation of a single tap do not matter: with 1 no offset overflows.
    stride = [s if n > 1 else 1 for s, n in zip(p.stride, p.out)]
    dilation = [d if k > 1 else 1 for d, k in zip(p.dilation, p.kernel)]
    return Geometry(
        p.n, p.groups, p.oc // p.groups, three(p.size), three(p.out), three(p.kernel), three(stride), three(dilation),
        before,
    )  # fmt: skip


def strides_of(layout: Layout, strides: Sequence[int]) -> list[Digits]:
    """Per logical dimension the digits of an array of `strides`."""
    return digits(layout, strides)


def spatial_strides(ds: list[Digits]) -> tuple[int, ...]:
    """Strides of depth, height, width; 0 for missing axes."""
    values = [d[0].stride for d in ds[2:]]
    return (0,) * (3 - len(values)) + tuple(values)


def channels_innermost(layout: Layout) -> bool:
    """Channels run innermost, whole or in one block, and nothing else is blocked (NHWC, nChw16c).

    Not in blocks of one: `layout.block` does not tell those from whole ones.
    """
    last, blocks = layout.factors[-1], [f for f in layout.factors if f.size]
    return last.dim == 1 and (not blocks or (blocks == [last] and last.size > 1))


def pixels_innermost(layout: Layout) -> bool:
    """Plain, images and channels outside, pixels in logical order inside (NCHW, CNHW)."""
    order = [f.dim for f in layout.factors]
    return order[2:] == list(range(2, layout.rank)) and all(not f.size for f in layout.factors)
