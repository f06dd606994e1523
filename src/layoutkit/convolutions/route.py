"""Routes: all that a call runs. Reorder the input if needed, convolve, reorder the output if needed.

Reorders also convert numbers where the loop nest computes in another type than the caller's.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from .._core.nests.convolutions import route as core
from .._core.nests.executor import Executor
from .._core.runtime.registry import Kernel
from ..choosing.machine_profile import scale
from ..formats.layout import Layout
from ..memory import spans
from ..memory.arrays import contiguous_strides
from ..memory.pool import pool
from ..memory.spans import PlanError, Span
from ..reorders.convert import conversion
from ..reorders.problem import best_program
from ..reorders.reorder import reorder
from .problem import ACCURACIES, ConvProblem
from .types import converted, dtype_of

if TYPE_CHECKING:
    from .algorithms.base import Algorithm

# With less of both a second thread costs more than it saves.
SMALL_FLOPS = 1 << 21
SMALL_BYTES = 192 << 10  # read and written
MOVE_BYTES_PER_SECOND = 20e9  # read and written by a reorder or a gather
CONVERT_BYTES_PER_SECOND = 50e9  # by a reorder between equal layouts
NEW_PAGE_BYTES_PER_SECOND = 3e9  # of memory touched for the first time, for how often a call checks for signals


def move_seconds(nbytes: float) -> float:
    """Estimated seconds in which a reorder or a gather reads and writes so many bytes on one thread."""
    return nbytes / MOVE_BYTES_PER_SECOND * scale().copy_l3


def convert_seconds(nbytes: float) -> float:
    """The same where only the type of the elements changes."""
    return nbytes / CONVERT_BYTES_PER_SECOND * scale().copy_l3


class Arrays(NamedTuple):
    """The arrays of a call, as far as a route depends on them: byte strides of input and output."""

    x_strides: tuple[int, ...]
    y_strides: tuple[int, ...]


class ConvRoute(Protocol):
    """What a candidate of a convolution builds.

    Attributes
    ----------
    run : callable
        ``run(x, w, bias, y, epilogue=None, add=None, workspace=None)`` with a filter and bias that `pack` made, and
        ``run.needs(y, add)``, bytes of workspace.
    packing : str
        Routes of equal packing read the same packed filter.
    """

    packing: str

    @property
    def run(self) -> Any: ...

    def pack(self, w: np.ndarray, bias: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Filter in OIHW order and bias as `run` reads them."""
        ...


