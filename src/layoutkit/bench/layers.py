"""The convolutions of networks, in any layout, and random ones."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from math import prod
from typing import NamedTuple

from ..convolutions.problem import ConvProblem
from ..formats.layout import Layout

Ints = int | tuple[int, ...]
Pads = int | tuple[int | tuple[int, int], ...]
_NUMBERS = r"\d+(?:x\d+)*"
_TEXT = re.compile(
    rf"(?P<kernel>{_NUMBERS}) (?:(?P<n>\d+)x)?(?P<ic>\d+)->(?P<oc>\d+) @(?P<size>{_NUMBERS})"
    rf"(?: s(?P<stride>{_NUMBERS}))?(?: p(?P<padding>[\dx+]+))?(?: d(?P<dilation>{_NUMBERS}))?(?: g(?P<groups>\d+))?"
)


class Layer(NamedTuple):
    """A convolution without layouts. Spatial values are one int for every axis, or one an axis."""

    ic: int
    oc: int
    size: Ints
    kernel: Ints
    stride: Ints = 1
    padding: Pads = 0  # the same before and after, or pairs of (before, after)
    groups: int = 1
    dilation: Ints = 1
    n: int = 1

    @property
    def rank(self) -> int:
        """Number of spatial axes; 2 if all values are ints."""
        return next((len(v) for v in (self.size, self.kernel, self.stride, self.padding) if isinstance(v, tuple)), 2)

    def problem(self, layout: str | Layout, out_layout: str | Layout | None = None) -> ConvProblem:
        """This layer with input and output in `layout`, a name for two spatial axes (NHWC)."""
        rank = self.rank
        src = with_axes(layout, rank)
        dst = src if out_layout is None else with_axes(out_layout, rank)

        def axes(value: Ints) -> tuple[int, ...]:
            return value if isinstance(value, tuple) else (value,) * rank

        return ConvProblem(
            self.n, self.ic, self.oc, axes(self.size), axes(self.kernel), axes(self.stride),
            self._pads(self.padding), axes(self.dilation), self.groups, src, dst,
        )  # fmt: skip

    def _pads(self, padding: Pads) -> tuple[tuple[int, int], ...]:
        pads = padding if isinstance(padding, tuple) else (padding,) * self.rank
        return tuple(p if isinstance(p, tuple) else (p, p) for p in pads)

    @staticmethod
    def centred(kernel: Ints, dilation: Ints) -> Ints:
        """The padding that gives outputs the size of inputs ("same"), for odd kernels and stride 1."""
        if isinstance(kernel, int) and isinstance(dilation, int):
            return dilation * (kernel - 1) // 2
        rank = next(len(v) for v in (kernel, dilation) if isinstance(v, tuple))
        axes = (v if isinstance(v, tuple) else (v,) * rank for v in (kernel, dilation))
        return tuple(d * (k - 1) // 2 for k, d in zip(*axes))

    @classmethod
    def parse(cls, text: str) -> Layer:
        """The layer that `str` writes as `text`: kernel, channels, size, and s, p, d, g where they are not the default.

        Examples
        --------
        >>> Layer.parse("3x3 64->128 @56 s2 g4").problem("NHWC").out
        (28, 28)
        """
        match = _TEXT.fullmatch(" ".join(text.split()))
        if not match:
            raise ValueError(f"not a layer: {text!r}; expected one such as '3x3 64->128 @56 s2 p1 d1 g4'")

        def ints(name: str, default: Ints) -> Ints:
            values = match[name] and tuple(map(int, match[name].split("x")))
            return default if not values else values[0] if len(values) == 1 else values

        axes, sizes = (tuple(map(int, match[name].split("x"))) for name in ("kernel", "size"))
        rank = len(axes)
        kernel: Ints = axes[0] if rank == 2 and len(set(axes)) == 1 else axes
        size: Ints = sizes if len(sizes) > 1 else sizes[0] if rank == 2 else sizes * rank
        stride, dilation = ints("stride", 1), ints("dilation", 1)
        padding: Pads = cls.centred(kernel, dilation)
        if match["padding"]:
            try:
                sides: list[tuple[int, ...]] = [tuple(map(int, p.split("+"))) for p in match["padding"].split("x")]
            except ValueError:
                sides = [()]
            if any(len(p) not in (1, 2) for p in sides):
                raise ValueError(f"not a layer: {text!r}; padding is such as p1, p1x2 or p0+1x0+1")
            pads = tuple((p[0], p[1]) if len(p) == 2 else p[0] for p in sides)
            padding = pads[0] if len(pads) == 1 and isinstance(pads[0], int) else pads
        layer = cls(int(match["ic"]), int(match["oc"]), size, kernel, stride, padding, int(match["groups"] or 1),
                    dilation, int(match["n"] or 1))  # fmt: skip
        lengths = {len(v) for v in (size, kernel, stride, padding, dilation) if isinstance(v, tuple)}
        if lengths - {rank} or not 1 <= rank <= 3:
            raise ValueError(f"not a layer: {text!r}; it has values for different numbers of axes")
        layer.check(text)
        return layer

    def check(self, text: str) -> None:
        """ValueError if no convolution has these numbers."""
        try:
            fits = self.problem("NCHW").fits
        except ValueError as error:
            raise ValueError(f"not a layer: {text!r}; {error}") from None
        if not fits:
            raise ValueError(f"not a layer: {text!r}; its numbers do not fit together")

    def __str__(self) -> str:
        def x(value) -> str:
            if isinstance(value, int):
                return str(value)
            return "x".join(str(v) if isinstance(v, int) else "+".join(map(str, v)) for v in value)

        defaults = (1, self.centred(self.kernel, self.dilation), 1, 1)
        values = (self.stride, self.padding, self.dilation, self.groups)
        options = "".join(f" {letter}{x(v)}" for letter, v, d in zip("spdg", values, defaults) if v != d)
        kernel = x(self.kernel if isinstance(self.kernel, tuple) else (self.kernel,) * self.rank)
        batch = f"{self.n}x" if self.n > 1 else ""
        return f"{kernel} {batch}{self.ic}->{self.oc} @{x(self.size)}{options}"


def with_axes(layout: str | Layout, rank: int) -> Layout:
    """`layout`, named for two spatial axes, for `rank` of them: NHWC is NWC for one and NDHWC for three."""
    if isinstance(layout, Layout):
        return layout
    drop, add = ({1: "Hh"}, {3: ("H", "h")})
    text = "".join(c for c in layout if c not in drop.get(rank, ""))
    for letter in add.get(rank, ()):
        text = text.replace(letter, ("D" if letter == "H" else "d") + letter)
    return Layout(text)


def resnet50() -> Iterator[Layer]:
    """The 53 convolutions of ResNet-50 v1.5 (stride in the 3x3) on a 224x224 image."""
    yield from _residual((3, 4, 6, 3), width=1, groups=1)


def resnext101() -> Iterator[Layer]:
    """The 104 convolutions of ResNeXt-101 32x8d on a 224x224 image."""
    yield from _residual((3, 4, 23, 3), width=4, groups=32)


def _residual(blocks: tuple[int, ...], width: int, groups: int) -> Iterator[Layer]:
    yield Layer(3, 64, 224, 7, 2, 3)
    ic, size = 64, 56
    for base, count in zip((64, 128, 256, 512), blocks):
        inner = base * width
        for block in range(count):
            stride = 2 if block == 0 and base > 64 else 1
            yield Layer(ic, inner, size, 1)
            yield Layer(inner, inner, size, 3, stride, 1, groups)
            yield Layer(inner, 4 * base, size // stride, 1)
            if block == 0:
                yield Layer(ic, 4 * base, size, 1, stride)
            ic, size = 4 * base, size // stride


def vgg16() -> Iterator[Layer]:
    """The 13 convolutions of VGG-16 on a 224x224 image."""
    ic, size = 3, 224
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            yield Layer(ic, width, size, 3, 1, 1)
            ic = width
        size //= 2


def mobilenet_v2() -> Iterator[Layer]:
    """The 52 convolutions of MobileNet v2 on a 224x224 image, depthwise ones among them."""
    yield Layer(3, 32, 224, 3, 2, 1)
    ic, size = 32, 112
    for expand, oc, count, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for block in range(count):
            stride, inner = first if block == 0 else 1, ic * expand
            if expand > 1:
                yield Layer(ic, inner, size, 1)
            yield Layer(inner, inner, size, 3, stride, 1, inner)
            size //= stride
            yield Layer(inner, oc, size, 1)
            ic = oc
    yield Layer(320, 1280, size, 1)


def unet3d() -> Iterator[Layer]:
    """The 15 convolutions of the 3-D U-Net of Çiçek et al., padded, on a cube of 32."""
    side, ic, widths = 32, 1, []

    def cube(ic: int, oc: int, side: int, kernel: int = 3) -> Layer:
        return Layer(ic, oc, (side,) * 3, (kernel,) * 3, 1, kernel // 2)

    for depth in range(4):
        inner, oc = 32 << depth, 64 << depth
        yield cube(ic, inner, side)
        yield cube(inner, oc, side)
        ic = oc
        if depth < 3:
            widths.append(oc)
            side //= 2
    for skipped in reversed(widths):
        side *= 2
        yield cube(ic + skipped, skipped, side)
        yield cube(skipped, skipped, side)
        ic = skipped
    yield cube(ic, 3, side, 1)


def tiny() -> Iterator[Layer]:
    """Three small layers, for tests."""
    yield from (Layer(3, 8, 16, 3, 2, 1), Layer(8, 16, 8, 1), Layer(8, 16, 8, 1))


MAX_FLOPS, MAX_BYTES = 1 << 30, 32 << 20  # of a random layer: several can be measured in a second


def spread(count: int, seed: int) -> Iterator[Layer]:
    """Random layers of every kind, their sizes log-uniform, to fit the model to or to test it on."""
    rng = random.Random(seed)

    def draw(low: float, high: float, multiples: tuple[int, ...] = (1,)) -> int:
        m = rng.choice(multiples)
        return max(m, round(low * (high / low) ** rng.random() / m) * m)

    def channels(high: float) -> int:
        return draw(8, high, (1, 4, 8, 16, 32))

    drawn = 0
    while drawn < count:
        n, size = rng.choice((1, 1, 1, 1, 2, 4, 16)), draw(5, 112)
        oc = channels(1024)
        kind = rng.choice(("1x1", "1x1", "1x1", "3x3", "3x3", "3x3", "k", "strided", "first", "depthwise", "depthwise",
                           "grouped", "3d", "1d"))  # fmt: skip
        if kind == "1x1":
            layer = Layer(channels(2048), oc, size, 1, n=n)
        elif kind == "3x3":
            layer = Layer(channels(768), oc, size, 3, 1, rng.choice((0, 1, 1)), n=n)
        elif kind == "k":
            k = rng.choice((2, 4, 5, 7))
            layer = Layer(channels(256), oc, size, k, 1, k // 2, dilation=rng.choice((1, 1, 2)), n=n)
        elif kind == "strided":
            k = rng.choice((1, 2, 3, 3, 5))
            layer = Layer(channels(512), oc, size, k, 2, k // 2, n=n)
        elif kind == "first":
            k = rng.choice((3, 5, 7, 11))
            layer = Layer(rng.choice((1, 2, 3, 4)), min(oc, 128), draw(24, 256), k, rng.choice((1, 2)), k // 2, n=n)
        elif kind == "depthwise":
            k = rng.choice((3, 3, 3, 5, 7))
            layer = Layer(oc, oc, size, k, rng.choice((1, 1, 2)), k // 2, oc, n=n)
        elif kind == "grouped":
            width, groups, kernel = rng.choice((4, 8, 16, 32)), draw(2, 64), rng.choice((3, 3, 3, 1, 5))
            layer = Layer(width * groups, width * groups, size, kernel, rng.choice((1, 1, 2)), kernel // 2, groups, n=n)
        elif kind == "3d":
            layer = Layer(draw(1, 128), channels(256), (draw(4, 24), size // 2 + 3, size // 2 + 3), (3,) * 3, 1, 1)
        else:
            k = rng.choice((1, 3, 9))
            layer = Layer(channels(512), oc, (draw(64, 4096),), (k,), 1, k // 2, n=n)
        p = layer.problem("NCHW")
        elements = prod(p.src_shape) + prod(p.dst_shape) + p.oc * p.ic // p.groups * prod(p.kernel)
        if min(p.out) > 0 and 1 << 16 < p.flops < MAX_FLOPS and 4 * elements < MAX_BYTES:
            drawn += 1
            yield layer


NETWORKS: dict[str, Callable[[], Iterator[Layer]]] = {
    "resnet50": resnet50, "vgg16": vgg16, "mobilenet_v2": mobilenet_v2, "resnext101": resnext101, "unet3d": unet3d,
    "tiny": tiny,
}  # fmt: skip
