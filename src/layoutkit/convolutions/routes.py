"""Routes: everything between the caller's input and output. Reorder if need be, convolve, reorder if need be.

Candidates of a convolution are routes; their costs are of the whole.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from math import prod

import numpy as np

from .._core import registry
from .._core import route as core
from .._core.registry import Kernel
from ..choosing.keys import NUMBER, THREADS, sizes
from ..choosing.machine import last_level_cache
from ..choosing.measuring import Contest, first_use, known, wanted
from ..choosing.model import describes
from ..choosing.plan import Candidate, Choice, SlowPathWarning, Step, mode, rank
from ..choosing.table import cost_table
from ..formats.layout import Layout
from ..memory import spans
from ..memory.arrays import empty
from ..memory.pool import pool
from ..memory.spans import PlanError, Span
from ..reorders.candidates import program
from .algorithms import blas
from .algorithms import sums as algorithms
from .algorithms.depthwise import DEPTHWISE, GROUPED
from .algorithms.folded import CHANNELS_LAST, FOLDED, padded_room
from .algorithms.planes import PLANES
from .algorithms.strips import STRIPS
from .algorithms.sums import GFLOPS, Algorithm
from .features import conv_features, filter_features
from .footprint import check_executor
from .geometry import contiguous_strides
from .order import LANES
from .problem import ACCURACIES, KEY, ConvProblem, check_strides

ALGORITHMS = (*algorithms.ALGORITHMS, FOLDED, PLANES, STRIPS, DEPTHWISE, GROUPED)
_PACKS = {a.packing: a.packs for a in ALGORITHMS}

NATIVE = {
    "channels": CHANNELS_LAST,
    "pixels": {3: "NCW", 4: "NCHW", 5: "NCDHW"},
    "blocks": {3: "nCw16c", 4: "nChw16c", 5: "nCdhw16c"},
}

# What the estimate of a route not measured is made of; the table replaces it problem by problem.
MOVE = 20e9  # bytes a second, read and written, of a reorder or a gather
PACK = 10e9  # the same of packing a filter
NEW_PAGES = 3e9  # the same where memory is touched for the first time: calls look for signals that often
FILTER = f"filter o({NUMBER}) c({NUMBER}) k({sizes(3)}) g({NUMBER}) f32"  # a key of packing
_FILTER = re.compile(FILTER)
SMALL = 1 << 21  # flops below which a second thread costs more than it brings
SLOW = 4.0  # times what its flops or bytes would take: a way that is slower is a fallback
_slow: set[ConvProblem] = set()  # that has been warned of


class Route:
    """A convolution ready to run on arrays of exact strides.

    Attributes
    ----------
    run : callable
        ``run(x, w, bias, y, finish=None, add=None)`` with a filter and bias that `pack` made.
    packing : str
        Filters that were packed under an equal one fit this route.
    """

    def __init__(self, p, native, algorithm: Algorithm, kernel: Kernel, threads, x_strides, y_strides):
        self.algorithm, self.kernel, self.native = algorithm, kernel, native
        self.packing = _packing(native, algorithm, kernel)
        threads = threads if p.flops >= SMALL else 1
        before = after = residual = None
        x_bytes = y_bytes = 0
        pads = None
        room = algorithm.room and algorithm.room(native, x_strides if native.src == p.src else None)
        if not room and _copies(native, algorithm):
            room = padded_room(native, native.n, 4 * native.ic)
        if room:
            before = program(p.src, native.src, p.src_shape, 4, x_strides, room.strides)
            x_strides, x_bytes, pads, native = room.strides, room.bytes, room[2:6], room.problem
        elif native.src != p.src or not algorithm.strides_ok(p.src, x_strides, p.src_shape):
            inner = contiguous_strides(native.src, p.src_shape)
            before = program(p.src, native.src, p.src_shape, 4, x_strides, inner)
            x_bytes = prod(native.src.physical_shape(p.src_shape)) * 4
            x_strides = inner
        if native.dst != p.dst or not algorithm.strides_ok(p.dst, y_strides, p.dst_shape):
            inner = contiguous_strides(native.dst, p.dst_shape)
            after = program(native.dst, p.dst, p.dst_shape, 4, inner, y_strides)
            residual = program(p.dst, native.dst, p.dst_shape, 4, y_strides, inner)
            y_bytes = prod(native.dst.physical_shape(p.dst_shape)) * 4
            y_strides = inner
        executor = algorithm.build(native, kernel, threads, x_strides, y_strides, algorithm.gather)
        # without padding every way adds the same products, so that zeros have the same sign
        executor.positive = p.accuracy == ACCURACIES[0] and any(map(any, p.padding))
        moved = 4 * (prod(p.src_shape) + prod(p.dst_shape))
        seconds = max(_estimate(p, self.native, algorithm, kernel, threads), moved / NEW_PAGES)
        self.run = core.Route(before, executor, after, residual, x_bytes, y_bytes, pool, seconds, pads)
        source = spans.of_array(native.src.physical_shape(p.src_shape), x_strides, 4).at(self.run.start)
        target = spans.of_array(native.dst.physical_shape(p.dst_shape), y_strides, 4)
        if before is not None:
            if spans.overlaps_itself(native.src.physical_shape(p.src_shape), x_strides, 4):
                raise PlanError(f"{self}: elements of the reordered input overlap, strides {x_strides}")
            spans.check(source, Span(0, x_bytes), f"{self}: reordered input")
            source = Span(0, x_bytes)
        if after is not None:
            spans.check(target, Span(0, y_bytes), f"{self}: output to be reordered")
        self._needs = check_executor(executor, source, target, str(self))

    def __str__(self) -> str:
        return f"{self.native}, {self.algorithm.name} by {self.kernel.name}"

    def pack(self, w: np.ndarray, bias: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Filter in OIHW order and bias as this route reads them."""
        packed, biases = self.algorithm.pack(self.native, self.kernel, w, bias)
        for name, needed, held in zip(("filter", "bias"), self._needs, (packed, biases)):
            if held is not None and held.nbytes < needed:
                spans.check(Span(0, needed), Span(0, held.nbytes), f"{self}: packed {name}")
        return packed, biases


