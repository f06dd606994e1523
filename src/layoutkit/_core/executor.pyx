"""What the loop nests of all convolutions share: geometry, a micro-kernel, a workspace per thread.

    y[n, o, p] = bias[o] + sum over c, k of x[n, c, stride*p + dilation*k - before] * w[o, c, k]

There are always three spatial axes: depth, height, width; an axis that a problem does not have has size 1.
All strides are in bytes. The work is one flat range of tasks that the threads share evenly, in one parallel region.
A tile is computed by one thread, in one piece, so the results of a plan do not depend on the number of threads.
"""

from cython.parallel cimport parallel
cimport openmp
from libc.math cimport rint
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from typing import NamedTuple

from .registry cimport (
    LK_EPILOGUE, LK_S8, LK_S32, element_bytes, element_name, lk_epilogue, lk_epilogue_fn, lk_gemm_fn, lk_kernel,
    lk_rounding, lk_types, row_named, row_of, types_named,
)
from .team cimport team


cdef Geometry geometry_of(g) except *:
    cdef Geometry c
    c.n, c.groups, c.oc = g.n, g.groups, g.oc
    for i in range(3):
        c.size[i], c.out[i], c.kernel[i] = g.size[i], g.out[i], g.kernel[i]
        c.stride[i], c.dilation[i], c.before[i] = g.stride[i], g.dilation[i], g.before[i]
    return c


NEVER = 1 << 62  # chunks end


class LoopNest(NamedTuple):
    """What every executor is made for.

    Attributes
    ----------
    kernel : str
        Name of a row of the executor's family.
    geometry
        n, groups, size, out, kernel, stride, dilation, before.
    threads : int
    x_strides, y_strides : tuple of int
        Byte strides of input and output; of what, each executor says.
    types : str
        The types of the convolution; "": those of the row.
    chunks : (chunk, period)
        Of lk_gemm.
    """

    kernel: str
    geometry: tuple
    threads: int
    x_strides: tuple
    y_strides: tuple
    types: str = ""
    chunks: tuple = (NEVER, NEVER)


class Footprint(NamedTuple):
    """The memory that a run touches.

    Source and destination are parts: of each the steps (first index, last index, byte stride), and the contiguous bytes
    at every step. Filter and bias are counts of bytes.
    """

    source: tuple
    destination: tuple
    filter: int
    bias: int


NOTHING = Footprint((), (), 0, 0)


