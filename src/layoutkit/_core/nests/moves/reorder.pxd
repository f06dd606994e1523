from libc.stdint cimport int64_t

from ...kernels cimport lk_kernel
from ...kernels.moves cimport lk_drain, lk_drain_fn
from ...kernels.transpose cimport lk_fused, lk_fused_fn, lk_fused_loop, lk_nest, lk_panel_fn
from ...ndarray cimport ndarray
from .reordering cimport Reordering


cdef struct Slab:
    lk_nest boxes  # loops over the boxes of one shape
    lk_nest slabs  # loops over the slabs of a box
    int group  # the first of a box: how many slabs, of different shapes, the box has; else 0
    int first, last  # of the nests: those before the last one write to the buffer, which that one copies
    const int64_t *lines[2]  # in memory order, a byte of every line that is read: of a source that begins with a line,
    int64_t line_count[2]    # and of one that does not
    lk_drain drain  # of the buffer to the destination


cdef struct Prefetch:  # of the source of a box, while another one is moved
    const char *src
    const int64_t *lines
    int64_t count, line  # number of lines, and the next one
    double total, moved  # bytes of a box


cdef class Program(Reordering):
    cdef lk_nest *nests
    cdef lk_panel_fn *panels  # of each nest; NULL: it is moved tile by tile
    cdef lk_fused *fused      # of each nest, where it is of fused transposes
    cdef lk_fused_fn *fused_kernels  # or NULL
    cdef list owned  # arrays that the nests point into
    cdef int count
    cdef Slab *slabs  # what the nests belong to, if there are any
    cdef int slab_count
    cdef lk_drain_fn drain
    cdef char pad[64]
    cdef double share_of(self, int64_t first, int64_t parts)
    cdef set_nest(self, int i, planned, bint stream, bint panels)
    cdef set_slab(self, Slab *s, slab, int last)
    cdef set_fused(self, lk_fused *f, lk_nest *nest, fused, family)
    cdef set_strings(self, lk_fused *f, strings)
    cdef set_windows(self, lk_fused *f, int width, const lk_kernel *row)
    cdef set_digits(self, lk_fused_loop *loop, digits_and_table)
    cdef const int64_t *keep_int64(self, numbers)
    cdef void *keep(self, ndarray array)
    cdef void move(self, int i, const char *src, char *dst, int64_t task, int64_t end, char *scratch,
                   int64_t prefetch_bytes) noexcept nogil
    cdef void boxes(self, const Slab *slabs, const char *src, char *dst, int64_t task, int64_t end,
                    char *buffer) noexcept nogil
    cdef void slab(self, const Slab *slab, const char *src, char *dst, char *buffer, char *scratch, lk_drain out,
                   Prefetch *ahead) noexcept nogil
