"""Problems to measure: those of networks, reorders between formats, and random ones that the model is fitted to."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from math import prod

from .._core.runtime import registry
from ..convolutions.algorithms.sums import filter_layouts
from ..convolutions.phases import TransposedTask
from ..convolutions.problem import ConvProblem
from ..convolutions.task import ConvTask, PackTask, cold_seconds
from ..convolutions.types import F32, TYPES, ConvTypes
from ..formats.layout import Layout
from ..grad.task import WeightTask
from ..reorders.problem import ReorderProblem, useful_threads
from .layers import NETWORKS, Layer, spread, with_axes


@dataclass(frozen=True)
class ConvCase:
    """A convolution to measure."""

    problem: ConvProblem
    title: str
    group: str
    count: int
    threads: int
    kind = "conv"
    unit = "GFLOP/s"

    @property
    def peak(self) -> str:
        """The types whose multiply-adds are the limit."""
        return self.problem.types.peak

    def of(self, types: ConvTypes) -> ConvCase:
        """The same in other types."""
        return replace(self, problem=replace(self.problem, types=types), group=f"{self.group} {types.name}")

    @property
    def key(self) -> str:
        """Key in the cost table."""
        return self.task.key

    @property
    def work(self) -> int:
        """Multiplications and additions."""
        return self.problem.flops

    @property
    def nbytes(self) -> int:
        """Bytes of input, filter and output."""
        p = self.problem
        src, dst = prod(p.src.physical_shape(p.src_shape)), prod(p.dst.physical_shape(p.dst_shape))
        return p.types.src.itemsize * src + p.types.dst.itemsize * dst + PackTask.of(p).work // 2

    @property
    def task(self) -> ConvTask:
        """The task to measure."""
        return ConvTask(self.problem, self.threads)

    def cold(self, name: str) -> float:
        """Seconds of a candidate with a cold filter."""
        return cold_seconds(self.task, name)


@dataclass(frozen=True)
class WeightCase(ConvCase):
    """The gradient of a convolution's filter to measure."""

    kind = "weight"

    @property
    def peak(self) -> str:
        """The types of the sums, whose multiply-adds are the limit."""
        return self.problem.types.wide.rows

    @property
    def task(self) -> WeightTask:  # type: ignore[override]
        """The task to measure."""
        return WeightTask(self.problem, self.threads)


@dataclass(frozen=True)
class PackCase:
    """A filter to pack into every layout that candidates of a convolution read."""

    problem: ConvProblem
    count: int
    threads: int = 1
    kind = "pack"
    unit = "GB/s"
    group = "filters"
    peak = "f32"

    def of(self, types: ConvTypes) -> PackCase:
        """The same in other types."""
        return replace(self, problem=replace(self.problem, types=types))

    @property
    def title(self) -> str:
        p = self.problem
        groups = f" g{p.groups}" if p.groups > 1 else ""
        types = f" {p.types.name}" if p.types != F32 else ""
        return f"{'x'.join(map(str, p.kernel))} {p.ic}->{p.oc}{groups}{types}"

    @property
    def key(self) -> str:
        """Key in the cost table."""
        return self.task.key

    @property
    def work(self) -> int:
        """Bytes read and written, without pads."""
        return self.task.work

    nbytes = work

    @property
    def task(self) -> PackTask:
        """The task to measure."""
        return PackTask.of(self.problem)


@dataclass(frozen=True)
class ReorderCase:
    """A reorder to measure."""

    src: Layout
    dst: Layout
    shape: tuple[int, ...]
    width: int
    count: int
    threads: int
    kind = "reorder"
    unit = "GB/s"
    peak = "f32"

    def of(self, types: ConvTypes) -> ReorderCase:
        """The same for elements that convolutions of these types read."""
        return replace(self, width=types.src.itemsize)

    @property
    def title(self) -> str:
        return "x".join(map(str, self.shape)) + (f" x{8 * self.width}" if self.width != 4 else "")

    @property
    def group(self) -> str:
        return f"{self.src}>{self.dst}"

    @property
    def key(self) -> str:
        """Key in the cost table."""
        return self.task.key

    @property
    def work(self) -> int:
        """Bytes read and written, pads included."""
        return self.width * (prod(self.src.physical_shape(self.shape)) + prod(self.dst.physical_shape(self.shape)))

    nbytes = work

    @property
    def task(self) -> ReorderProblem:
        """The task to measure."""
        return ReorderProblem(self.src, self.dst, self.shape, self.width, self.threads)