cdef class Executor:
    """The base class: a micro-kernel, the geometry, a workspace per thread. A subclass implements `part`."""

    def __init__(self, nest):
        cdef const lk_kernel *row = row_named(nest.kernel)
        cdef const lk_types *types = types_named(nest.types or row.types.decode())
        self.micro_kernel, self.mr, self.nr = <lk_gemm_fn>row.fn, row.mr, row.nr
        self.integers, self.rounding = types.sum == LK_S32, types.dst != types.sum
        self.out_signed = types.dst == LK_S8
        self.flip = 0x80808080 if types.src == LK_S8 else 0
        if self.rounding or not self.integers:  # sums of integers may come out as they are
            name = f"s32_{element_name(types.dst)}" if self.integers else element_name(types.dst)
            self.epilogue_kernel = <lk_epilogue_fn>row_of(LK_EPILOGUE, name, row.isa).fn
        self.lanes, self.unit = row.lanes, row.unit
        self.x_item, self.w_item = element_bytes(types.src), element_bytes(types.filter)
        self.sum_item, self.y_item = element_bytes(types.sum), element_bytes(types.dst)
        self.g = geometry_of(nest.geometry)
        self.threads = nest.threads
        self.chunk, self.period = nest.chunks

    cdef void run(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                  char *workspace, int64_t chunk, int64_t chunks) noexcept nogil:
        """Run one of `chunks`, which together are all the work: each has a task for every thread, or none.

        Chunks are cut by the plan's number of threads, since the number that the system grants may change meanwhile.
        """
        cdef int tid = 0, n = 1, threads = team(self.threads)
        cdef int64_t rounds = ceil_div(self.total, self.threads), first = rounds * chunk // chunks * self.threads
        cdef int64_t count = min(self.total, rounds * (chunk + 1) // chunks * self.threads) - first
        if count <= 0:
            return
        if threads == 1:
            self.part(x, w, bias, epilogue, y, workspace, first, first + count)
        else:
            with parallel(num_threads=threads):
                tid = openmp.omp_get_thread_num()
                n = openmp.omp_get_num_threads()
                self.part(x, w, bias, epilogue, y, workspace + tid * self.ws_thread,
                          self.cut(first, first + count, tid, n), self.cut(first, first + count, tid + 1, n))

    cdef int64_t cut(self, int64_t first, int64_t end, int64_t part, int64_t parts) noexcept nogil:
        """Where share `part` of tasks [first, end) begins, of `parts` shares; share `parts` would begin at `end`."""
        return first + share(end - first, parts, part)

    cdef void part(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                   char *workspace, int64_t task, int64_t end) noexcept nogil:
        pass

    def footprint(self):
        """The memory that a run touches, computed from the fields that `part` reads: see `Footprint`."""
        raise NotImplementedError

    cdef list positions(self, bint leaves_out):
        """The first and last input position read along each axis; if `leaves_out`, without those in the padding."""
        cdef Geometry *g = &self.g
        found = []
        for i in range(3):
            first, last = -g.before[i], (g.out[i] - 1) * g.stride[i] - g.before[i] + (g.kernel[i] - 1) * g.dilation[i]
            if leaves_out:
                first, last = max(first, 0), min(last, g.size[i] - 1)
            found.append((first, last))
        return found

    cdef tuple pixels_of(self, int64_t x_image, const int64_t *x_pixel, int64_t y_image, const int64_t *y_pixel,
                         bint leaves_out):
        """The steps of the pixels that are read, and of those that are written, given their strides."""
        reads, writes = [(0, self.g.n - 1, x_image)], [(0, self.g.n - 1, y_image)]
        for i, (first, last) in enumerate(self.positions(leaves_out)):
            reads.append((first, last, x_pixel[i]))
            writes.append((0, self.g.out[i] - 1, y_pixel[i]))
        return reads, writes

    cdef bint rounded(self, lk_rounding *out, const lk_epilogue *epilogue, int64_t channel, int valid) noexcept nogil:
        """How sums of `valid` channels from `channel` on become bytes, the pads of the panel 0; False: not all products
        and sums are surely below 2^31."""
        cdef int32_t half = 0x3f000000, most_off = 0x4e000000, large = 0  # as bits: floats in the same order
        cdef const int32_t *bits = <const int32_t *>(epilogue.mul + channel)
        cdef const float *limits = <const float *>epilogue.step.numbers if epilogue.steps else NULL
        cdef float limit = 1 << 30
        cdef int j, least = 0, most = 255
        cdef int shift = 128 if self.out_signed else 0
        memset(out, 0, sizeof(lk_rounding))
        memcpy(out.mul, bits, valid * sizeof(float))
        for j in range(valid):
            large |= (bits[j] & 0x7fffffff) > half
        if epilogue.off != NULL:
            out.adds = True
            memcpy(out.off, epilogue.off + channel, valid * sizeof(float))
            bits = <const int32_t *>(epilogue.off + channel)
            for j in range(valid):
                large |= (bits[j] & 0x7fffffff) > most_off
        out.zero, out.sign = epilogue.zero + shift, shift
        # as what is limited is rounded and saturated, so may the limits be
        if limits != NULL and limits[0] > -limit:
            least = max(0, min(255, <int>rint(min(limits[0], limit)) + out.zero))
        if limits != NULL and limits[1] < limit:
            most = max(0, min(255, <int>rint(max(limits[1], -limit)) + out.zero))
        memset(out.least, shift, sizeof(out.least))
        memset(out.most, shift, sizeof(out.most))
        memset(out.least, least, valid)
        memset(out.most, most, valid)
        out.shifts = epilogue.zero != 0 or least > 0 or most < 255
        return large == 0

    cdef void epilogue_rows(self, const lk_epilogue *epilogue, char *y, int64_t offset, const int64_t *row,
                            int64_t rows, int64_t channel, int64_t count) noexcept nogil:
        """Apply the epilogue to rows of `count` outputs, at y + offset + row[i], the first of them of `channel`."""
        cdef lk_epilogue f = epilogue[0]
        f.y, f.offset, f.row, f.rows, f.count, f.channel = y, offset, row, rows, count, channel
        self.epilogue_kernel(&f)

    cdef void channel_rows(self, ChannelRows *r, const lk_epilogue *epilogue, const char *y, int64_t filter_step,
                           int64_t channel_step) noexcept nogil:
        """Set up a tile whose rows are output channels: the byte steps from one to the next in the filter and in y."""
        cdef int i
        cdef bint onto = epilogue != NULL and epilogue.add == y
        cdef const void *clip = clip_of(epilogue, y, False)
        memset(&r.tile, 0, sizeof(r.tile))
        r.has_epilogue = epilogue != NULL and clip == NULL
        if epilogue != NULL:
            r.epilogue = epilogue[0]
            r.epilogue.channel_row, r.epilogue.channel_col = 1, 0
            if onto:
                r.epilogue.add = NULL
        for i in range(self.nr // self.lanes):
            r.c_col[i] = i * self.lanes * self.y_item
        for i in range(self.mr):
            r.row[i], r.c_row[i] = i * filter_step, i * channel_step
        r.tile.row, r.tile.c_row, r.tile.c_col = r.row, r.c_row, r.c_col
        r.tile.clip = clip
        r.tile.blocks, r.tile.accumulate, r.tile.positive = 1, onto, self.positive
        r.tile.chunk, r.tile.period = self.chunk, self.period

    cdef void channel_tile(self, ChannelRows *r, const char *y, int64_t channel) noexcept nogil:
        """Compute a tile whose first row is output `channel`, and apply its epilogue."""
        self.micro_kernel(&r.tile)
        if r.has_epilogue:
            self.epilogue_rows(&r.epilogue, <char *>y, r.tile.c - y, r.c_row, r.tile.rows, channel, r.tile.cols)
