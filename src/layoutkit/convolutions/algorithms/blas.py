"""im2col and numpy's matrix product: whatever BLAS numpy was built with, limited to the threads of the call.

Where a vendor's library is faster, measuring finds out. Rows of the matrix are cut into chunks of bounded size, the
same for any number of threads. How a library divides its sums between threads is unknown and may change the bits of a
result: on more than one thread its accuracy is "fast".
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..._core.nests.convolutions.route import Epilogue, epilogue_pixels
from ..._core.runtime.registry import Kernel
from ...choosing.blas_threads import limited
from ...choosing.machine_profile import scale
from ...formats.layout import Layout
from ...memory.arrays import contiguous_strides, empty
from ...reorders.reorder import reorder
from ..problem import ConvProblem
from ..route import Arrays
from .base import CHANNELS_LAST, Algorithm, flops_per_second

CHUNK_BYTES = 8 << 20  # of the matrix that is gathered at a time
PYTHON_SECONDS = 60e-6  # overhead of a call
PEAK_SHARE = 0.7  # of the FMA peak
GATHER_BYTES_PER_SECOND = 8e9


class Blas(Algorithm):
    """One candidate, whatever the layouts: it reorders in Python, as part of the gather."""

    name = filters = "blas"
    register_tile = ""
    widens = ()

    def supports(self, p: ConvProblem) -> str | None:
        if any(n < 0 for pair in p.padding for n in pair):
            return f"padding {p.padding} leaves out inputs"
        copy = p.types.src.itemsize * prod(padded_shape(p))
        if p.pads and not p.copy_fits(copy):
            return f"its padded copy of the input would take {copy} bytes"
        return None

    def accuracy(self, p: ConvProblem, threads: int) -> str:
        return "standard" if threads == 1 else "fast"

    def natives(self, p: ConvProblem, reorders: bool = True) -> list[ConvProblem] | str:
        return self.supports(p) or [p]

    def kernels(self, p: ConvProblem) -> Sequence[Kernel]:
        return super().kernels(p)[:1]  # it runs no row; this one stands for the peak rate of the machine

    def seconds(self, p: ConvProblem, native: ConvProblem, kernel: Kernel, threads: int) -> float:
        matrix = p.types.src.itemsize * p.n * prod(p.out) * p.ic * p.taps
        multiply = p.flops / (PEAK_SHARE * flops_per_second(kernel) * threads)
        return PYTHON_SECONDS + multiply + 2 * matrix / GATHER_BYTES_PER_SECOND * scale().copy_l3

    def packing(self, native: ConvProblem, kernel: Kernel) -> str:
        return self.name

    def route(self, p: ConvProblem, native: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> BlasRoute:
        return BlasRoute(p, threads)

    def describe(self, kernel: Kernel) -> str:
        return self.name


def padded_shape(p: ConvProblem) -> tuple[int, ...]:
    """The shape of the padded input, channels last."""
    return p.n, *(a + n + b for n, (a, b) in zip(p.size, p.padding)), p.ic


class BlasRoute:
    """A convolution by numpy: see `route.ConvRoute`."""

    packing = Blas.name

    def __init__(self, p: ConvProblem, threads: int) -> None:
        self._p, self._threads = p, threads
        self._native = Layout(CHANNELS_LAST[p.src.rank])
        self._rows = p.n * prod(p.out)
        self._depth = p.ic // p.groups * p.taps
        self._plain = p.taps == prod(p.stride) == p.groups == 1 and not p.pads
        self._padded = padded_shape(p)
        self._chunk = max(1, CHUNK_BYTES // max(1, p.types.src.itemsize * self._depth))

    @property
    def run(self) -> BlasRoute:
        """The same object: it needs no binding."""
        return self

    def pack(self, w: np.ndarray, bias: np.ndarray | None):
        """Filter (O, I/G, *k) -> [G][taps * I/G][O/G]; the bias as it is."""
        p = self._p
        by_group = w.reshape(p.groups, p.oc // p.groups, p.ic // p.groups, p.taps)
        packed = np.ascontiguousarray(by_group.transpose(0, 3, 2, 1))
        return packed.reshape(p.groups, self._depth, p.oc // p.groups), bias

    def needs(self, y: np.ndarray, add: np.ndarray | None = None, epilogue: Epilogue | None = None) -> int:
        """As that of `core.Route`, but 0: numpy allocates its own memory."""
        return 0

    def __call__(self, x, w, bias, y, epilogue: Epilogue | None = None, add=None, workspace=None) -> None:
        p, native = self._p, self._native
        with limited(self._threads), np.errstate(all="ignore"):  # no other algorithm warns of Inf
            direct = p.dst == native and y.strides == contiguous_strides(native, p.dst_shape, y.itemsize)
            direct &= y.flags.aligned
            parts = [] if epilogue is None else [*epilogue.tensors, *([] if add is None else [add])]
            out = y if direct and not any(np.may_share_memory(part, y) for part in parts) else empty(
                native.physical_shape(p.dst_shape), p.types.dst, Blas.name)  # fmt: skip
            pixels = out.reshape(self._rows, p.oc)
            padded = inside = None
            if p.pads:
                padded = np.zeros(self._padded, p.types.src)
                inside = padded[(slice(None), *(slice(a, a + n) for n, (a, _) in zip(p.size, p.padding)))]
            x = reorder(x, p.src, native, shape=p.src_shape, out=inside, threads=self._threads)
            x = x if padded is None else padded
            for i in range(0, self._rows, self._chunk):
                self._multiply(x, w, pixels, i, min(self._rows, i + self._chunk))
            if bias is not None:
                pixels += bias
        if epilogue is not None:
            parts = [np.ascontiguousarray(reorder(t, p.dst, native, shape=p.dst_shape)).reshape(pixels.shape)
                     for t in parts]  # fmt: skip
            if add is not None:
                add = parts.pop()
            if parts:
                epilogue = epilogue.over(parts)
            epilogue_pixels(p.types.name, epilogue, pixels, add)
        if out is not y:
            reorder(out, native, p.dst, out=y, shape=p.dst_shape, threads=self._threads)

    def _multiply(self, x: np.ndarray, w: np.ndarray, pixels: np.ndarray, first: int, last: int) -> None:
        p, each = self._p, self._p.oc // self._p.groups
        if self._plain:
            np.matmul(x.reshape(self._rows, p.ic)[first:last], w[0], out=pixels[first:last])
            return
        matrix = self._gather(x, first, last)
        for g in range(p.groups):
            columns = matrix[:, :, g * (p.ic // p.groups) : (g + 1) * (p.ic // p.groups)].reshape(last - first, -1)
            pixels[first:last, g * each : (g + 1) * each] = columns @ w[g]

    def _gather(self, x: np.ndarray, first: int, last: int) -> np.ndarray:
        """The inputs that output pixels [first, last) read: (pixels, taps, channels)."""
        p = self._p
        at = np.unravel_index(np.arange(first, last), (p.n, *p.out))
        taps = np.unravel_index(np.arange(prod(p.kernel)), p.kernel)
        index = [at[0][:, None]]
        for axis in range(len(p.size)):
            index.append(at[axis + 1][:, None] * p.stride[axis] + taps[axis][None] * p.dilation[axis])
        return x[tuple(index)]
