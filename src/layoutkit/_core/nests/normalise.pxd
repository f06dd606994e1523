from libc.math cimport sqrt
from libc.stdint cimport int64_t
from numpy cimport ndarray

from ..kernels.elementwise cimport lk_epilogue_fn
from ..kernels.normalise cimport lk_moments_fn, lk_scaling, lk_scaling_fn
from ..runtime.team cimport lk_portions
from .operation cimport Operation
from .route cimport Epilogue

cdef enum:
    MAX_LOOPS = 6
    SEGMENT = 16384  # elements that a thread measures, or makes the results of, at a time


cdef struct Loops:  # around runs of contiguous elements
    int axes
    int64_t total
    int64_t size[MAX_LOOPS]
    int64_t x[MAX_LOOPS]  # bytes
    int64_t y[MAX_LOOPS]


cdef Loops loops_of(list dims) except *
cdef list dims_of(ndarray x, ndarray y)
cdef list merged(list dims)


cdef inline void place(const Loops *l, int64_t i, int64_t *x, int64_t *y) noexcept nogil:
    """The offsets of the i-th iteration."""
    cdef int a
    x[0] = y[0] = 0
    for a in range(l.axes - 1, -1, -1):
        x[0] += i % l.size[a] * l.x[a]
        y[0] += i % l.size[a] * l.y[a]
        i //= l.size[a]


cdef struct Run:
    void *nest
    const char *x
    char *y
    char *statistics  # of each thread, or of the slab that all share
    char *scratch     # of each thread
    int64_t slab


cdef inline double deviation(double squares, double count, double epsilon) noexcept nogil:
    """The inverse of the standard deviation."""
    return 1 / sqrt(squares / count + epsilon)


cdef inline void put(double mean, double factor, double bias, float *numbers, int64_t at, int64_t pitch) noexcept nogil:
    """Mean, factor and shift as f32, where the shift has what is left of the mean."""
    cdef float rounded = <float>mean
    numbers[at], numbers[pitch + at] = rounded, <float>factor
    numbers[2 * pitch + at] = <float>(bias - (mean - rounded) * factor)


cdef class Normalisation(Operation):
    cdef lk_moments_fn moments
    cdef lk_scaling_fn scaling
    cdef lk_epilogue_fn finishing
    cdef Epilogue epilogue
    cdef int steps, item, width    # of the epilogue; bytes of an element of the arrays, and of what it is given
    cdef int channel_row, channel_col
    cdef int threads
    cdef bint about_zero
    cdef double epsilon
    cdef ndarray scale, bias
    cdef const float *scales       # by channel or element; NULL: 1
    cdef const float *biases       # NULL: 0
    cdef int64_t slabs, elements   # with statistics of their own, or several of them; in one of them
    cdef int64_t measures, pieces  # that the work on a slab is divided into: of its statistics, of its results
    cdef int64_t statistics_bytes, scratch_bytes
    cdef int settle(self) except -1
    cdef void slabs_of(self, const Run *r, int slot, int part, int parts, lk_portions *portions) noexcept nogil
    cdef void measures_of(self, const Run *r, int part, int parts, lk_portions *portions) noexcept nogil
    cdef void pieces_of(self, const Run *r, int slot, int part, int parts, lk_portions *portions) noexcept nogil
    cdef void measure(self, const char *x, int64_t slab, int64_t first, int64_t end, char *statistics) noexcept nogil
    cdef void combine(self, int64_t slab, char *statistics) noexcept nogil
    cdef void apply(self, const char *x, char *y, int64_t slab, int64_t first, int64_t end, const char *statistics,
                    char *scratch) noexcept nogil
    cdef void scaled(self, const lk_scaling *whole, int64_t channel, char *scratch) noexcept nogil
