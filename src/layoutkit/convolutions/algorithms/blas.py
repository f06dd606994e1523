"""im2col and numpy's own matrix product: whatever BLAS numpy was built with, its threads held to those of the call.

Where a vendor's library wins, the table finds out. Rows of the matrix are cut into chunks of bounded size, the same
for any number of threads. How such a library cuts its sums between threads is its own affair, and so may change
bits: on more than one thread it is of accuracy "fast".
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..._core.route import Epilogue, epilogue_pixels
from ...choosing.plan import Candidate, Step
from ...choosing.pools import limited
from ...formats.layout import Layout
from ...memory.arrays import empty
from ...reorders.reorder import reorder
from ..geometry import contiguous_strides
from ..problem import ACCURACIES, ConvProblem

NATIVE = {3: Layout("NWC"), 4: Layout("NHWC"), 5: Layout("NDHWC")}
CHUNK = 8 << 20  # bytes of the matrix at a time
CALL, SHARE, MOVE = 60e-6, 0.7, 8e9  # seconds of Python a call; of the peak; bytes a second of gathering
NAME = "blas"
F32 = np.dtype(np.float32)


def blas_support(p: ConvProblem, threads: int) -> str | None:
    """Why numpy's BLAS cannot do `p`; None if it can."""
    needed = "standard" if threads == 1 else "fast"
    if ACCURACIES.index(needed) > ACCURACIES.index(p.accuracy):
        return f"{NAME} is of accuracy {needed!r} on {threads} thread(s), {p.accuracy!r} was asked for"
    if any(n < 0 for pair in p.padding for n in pair):
        return f"padding {p.padding} leaves out inputs"
    copy = 4 * prod(_padded_shape(p))
    if any(map(any, p.padding)) and not p.copy_fits(copy):
        return f"its padded copy of the input would take {copy} bytes"
    return None


def _padded_shape(p: ConvProblem) -> tuple[int, ...]:
    return p.n, *(a + n + b for n, (a, b) in zip(p.size, p.padding)), p.ic


class BlasRoute:
    """A convolution by numpy, as `routes.Route` is one by the kernels.

    Attributes
    ----------
    run : BlasRoute
        Itself: called with what a `core.Route` is.
    packing : str
        Filters that were packed under an equal one fit this route.
    """

    packing = NAME

    def __init__(self, p: ConvProblem, threads: int) -> None:
        self._p, self._threads, self.run = p, threads, self
        self._rows = p.n * prod(p.out)
        self._depth = p.ic // p.groups * prod(p.kernel)
        self._plain = prod(p.kernel) == prod(p.stride) == p.groups == 1 and not any(map(any, p.padding))
        self._padded = _padded_shape(p)
        self._chunk = max(1, CHUNK // max(1, 4 * self._depth))

    def pack(self, w: np.ndarray, bias: np.ndarray | None):
        """Filter (O, I/G, *k) -> [G][taps * I/G][O/G]; the bias as it is."""
        p = self._p
        by_group = w.reshape(p.groups, p.oc // p.groups, p.ic // p.groups, prod(p.kernel))
        packed = np.ascontiguousarray(by_group.transpose(0, 3, 2, 1))
        return packed.reshape(p.groups, self._depth, p.oc // p.groups), bias

    def needs(self, y: np.ndarray, add: np.ndarray | None = None) -> int:
        """As of `core.Route`: numpy asks for its own memory, none of the caller's is used."""
        return 0

    def __call__(self, x, w, bias, y, finish: Epilogue | None = None, add=None, workspace=None) -> None:
        p, native = self._p, NATIVE[self._p.src.rank]
        with limited(self._threads), np.errstate(all="ignore"):  # no other way warns of Inf
            direct = p.dst == native and y.strides == contiguous_strides(native, p.dst_shape)
            out = y if direct and not (add is not None and np.may_share_memory(add, y)) else empty(
                native.physical_shape(p.dst_shape), F32, NAME)  # fmt: skip
            pixels = out.reshape(self._rows, p.oc)
            padded = inside = None
            if any(map(any, p.padding)):
                padded = np.zeros(self._padded, np.float32)
                inside = padded[(slice(None), *(slice(a, a + n) for n, (a, _) in zip(p.size, p.padding)))]
            x = reorder(x, p.src, native, shape=p.src_shape, out=inside, threads=self._threads)
            x = x if padded is None else padded
            for i in range(0, self._rows, self._chunk):
                self._multiply(x, w, pixels, i, min(self._rows, i + self._chunk))
            if bias is not None:
                pixels += bias
        if finish is not None:
            if add is not None:
                add = np.ascontiguousarray(reorder(add, p.dst, native, shape=p.dst_shape)).reshape(pixels.shape)
            epilogue_pixels(finish, pixels, add)
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
        """What output pixels [first, last) read: (pixels, taps, channels)."""
        p = self._p
        at = np.unravel_index(np.arange(first, last), (p.n, *p.out))
        taps = np.unravel_index(np.arange(prod(p.kernel)), p.kernel)
        index = [at[0][:, None]]
        for axis in range(len(p.size)):
            index.append(at[axis + 1][:, None] * p.stride[axis] + taps[axis][None] * p.dilation[axis])
        return x[tuple(index)]


def blas_candidate(p: ConvProblem, threads: int, peak: float, once: Step | None) -> Candidate:
    """The candidate of `p`, whose kernels do `peak` flops a second on one thread."""
    matrix = 4 * p.n * prod(p.out) * p.ic * prod(p.kernel)
    seconds = CALL + p.flops / (SHARE * peak * threads) + 2 * matrix / MOVE
    return Candidate(NAME, seconds, lambda: BlasRoute(p, threads), (once,) if once else ())
