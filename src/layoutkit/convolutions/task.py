"""Convolutions as problems with candidates: routes on so many threads, by any algorithm or a forced one.

The cost of packing a filter that is used in a single call is part of each candidate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import prod
from typing import Protocol

import numpy as np

from .._core.nests.convolutions import route as core
from .._core.nests.convolutions.route import Epilogue
from .._core.runtime import registry
from .._core.runtime.registry import Kernel
from ..choosing.best import choices
from ..choosing.cache import Cache, plans
from ..choosing.features import KIND, log
from ..choosing.keys import NUMBER, THREADS, numbers, parts, sizes
from ..choosing.machine import last_level_cache
from ..choosing.machine_profile import scale
from ..choosing.measuring import tried_candidates
from ..choosing.model import parses
from ..choosing.plan import SlowPathWarning
from ..choosing.problem import Candidate, Choice, Description, PackingStep, Problem
from ..choosing.ranking import candidates_of
from ..choosing.warn import warn
from ..formats.layout import Layout
from ..memory.arrays import contiguous_strides, empty
from .algorithms import ALGORITHMS, AUTO, Algorithm
from .algorithms.base import flops_per_second, rows_of
from .descriptions import describe_candidate, describe_conv, on_threads
from .problem import ACCURACIES, KEY, MAX_BYTES, ConvProblem, sizes_text
from .route import SMALL_FLOPS, Arrays, ConvRoute, move_seconds
from .types import F32, TYPES, ConvTypes, ones
from .winograd_pieces import cut_cost

PACK_BYTES_PER_SECOND = 10e9  # read and written when a filter is packed
PACK_CALL_SECONDS = 5e-6  # overhead of packing a filter
FILTER_KEY = f"filter o({NUMBER}) c({NUMBER}) k({sizes(3)}) g({NUMBER}) ({'|'.join(TYPES)})"
_PACK_COSTS = {a.filters: a.packs for a in ALGORITHMS}
SLOW_RATIO = 4.0  # of a candidate's estimate to the machine's limit: above it the candidate is slow
MAX_WARNED = 1024  # problems with a warning that are remembered
_warned = Cache(MAX_WARNED)
MAX_CHANNELS = 1 << 17  # with more, a convolution has no features: planning it would take long
LONGEST_STRIDE_BYTES = 1 << 48  # of arrays in an address space
COLD_BYTES = 64 << 20  # of copies of a filter that are used in turn, so that each has left the caches
COLD_COPIES = 256  # of a filter, at most


def contiguous(p: ConvProblem) -> Arrays:
    """Contiguous arrays of a problem."""
    x, y = ((p.src, p.src_shape, p.types.src), (p.dst, p.dst_shape, p.types.dst))
    return Arrays(*(contiguous_strides(layout, shape, dtype.itemsize) for layout, shape, dtype in (x, y)))


@dataclass(frozen=True)
class ConvTask(Problem):
    """A convolution on so many threads.

    `once`: the filter is used in one call only, so packing it is part of the cost. `of_network`: it is a layer, whose
    filter has left the caches when it is read again; and there are no routes that reorder input or result, which the
    network does, if there are others. With either, large filters may be packed as they are: see `Algorithm.read_once`.
    """

    problem: ConvProblem
    threads: int
    algorithm: str = AUTO
    once: bool = False
    of_network: bool = False

    @property
    def key(self) -> str:
        """Its key in the cost table, the same whichever algorithm is asked for."""
        return f"{self.problem} t{self.threads}"

    @property
    def words(self) -> str:
        """In words."""
        return describe_conv(self.problem, self.threads)

    @property
    def work(self) -> int:
        """Multiplications and additions."""
        return self.problem.flops if all(self.problem.src_shape) and all(self.problem.dst_shape) else 0

    @classmethod
    def parse(cls, key: str) -> ConvTask:
        """The task of a key."""
        text, _, threads = key.rpartition(" t")
        return cls(ConvProblem.parse(text), int(threads))

    def features(self) -> tuple[float, ...]:
        """Its features, for the model."""
        return conv_features(self.problem, self.threads)

    def candidates(self) -> Iterator[Candidate]:
        """The routes; ValueError if there is none."""
        p, reasons, supported = self.problem, [], False
        packing = PackTask.of(p) if self.once else None
        for a in ALGORITHMS:
            a = a.read_once(p) if self.of_network or self.once else a
            if self.algorithm not in (AUTO, a.name) or (self.algorithm == AUTO and a.redundant(p)):
                continue
            native_rows, why = self._native_rows(a)
            supported |= bool(native_rows)
            if not native_rows:
                reasons.append(why)
            for native, kernel in native_rows:
                via = "" if (native.src, native.dst) == (p.src, p.dst) else f" via {native.src}>{native.dst}"
                wide = "" if native.types == p.types else f" as {native.types.name}"
                yield Candidate(
                    f"{a.describe(kernel)}{via}{wide}",
                    a.seconds(p, native, kernel, self.threads),
                    partial(self._build, native, a, kernel),
                    (packing.step(a.packing(native, kernel)),) if packing else (),
                    partial(self._describe, native, a, kernel),
                )
        if not supported and self.of_network:
            yield from replace(self, of_network=False).candidates()
        elif not supported:
            why = "; ".join(dict.fromkeys(reasons))
            raise ValueError(f"{p}: algorithm {self.algorithm!r} cannot do it: {why}")

    def _native_rows(self, a: Algorithm) -> tuple[list[tuple[ConvProblem, Kernel]], str]:
        """The problem in layouts and types that an algorithm supports, with the rows for it; and why there are none."""
        p, native_rows, why = self.problem, [], f"{a.name} is not for {self.problem.types.name}"
        for types in dict.fromkeys((p.types, p.types.wide)):
            native = p.of_types(types)
            if not (kernels := a.kernels(native)) or (types != p.types and p.types.elements[0] not in a.widens):
                continue
            natives = self._natives(a, native)
            if isinstance(natives, str):
                why = natives
            else:
                fitting = [(native, kernel) for native, kernel in product(natives, kernels) if a.fits(native, kernel)]
                why = why if fitting else f"{a.name} has no kernel for runs of such channels, or of such accuracy"
                native_rows += fitting
        return native_rows, why

    def _natives(self, a: Algorithm, p: ConvProblem) -> list[ConvProblem] | str:
        """A problem in layouts that an algorithm supports; or why it is no candidate."""
        natives = a.natives(p, reorders=not self.of_network)
        needed = a.accuracy(p, self.threads)
        if isinstance(natives, str) or ACCURACIES.index(needed) <= ACCURACIES.index(p.accuracy):
            return natives
        name = f"{a.name} {a.variant}".strip()
        return f"{name} is of accuracy {needed!r} here {on_threads(self.threads)}, {p.accuracy!r} was asked for"

    def _build(self, native: ConvProblem, a: Algorithm, kernel: Kernel, arrays: Arrays | None = None) -> ConvRoute:
        return a.route(self.problem, native, kernel, self.threads, arrays or contiguous(self.problem))

    def _describe(self, native: ConvProblem, a: Algorithm, kernel: Kernel) -> Description:
        name = f"{a.name} {a.variant}".strip()
        return describe_candidate(name, a.saving(native), a.register_tile, kernel, self.problem, native)

    def on_ranked(self, choices: Sequence[Choice]) -> None:
        """Warn where all routes are slow, once; not about layers, for which there are other layouts."""
        if not self.of_network:
            warn_if_slow(self, choices)

    def measured_parts(self) -> Sequence[Problem]:
        """The problems to measure: itself, by any algorithm, and packing its filter if that is part of the cost."""
        whole = replace(self, algorithm=AUTO, once=False, of_network=False)
        return (whole, PackTask.of(self.problem)) if self.once else (whole,)

    def prepare(self) -> Callable[[ConvRoute], Callable[[], object]]:
        """Allocate contiguous arrays; returns a function from a route to a call on them."""
        p = self.problem
        x = ones(p.src.physical_shape(p.src_shape), p.types.elements[0])
        y = empty(p.dst.physical_shape(p.dst_shape), p.types.dst, "measure", x)  # as a call makes it
        y[...] = 1
        w = _filter(p)

        def runner(route: ConvRoute):
            filter, bias = route.pack(w, None)
            return partial(route.run, x, filter, bias, y, scaling_epilogue(p))

        return runner


@dataclass(frozen=True)
class PackTask(Problem):
    """Packing a filter, on one thread. Its candidates are the distinct packings that routes of `whole` read."""

    oc: int
    ic: int
    kernel: tuple[int, ...]
    groups: int
    types: ConvTypes = F32
    whole: ConvProblem | None = None

    @classmethod
    def of(cls, p: ConvProblem) -> PackTask:
        """The filter of a convolution."""
        return cls(p.oc, p.ic, p.kernel, p.groups, p.types, p)

    @classmethod
    def parse(cls, key: str) -> PackTask:
        """The task of a key, without candidates: what it would take can be estimated."""
        oc, ic, kernel, groups, types = parts(key, FILTER_KEY, "a filter to pack")
        return cls(int(oc), int(ic), numbers(kernel), int(groups), TYPES[types])

    @property
    def key(self) -> str:
        """Its key in the cost table."""
        return f"filter o{self.oc} c{self.ic} k{sizes_text(self.kernel)} g{self.groups} {self.types.name}"

    @property
    def elements(self) -> int:
        """Of the filter."""
        return self.oc * self.ic // self.groups * prod(self.kernel)

    @property
    def work(self) -> int:
        """Bytes read and written, without pads."""
        return 2 * self.types.filter.itemsize * self.elements

    @property
    def depends_on_others(self) -> bool:
        """Yes: its candidates depend on which routes were measured."""
        return True

    def features(self) -> tuple[float, ...]:
        """Its features, for the model."""
        return filter_features(self.oc, self.ic, prod(self.kernel), self.groups)

    def candidates(self) -> Iterator[Candidate]:
        """The distinct packings: those of the routes that were measured, or of all routes if none was."""
        if self.whole is None:
            return
        every = candidates_of(ConvTask(self.whole, 1, once=True))
        measured = tried_candidates(ConvTask(self.whole, 1).key)
        routes = [c for c in every if c.name in measured] or every
        packings = {step.name: (step, c) for c in routes for step in c.steps}
        for name, (step, c) in packings.items():
            yield Candidate(name, step.estimate, c.build)

    def estimates(self) -> Callable[[str], float | None]:
        """The estimate of a packing by its name."""
        return self.estimate

    def estimate(self, packing: str) -> float:
        """Seconds of a packing, by counting bytes."""
        cost = _PACK_COSTS.get(packing.rsplit(" ", 2)[0], 1.0)
        if packing.startswith("winograd"):
            cost *= cut_cost(self.kernel)
        return PACK_CALL_SECONDS + self.work / PACK_BYTES_PER_SECOND * scale().copy_l3 * cost

    def step(self, packing: str) -> PackingStep:
        """A packing, as the step of a route."""
        return PackingStep(self, packing, self.estimate(packing))

    def prepare(self) -> Callable[[ConvRoute], Callable[[], object]]:
        """Make a filter; returns a function from a route to a call that packs it."""
        assert self.whole is not None
        w = _filter(self.whole)
        return lambda route: partial(route.pack, w, None)


parses("conv", f"{KEY} {THREADS}")(ConvTask.parse)
parses("filter", FILTER_KEY)(PackTask.parse)


SUM_SCALE = 2.0**-10  # of sums of integers where speed is measured; few rows round to bytes with scales of 0.5 or more


def scaling_epilogue(p: ConvProblem) -> Epilogue | None:
    """An epilogue without an activation: it scales sums of integers, as in quantised networks."""
    return Epilogue(mul=np.full(p.oc, SUM_SCALE, np.float32)) if p.types.integers else None


def _filter(p: ConvProblem) -> np.ndarray:
    return ones((p.oc, p.ic // p.groups, *p.kernel), p.types.elements[1])


def best_route(task: ConvTask, arrays: Arrays, compiled: bool = False) -> ConvRoute:
    """The route that a call takes; `compiled`: the best of those that run without Python."""
    p = task.problem
    arrays = Arrays(
        _normalised(p.src.physical_shape(p.src_shape), arrays.x_strides),
        _normalised(p.dst.physical_shape(p.dst_shape), arrays.y_strides),
    )
    check_strides(p, arrays)
    for choice in choices(task):
        route = plans.of(choice.candidate.build, arrays)
        if not compiled or isinstance(route.run, core.Route):
            return route
    raise ValueError(f"{task.problem}: algorithm {task.algorithm!r} runs in Python only")


def _normalised(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """`strides`, with 0 for huge ones of axes of one index, by which offsets of the padding would overflow."""
    return tuple(0 if n == 1 and abs(s) >= LONGEST_STRIDE_BYTES else s for n, s in zip(shape, strides))


def check_strides(p: ConvProblem, arrays: Arrays) -> None:
    """ValueError unless all offsets into arrays of these byte strides fit 63 bits, those of the padding included."""
    reach = max(n + abs(a) + abs(b) for n, (a, b) in zip(p.size, p.padding))
    if reach * max(map(abs, (*arrays.x_strides, *arrays.y_strides)), default=0) >= MAX_BYTES:
        raise ValueError(
            f"{p}: {reach} pixels at byte strides of {arrays.x_strides} and {arrays.y_strides} are beyond 2**62 bytes"
        )


class ConvLike(Protocol):
    """A convolution, or the gradient of one."""

    @property
    def key(self) -> str: ...
    @property
    def problem(self) -> ConvProblem: ...
    @property
    def threads(self) -> int: ...
    @property
    def algorithm(self) -> str: ...


def warn_if_slow(task: ConvLike, ranked: Sequence[Choice]) -> None:
    """Warn if all candidates are slow, unless the caller asked for one: once per problem, on any number of threads."""
    problem = type(task), task.problem
    if task.algorithm == AUTO and problem not in _warned and (text := slowness(task, ranked)):
        _warned.put(problem, text)
        warn(f"{task.key.rpartition(' t')[0]}: {text}", SlowPathWarning)


def slowness(task: ConvLike, ranked: Sequence[Choice]) -> str | None:
    """A warning if all candidates of a problem, unless it is small, waste most of the machine; else None."""
    p = task.problem
    if p.flops < SMALL_FLOPS:
        return None
    best = min((choice.candidate for choice in ranked), key=lambda c: c.estimate)
    kernel = rows_of("gemm", p.types.rows_or_wide("gemm"), registry.isa())[0]
    flops = p.flops / (kernel.kr * flops_per_second(kernel))
    floor = max(flops, move_seconds(2 * (p.src_bytes + p.dst_bytes + p.filter_bytes))) / task.threads
    if best.estimate < SLOW_RATIO * floor:
        return None
    return (
        f"only slow ways: {best.name}, the best, is expected to take {best.estimate / floor:.0f} times as long as its "
        f"arithmetic or its data would ({p.ic // p.groups} > {p.oc // p.groups} channels in each of {p.groups} groups)"
    )


def cold_seconds(task: ConvTask, name: str) -> float:
    """Median seconds of a route if the filter has left the caches before every call."""
    p = task.problem
    route = next(c for c in candidates_of(task) if c.name == name).build()
    x = ones(p.src.physical_shape(p.src_shape), p.types.elements[0])
    y = ones(p.dst.physical_shape(p.dst_shape), p.types.elements[3])
    w = _filter(p)
    copies = max(2, min(COLD_COPIES, max(COLD_BYTES, 2 * last_level_cache()) // w.nbytes))
    filters, epilogue = [route.pack(w.copy(), None) for _ in range(copies)], scaling_epilogue(p)
    route.run(x, *filters[0], y, epilogue)
    timings = []
    for filter, bias in filters:
        start = time.perf_counter()
        route.run(x, filter, bias, y, epilogue)
        timings.append(time.perf_counter() - start)
    return sorted(timings)[copies // 2]


def conv_features(p: ConvProblem, threads: int) -> tuple[float, ...]:
    """The features of a convolution on so many threads; ValueError if it has more than `MAX_CHANNELS`."""
    if max(p.ic, p.oc) > MAX_CHANNELS:
        raise ValueError(f"{p.ic} > {p.oc} channels, at most {MAX_CHANNELS} are looked at")
    ic, oc, taps, pixels = p.ic // p.groups, p.oc // p.groups, prod(p.kernel), prod(p.out)
    in_place = taps == 1 and max(p.stride) == 1 and not any(map(any, p.padding))
    (src_last, src_block), (dst_last, dst_block) = _channels(p.src), _channels(p.dst)
    return (
        KIND * (threads > 1), KIND * src_last, KIND / 4 * src_block, KIND / 2 * dst_last, KIND * dst_block,
        log(ic), log(oc), 2 * log(p.groups), 0.25 * log(pixels), log(p.out[-1]), 0.25 * log(prod(p.size)),
        0.5 * log(taps), KIND * (max(p.stride) > 1), 0.5 * len(p.size), KIND / 2 * any(map(any, p.padding)),
        KIND * in_place, KIND * (not src_last and taps == 1), 0.25 * log(p.flops),
        KIND / 2 * (oc % 32 > 0), KIND / 4 * (ic % 16 > 0), KIND * _excess(oc, 64), KIND / 2 * _excess(pixels, 16),
        KIND * p.types.integers, KIND * p.types.narrow,
    )  # fmt: skip


def _excess(n: int, block: int) -> float:
    """How much larger `n` in whole blocks is than `n`, in powers of two."""
    return log(-(-n // block) * block / max(n, 1))


def _channels(layout: Layout) -> tuple[float, float]:
    """Whether channels are innermost, and how many are contiguous."""
    return float(layout.factors[-1].dim == 1), log(layout.block(1)) / 4


def filter_features(oc: int, ic: int, taps: int, groups: int) -> tuple[float, ...]:
    """Of packing a filter."""
    return (log(oc), log(ic // groups), log(taps), log(groups))