def _copies(p: ConvProblem, algorithm: Algorithm) -> bool:
    """Whether `algorithm`, which leaves padding out, has to read a padded copy: tiles may leave out some of it only."""
    return p.zeros and any(map(any, p.padding)) and not algorithm.gather


def _packing(native: ConvProblem, algorithm: Algorithm, kernel: Kernel) -> str:
    return f"{algorithm.packing} {kernel.nr} {native.dst.block(1)}"


def _natives(p: ConvProblem, algorithm: Algorithm) -> list[ConvProblem] | str:
    """`p` on layouts that `algorithm` takes, the fewest sides changed, and on those of its detour; or why on none."""
    reason, via = algorithm.supports(p), Layout(NATIVE[algorithm.via][p.src.rank])
    copies = _copies(p, algorithm) and not algorithm.room  # into `via`
    found = [p] if reason is None and not (copies and p.src != via) else []
    if not found and (algorithm.via == "channels" or algorithm.room):  # reads a copy anyway
        sides = [(via, p.dst), (via, via)] if copies else [(p.src, via), (via, p.dst), (via, via)]
        changed = (replace(p, src=src, dst=dst) for src, dst in sides)
        found += [native for native in changed if algorithm.supports(native) is None][:1]
    if algorithm.detour and not copies:
        blocks = Layout(NATIVE[algorithm.detour][p.src.rank])
        native = replace(p, src=blocks, dst=blocks)
        if native not in found and algorithm.supports(native) is None:
            found.append(native)
    if algorithm.room and found:
        room = algorithm.room(found[0], None)
        if room and not p.copy_fits(room.bytes):
            return f"its padded copy of the input would take {room.bytes} bytes"
    return found or reason or ""


