"""Suites of problems to measure: what networks ask for, each distinct problem once, with its count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import NamedTuple

from ._core import registry
from .algorithms import rows_filter_layouts
from .costfile import Cost
from .layout import Layout
from .problem import ConvProblem
from .reorder import measure_reorder, reorder_key, useful_threads
from .routes import measure_routes, route_key


class Layer(NamedTuple):
    """A convolution of a network, in any layout: square kernels and images."""

    ic: int
    oc: int
    size: int
    kernel: int
    stride: int = 1
    padding: int = 0
    groups: int = 1

    def problem(self, layout: str | Layout, batch: int = 1) -> ConvProblem:
        """This layer with input and output in `layout`."""
        layout, pad = Layout(layout), (self.padding, self.padding)
        return ConvProblem(
            batch, self.ic, self.oc, (self.size,) * 2, (self.kernel,) * 2, (self.stride,) * 2, (pad, pad),
            (1, 1), self.groups, layout, layout,
        )  # fmt: skip

    def __str__(self) -> str:
        k, stride = self.kernel, f" s{self.stride}" if self.stride > 1 else ""
        groups = f" g{self.groups}" if self.groups > 1 else ""
        return f"{k}x{k} {self.ic}->{self.oc} @{self.size}{stride}{groups}"


def resnet50() -> Iterator[Layer]:
    """The 53 convolutions of ResNet-50 v1.5 (stride in the 3x3) on a 224x224 image."""
    yield Layer(3, 64, 224, 7, 2, 3)
    ic, size = 64, 56
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            stride = 2 if block == 0 and width > 64 else 1
            yield Layer(ic, width, size, 1)
            yield Layer(width, width, size, 3, stride, 1)
            yield Layer(width, 4 * width, size // stride, 1)
            if block == 0:
                yield Layer(ic, 4 * width, size, 1, stride)
            ic, size = 4 * width, size // stride


def tiny() -> Iterator[Layer]:
    """Three small layers: does everything run?"""
    yield from (Layer(3, 8, 16, 3, 2, 1), Layer(8, 16, 8, 1), Layer(8, 16, 8, 1))


SUITES: dict[str, Callable[[], Iterator[Layer]]] = {"resnet50": resnet50, "tiny": tiny}


@dataclass(frozen=True)
class ConvCase:
    """A convolution to measure."""

    layer: Layer
    layout: str
    count: int
    threads: int
    kind = "conv"
    unit = "GFLOP/s"

    @property
    def title(self) -> str:
        return str(self.layer)

    @property
    def group(self) -> str:
        return self.layout

    @property
    def problem(self) -> ConvProblem:
        return self.layer.problem(self.layout)

    @property
    def key(self) -> str:
        """What the cost table knows it by."""
        return route_key(self.problem, self.threads)

    @property
    def work(self) -> int:
        """Multiplications and additions."""
        return self.problem.flops

    def measure(self, budget: float) -> dict[str, Cost]:
        """Costs of the candidates by name."""
        return measure_routes(self.problem, self.threads, budget)


@dataclass(frozen=True)
class ReorderCase:
    """A reorder of f32 to measure; `kind` is "reorder" for activations, "pack" for filters."""

    src: Layout
    dst: Layout
    shape: tuple[int, ...]
    count: int
    threads: int
    kind: str = "reorder"
    unit = "GB/s"

    @property
    def title(self) -> str:
        return "x".join(map(str, self.shape))

    @property
    def group(self) -> str:
        return f"{self.src}>{self.dst}" if self.kind == "reorder" else f"{self.src.tag}>{self.dst.tag}"

    @property
    def key(self) -> str:
        """What the cost table knows it by."""
        return reorder_key(self.src, self.dst, self.shape, 4, self.threads)

    @property
    def work(self) -> int:
        """Bytes read and written, pads included."""
        return 4 * (prod(self.src.physical_shape(self.shape)) + prod(self.dst.physical_shape(self.shape)))

    def measure(self, budget: float) -> dict[str, Cost]:
        """Costs of the candidates by name."""
        return measure_reorder(self.src, self.dst, self.shape, 4, self.threads, budget)


Case = ConvCase | ReorderCase


def cases(layers: Sequence[Layer], layouts: Sequence[str], threads: Sequence[int]) -> list[Case]:
    """Everything distinct that a network of `layers` meets: convolutions first, one thread count at a time.

    Reorders: each activation between each two of `layouts`, and each filter into what the kernels read.
    """
    found: list[Case] = []
    for t in threads:
        for layout in layouts:
            found += [ConvCase(layer, layout, n, t) for layer, n in Counter(layers).items()]
    shapes: Counter = Counter()
    filters: Counter = Counter()
    kernels = registry.best("gemm", 32)
    for layer, n in Counter(layers).items():
        p = layer.problem("NCHW")
        shapes[p.src_shape] += n
        shapes[p.dst_shape] += n
        shape = (p.groups, p.oc // p.groups, p.ic // p.groups, *p.kernel)
        for src, dst in {rows_filter_layouts(kernel, len(p.src_shape)) for kernel in kernels}:
            filters[src, dst, shape] += n
    moves = [
        (Layout(a), Layout(b), shape, n, "reorder")
        for a, b in permutations(layouts, 2)
        for shape, n in shapes.items()
    ] + [(src, dst, shape, n, "pack") for (src, dst, shape), n in sorted(filters.items(), key=str)]
    for t in threads:
        for src, dst, shape, n, kind in moves:
            used = useful_threads(4 * prod(dst.physical_shape(shape)), t)
            if used == t or used not in threads:
                found.append(ReorderCase(src, dst, shape, n, used, kind))
    return list(dict.fromkeys(found))
