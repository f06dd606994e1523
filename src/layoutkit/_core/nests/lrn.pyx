"""Local response normalisation with channels innermost: threads around the micro-kernels of lrn.c."""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from numpy cimport PyArray_DATA, import_array, ndarray

from ..kernels cimport LK_LRN, lk_kernel
from ..kernels.lrn cimport lk_lrn, lk_lrn_fn
from ..runtime.registry cimport best_row
from ..runtime.team cimport lk_claim, lk_portions, share_out, threads_for
from .executor cimport aligned, ceil_div, share

import_array()


def lrn(str types, ndarray x not None, ndarray y not None, int64_t size, double alpha, double bias, int threads):
    """``y = x / (bias + alpha / size * sum of the squares of `size` channels around)**0.75``.

    Parameters
    ----------
    types : {"f32", "bf16", "f16"}
        The type of both `x` and `y`.
    x, y : ndarray
        Pixels, channels; both contiguous.
    size, alpha, bias
        As in ONNX.
    threads : int
    """
    cdef const lk_kernel *row = best_row(LK_LRN, types)
    cdef lk_lrn_fn fn = <lk_lrn_fn>row.fn
    cdef int64_t pixels = x.shape[0], bytes_each, item = 4 if types == "f32" else 2
    cdef const char *source = <const char *>PyArray_DATA(x)
    cdef char *destination = <char *>PyArray_DATA(y)
    cdef char *squares
    cdef Run r
    cdef lk_lrn p
    if not (x.flags.c_contiguous and y.flags.c_contiguous) or x.itemsize != item or y.itemsize != item:
        raise ValueError(f"lrn: expected contiguous arrays of {types}")
    if size < 1:
        raise ValueError(f"lrn: size {size}, expected a positive number")
    p.count, p.bias, p.scale = x.shape[1], bias, alpha / size
    p.below = min((size - 1) // 2, p.count)
    p.above = min(size - 1 - (size - 1) // 2, p.count)
    p.x_pixel = p.y_pixel = p.count * item
    bytes_each = aligned((p.below + p.above + (ceil_div(p.count, row.lanes) + 1) * row.lanes) * sizeof(float))
    if pixels == 0 or p.count == 0:
        return
    threads = <int>min(threads_for(threads, 2.0 * pixels * p.x_pixel), pixels)
    squares = <char *>calloc(threads, bytes_each)
    if squares == NULL:
        raise MemoryError(f"lrn: {threads} buffers of {bytes_each} bytes")
    r.fn, r.part, r.x, r.y, r.squares, r.squares_bytes, r.pixels = fn, &p, source, destination, squares, bytes_each, pixels
    with nogil:
        share_out(threads, lrn_share, &r)
        free(squares)


cdef struct Run:
    lk_lrn_fn fn
    const lk_lrn *part
    const char *x
    char *y
    char *squares
    int64_t squares_bytes, pixels


cdef void lrn_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const Run *r = <const Run *>argument
    cdef int64_t first, last
    cdef lk_lrn p = r.part[0]
    p.squares = r.squares + slot * r.squares_bytes
    while lk_claim(portions, share(r.pixels, parts, part), share(r.pixels, parts, part + 1), &first, &last):
        p.x, p.y, p.pixels = r.x + first * p.x_pixel, r.y + first * p.y_pixel, last - first
        r.fn(&p)