def _estimate(p: ConvProblem, native: ConvProblem, algorithm: Algorithm, kernel: Kernel, threads: int) -> float:
    """Seconds, by counting: the work, and the bytes moved by reorders."""
    if algorithm.estimate:
        seconds = algorithm.estimate(native, kernel, LANES[kernel.isa], GFLOPS[kernel.isa], threads)
    else:
        seconds = _estimate_sum(native, algorithm, kernel, threads)
    x_bytes, y_bytes = 4 * prod(p.src_shape), 4 * prod(p.dst_shape)
    copied = native.src != p.src or algorithm.room is not None or _copies(native, algorithm)
    moved = copied * x_bytes + (native.dst != p.dst) * y_bytes
    return seconds + 2 * moved / (MOVE * threads) + 1e-6


def _estimate_sum(native: ConvProblem, algorithm: Algorithm, kernel: Kernel, threads: int) -> float:
    """Seconds of direct summation: multiplications with the lanes and rows that go empty, and gathering."""
    lanes = LANES[kernel.isa]
    out, per_group = native.n * prod(native.out), native.oc // native.groups
    rows, columns = (out, per_group) if algorithm.via == "channels" else (per_group, prod(native.out))
    waste = -(-columns // lanes) * lanes / columns if columns else 1.0
    if algorithm.via == "pixels":
        waste = -(-columns // kernel.nr) * kernel.nr / max(1, columns)
    waste *= 1 + 0.02 * (kernel.mr * -(-rows // kernel.mr) / max(1, rows) - 1)
    depth = native.ic // native.groups * prod(native.kernel)
    overhead = 1 + 12 / max(1, depth)  # a tile's prologue and stores, in steps of its sum
    if algorithm.via == "channels":  # and what a tap costs, in steps of its run of channels
        run = depth if algorithm.gather else depth // prod(native.kernel) * (native.kernel[-1] if algorithm.room else 1)
        overhead += 1.5 / max(1, run)
        vectors = max(1, -(-min(kernel.nr, columns) // lanes))
        loads = 1 / kernel.mr + 1 / vectors  # for an FMA: more than one for every two take their time
        overhead *= 1 + 1.2 * max(0.0, loads - 0.58) + 1 / (kernel.mr * vectors)
    seconds = native.flops * waste * overhead / (GFLOPS[kernel.isa] * threads)
    if algorithm.gather:
        seconds += 8 * native.groups * depth * out / (MOVE * threads)
    return seconds


@lru_cache(32)
def _kernels(family: str, isa: str) -> list[Kernel]:
    return registry.best(family, "f32")


def candidates(
    p: ConvProblem, algorithm: str, threads: int, x_strides, y_strides, once: bool = False
) -> Iterator[Candidate]:
    """The routes of `p`; with an `algorithm` named, only that one's, and ValueError if it has none.

    `once`: the filter is met in this call only, packing it is part of the cost.
    """
    reasons = []
    for a in ALGORITHMS:
        if algorithm not in ("auto", a.name):
            continue
        if algorithm == "auto" and a.gather and a.via == "channels" and prod(p.kernel) == 1:
            continue  # the same as direct, and a copy
        natives = _natives(p, a)
        if isinstance(natives, str):
            reasons.append(natives)
            continue
        needed = a.accuracy(p)
        if ACCURACIES.index(needed) > ACCURACIES.index(p.accuracy):
            reasons.append(f"{a.name} {a.variant} is of accuracy {needed!r} here, {p.accuracy!r} was asked for")
            continue
        for native, kernel in product(natives, _kernels(a.family, registry.isa())):
            way = "" if native == p else f" via {native.src}>{native.dst}"
            build = partial(Route, p, native, a, kernel, threads, x_strides, y_strides)
            steps = (_pack_step(p, _packing(native, a, kernel)),) if once else ()
            name = " ".join(filter(None, (a.name, a.variant, kernel.name)))
            yield Candidate(f"{name}{way}", _estimate(p, native, a, kernel, threads), build, steps)
    if algorithm in ("auto", blas.NAME):
        unfit = blas.blas_support(p, threads)
        if unfit:
            reasons.append(unfit)
        else:
            step = _pack_step(p, blas.NAME) if once else None
            yield blas.blas_candidate(p, threads, GFLOPS[registry.isa()], step)
    if len(reasons) == sum(algorithm in ("auto", name) for name in (*(a.name for a in ALGORITHMS), blas.NAME)):
        raise ValueError(f"{p}: algorithm {algorithm!r} cannot do it: {'; '.join(dict.fromkeys(reasons))}")


def _pack_step(p: ConvProblem, packing: str) -> Step:
    return Step(pack_key(p), packing, _pack_estimate(p.oc * p.ic // p.groups * prod(p.kernel), packing))


def _pack_estimate(elements: int, packing: str) -> float:
    return 5e-6 + 8 * elements / PACK * _PACKS.get(packing.rsplit(" ", 2)[0], 1.0)


def route_key(p: ConvProblem, threads: int) -> str:
    """What the cost table knows a convolution by."""
    return f"{p} t{threads}"


def pack_key(p: ConvProblem) -> str:
    """What the cost table knows the packing of a convolution's filter by."""
    return f"filter o{p.oc} c{p.ic} k{'x'.join(map(str, p.kernel))} g{p.groups} f32"


@describes("conv", f"{KEY} {THREADS}")
def _describe_conv(key: str):
    text, _, threads = key.rpartition(" t")
    p = ConvProblem.parse(text)
    return conv_features(p, int(threads)), lambda: {c.name: c.estimate for c in _plain(p, int(threads))}.get


@describes("filter", FILTER)
def _describe_filter(key: str):
    found = _FILTER.fullmatch(key)
    if not found:
        raise ValueError(f"not a filter to pack: {key!r}")
    oc, ic, groups = (int(found[i]) for i in (1, 2, 4))
    taps = prod(map(int, found[3].split("x")))
    elements = oc * ic // groups * taps
    return filter_features(oc, ic, taps, groups), lambda: partial(_pack_estimate, elements)


def _plain(p: ConvProblem, threads: int, once: bool = False) -> list[Candidate]:
    """The candidates of `p` on contiguous arrays."""
    x_strides, y_strides = contiguous_strides(p.src, p.src_shape), contiguous_strides(p.dst, p.dst_shape)
    return list(candidates(p, "auto", threads, x_strides, y_strides, once))


@lru_cache(1024)
def _choices(p, algorithm, threads, x_strides, y_strides, once, isa, generation) -> tuple[Choice, ...]:
    found = list(candidates(p, algorithm, threads, x_strides, y_strides, once))
    ways = tuple(rank(route_key(p, threads), found))
    if algorithm == "auto" and p not in _slow and (text := slowness(p, ways, threads)):
        _slow.add(p)
        warnings.warn(f"{p}: {text}", SlowPathWarning, stacklevel=7)
    return ways


@lru_cache(1024)
def _build(p, name, algorithm, threads, x_strides, y_strides, isa) -> Route | blas.BlasRoute:
    found = candidates(p, algorithm, threads, x_strides, y_strides)
    return next(c for c in found if c.name == name).build()


def choices(
    p: ConvProblem, algorithm: str, threads: int, x_strides=None, y_strides=None, once: bool = False
) -> tuple[Choice, ...]:
    """The routes of `p`, best first; `once` as in `candidates`."""
    x_strides = x_strides or contiguous_strides(p.src, p.src_shape)
    y_strides = y_strides or contiguous_strides(p.dst, p.dst_shape)
    check_strides(p, x_strides, y_strides)
    if mode() == "measure" and all(p.src_shape) and all(p.dst_shape):
        if wanted(route_key(p, threads)):
            first_use(route_contest(p, threads))
        if once and wanted(pack_key(p)):
            first_use(pack_contest(p, known(route_key(p, threads))))
    return _choices(p, algorithm, threads, x_strides, y_strides, once, registry.isa(), cost_table.generation)


def slowness(p: ConvProblem, ways: Sequence[Choice], threads: int) -> str | None:
    """What to tell of a problem of some size all of whose ways waste most of the machine; None if one does not."""
    best = min((way.candidate for way in ways), key=lambda c: c.estimate)
    flops, moved = p.flops / GFLOPS[registry.isa()], 4 * (prod(p.src_shape) + prod(p.dst_shape)) / MOVE
    floor = max(flops, 2 * moved) / threads
    if p.flops < SMALL or best.estimate < SLOW * floor:
        return None
    return (
        f"only slow ways: {best.name}, the best, is expected to take {best.estimate / floor:.0f} times as long as its "
        f"arithmetic or its data would ({p.ic // p.groups} > {p.oc // p.groups} channels in each of {p.groups} groups)"
    )


def best_route(
    p: ConvProblem, algorithm: str, threads: int, x_strides, y_strides, once: bool = False, compiled: bool = False
) -> Route | blas.BlasRoute:
    """The route that a call takes; `compiled`: the best of those that run without Python."""
    found = [c.candidate.name for c in choices(p, algorithm, threads, x_strides, y_strides, once)]
    if compiled:
        found = [name for name in found if name != blas.NAME]
        if not found:
            raise ValueError(f"{p}: algorithm {algorithm!r} runs in Python only")
    return _build(p, found[0], algorithm, threads, x_strides, y_strides, registry.isa())


def _filter(p: ConvProblem) -> np.ndarray:
    return np.ones((p.oc, p.ic // p.groups, *p.kernel), np.float32)


def _runner(p: ConvProblem) -> Callable[[Route], Callable[[], object]]:
    """What turns a route into a call on contiguous arrays that are touched."""
    x = np.ones(p.src.physical_shape(p.src_shape), np.float32)
    y = empty(p.dst.physical_shape(p.dst_shape), x.dtype, "measure", x)  # as a call makes it
    y[...] = 1
    w = _filter(p)

    def runner(route: Route):
        filter, bias = route.pack(w, None)
        return partial(route.run, x, filter, bias, y)

    return runner


def _pack_runner(p: ConvProblem) -> Callable[[Route], Callable[[], object]]:
    w = _filter(p)
    return lambda route: partial(route.pack, w, None)


def route_contest(p: ConvProblem, threads: int) -> Contest:
    """The routes of `p` on contiguous arrays, to be measured."""
    return Contest(route_key(p, threads), _plain(p, threads), partial(_runner, p))


def pack_contest(p: ConvProblem, routes: Container[str] = ()) -> Contest:
    """The distinct ways to pack the filter of `p`, of these routes if any are named, to be measured."""
    some = [c for c in _plain(p, 1, once=True) if not routes or c.name in routes]
    found = {step.name: (step, c) for c in some for step in c.steps}
    ways = [Candidate(name, step.estimate, c.build) for name, (step, c) in found.items()]
    return Contest(pack_key(p), ways, partial(_pack_runner, p))


COLD_BYTES, COLD_COPIES = 64 << 20, 256


def cold_seconds(p: ConvProblem, threads: int, name: str) -> float:
    """What a route takes, the median, when each call has a filter that has left the caches since it was last used."""
    route = next(c for c in _plain(p, threads) if c.name == name).build()
    x = np.ones(p.src.physical_shape(p.src_shape), np.float32)
    y = np.ones(p.dst.physical_shape(p.dst_shape), np.float32)
    w = _filter(p)
    copies = max(2, min(COLD_COPIES, max(COLD_BYTES, 2 * last_level_cache()) // w.nbytes))
    filters = [route.pack(w.copy(), None) for _ in range(copies)]
    route.run(x, *filters[0], y)
    timings = []
    for filter, bias in filters:
        start = time.perf_counter()
        route.run(x, filter, bias, y)
        timings.append(time.perf_counter() - start)
    return sorted(timings)[copies // 2]