class Route:
    """A convolution by a compiled loop nest, ready to run on arrays of exact strides: see `ConvRoute`.

    Parameters
    ----------
    p, native : ConvProblem
        The problem, and the same in layouts and types that the algorithm supports.
    """

    def __init__(
        self, p: ConvProblem, native: ConvProblem, algorithm: Algorithm, kernel: Kernel, threads: int, arrays: Arrays
    ) -> None:
        self.algorithm, self.kernel, self.native = algorithm, kernel, native
        self.packing = algorithm.packing(native, kernel)
        threads = useful_threads(p, threads)
        x_strides, y_strides = arrays
        outer, inner = p.types.elements, native.types.elements
        x_width, y_width = native.types.src.itemsize, native.types.dst.itemsize
        same = native.types == p.types
        before = after = residual = None  # reorders
        x_bytes = y_bytes = 0
        pads = None
        padded = algorithm.padded(native, x_strides if same and native.src == p.src else None)
        x_types = outer[0], inner[0]
        if padded:
            before = _reorder(p.src, padded.problem.src, p.src_shape, x_types, x_strides, padded.strides)
            x_strides, x_bytes, pads, native = padded.strides, padded.bytes, padded[2:6], padded.problem
        elif not same or native.src != p.src or not algorithm.takes_strides(p.src, p.src_shape, x_strides, x_width):
            strides = contiguous_strides(native.src, p.src_shape, x_width)
            before = _reorder(p.src, native.src, p.src_shape, x_types, x_strides, strides)
            x_bytes, x_strides = prod(native.src.physical_shape(p.src_shape)) * x_width, strides
        if not same or native.dst != p.dst or not algorithm.takes_strides(p.dst, p.dst_shape, y_strides, y_width):
            strides = contiguous_strides(native.dst, p.dst_shape, y_width)
            after = _reorder(native.dst, p.dst, p.dst_shape, (inner[3], outer[3]), strides, y_strides)
            residual = _reorder(p.dst, native.dst, p.dst_shape, (outer[3], inner[3]), y_strides, strides)
            y_bytes, y_strides = prod(native.dst.physical_shape(p.dst_shape)) * y_width, strides
        executor = algorithm.build(native, kernel, threads, Arrays(x_strides, y_strides))
        # Without padding all algorithms add the same products, and zeros get the same sign in any case.
        executor.positive = p.accuracy == ACCURACIES[0] and p.pads
        touched = (p.src_bytes + p.dst_bytes) / NEW_PAGE_BYTES_PER_SECOND
        seconds = max(algorithm.seconds(p, self.native, kernel, threads), touched)
        items = p.types.src.itemsize, p.types.dst.itemsize
        self.run = core.Route(before, executor, after, residual, x_bytes, y_bytes, pool, seconds, pads, items)
        self._filter_elements = (outer[1], inner[1])
        source = spans.of_array(native.src.physical_shape(p.src_shape), x_strides, x_width).at(self.run.start)
        target = spans.of_array(native.dst.physical_shape(p.dst_shape), y_strides, y_width)
        if before is not None:
            if spans.overlaps_itself(native.src.physical_shape(p.src_shape), x_strides, x_width):
                raise PlanError(f"{self}: elements of the reordered input overlap, strides {x_strides}")
            spans.check(source, Span(0, x_bytes), f"{self}: reordered input")
            source = Span(0, x_bytes)
        if after is not None:
            spans.check(target, Span(0, y_bytes), f"{self}: output to be reordered")
        self._needs = check_executor(executor, source, target, str(self))

    def __str__(self) -> str:
        return f"{self.native}, {self.algorithm.name} by {self.kernel.name}"

    def pack(self, w: np.ndarray, bias: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Filter in OIHW order, of any strides, and bias as this route reads them."""
        if not self.algorithm.strided or self.kernel.kr > 1 or self._filter_elements[0] != self._filter_elements[1]:
            w = w if w.flags.c_contiguous else reorder(w, "abcde"[: w.ndim], "abcde"[: w.ndim])
        packed, biases = self.algorithm.pack(self.native, self.kernel, converted(w, *self._filter_elements), bias)
        for name, needed, packed_array in zip(("filter", "bias"), self._needs, (packed, biases)):
            if packed_array is not None and packed_array.nbytes < needed:
                spans.check(Span(0, needed), Span(0, packed_array.nbytes), f"{self}: packed {name}")
        return packed, biases


def _reorder(src: Layout, dst: Layout, shape: tuple[int, ...], elements: tuple[str, str], src_strides, dst_strides):
    """The reorder from one array to another, which converts the numbers if the element types differ."""
    if elements[0] != elements[1]:
        return conversion(src, dst, shape, elements, src_strides, dst_strides)
    return best_program(src, dst, shape, dtype_of(elements[0]).itemsize, src_strides, dst_strides)


def useful_threads(p: ConvProblem, threads: int) -> int:
    """How many of `threads` a convolution uses."""
    moved = p.src_bytes + p.dst_bytes + p.filter_bytes
    return threads if p.flops >= SMALL_FLOPS or moved >= SMALL_BYTES else 1


def check_executor(executor: Executor, source: Span, destination: Span, what: str) -> tuple[int, int]:
    """PlanError unless the loop nest stays within both; the bytes of filter and bias that it reads."""
    footprint = executor.footprint()
    spans.check(span_of(footprint.source), source, f"{what}: input")
    spans.check(span_of(footprint.destination), destination, f"{what}: output")
    return footprint.filter, footprint.bias


def span_of(parts) -> Span:
    """The span of an executor's parts: see `Footprint` in executor.pyx."""
    span = spans.EMPTY
    for steps, run in parts:
        if run:  # without channels nothing is read
            span = span.joined(spans.of_ranges(steps, run))
    return span
