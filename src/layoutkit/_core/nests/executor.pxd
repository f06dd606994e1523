"""What the loop nests of all convolutions share: geometry, division of work, and the class that they extend."""

from libc.stdint cimport int64_t, uint32_t

from ..kernels cimport lk_kernel
from ..kernels.elementwise cimport LK_STEP_CLIP, lk_epilogue, lk_epilogue_fn
from ..kernels.gemm cimport lk_gemm, lk_gemm_fn, lk_rounding
from ..ndarray cimport PyArray_DATA, PyArray_IS_C_CONTIGUOUS, PyArray_TYPE, ndarray
from ..runtime.team cimport lk_claim, lk_portions

cdef enum:
    MAX_COLS = 64    # columns of the widest register tile
    MAX_ROWS = 32    # rows of the tallest register tile: a mask has a bit for each
    PREFETCH_FROM_BYTES = 512 << 10  # a larger output is not in L2: its lines are prefetched before they are written
    PREFETCH_TILES = 4               # prefetch distance of the output, in tiles
    FAR_BYTES = 8 << 20              # larger inputs and outputs are taken to be in memory rather than in a cache


cdef struct Geometry:
    int64_t n, groups, oc  # oc: output channels of a group
    int64_t size[3]        # of the input
    int64_t out[3]
    int64_t kernel[3]
    int64_t stride[3]
    int64_t dilation[3]
    int64_t before[3]      # padding


cdef Geometry geometry_of(g) except *


cdef inline int64_t ceil_div(int64_t a, int64_t b) noexcept nogil:
    return (a + b - 1) // b


cdef inline int64_t share(int64_t total, int64_t parts, int64_t i) noexcept nogil:
    """The start of the i-th of `parts` even shares of `total`: the i-th part of it, rounded down, so that what two
    threads share by halves they also share by halves if it is cut into any even number of parts first."""
    return total // parts * i + total % parts * i // parts


cdef inline int64_t share_of(int64_t total, int64_t parts, int64_t at) noexcept nogil:
    """Which of `parts` even shares of `total` has `at`."""
    return ((at + 1) * parts - 1) // total


cdef inline int64_t aligned(int64_t n) noexcept nogil:
    """n bytes, rounded up to whole cache lines."""
    return (n + 63) // 64 * 64


cdef inline const void *elements(ndarray table, int type_number) except NULL:
    """The elements of a table, in C order and of this type. A memoryview would cost seconds of compiling."""
    if PyArray_TYPE(table) != type_number or not PyArray_IS_C_CONTIGUOUS(table):
        raise ValueError(f"a table is not in C order, or of {table.dtype}")
    return PyArray_DATA(table)


cdef inline const void *clip_of(const lk_epilogue *epilogue, bint adds, bint pads) noexcept nogil:
    """The limits of an epilogue that is only a clip, which a micro-kernel can do before it stores; else NULL. `adds`: the
    micro-kernel adds the residual, too."""
    if epilogue == NULL or epilogue.steps != 1 or epilogue.step.step != LK_STEP_CLIP:
        return NULL
    if epilogue.add != NULL and not adds:
        return NULL
    return epilogue.step.numbers if not pads or epilogue.keeps_zero else NULL  # pads stay 0


cdef inline void enter(const lk_kernel *row) noexcept nogil:
    """Set a thread up for the kernel of a row, once for each parallel region."""
    if row.enter != NULL:
        row.enter()


cdef inline void leave(const lk_kernel *row) noexcept nogil:
    """Undo `enter`, when the thread leaves the region."""
    if row.leave != NULL:
        row.leave()


cdef struct ChannelRows:
    lk_gemm tile
    lk_epilogue epilogue
    bint has_epilogue       # there is one, and the micro-kernel does not do it itself
    int64_t row[MAX_ROWS]
    int64_t c_row[MAX_ROWS]
    int64_t c_col[MAX_COLS]


cdef struct Tasks:  # a share of them, of which a thread claims some at a time
    lk_portions *portions
    int64_t begin, end


cdef inline bint more(Tasks *tasks, int64_t *task, int64_t *end) noexcept nogil:
    """Claim tasks [task, end), if any are left. They mostly, not always, follow those that were claimed before."""
    return lk_claim(tasks.portions, tasks.begin, tasks.end, task, end)


cdef struct Run:  # what the shares of a region have in common
    void *nest
    const char *x
    const char *w
    const char *bias
    const lk_epilogue *epilogue
    char *y
    char *workspace
    int64_t first, end  # tasks


