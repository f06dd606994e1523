"""Sums of two tensors, or single tensors, clipped to limits: threads around the micro-kernels of add.c."""

from libc.stdint cimport int64_t
from numpy cimport PyArray_DATA, import_array, ndarray

from ..kernels cimport LK_ADD, lk_kernel
from ..kernels.elementwise cimport lk_add, lk_add_fn, lk_scale
from ..runtime.registry cimport best_row
from ..runtime.team cimport lk_claim, lk_portions, share_out, threads_for
from .executor cimport ceil_div, share

import_array()

cdef enum:
    PART = 64  # elements: a row is cut at multiples of them
    IRREGULAR = -1


cdef int64_t contiguous_axes(ndarray x) noexcept:
    """How many of the last axes are contiguous."""
    cdef int64_t step = x.itemsize, axes = 0
    cdef int i
    for i in range(x.ndim - 1, -1, -1):
        if x.shape[i] != 1 and x.strides[i] != step:
            break
        step *= x.shape[i]
        axes += 1
    return axes


cdef int64_t row_stride(ndarray x, int axes) noexcept:
    """The bytes from one row to the next, where the last `axes` axes are a row; IRREGULAR if there is no such number."""
    cdef int64_t pitch = 0, count = 1
    cdef int i
    for i in range(x.ndim - axes - 1, -1, -1):
        if x.shape[i] == 1:
            continue
        if count == 1:
            pitch = x.strides[i]
        elif x.strides[i] != pitch * count:
            return IRREGULAR
        count *= x.shape[i]
    return pitch


cdef lk_scale scale_of(numbers) except *:
    cdef lk_scale scale
    scale.scale, scale.zero = numbers
    return scale


def add(str types, ndarray a not None, ndarray b, ndarray y not None, limits, integers, int threads):
    """``y = clip(a + b)``, or ``clip(a)`` if `b` is None.

    Parameters
    ----------
    types : {"f32", "bf16", "f16", "u8", "s8"}
        Of the elements of all arrays.
    a, b, y : ndarray
        Of one shape and any strides. They must not overlap.
    limits : (float, float) or None
        NaN stays NaN.
    integers : three of (float, int)
        Scale and zero point of `a`, `b` and `y`; of integers only.
    threads : int
    """
    cdef const lk_kernel *row = best_row(LK_ADD, types)
    cdef lk_add_fn fn = <lk_add_fn>row.fn
    cdef lk_add g
    cdef float clip[2]
    cdef int axes, i
    cdef int64_t item = y.itemsize
    cdef Run r
    shape = (<object>y).shape
    for x in (a, y) if b is None else (a, b, y):
        if x.shape != shape or x.itemsize != item or item != (4 if types == "f32" else 2 if "f" in types else 1):
            raise ValueError(f"add: {types} of shape {shape}, got {x.shape} of {x.itemsize} bytes")
    axes = <int>min(contiguous_axes(a), contiguous_axes(y), contiguous_axes(y if b is None else b))
    g.a_row, g.y_row, g.b_row = row_stride(a, axes), row_stride(y, axes), 0 if b is None else row_stride(b, axes)
    if IRREGULAR in (g.a_row, g.b_row, g.y_row):
        for i in range(shape[0]):
            add(types, a[i], None if b is None else b[i], y[i], limits, integers, threads)
        return
    g.a, g.y = <const char *>PyArray_DATA(a), <char *>PyArray_DATA(y)
    g.b = NULL if b is None else <const char *>PyArray_DATA(b)
    g.rows, g.count, g.clip = 1, 1, NULL
    for i in range(y.ndim):
        if i < y.ndim - axes:
            g.rows *= y.shape[i]
        else:
            g.count *= y.shape[i]
    if limits is not None:
        clip[0], clip[1] = limits
        g.clip = clip
    g.of_a, g.of_b, g.of_y = scale_of(integers[0]), scale_of(integers[1]), scale_of(integers[2])
    if g.rows == 0 or g.count == 0:
        return
    threads = threads_for(threads, (2.0 if b is None else 3.0) * g.rows * g.count * item)
    r.fn, r.sum, r.item, r.by_rows = fn, &g, item, g.rows >= threads
    with nogil:
        share_out(threads, add_share, &r)


cdef struct Run:
    lk_add_fn fn
    const lk_add *sum
    int64_t item
    bint by_rows  # else each row is divided


cdef void add_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const Run *r = <const Run *>argument
    cdef int64_t count = r.sum.rows if r.by_rows else ceil_div(r.sum.count, PART), first, last
    while lk_claim(portions, share(count, parts, part), share(count, parts, part + 1), &first, &last):
        one_part(r, r.sum[0], first, last)


cdef void one_part(const Run *r, lk_add g, int64_t first, int64_t end) noexcept nogil:
    """Rows [first, end), or, if there are few rows, these parts of each."""
    cdef int64_t item = r.item
    if r.by_rows:
        g.a, g.y, g.rows = g.a + first * g.a_row, g.y + first * g.y_row, end - first
        if g.b != NULL:
            g.b += first * g.b_row
    else:
        g.a, g.y = g.a + first * PART * item, g.y + first * PART * item
        if g.b != NULL:
            g.b += first * PART * item
        g.count = min(end * PART, g.count) - first * PART
    r.fn(&g)
