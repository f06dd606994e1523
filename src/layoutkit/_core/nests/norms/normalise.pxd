from libc.math cimport sqrt
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from ...kernels.elementwise cimport lk_epilogue_fn
from ...kernels.normalise cimport lk_moments_fn, lk_scaling, lk_scaling_fn
from ...ndarray cimport ndarray
from ...runtime.team cimport lk_portions
from ..operation cimport Operation
from ..convolutions.route cimport Epilogue

cdef enum:
    MAX_LOOPS = 6
    SEGMENT = 16384  # elements of which a thread computes statistics or results at a time


cdef struct Loops:  # around runs of contiguous elements
    int axes
    int64_t total
    int64_t size[MAX_LOOPS]
    int64_t x[MAX_LOOPS]  # bytes
    int64_t y[MAX_LOOPS]


cdef Loops loops_of(list dims) except *
cdef list dims_of(ndarray x, ndarray y)


cdef inline void iteration_at(const Loops *l, int64_t i, int64_t *x, int64_t *y) noexcept nogil:
    """The offsets of the i-th iteration, in bytes."""
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


cdef inline double inverse_deviation(double squares, double count, double epsilon) noexcept nogil:
    """1 over the standard deviation, of the sum of `count` squared deviations."""
    return 1 / sqrt(squares / count + epsilon)


cdef inline void set_scaling(double mean, double factor, double bias, float *numbers, int64_t at,
                             int64_t pitch) noexcept nogil:
    """Mean, factor and shift of ``(x - mean) * factor + shift`` as f32; the shift makes up for the rounding of the mean."""
    cdef float rounded = <float>mean
    numbers[at], numbers[pitch + at] = rounded, <float>factor
    numbers[2 * pitch + at] = <float>(bias - (mean - rounded) * factor)


cdef inline void merge_moments(double *mean, double *squares, double count, const double *mean_of,
                               const double *squares_of, double more, int64_t columns) noexcept nogil:
    """Moments of `count` elements by column with those of `more`."""
    cdef double weight = more * count / (count + more), share = more / (count + more), delta
    cdef int64_t c
    if count == 0:
        memcpy(mean, mean_of, columns * sizeof(double))
        memcpy(squares, squares_of, columns * sizeof(double))
        return
    for c in range(columns):
        delta = mean_of[c] - mean[c]
        mean[c] += delta * share
        squares[c] += squares_of[c] + delta * delta * weight


cdef class Normalisation(Operation):
    cdef lk_moments_fn moments_kernel
    cdef lk_scaling_fn scale_kernel
    cdef lk_epilogue_fn epilogue_kernel
    cdef Epilogue epilogue
    cdef int steps                 # of the epilogue
    cdef int item                  # bytes of an element of the arrays
    cdef int channel_row, channel_col  # from a row or column of results to the next, in channels
    cdef int threads
    cdef bint about_zero
    cdef double epsilon
    cdef const float *scales       # by channel or element; NULL: 1
    cdef const float *biases       # NULL: 0
    cdef int64_t slabs, elements   # how many there are; elements of one
    cdef int64_t partials          # statistics of parts of a slab
    cdef int64_t pieces            # that the results of a slab are divided into
    cdef int64_t statistics_bytes, scratch_bytes
    cdef int set_workspace(self) except -1
    cdef void run_slabs(self, const Run *r, int slot, int part, int parts, lk_portions *portions) noexcept nogil
    cdef void run_partials(self, const Run *r, int part, int parts, lk_portions *portions) noexcept nogil
    cdef void run_pieces(self, const Run *r, int slot, int part, int parts, lk_portions *portions) noexcept nogil
    cdef void measure(self, const char *x, int64_t slab, int64_t first, int64_t end, char *statistics) noexcept nogil
    cdef void combine(self, int64_t slab, char *statistics) noexcept nogil
    cdef void apply(self, const char *x, char *y, int64_t slab, int64_t first, int64_t end, const char *statistics,
                    char *scratch) noexcept nogil
    cdef void scale_rows(self, const lk_scaling *all_rows, int64_t channel, char *scratch) noexcept nogil
