"""A convolution as a problem: exact, hashable, checked."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ..choosing.keys import CHANNELS, LAYOUT, NUMBER, numbers, parts, sizes
from ..formats.layout import Layout
from ..formats.nearest import near
from ..formats.notation import key
from .types import F32, TYPES, ConvTypes

ACCURACIES = ("reproducible", "strict", "standard", "fast")  # each includes those before it
ACCURACY_SYNONYMS = {"exact": "strict", "high": "strict", "precise": "strict", "normal": "standard",
                     "default": "standard", "deterministic": "reproducible"}  # fmt: skip

MAX_SIZE = 2**31 - 1  # of a kernel, stride, dilation, padding or number of groups
MAX_BYTES = 2**62  # of an array, its padding included: offsets are 64 bits wide
# A padded copy of the input may take the larger of these.
MAX_COPY_BYTES = 64 << 20
MAX_COPY_RATIO = 4  # to the bytes of input and output together

Pairs = tuple[tuple[int, int], ...]
_AXES, _PAD = sizes(3), r"-?[0-9]{1,18}\+-?[0-9]{1,18}"
KEY = (  # of a convolution, without its threads
    f"conv n({NUMBER}) c({CHANNELS}) ({_AXES}) o({CHANNELS}) k({_AXES}) s({_AXES}) p({_PAD}(?:,{_PAD}){{0,2}}) "
    f"d({_AXES}) g({NUMBER}) ({LAYOUT})>({LAYOUT}) ({'|'.join(TYPES)})(?: ({'|'.join(ACCURACIES)}))?( zeros)?"
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
    zeros: bool = False  # padding must be summed, not skipped: the filter has Inf or NaN, and 0 * Inf is NaN
    types: ConvTypes = F32

    def __post_init__(self) -> None:
        pads = [n for pair in self.padding for n in pair]
        for name, values, least in (("kernel", self.kernel, 1), ("stride", self.stride, 1),
                                   ("dilation", self.dilation, 1), ("padding", pads, -MAX_SIZE),
                                   ("groups", (self.groups,), 1)):  # fmt: skip
            if values and not least <= min(values) <= max(values) <= MAX_SIZE:
                raise ValueError(f"convolution: {name} {getattr(self, name)} is not within {least} to {MAX_SIZE}")
        padded = tuple([max(n, n + a + b) for n, (a, b) in zip(self.size, self.padding)])
        for layout, shape, width, what in (
            (self.src, (self.n, self.ic, *padded), self.types.src.itemsize, "input with its padding"),
            (self.dst, self.dst_shape, self.types.dst.itemsize, "output"),
        ):
            blocks = [f.size for f in layout.factors if f.size]  # padding adds less than a block in each dimension
            if width * prod([max(1, n) for n in shape]) * prod(blocks) < MAX_BYTES:
                continue
            if width * prod([max(1, n) for n in layout.physical_shape([max(0, n) for n in shape])]) >= MAX_BYTES:
                raise ValueError(f"convolution: an {what} of {shape} in {layout} is beyond 2**62 bytes")

    def between(self, src: Layout, dst: Layout) -> ConvProblem:
        """The same between these layouts; cached, since every algorithm asks for it."""
        return self._changed((src, dst), src=src, dst=dst)

    def of_types(self, types: ConvTypes) -> ConvProblem:
        """The same in these types; cached."""
        return self if types == self.types else self._changed(types, types=types)

    def _changed(self, key: Hashable, **changes: Any) -> ConvProblem:
        cache = self.__dict__.setdefault("_changes", {})
        changed = cache.get(key)
        if changed is None:
            changed = cache[key] = replace(self, **changes)
        return changed

    def copy_fits(self, nbytes: int) -> bool:
        """Whether a padded copy of the input, of so many bytes, is in proportion to what is convolved."""
        return nbytes <= max(MAX_COPY_BYTES, MAX_COPY_RATIO * (self.src_bytes + self.dst_bytes))

    @property
    def out(self) -> tuple[int, ...]:
        """Spatial size of the output."""
        # Before Python 3.12 cached_property takes a lock, which the child of a fork may find held for ever.
        out = self.__dict__.get("_out")
        if out is None:
            attributes = self.size, self.kernel, self.stride, self.padding, self.dilation
            out = self.__dict__["_out"] = out_sizes(*attributes)
        return out

    @property
    def fits(self) -> bool:
        """Whether the sizes are valid, and there is anything to compute."""
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
    def src_bytes(self) -> int:
        """Bytes of the input, without pads."""
        return self.types.src.itemsize * prod(self.src_shape)

    @property
    def filter_bytes(self) -> int:
        """Of the filter, before it is packed."""
        return self.types.filter.itemsize * self.oc * (self.ic // self.groups) * self.taps

    @property
    def dst_bytes(self) -> int:
        """Bytes of the output, without pads."""
        return self.types.dst.itemsize * prod(self.dst_shape)

    @property
    def taps(self) -> int:
        """Positions of the filter in space."""
        return prod(self.kernel)

    @property
    def pads(self) -> bool:
        """Whether there is any padding."""
        return any(map(any, self.padding))

    @property
    def flops(self) -> int:
        """Multiplications and additions, padded taps included."""
        return 2 * self.n * self.oc * prod(self.out) * self.ic // self.groups * prod(self.kernel)

    def __str__(self) -> str:
        """The key that the cost table knows this problem by."""
        x, pads = sizes_text, pads_text(self.padding)
        return (
            f"conv n{self.n} c{self.ic} {x(self.size)} o{self.oc} k{x(self.kernel)} s{x(self.stride)} "
            f"p{pads} d{x(self.dilation)} g{self.groups} {key(self.src)}>{key(self.dst)} {self.types.name} "
            f"{self.accuracy}{' zeros' * self.zeros}"
        )

    @classmethod
    def parse(cls, text: str) -> ConvProblem:
        """The problem of a key; ValueError if there is none, or nothing to compute."""
        texts = parts(text, KEY, "the key of a convolution")
        n, ic, size, oc, kernel, stride, pads, dilation, groups, src, dst, types, accuracy, zeros = texts
        padding = tuple((int(a), int(b)) for a, b in (pair.split("+") for pair in pads.split(",")))
        p = cls(
            int(n), int(ic), int(oc), numbers(size), numbers(kernel), numbers(stride), padding, numbers(dilation),
            int(groups), Layout(src), Layout(dst), accuracy or "standard", bool(zeros), TYPES[types],
        )  # fmt: skip
        if not p.fits:
            raise ValueError(f"not a convolution: {text!r}; its numbers do not fit together")
        return p


def out_sizes(size, kernel, stride, padding: Pairs, dilation) -> tuple[int, ...]:
    """The outputs of a convolution along each axis."""
    axes = zip(size, kernel, stride, padding, dilation)
    return tuple([(n + a + b - d * (k - 1) - 1) // s + 1 for n, k, s, (a, b), d in axes])


def in_sizes(out, kernel, stride, padding: Pairs, dilation) -> tuple[int, ...]:
    """The fewest inputs along each axis of which a convolution has so many outputs."""
    axes = zip(out, kernel, stride, padding, dilation)
    return tuple([(n - 1) * s - a - b + d * (k - 1) + 1 for n, k, s, (a, b), d in axes])


def sizes_text(values: Sequence[int]) -> str:
    """Sizes as in keys: 3x3."""
    return "x".join(map(str, values))


def pads_text(padding: Pairs) -> str:
    """Padding as in keys: 1+1,0+2."""
    return ",".join(f"{before}+{after}" for before, after in padding)


def per_axis(value, rank: int, what: str, least: int) -> tuple[int, ...]:
    """`value` (an int, or one per spatial axis) as a tuple of `rank` ints of at least `least`."""
    if type(value) is int and least <= value <= MAX_SIZE:  # the usual case
        return (value,) * rank
    values = (value,) * rank if isinstance(value, (int, np.integer)) else value
    try:
        values = () if isinstance(value, (set, dict)) else tuple(int(v) for v in values if int(v) == v)
    except (TypeError, ValueError, OverflowError):
        values = ()
    if len(values) != rank or any(v < least for v in values):
        several = f", or {rank} of them" * (rank > 1)
        raise ValueError(f"{what}: expected an int of at least {least}{several}, got {value!r}")
    if any(v > MAX_SIZE for v in values):
        raise ValueError(f"{what}: {value!r} is beyond {MAX_SIZE}")
    return values


def pad_pairs(padding, size, kernel, stride, dilation, what: str = "padding", least: int = 0) -> Pairs:
    """`padding` in any of its forms as (before, after) pairs of at least `least`. `what`: the argument, for errors.

    "same": as many outputs as strides fit into the input; of an odd sum of paddings the larger is after, as ONNX's
    SAME_UPPER and TensorFlow have it, or with "same_lower" before.
    """
    rank = len(size)
    if isinstance(padding, str) and padding == "valid":
        return ((0, 0),) * rank
    if isinstance(padding, str) and padding in ("same", "same_lower"):
        total = [
            max(0, (-(-i // s) - 1) * s + d * (k - 1) + 1 - i) for i, k, s, d in zip(size, kernel, stride, dilation)
        ]
        lower = padding == "same_lower"
        return tuple(((t + lower) // 2, t - (t + lower) // 2) for t in total)
    if isinstance(padding, str):
        close = near(padding, ("same", "same_lower", "valid"), {"same_upper": "same", "full": "", "none": "valid"})
        hint = f"; did you mean {close!r}?" if close else ""
        raise ValueError(f"{what}: expected 'same', 'same_lower', 'valid' or numbers, got {padding!r}{hint}")
    number = isinstance(padding, (int, np.integer)) or not (isinstance(padding, Sequence) or np.ndim(padding))
    axes = () if number else tuple(padding)
    if axes and all(isinstance(p, (Sequence, np.ndarray)) for p in axes):
        pairs = [per_axis(p, 2, what, least) for p in axes]
        if len(pairs) != rank:
            raise ValueError(f"{what}: expected {rank} pairs, got {padding!r}")
        return tuple((before, after) for before, after in pairs)
    return tuple((p, p) for p in per_axis(padding, rank, what, least))
