"""What a convolution is, before anything is decided about how: exact, hashable, checked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from ..layout import Layout
from ..notation import key

ACCURACIES = ("reproducible", "strict", "standard", "fast")  # each allows what the ones before it allow

Pairs = tuple[tuple[int, int], ...]
_KEY = re.compile(
    r"conv n(\d+) c(\d+) (\S+) o(\d+) k(\S+) s(\S+) p(\S+) d(\S+) g(\d+) ([^\s>]+)>(\S+) f32"
    rf"(?: ({'|'.join(ACCURACIES)}))?"
)


@dataclass(frozen=True)
class ConvProblem:
    """A convolution of exact shape between exact layouts. Spatial tuples have one entry per spatial axis."""

    n: int
    ic: int
    oc: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Pairs
    dilation: tuple[int, ...]
    groups: int
    src: Layout
    dst: Layout
    accuracy: str = "standard"

    @cached_property
    def out(self) -> tuple[int, ...]:
        """Spatial size of the output."""
        return tuple(
            (i + a + b - d * (k - 1) - 1) // s + 1
            for i, (a, b), k, s, d in zip(self.size, self.padding, self.kernel, self.stride, self.dilation)
        )

    @property
    def fits(self) -> bool:
        """Whether there is such a convolution, with anything to compute."""
        axes = (self.size, self.kernel, self.stride, self.dilation, self.padding)
        if {len(x) for x in axes} != {self.src.rank - 2} or self.dst.rank != self.src.rank:
            return False
        values = (self.n, self.ic, self.oc, self.groups, *self.size, *self.kernel, *self.stride, *self.dilation)
        return min(values) > 0 and not self.ic % self.groups and not self.oc % self.groups and min(self.out) > 0

    @property
    def src_shape(self) -> tuple[int, ...]:
        """Logical shape of the input."""
        return (self.n, self.ic, *self.size)

    @property
    def dst_shape(self) -> tuple[int, ...]:
        """Logical shape of the output."""
        return (self.n, self.oc, *self.out)

    @property
    def flops(self) -> int:
        """Multiplications and additions, padded taps included."""
        return 2 * self.n * self.oc * prod(self.out) * self.ic // self.groups * prod(self.kernel)

    def __str__(self) -> str:
        """The key that the cost table knows this problem by."""

        def x(values: Sequence[int]) -> str:
            return "x".join(map(str, values))

        pads = ",".join(f"{a}+{b}" for a, b in self.padding)
        return (
            f"conv n{self.n} c{self.ic} {x(self.size)} o{self.oc} k{x(self.kernel)} s{x(self.stride)} "
            f"p{pads} d{x(self.dilation)} g{self.groups} {key(self.src)}>{key(self.dst)} f32 "
            f"{self.accuracy}"
        )

    @classmethod
    def parse(cls, text: str) -> ConvProblem:
        """The problem whose key `text` is; ValueError if it is none, or one without work."""
        found = _KEY.fullmatch(text)
        if not found:
            raise ValueError(f"not the key of a convolution: {text!r}")
        n, ic, size, oc, kernel, stride, pads, dilation, groups, src, dst, accuracy = found.groups()

        def x(values: str) -> tuple[int, ...]:
            return tuple(map(int, values.split("x")))

        padding = tuple((int(a), int(b)) for a, b in (pair.split("+") for pair in pads.split(",")))
        p = cls(
            int(n), int(ic), int(oc), x(size), x(kernel), x(stride), padding, x(dilation), int(groups),
            Layout(src), Layout(dst), accuracy or "standard",
        )  # fmt: skip
        if not p.fits:
            raise ValueError(f"not a convolution: {text!r}; its numbers do not fit together")
        return p


def per_axis(value, rank: int, what: str, least: int) -> tuple[int, ...]:
    """`value` (an int, or one per spatial axis) as a tuple of `rank` ints of at least `least`."""
    values = (value,) * rank if isinstance(value, int) else value
    try:
        values = tuple(int(v) for v in values if int(v) == v)
    except (TypeError, ValueError):
        values = ()
    if len(values) != rank or any(v < least for v in values):
        raise ValueError(f"{what}: expected an int of at least {least}, or {rank} of them, got {value!r}")
    return values


def pad_pairs(padding, size, kernel, stride, dilation) -> Pairs:
    """`padding` in any of its forms as (before, after) pairs."""
    rank = len(size)
    if padding == "valid":
        return ((0, 0),) * rank
    if padding == "same":
        total = [
            max(0, (-(-i // s) - 1) * s + d * (k - 1) + 1 - i)
            for i, k, s, d in zip(size, kernel, stride, dilation)
        ]
        return tuple((t // 2, t - t // 2) for t in total)
    if isinstance(padding, str):
        raise ValueError(f"padding: expected 'same', 'valid' or numbers, got {padding!r}")
    if not isinstance(padding, int) and all(isinstance(p, Sequence) for p in padding):
        pairs = [per_axis(p, 2, "padding", 0) for p in padding]
        if len(pairs) != rank:
            raise ValueError(f"padding: expected {rank} pairs, got {padding!r}")
        return tuple((before, after) for before, after in pairs)
    return tuple((p, p) for p in per_axis(padding, rank, "padding", 0))