Case = ConvCase | PackCase | ReorderCase
Maker = Callable[[Sequence[str], Sequence[int]], list[Case]]


DTYPES = {"float32": F32, "float64": TYPES["f64"], "float16": TYPES["f16"], "bfloat16": TYPES["bf16"],
          "int8": TYPES["u8s8_u8"]}  # fmt: skip


def in_types(cases: Iterable[Case], all_types: Iterable[ConvTypes]) -> list[Case]:
    """Cases of float32 in other types; other cases unchanged."""
    cases_by_key: dict[str, Case] = {}
    cases = list(cases)
    for types in all_types:
        for case in cases:
            is_f32 = case.width == F32.src.itemsize if isinstance(case, ReorderCase) else case.problem.types == F32
            case = case if types == F32 or not is_f32 else case.of(types)
            cases_by_key.setdefault(case.key, case)
    return list(cases_by_key.values())


FEW_CHANNELS = 4  # of a network's input, whose gradient is not needed


def backward(cases: Iterable[Case]) -> list[Case]:
    """The parts of gradients of the float convolutions among `cases`: gradients of filters, and phases of transposed
    convolutions with the packing of their filters."""
    cases_by_key: dict[str, Case] = {}
    for case in cases:
        if not isinstance(case, ConvCase) or case.problem.types.integers:
            continue
        p = case.problem
        parts: list[Case] = [WeightCase(p, f"{case.title} weight", case.group, case.count, case.threads)]
        if p.ic > FEW_CHANNELS:
            task = TransposedTask(
                p.n, p.oc, p.ic, p.out, p.size, p.kernel, p.stride, p.padding, p.dilation, p.groups, p.dst, p.src,
                ((p.accuracy, False),) * prod(p.stride), case.threads, once=True, types=p.types,
            )  # fmt: skip
            for phase in task.convolutions:
                title = f"{case.title} input"
                parts += [replace(case, problem=phase.problem, title=title), PackCase(phase.problem, case.count)]
        for part in parts:
            cases_by_key.setdefault(part.key, part)
    return list(cases_by_key.values())


def reorders(moves: Iterable[tuple[Layout, Layout, tuple[int, ...], int, int]], threads: Sequence[int]) -> list[Case]:
    """Cases of (src, dst, shape, width, count) tuples, for the numbers of threads that they would use."""
    cases: list[Case] = []
    moves = list(moves)
    for t in threads:
        for src, dst, shape, width, count in moves:
            used = useful_threads(width * prod(dst.physical_shape(shape)), t)
            if used == t or used not in threads:
                cases.append(ReorderCase(src, dst, shape, width, count, used))
    return cases


