"""Bytes for numbers by the range of these: the least and the largest number first, then the bytes of what lies between.

    scale = (max - min) / 255, zero = round(-min / scale), y = clip(round(x / scale) + zero)        0 is of the range
"""

from libc.math cimport fabs, nextafterf, rint
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from ...kernels cimport LK_CONVERT, LK_F32, LK_REDUCE, LK_U8
from ...kernels.convert cimport lk_convert, lk_convert_fn
from ...kernels.normalise cimport LK_FOLD_MAX, LK_FOLD_MIN, lk_reduce, lk_reduce_fn
from ...ndarray cimport import_array, ndarray
from ...runtime.registry cimport best_row
from ...runtime.team cimport threads_for
from ..checks cimport check_order
from ..executor cimport ceil_div
from ..operation cimport Operation, chunks_of

import_array()

cdef enum:
    PIECE = 4096  # numbers of a task, which stay in the first cache

cdef float INFINITE = float("inf")


cdef struct Divisor:  # a scale as convert.c divides by it; see convert.h
    float scale, inverse, high, low, zero
    bint splits  # whether high and low, whose sum is 1 / scale, round alike


cdef Divisor divisor_of(float scale, float zero) noexcept nogil:
    """As `reorders/convert.py` has it: a quotient is a product unless it is very near the middle between two floats."""
    cdef Divisor d
    cdef double inverse = 1 / <double>scale, middle, exact
    cdef float half
    cdef int i, k
    d.scale, d.inverse, d.zero, d.high = scale, <float>inverse, zero, <float>inverse
    if d.high > inverse:
        d.high = nextafterf(d.high, 0)
    d.low = <float>(inverse - d.high)
    if d.low == 0:
        d.low = d.high * <float>8.673617379884035e-19  # 2^-60
    d.splits = True
    for i in range(257):
        half = <float>(i + 0.5)
        for k in range(2):
            middle = (<double>half + nextafterf(half, INFINITE if k else 0)) / 2
            exact = scale * middle
            d.splits &= fabs(<float>exact - exact) > 5.684341886080802e-14 * exact  # 2^-44
    return d


cdef class DynamicQuantisation(Operation):
    """Integers by the range of all numbers, for arrays (x, y, scale, zero).

    Parameters
    ----------
    x : ndarray
        float32.
    y : ndarray
        uint8, of the shape of `x`; both in C order.
    scale, zero : ndarray
        A number of float32 and one of uint8, which are written: the scale of zeros only is 1; where it is infinite or NaN,
        the zero point is 0, and so are the integers of infinite scales. NaN becomes 0.
    threads : int
    """

    cdef lk_reduce_fn reduce
    cdef lk_convert_fn convert
    cdef int64_t size, tasks, chunks
    cdef int threads

    def __init__(self, ndarray x not None, ndarray y not None, ndarray scale not None, ndarray zero not None, int threads):
        self.bind((x, y, scale, zero))
        check_order((x, y), "dynamic quantisation")
        types = tuple([a.dtype.name for a in (x, y, scale, zero)])
        if types != ("float32", "uint8") * 2 or (<object>x).shape != (<object>y).shape or scale.size != 1 or zero.size != 1:
            raise ValueError(f"dynamic quantisation: {types}, of shapes {(<object>x).shape} and {(<object>y).shape}")
        self.reduce = <lk_reduce_fn>best_row(LK_REDUCE, "f32").fn
        self.convert = <lk_convert_fn>best_row(LK_CONVERT, "f32").fn
        self.size, self.tasks = x.size, ceil_div(x.size, PIECE)
        cost = 2.0 * x.nbytes
        self.threads, self.chunks = <int>max(1, min(threads_for(threads, cost), self.tasks)), chunks_of(cost)
        self.workspace = 2 * self.tasks * sizeof(double)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef const double *found = <const double *>workspace
        cdef double low = 0, high = 0
        cdef float scale, zero = 0
        cdef int64_t i
        cdef Divisor divisor
        cdef char *more[4]
        more[0], more[1], more[2], more[3] = at[0], at[1], workspace, NULL
        self.run_chunks(self.threads, self.tasks, self.chunks, more, workspace, 0)
        for i in range(self.tasks):
            if not low <= found[2 * i]:
                low = found[2 * i]
            if not high >= found[2 * i + 1]:
                high = found[2 * i + 1]
            if low != low:
                break
        scale = (<float>high - <float>low) / <float>255
        if scale == 0:
            scale = 1
        if scale < INFINITE:
            zero = min(max(<float>rint(-<float>low / scale), <float>0), <float>255)
        (<float *>at[2])[0], (<uint8_t *>at[3])[0] = scale, <uint8_t>zero
        if scale < INFINITE:
            divisor = divisor_of(scale, zero)
            more[3] = <char *>&divisor
            self.run_chunks(self.threads, self.tasks, self.chunks, more, workspace, 0)
        elif scale == INFINITE:
            memset(at[1], 0, self.size)
        else:
            without_scale(<const float *>at[0], <uint8_t *>at[1], self.size)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        """The limits of a piece, or its integers."""
        cdef int64_t first = task * PIECE, count = min(<int64_t>PIECE, self.size - first)
        cdef const Divisor *by = <const Divisor *>at[3]
        cdef lk_convert c
        if by == NULL:
            self.find_limits(at[0] + first * sizeof(float), count, <double *>at[2] + 2 * task)
            return
        c.src, c.dst, c.n0, c.n1 = at[0] + first * sizeof(float), at[1] + first, 1, count
        c.s0, c.s1, c.d0, c.d1 = count * sizeof(float), sizeof(float), count, 1
        c.sub, c.off, c.mul, c.add = NULL, NULL, <const char *>&by.scale, <const char *>&by.zero
        c.inv = <const char *>&by.inverse if 1e-18 < by.scale < 1e18 else NULL
        c.high, c.low = NULL, NULL
        if by.splits and c.inv != NULL:
            c.high, c.low = <const char *>&by.high, <const char *>&by.low
        c.p0, c.p1, c.alpha, c.beta, c.prefetch_bytes = 0, 0, 1, 0, 0
        c.src_type, c.dst_type, c.divide, c.sum, c.stream = LK_F32, LK_U8, True, False, False
        self.convert(&c)

    cdef void find_limits(self, const char *x, int64_t count, double *found) noexcept nogil:
        cdef lk_reduce g
        g.x, g.x_row, g.rows, g.count, g.by_column, g.maxima = x, 0, 1, count, False, NULL
        found[0], found[1] = INFINITE, -INFINITE
        g.fold, g.into = LK_FOLD_MIN, found
        self.reduce(&g)
        g.fold, g.into = LK_FOLD_MAX, found + 1
        self.reduce(&g)


cdef void without_scale(const float *x, uint8_t *y, int64_t count) noexcept nogil:
    """Among NaN, whose scale is NaN: numbers rounded."""
    cdef int64_t i
    for i in range(count):
        y[i] = <uint8_t>min(max(<float>rint(x[i]), <float>0), <float>255) if x[i] == x[i] else 0
