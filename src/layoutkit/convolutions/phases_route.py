"""The phases of a transposed convolution between the caller's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from .._core.runtime.arrays import address
from ..formats.layout import Layout
from ..memory.arrays import contiguous_strides, empty, placeholder
from ..reorders.binding import UNCHANGED, Call, decide
from ..reorders.reorder import reorder
from .epilogue import NO_ACTIVATION, Epilogue
from .filter import Filter
from .route import Arrays, ConvRoute
from .task import best_route
from .types import conversion_of, converted, dtype_of

if TYPE_CHECKING:
    from .phases import SubConvolution, TransposedTask

SRC, DST, WORK = range(3)  # where a compiled step reads and writes: input, result, or the workspace


class PhasesRoute:
    """The phases between the caller's arrays, ready to run on arrays of exact strides; `compiled`: by routes that run
    without Python."""

    def __init__(self, task: TransposedTask, arrays: Arrays, compiled: bool = False) -> None:
        self.task, self.arrays = task, arrays
        src, dst = self.inside = task.native  # the layouts between which phases run
        self.inner = task.inner
        x_strides, y_strides = arrays
        converts = self.inner != task.types
        self.reorders_x, self.reorders_y = src != task.src or converts, dst != task.dst or converts
        if self.reorders_x:
            x_strides = contiguous_strides(src, task.x_shape, self.inner.src.itemsize)
        if self.reorders_y:
            y_strides = contiguous_strides(dst, task.y_shape, self.inner.dst.itemsize)
        self.native = placeholder(dst.physical_shape(task.y_shape), self.inner.dst, y_strides)  # what phases write
        self.steps: list[tuple[SubConvolution, ConvRoute]] = [
            (part, best_route(choice, Arrays(x_strides, self.native[part.outputs].strides), compiled))
            for part, choice in zip(task.convolutions, task.tasks())
        ]
        self.compiled, self.pads = compiled, dst.full_shape(task.y_shape) != task.y_shape

    def needs(self, add: bool, epilogue: Epilogue | None = None) -> int:
        """Bytes of workspace for a call, with `add` and the tensors of `epilogue`."""
        task, (src, dst) = self.task, self.inside
        x_bytes = prod(src.physical_shape(task.x_shape)) * self.inner.src.itemsize if self.reorders_x else 0
        y_bytes = prod(dst.physical_shape(task.y_shape)) * self.inner.dst.itemsize if self.reorders_y else 0
        tensors = 0 if epilogue is None else len(epilogue.tensors)
        most = 0
        for part, route in self.steps:
            y = self.native[part.outputs]
            steps = epilogue.over([y] * tensors) if epilogue is not None and tensors and part.last else None
            most = max(most, route.run.needs(y, y if add or part.accumulates else None, steps))
        return aligned(x_bytes) + (1 + tensors) * aligned(y_bytes) + most

    def pack(self, part: SubConvolution, step: ConvRoute, f: Filter):
        """Its part of a filter and the bias, as a step reads them; None if there is nothing to compute."""
        zeros = f.bias is None and f.epilogue is None and not f.types.integers and part.taps is None
        if zeros and not part.accumulates and not self.compiled and not self.pads:
            return None
        elements, w = (self.task.types.elements[1], self.inner.elements[1]), part.filter(f.w)
        if elements[0] != elements[1]:
            w = converted(np.ascontiguousarray(w), *elements)
        return step.pack(w, f.bias_over(w) if part.bias else None)

    def run(self, x, packed, y, epilogue: Epilogue | None, add, workspace: np.ndarray | None = None) -> None:
        """Convolve `x` into `y` with filter and bias of each step; `add` has the strides of `y`, and may be it."""
        task, (src, dst) = self.task, self.inside
        memory = Workspace(workspace)
        outer, native = task.types.elements, self.inner.elements

        def reordered(a, layouts, shape, elements, out):
            dtype = conversion_of(elements)
            to = out.view(dtype_of(elements[1])) if dtype else out
            reorder(a, *layouts, shape=shape, out=to, dtype=dtype, threads=task.threads)
            return out

        if self.reorders_x:
            to = memory.array(src.physical_shape(task.x_shape), self.inner.src if outer != native else x.dtype)
            x = reordered(x, (task.src, src), task.x_shape, (outer[0], native[0]), to)
        inner = y
        if self.reorders_y:
            inner = memory.array(dst.physical_shape(task.y_shape), self.inner.dst if outer != native else y.dtype)
            if add is not None:
                add = reordered(add, (task.dst, dst), task.y_shape, (outer[3], native[3]), inner)
        tensors = [] if epilogue is None else list(epilogue.tensors)
        if inner is not y:
            to_inner = (task.dst, dst), task.y_shape, (outer[3], native[3])
            tensors = [reordered(t, *to_inner, memory.array(inner.shape, inner.dtype)) for t in tensors]
        elif tensors and any(part.accumulates for part, _ in self.steps):  # they would overwrite a tensor in `y`
            tensors = [t.copy() if address(t) == address(y) else t for t in tensors]
        for (part, route), filters in zip(self.steps, packed):
            to = inner[part.outputs]
            residual = to if part.accumulates else None if add is None else add[part.outputs]
            if filters is None:
                to[...] = 0 if residual is None else residual
                continue
            w, bias = filters
            steps = (epilogue if part.last else None) or (None if residual is None else NO_ACTIVATION)
            if tensors and part.last and steps is not None:
                steps = steps.over([t[part.outputs] for t in tensors])
            route.run(x[part.inputs], w, bias, to, steps, residual, memory.rest)
        if inner is not y:
            reordered(inner, (dst, task.dst), task.y_shape, (native[3], outer[3]), y)

    def compiled_steps(self, packed: Sequence, epilogue: Epilogue | None) -> tuple[list[tuple], int]:
        """The steps of a call with packed filters and biases, as `TransposedConvolution` has them, and the bytes of the
        workspace that they keep."""
        task, (src, dst) = self.task, self.inside
        steps: list[tuple] = []
        source, to, kept = (SRC, 0), (DST, 0), 0
        x, y = (placeholder(layout.physical_shape(shape), dtype, strides) for layout, shape, dtype, strides in (
            (task.src, task.x_shape, task.types.src, self.arrays.x_strides),
            (task.dst, task.y_shape, task.types.dst, self.arrays.y_strides)))  # fmt: skip
        if self.reorders_x:
            inner = _contiguous(src, task.x_shape, task.types.src)
            steps += _reordering(x, task.src, src, task.x_shape, inner, task.threads, source, (WORK, 0))
            source, kept = (WORK, 0), aligned(inner.size * inner.itemsize)
        inner = y
        if self.reorders_y:
            inner, to = _contiguous(dst, task.y_shape, task.types.dst), (WORK, kept)
            kept += inner.size * inner.itemsize
        first = address(self.native)
        for (part, step), (w, bias) in zip(self.steps, packed):
            at = address(self.native[part.outputs]) - first
            steps.append((step.run, w, bias, epilogue, source, (to[0], to[1] + at)))
        if self.reorders_y:
            steps += _reordering(inner, dst, task.dst, task.y_shape, y, task.threads, to, (DST, 0))
        return steps, kept


def _contiguous(layout: Layout, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A placeholder of a contiguous array."""
    return placeholder(layout.physical_shape(shape), dtype, contiguous_strides(layout, shape, dtype.itemsize))


def _reordering(x: np.ndarray, src, dst, shape, y: np.ndarray, threads: int, source, to) -> list[tuple]:
    """The step that reorders between arrays like these, if anything moves."""
    bound = decide(Call(x, src, dst, shape, y, UNCHANGED, None, None, 0, threads)).bound
    return [] if bound.run is None else [((bound.run, bound.threads), None, None, None, source, to)]


class Workspace:
    """Arrays in the memory that a caller gives, or new ones where it gives none."""

    def __init__(self, memory: np.ndarray | None) -> None:
        self.rest = None if memory is None else memory.reshape(-1).view(np.uint8)

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        if self.rest is None:
            return empty(shape, dtype, "conv_transpose")
        size = prod(shape) * dtype.itemsize
        array, self.rest = self.rest[:size].view(dtype).reshape(shape), self.rest[aligned(size) :]
        return array


def aligned(nbytes: int) -> int:
    return -(-nbytes // 64) * 64
