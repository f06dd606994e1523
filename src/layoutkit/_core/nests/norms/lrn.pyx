"""Local response normalisation with channels innermost: threads around the micro-kernels of lrn.c."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from ...kernels cimport LK_LRN, lk_kernel
from ...kernels.lrn cimport lk_lrn, lk_lrn_fn
from ...ndarray cimport import_array, ndarray
from ...runtime.registry cimport best_row
from ...runtime.team cimport lk_claim, lk_portions, threads_for
from ..executor cimport aligned, ceil_div, share
from ..operation cimport Operation

import_array()


cdef class Lrn(Operation):
    """``y = x / (bias + alpha / size * sum of the squares of `size` channels around)**0.75``, of arrays (x, y).

    Parameters
    ----------
    arrays : (ndarray, ndarray)
        Of any shape, the channels innermost and contiguous.
    pixels : (ndarray, ndarray)
        Views of them with two axes: pixels, channels.
    types : {"f32", "bf16", "f16"}
        The type of both.
    size, alpha, bias
        As in ONNX.
    threads : int
    """

    cdef lk_lrn_fn fn
    cdef lk_lrn template            # of a share, without addresses
    cdef int64_t pixels, squares_bytes
    cdef int threads

    def __cinit__(self, arrays, pixels, str types, int64_t size, double alpha, double bias, int threads):
        cdef const lk_kernel *row = best_row(LK_LRN, types)
        cdef ndarray x = pixels[0], y = pixels[1]
        cdef int64_t item = 4 if types == "f32" else 2
        cdef lk_lrn *p = &self.template
        self.bind(tuple(arrays))
        if x.itemsize != item or y.itemsize != item or (x.shape[1] > 1 and not x.strides[1] == y.strides[1] == item):
            raise ValueError(f"lrn: expected contiguous channels of {types}")
        if size < 1:
            raise ValueError(f"lrn: size {size}, expected a positive number")
        p.count, p.bias, p.scale = x.shape[1], bias, alpha / size
        p.below = min((size - 1) // 2, p.count)
        p.above = min(size - 1 - (size - 1) // 2, p.count)
        p.x_pixel, p.y_pixel = x.strides[0], y.strides[0]
        self.fn, self.pixels = <lk_lrn_fn>row.fn, x.shape[0] if p.count else 0
        self.squares_bytes = aligned((p.below + p.above + (ceil_div(p.count, row.lanes) + 1) * row.lanes) * sizeof(float))
        self.threads = <int>min(threads_for(threads, 2.0 * self.pixels * p.count * item), self.pixels)
        self.workspace = self.threads * self.squares_bytes

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.pixels:
            memset(workspace, 0, self.workspace)  # squares of channels before the first and after the last
            self.run_shares(self.threads, at, workspace)

    cdef void run_share(self, char **at, char *workspace, int slot, int part, int parts,
                        lk_portions *portions) noexcept nogil:
        cdef int64_t first, last
        cdef lk_lrn p = self.template
        p.squares = workspace + slot * self.squares_bytes
        while lk_claim(portions, share(self.pixels, parts, part), share(self.pixels, parts, part + 1), &first, &last):
            p.x, p.y, p.pixels = at[0] + first * p.x_pixel, at[1] + first * p.y_pixel, last - first
            self.fn(&p)
