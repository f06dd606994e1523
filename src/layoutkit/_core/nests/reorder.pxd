from libc.stdint cimport int64_t
from numpy cimport ndarray

from ..kernels cimport lk_kernel
from ..kernels.moves cimport lk_drain, lk_drain_fn
from ..kernels.transpose cimport lk_fused, lk_fused_fn, lk_fused_loop, lk_nest, lk_panel_fn


cdef struct Slab:
    lk_nest boxes  # loops over the boxes of one shape
    lk_nest slabs  # loops over the slabs of a box
    int group  # slabs of how many shapes are in a box, beginning with this one; 0: of a box that another one leads
    int first, last  # of the nests: those before the last one write to the buffer, which that one copies
    const int64_t *lines[2]  # in memory order, a byte of every line that is read: of a source that begins with a line,
    int64_t line_count[2]    # and of one that does not
    lk_drain drain  # of the buffer to the destination


cdef struct Fetch:  # of the source of a box, while another one is moved
    const char *src
    const int64_t *lines
    int64_t count, line  # how many there are, and the next one
    double work, done  # bytes of a box that are moved: all, so far


cdef enum:
    SHARE_PARTS = 16  # into which a thread's share of a chunk is divided at most
    WHOLE_BYTES = 1 << 20  # reorders that move less have shares of one part


cdef class Reordering:
    cdef int64_t chunks  # between which a call checks for signals
    cdef int64_t share_parts
    cdef int call(self, const char *src, char *dst, int threads) except -1
    cdef bint paced(self, const char *src, char *dst, int threads) noexcept nogil
    cdef void run(self, const char *src, char *dst, int threads, int64_t chunk=*, int64_t chunks=*) noexcept nogil
    cdef void part(self, const char *src, char *dst, int64_t first, int64_t end, int64_t parts) noexcept nogil


cdef class Program(Reordering):
    cdef lk_nest *nests
    cdef lk_panel_fn *panels  # of each nest; NULL: it is moved tile by tile
    cdef lk_fused *fused      # of each nest, where it is of fused transposes
    cdef lk_fused_fn *fused_kernels  # or NULL
    cdef list tables  # of the fused nests
    cdef int count
    cdef Slab *slabs  # what the nests belong to, if there are any
    cdef int slab_count
    cdef lk_drain_fn drain
    cdef char pad[64]
    cdef double share(self, int64_t part, int64_t parts)
    cdef take_slab(self, Slab *s, slab, int last)
    cdef take_fused(self, lk_fused *f, lk_nest *nest, fused, family)
    cdef take_windows(self, lk_fused *f, int width, const lk_kernel *row)
    cdef take_digits(self, lk_fused_loop *loop, of)
    cdef const int64_t *keep(self, numbers)
    cdef void *kept(self, ndarray array)
    cdef void move(self, int i, const char *src, char *dst, int64_t task, int64_t end, char *scratch,
                   int64_t prefetch_bytes) noexcept nogil
    cdef void boxes(self, const Slab *slabs, const char *src, char *dst, int64_t task, int64_t end,
                    char *buffer) noexcept nogil
    cdef void slab(self, const Slab *slab, const char *src, char *dst, char *buffer, char *scratch, lk_drain out,
                   Fetch *ahead) noexcept nogil