def of_layers(layers: Iterable[Layer], layouts: Sequence[str], threads: Sequence[int]) -> list[Case]:
    """The distinct problems of a network: convolutions, reorders of activations between the layouts and of filters
    into those that kernels read, and packing."""
    counts = Counter(layers)
    cases: list[Case] = [
        ConvCase(layer.problem(layout), str(layer), layout, n, t)
        for t in threads for layout in layouts for layer, n in counts.items()
    ]  # fmt: skip
    shapes, filters, packs = Counter(), Counter(), Counter()  # type: tuple[Counter, Counter, Counter]
    for layer, n in counts.items():
        p = layer.problem("NCHW")
        shapes[p.src_shape] += n
        shapes[p.dst_shape] += n
        packs[PackTask.of(p).key] += n
        shape = (p.groups, p.oc // p.groups, p.ic // p.groups, *p.kernel)
        for kernel in registry.best("gemm", "f32"):
            src, dst = filter_layouts(kernel, len(p.src_shape))
            filters[src, dst, shape] += n
    moves = [
        (with_axes(a, len(shape) - 2), with_axes(b, len(shape) - 2), shape, 4, n)
        for a, b in permutations(layouts, 2) for shape, n in shapes.items()
    ]  # fmt: skip
    moves += [(src, dst, shape, 4, n) for (src, dst, shape), n in sorted(filters.items(), key=str)]
    cases += reorders(moves, threads)
    one_each = {PackTask.of(layer.problem("NCHW")).key: layer.problem("NHWC") for layer in counts}
    cases += [PackCase(p, packs[key]) for key, p in one_each.items()]
    return list(dict.fromkeys(cases))


FOUR = ("NCHW", "NHWC", "CHWN", "HWCN", "nChw8c", "nChw16c")
FIVE = ("NCDHW", "NDHWC", "CDHWN", "nCdhw8c", "nCdhw16c")
SHAPES_4D = ((1, 64, 56, 56), (1, 256, 14, 14), (32, 20, 17, 19), (8, 256, 56, 56))
SHAPES_5D = ((1, 32, 16, 28, 28), (2, 20, 7, 17, 19), (1, 64, 32, 56, 56))


def pairs(names: Sequence[str], shapes: Sequence[tuple[int, ...]], layouts, threads) -> list[Case]:
    """Every ordered pair of formats on every shape."""
    formats = [Layout(name) for name in names]
    return reorders(((a, b, shape, 4, 1) for shape in shapes for a, b in permutations(formats, 2)), threads)


MAX_MOVED_BYTES, MIN_MOVED_BYTES = 128 << 20, 1 << 12  # bytes of the tensor of a random reorder


def spread_moves(count: int, seed: int) -> Iterator[tuple[Layout, Layout, tuple[int, ...], int, int]]:
    """Random reorders of every kind, their sizes log-uniform."""
    rng = random.Random(seed)

    def draw(low: float, high: float) -> int:
        return round(low * (high / low) ** rng.random())

    drawn = 0
    while drawn < count:
        src, dst = map(Layout, rng.sample(rng.choice((FOUR, FOUR, FIVE)), 2))
        if rng.random() < 0.2:
            src, dst = Layout("abcd"), Layout("".join(rng.sample("abcd", 4)))
        channels = rng.choice((3, 16 * draw(1, 32), 8 * draw(1, 64), draw(4, 500)))
        shape = (rng.choice((1, 1, 2, 8, 32)), channels, *(draw(3, 112) for _ in range(src.rank - 2)))
        width = rng.choice((4, 4, 4, 4, 2, 1, 8))
        if src != dst and MIN_MOVED_BYTES < width * prod(shape) < MAX_MOVED_BYTES:
            drawn += 1
            yield src, dst, shape, width, 1


def spread_cases(convs: int, moves: int, seed: int, layouts: Sequence[str], threads: Sequence[int]) -> list[Case]:
    """Random problems, each on one of `threads` and with one or two of `layouts`."""
    rng = random.Random(seed)
    cases: list[Case] = []
    for layer in spread(convs, seed):
        a = rng.choice(layouts)
        b = a if rng.random() < 0.75 else rng.choice(layouts)
        cases.append(ConvCase(layer.problem(a, b), str(layer), f"{a}>{b}", 1, rng.choice(threads)))
        cases.append(PackCase(layer.problem("NHWC"), 1))
    for move in spread_moves(moves, seed):
        cases += reorders([move], [rng.choice(threads)])
    cases = list({case.key: case for case in cases}.values())
    rng.shuffle(cases)  # so that a part of the list is random as well
    return cases


SPREAD = 800, 800, 1  # convolutions, reorders, seed


def _network(name: str) -> Maker:
    return lambda layouts, threads: of_layers(NETWORKS[name](), layouts, threads)


SUITES: dict[str, Maker] = {
    **{name: _network(name) for name in NETWORKS},
    "reorder-4d": partial(pairs, FOUR, SHAPES_4D),
    "reorder-5d": partial(pairs, FIVE, SHAPES_5D),
    "spread": partial(spread_cases, *SPREAD),
}