cdef class Executor:
    cdef lk_gemm_fn micro_kernel
    cdef lk_epilogue_fn epilogue_kernel
    cdef Geometry g
    cdef int mr, nr, lanes, kr
    cdef int k_step                 # values of K that runs of A and packed filters are whole multiples of
    cdef const lk_kernel *kernel_row
    cdef int x_item, w_item, sum_item, y_item  # bytes of an element of input, filter, sums (bias, residual), output
    cdef bint rounding              # sums are of another type than the output, to which they are rounded
    cdef bint integers              # numbers and sums are integers
    cdef bint out_signed            # results are s8
    cdef uint32_t flip              # as of lk_gemm
    cdef int64_t chunk, period      # as of lk_gemm
    cdef int64_t total              # tasks in all
    cdef int64_t ws_thread          # bytes of workspace per thread
    cdef readonly int threads
    cdef bint accumulates           # can add to what the output holds: a residual that is the output itself
    cdef public bint positive       # results of -0 become +0

    cdef void run(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                  char *workspace, int64_t chunk, int64_t chunks) noexcept nogil
    cdef void run_share(self, const Run *r, int slot, int part, int parts, lk_portions *portions) noexcept nogil
    cdef int64_t share_begin(self, int64_t first, int64_t end, int64_t part, int64_t parts) noexcept nogil
    cdef void part(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                   char *workspace, Tasks *tasks) noexcept nogil
    cdef list positions(self, bint leaves_out)
    cdef bint is_far(self, int64_t channels)
    cdef tuple pixels_of(self, int64_t x_image, const int64_t *x_pixel, int64_t y_image, const int64_t *y_pixel,
                         bint leaves_out)
    cdef bint rounded(self, lk_rounding *out, const lk_epilogue *epilogue, int64_t channel, int valid) noexcept nogil
    cdef void epilogue_rows(self, const lk_epilogue *epilogue, char *y, int64_t offset, const int64_t *row,
                            int64_t rows, int64_t channel, int64_t count) noexcept nogil
    cdef void channel_rows(self, ChannelRows *r, const lk_epilogue *epilogue, const char *y, int64_t filter_step,
                           int64_t channel_step) noexcept nogil
    cdef void channel_tile(self, ChannelRows *r, const char *y, int64_t channel) noexcept nogil


cdef struct Side:  # x or dy
    int64_t image                # byte strides
    int64_t pixel[3]
    int64_t block, block_stride  # channels lie in runs of `block`, so many bytes apart
    int64_t step                 # bytes from a channel to the next of its run
    int64_t channels             # of a group


cdef Side side_of(strides, channels) except *


cdef inline int64_t channel_at(const Side *s, int64_t c) noexcept nogil:
    """The byte offset of a channel."""
    return c // s.block * s.block_stride + c % s.block * s.step


cdef struct SumsRun:
    void *sums
    const char *x
    const char *y
    char *c
    char *workspace
    int64_t chunk


cdef class WeightSums:
    cdef const lk_kernel *kernel_row
    cdef Geometry g
    cdef int threads
    cdef readonly int64_t slabs            # into which the pixels are cut, whatever the threads
    cdef readonly int64_t slab_bytes       # of the sums of a slab
    cdef readonly int64_t thread_bytes     # of workspace
    cdef int64_t parts                     # of the sums, each a task
    cdef int64_t blocks                    # of pixels, in all slabs
    cdef int64_t chunks
    cdef int item
    cdef list pixels(self, int64_t image, const int64_t *pixel, bint source)
    cdef tuple channels(self, const Side *s, bint source)
    cdef void run(self, const char *x, const char *y, char *c, char *workspace, int64_t chunk) noexcept nogil
    cdef void tasks(self, const char *x, const char *y, char *c, char *workspace, int64_t chunk, int64_t task,
                    int64_t end) noexcept nogil
    cdef void run_share(self, const SumsRun *r, int slot, int part, int parts, lk_portions *portions) noexcept nogil
    cdef void add_share(self, char *c, int part, int parts, lk_portions *portions) noexcept nogil
    cdef void add_slabs(self, char *c) noexcept nogil
    cdef void add_part(self, char *c, int64_t first, int64_t end) noexcept nogil
    cdef void part(self, const char *x, const char *y, char *c, char *workspace, int64_t part, int64_t first,
                   int64_t end, bint begins) noexcept nogil
