"""Routes: everything between the caller's input and output. Reorder if need be, convolve, reorder if need be.

Candidates of a convolution are routes; their costs are of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from math import prod

import numpy as np

from . import algorithms
from ._core import conv as core
from ._core import registry
from ._core.registry import Kernel
from .algorithms import GFLOPS, LANES, Algorithm
from .cost import Cost, cost_table
from .depthwise import DEPTHWISE
from .folded import CHANNELS_LAST, FOLDED
from .geometry import contiguous_strides
from .layout import Layout
from .plan import Candidate, Choice, measure, mode, rank
from .problem import ACCURACIES, ConvProblem
from .reorder import program

ALGORITHMS = (*algorithms.ALGORITHMS, FOLDED, DEPTHWISE)

NATIVE = {"channels": CHANNELS_LAST, "pixels": {3: "NCW", 4: "NCHW", 5: "NCDHW"}}

# What the estimate of a route not measured is made of; the table replaces it problem by problem.
MOVE = 20e9  # bytes a second, read and written, of a reorder or a gather
SMALL = 1 << 21  # flops below which a second thread costs more than it brings


class Route:
    """A convolution ready to run on arrays of exact strides.

    Attributes
    ----------
    run : callable
        ``run(x, w, bias, y, finish=None, add=None)`` with a filter and bias that `pack` made.
    packing : tuple
        Filters that were packed under an equal one fit this route.
    """

    def __init__(self, p, native, algorithm: Algorithm, kernel: Kernel, threads, x_strides, y_strides):
        self.algorithm, self.kernel, self.native = algorithm, kernel, native
        self.packing = (algorithm.packing, kernel.nr, native.dst.block(1))
        threads = threads if p.flops >= SMALL else 1
        before = after = residual = None
        x_bytes = y_bytes = 0
        pads = None
        room = algorithm.room and algorithm.room(native, x_strides if native.src == p.src else None)
        if room:
            before = program(p.src, native.src, p.src_shape, 4, x_strides, room.strides)
            x_strides, x_bytes, pads, native = room.strides, room.bytes, room[2:], room.problem
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
        self.run = core.Route(before, executor, after, residual, x_bytes, y_bytes, pads)

    def pack(self, w: np.ndarray, bias: np.ndarray | None):
        """Filter in OIHW order and bias as this route reads them."""
        return self.algorithm.pack(self.native, self.kernel, w, bias)


def _native(p: ConvProblem, algorithm: Algorithm) -> ConvProblem | str:
    """`p` on layouts that `algorithm` takes, the fewest sides changed; or why there are none."""
    reason = algorithm.supports(p)
    if reason is None:
        return p
    if algorithm.via == "channels":
        via = Layout(NATIVE["channels"][p.src.rank])
        for src, dst in ((p.src, via), (via, p.dst), (via, via)):
            native = replace(p, src=src, dst=dst)
            if algorithm.supports(native) is None:
                return native
    return reason


def _estimate(p: ConvProblem, native: ConvProblem, algorithm: Algorithm, kernel: Kernel, threads: int) -> float:
    """Seconds, by counting: the work, and the bytes moved by reorders."""
    if algorithm.estimate:
        seconds = algorithm.estimate(native, kernel, LANES[kernel.isa], GFLOPS[kernel.isa], threads)
    else:
        seconds = _estimate_sum(native, algorithm, kernel, threads)
    x_bytes, y_bytes = 4 * prod(p.src_shape), 4 * prod(p.dst_shape)
    moved = (native.src != p.src or algorithm.room is not None) * x_bytes + (native.dst != p.dst) * y_bytes
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
        overhead *= 1 + lanes / max(1, kernel.mr * min(kernel.nr, columns))  # loads, in FMAs
    seconds = native.flops * waste * overhead / (GFLOPS[kernel.isa] * threads)
    if algorithm.gather:
        seconds += 8 * native.groups * depth * out / (MOVE * threads)
    return seconds


def candidates(p: ConvProblem, algorithm: str, threads: int, x_strides, y_strides) -> Iterator[Candidate]:
    """The routes of `p`; with an `algorithm` named, only that one's, and ValueError if it has none."""
    reasons = []
    for a in ALGORITHMS:
        if algorithm not in ("auto", a.name):
            continue
        if algorithm == "auto" and a.gather and a.via == "channels" and prod(p.kernel) == 1:
            continue  # the same as direct, and a copy
        native = _native(p, a)
        if isinstance(native, str):
            reasons.append(native)
            continue
        needed = a.accuracy(p)
        if ACCURACIES.index(needed) > ACCURACIES.index(p.accuracy):
            reasons.append(f"{a.name} {a.variant} is of accuracy {needed!r} here, {p.accuracy!r} was asked for")
            continue
        for kernel in registry.best(a.family, 32):
            way = "" if native == p else f" via {native.src}>{native.dst}"
            build = partial(Route, p, native, a, kernel, threads, x_strides, y_strides)
            name = " ".join(filter(None, (a.name, a.variant, kernel.name)))
            yield Candidate(f"{name}{way}", _estimate(p, native, a, kernel, threads), build)
    if len(reasons) == sum(algorithm in ("auto", a.name) for a in ALGORITHMS):
        raise ValueError(f"{p}: algorithm {algorithm!r} cannot do it: {'; '.join(dict.fromkeys(reasons))}")


def route_key(p: ConvProblem, threads: int) -> str:
    """What the cost table knows a convolution by."""
    return f"{p} t{threads}"


@lru_cache(1024)
def _choices(p, algorithm, threads, x_strides, y_strides, isa, generation) -> tuple[Choice, ...]:
    return tuple(rank(route_key(p, threads), list(candidates(p, algorithm, threads, x_strides, y_strides))))


@lru_cache(1024)
def _build(p, name, algorithm, threads, x_strides, y_strides, isa) -> Route:
    found = candidates(p, algorithm, threads, x_strides, y_strides)
    return next(c for c in found if c.name == name).build()


def choices(p: ConvProblem, algorithm: str, threads: int, x_strides=None, y_strides=None) -> tuple[Choice, ...]:
    """The routes of `p`, best first."""
    x_strides = x_strides or contiguous_strides(p.src, p.src_shape)
    y_strides = y_strides or contiguous_strides(p.dst, p.dst_shape)
    if mode() == "measure":
        measure_routes(p, threads)
    return _choices(p, algorithm, threads, x_strides, y_strides, registry.isa(), cost_table.generation)


def best_route(p: ConvProblem, algorithm: str, threads: int, x_strides, y_strides) -> Route:
    """The route that a call takes."""
    name = choices(p, algorithm, threads, x_strides, y_strides)[0].candidate.name
    return _build(p, name, algorithm, threads, x_strides, y_strides, registry.isa())


def measure_routes(p: ConvProblem, threads: int, budget: float = 0.2, again: bool = False) -> dict[str, Cost]:
    """Measure every route of `p` that the table lacks, on contiguous arrays of its own (see `measure`)."""
    x_strides, y_strides = contiguous_strides(p.src, p.src_shape), contiguous_strides(p.dst, p.dst_shape)
    x = np.ones(p.src.physical_shape(p.src_shape), np.float32)
    y = np.ones(p.dst.physical_shape(p.dst_shape), np.float32)
    w = np.ones((p.oc, p.ic // p.groups, *p.kernel), np.float32)

    def runner(route: Route):
        filter, bias = route.pack(w, None)
        return partial(route.run, x, filter, bias, y)

    if not x.size or not y.size:
        return {}
    found = list(candidates(p, "auto", threads, x_strides, y_strides))
    return measure(route_key(p, threads), found, runner, budget, again)
