"""The base of the loop nests of convolutions and of the gradients of filters: geometry, threads, workspaces.

    y[n, o, p] = bias[o] + sum over c, k of x[n, c, stride*p + dilation*k - before] * w[o, c, k]

There are always three spatial axes: depth, height, width; an axis that a problem does not have has size 1.
All strides are in bytes. The work is one flat range of tasks, of which each thread has an even share, in one parallel region.
A tile is computed by one thread, in one piece, so the results of a plan do not depend on the number of threads.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport rint
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from typing import NamedTuple

from ..kernels cimport LK_EPILOGUE, LK_S32, LK_S8, lk_kernel, lk_types
from ..kernels.elementwise cimport lk_epilogue, lk_epilogue_fn
from ..kernels.gemm cimport lk_gemm_fn, lk_rounding
from ..ndarray cimport PyArray_DATA, import_array, ndarray
from ..runtime.registry cimport element_bytes, element_name, k_step_of, row_named, row_of, types_named
from ..runtime.team cimport lk_claim, lk_portions, share_out

import_array()

cdef enum:
    PART_BYTES = 4096  # of sums that a thread adds at a time, at least


cdef Geometry geometry_of(g) except *:
    cdef Geometry c
    c.n, c.groups, c.oc = g.n, g.groups, g.oc
    for i in range(3):
        c.size[i], c.out[i], c.kernel[i] = g.size[i], g.out[i], g.kernel[i]
        c.stride[i], c.dilation[i], c.before[i] = g.stride[i], g.dilation[i], g.before[i]
    return c


cdef void run_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef Run *r = <Run *>argument
    (<Executor>r.nest).run_share(r, slot, part, parts, portions)


NEVER = 1 << 62  # chunks end


class LoopNest(NamedTuple):
    """The parameters of every executor.

    Attributes
    ----------
    kernel : str
        Name of a row of the executor's family.
    geometry
        n, groups, size, out, kernel, stride, dilation, before.
    threads : int
    x_strides, y_strides : tuple of int
        Byte strides of input and output; each executor says along which axes.
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

    Source and destination are lists of parts: the steps (first index, last index, byte stride) of each, and the
    contiguous bytes at every step. Filter and bias are counts of bytes.
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
        self.kernel_row, self.micro_kernel, self.mr, self.nr = row, <lk_gemm_fn>row.fn, row.mr, row.nr
        self.integers, self.rounding = types.sum == LK_S32, types.dst != types.sum
        self.out_signed = types.dst == LK_S8
        self.flip = 0x80808080 if types.src == LK_S8 else 0
        if self.rounding or not self.integers:  # sums of integers may come out as they are
            name = f"s32_{element_name(types.dst)}" if self.integers else element_name(types.dst)
            self.epilogue_kernel = <lk_epilogue_fn>row_of(LK_EPILOGUE, name, row.isa).fn
        self.lanes, self.kr, self.k_step = row.lanes, row.kr, k_step_of(row)
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
        cdef int64_t rounds = ceil_div(self.total, self.threads), first = rounds * chunk // chunks * self.threads
        cdef int64_t count = min(self.total, rounds * (chunk + 1) // chunks * self.threads) - first
        cdef Run r
        if count <= 0:
            return
        r.nest, r.x, r.w, r.bias, r.epilogue, r.y, r.workspace = <void *>self, x, w, bias, epilogue, y, workspace
        r.first, r.end = first, first + count
        share_out(self.threads, run_share, &r)

    cdef void run_share(self, const Run *r, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
        cdef Tasks tasks
        tasks.portions = portions
        tasks.begin, tasks.end = self.share_begin(r.first, r.end, part, parts), self.share_begin(r.first, r.end, part + 1, parts)
        enter(self.kernel_row)
        self.part(r.x, r.w, r.bias, r.epilogue, r.y, r.workspace + slot * self.ws_thread, &tasks)
        leave(self.kernel_row)

    cdef int64_t share_begin(self, int64_t first, int64_t end, int64_t part, int64_t parts) noexcept nogil:
        """Where share `part` of tasks [first, end) begins, of `parts` shares; share `parts` would begin at `end`."""
        return first + share(end - first, parts, part)

    cdef void part(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                   char *workspace, Tasks *tasks) noexcept nogil:
        """Run claimed tasks until `more` finds none."""
        pass

    def footprint(self):
        """The memory that a run touches, computed from the fields that `part` reads: see `Footprint`."""
        raise NotImplementedError

    cdef list positions(self, bint leaves_out):
        """The first and last input position read along each axis; if `leaves_out`, without those in the padding."""
        cdef Geometry *g = &self.g
        reaches = []
        for i in range(3):
            first, last = -g.before[i], (g.out[i] - 1) * g.stride[i] - g.before[i] + (g.kernel[i] - 1) * g.dilation[i]
            if leaves_out:
                first, last = max(first, 0), min(last, g.size[i] - 1)
            reaches.append((first, last))
        return reaches

    cdef bint is_far(self, int64_t channels):
        """Whether input and output, which have so many channels each, are too large for a cache."""
        cdef Geometry *g = &self.g
        cdef int64_t read = g.size[0] * g.size[1] * g.size[2], written = g.out[0] * g.out[1] * g.out[2]
        return g.n * channels * (read * self.x_item + written * self.y_item) > FAR_BYTES

    cdef tuple pixels_of(self, int64_t x_image, const int64_t *x_pixel, int64_t y_image, const int64_t *y_pixel,
                         bint leaves_out):
        """The steps of the pixels that are read, and of those that are written, given their strides."""
        reads, writes = [(0, self.g.n - 1, x_image)], [(0, self.g.n - 1, y_image)]
        for i, (first, last) in enumerate(self.positions(leaves_out)):
            reads.append((first, last, x_pixel[i]))
            writes.append((0, self.g.out[i] - 1, y_pixel[i]))
        return reads, writes

    cdef bint rounded(self, lk_rounding *out, const lk_epilogue *epilogue, int64_t channel, int valid) noexcept nogil:
        """Set up the rounding of sums to bytes for `valid` channels from `channel` on, and 0 for the pads of the panel;
        returns False if a product or sum may reach 2^31."""
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
        # the limits may be rounded and saturated too, as the clipped numbers are
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
        cdef bint adds = epilogue != NULL and epilogue.add != NULL
        cdef const void *clip = clip_of(epilogue, adds, False)
        memset(&r.tile, 0, sizeof(r.tile))
        r.has_epilogue = epilogue != NULL and clip == NULL and epilogue.steps > 0
        if epilogue != NULL:
            r.epilogue = epilogue[0]
            r.epilogue.channel_row, r.epilogue.channel_col = 1, 0
            r.epilogue.add = NULL  # the micro-kernel adds it
        for i in range(self.nr // self.lanes):
            r.c_col[i] = i * self.lanes * self.y_item
        for i in range(self.mr):
            r.row[i], r.c_row[i] = i * filter_step, i * channel_step
        r.tile.row, r.tile.c_row, r.tile.c_col = r.row, r.c_row, r.c_col
        r.tile.clip = clip
        r.tile.blocks, r.tile.accumulate, r.tile.positive = 1, adds, self.positive
        r.tile.residual_offset = epilogue.add - y if adds else 0
        r.tile.chunk, r.tile.period = self.chunk, self.period

    cdef void channel_tile(self, ChannelRows *r, const char *y, int64_t channel) noexcept nogil:
        """Compute a tile whose first row is output `channel`, and apply its epilogue."""
        self.micro_kernel(&r.tile)
        if r.has_epilogue:
            self.epilogue_rows(&r.epilogue, <char *>y, r.tile.c - y, r.c_row, r.tile.rows, channel, r.tile.cols)


ctypedef fused real:
    float
    double


cdef void add_to(real *to, const real *other, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        to[i] += other[i]


cdef Side side_of(strides, channels) except *:
    """Of x or dy, from byte strides (image, depth, height, width) and (count, block, block_stride, step) of channels."""
    cdef Side s
    s.image = strides[0]
    for i in range(3):
        s.pixel[i] = strides[1 + i]
    s.channels, s.block, s.block_stride, s.step = channels
    return s


cdef void sums_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef SumsRun *r = <SumsRun *>argument
    (<WeightSums>r.sums).run_share(r, slot, part, parts, portions)


cdef void add_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef SumsRun *r = <SumsRun *>argument
    (<WeightSums>r.sums).add_share(r.c, part, parts, portions)


cdef class WeightSums:
    """The base of the loop nests of filter gradients: slabs of pixels, threads, and a fixed tree of sums.

        dw[o, i, k] = sum over n, p of dy[n, o, p] * x[n, i, stride*p + dilation*k - before]

    The pixels (n, p) are divided into slabs, and these into blocks, in a way that depends on the problem alone. A block
    is summed in registers and added to the sums of its slab, block after block; slabs are then added pairwise, as a
    binary tree. A task is a slab and a part of the filter, so the result does not depend on the number of threads.
    A subclass sets the fields and implements `part`. `kernel` names the row that sums.

    Attributes
    ----------
    slabs, slab_bytes : int
        Sums are `slabs` arrays of so many bytes; the first of them holds the result.
    thread_bytes : int
        Of workspace for each thread.
    """

    def __init__(self, str kernel, geometry, int threads, int64_t slabs, int64_t chunks):
        self.kernel_row = row_named(kernel)
        self.g, self.threads, self.slabs, self.chunks = geometry_of(geometry), threads, slabs, chunks

    def __call__(self, ndarray x, ndarray y, ndarray c, ndarray workspace):
        """Sum the products of arrays of the planned strides into `c`, which is overwritten."""
        cdef const char *x_at = <const char *>PyArray_DATA(x)
        cdef const char *y_at = <const char *>PyArray_DATA(y)
        cdef char *c_at = <char *>PyArray_DATA(c)
        cdef char *scratch = <char *>PyArray_DATA(workspace)
        cdef int64_t chunk
        if c.nbytes < self.slabs * self.slab_bytes or workspace.nbytes < self.threads * self.thread_bytes:
            raise ValueError(f"sums of a filter: {c.nbytes} bytes and a workspace of {workspace.nbytes}, expected "
                             f"{self.slabs * self.slab_bytes} and {self.threads * self.thread_bytes}")
        for chunk in range(self.chunks):
            with nogil:
                self.run(x_at, y_at, c_at, scratch, chunk)
            PyErr_CheckSignals()
        if self.slabs > 1:
            with nogil:
                self.add_slabs(c_at)

    def footprint(self):
        """The memory that a run reads: x as the source, dy as the destination of a `Footprint`."""
        raise NotImplementedError

    cdef list pixels(self, int64_t image, const int64_t *pixel, bint source):
        """The steps of the pixels that are read of x, the `source`, or of dy."""
        cdef Geometry *g = &self.g
        ranges = [(0, g.n - 1, image)]
        for i in range(3):
            first, last = 0, g.out[i] - 1
            if source:
                last = last * g.stride[i] + (g.kernel[i] - 1) * g.dilation[i] - g.before[i]
                first, last = max(0, -g.before[i]), min(g.size[i] - 1, last)
            ranges.append((first, last, pixel[i]))
        return ranges

    cdef tuple channels(self, const Side *s, bint source):
        """One side of the footprint: all channels of its pixels."""
        steps, channels = self.pixels(s.image, s.pixel, source), self.g.groups * s.channels
        if s.block < channels:
            steps.append((0, ceil_div(channels, s.block) - 1, s.block_stride))
        run = min(s.block, channels)
        return (([*steps, (0, run - 1, s.step)], self.item),)

    cdef void run(self, const char *x, const char *y, char *c, char *workspace, int64_t chunk) noexcept nogil:
        cdef SumsRun r
        r.sums, r.x, r.y, r.c, r.workspace, r.chunk = <void *>self, x, y, c, workspace, chunk
        share_out(self.threads, sums_share, &r)

    cdef void run_share(self, const SumsRun *r, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
        cdef int64_t total = self.slabs * self.parts, begin = share(total, parts, part)
        cdef int64_t end = share(total, parts, part + 1), first, last
        enter(self.kernel_row)
        while lk_claim(portions, begin, end, &first, &last):
            self.tasks(r.x, r.y, r.c, r.workspace + slot * self.thread_bytes, r.chunk, first, last)
        leave(self.kernel_row)

    cdef void tasks(self, const char *x, const char *y, char *c, char *workspace, int64_t chunk, int64_t task,
                    int64_t end) noexcept nogil:
        cdef int64_t slab, first, count
        for task in range(task, end):
            slab = task // self.parts
            first = share(self.blocks, self.slabs, slab)
            count = share(self.blocks, self.slabs, slab + 1) - first
            self.part(x, y, c + slab * self.slab_bytes, workspace, task % self.parts,
                      first + share(count, self.chunks, chunk), first + share(count, self.chunks, chunk + 1), chunk == 0)

    cdef void part(self, const char *x, const char *y, char *c, char *workspace, int64_t part, int64_t first,
                   int64_t end, bint begins) noexcept nogil:
        """Add blocks [first, end) to a part of the sums; `begins`: overwrite them instead."""
        pass

    cdef void add_slabs(self, char *c) noexcept nogil:
        cdef SumsRun r
        r.sums, r.c = <void *>self, c
        share_out(<int>min(self.threads, ceil_div(self.slab_bytes, PART_BYTES)), add_share, &r)

    cdef void add_share(self, char *c, int part, int parts, lk_portions *portions) noexcept nogil:
        cdef int64_t total = ceil_div(self.slab_bytes, PART_BYTES), begin = share(total, parts, part)
        cdef int64_t end = share(total, parts, part + 1), first, last
        while lk_claim(portions, begin, end, &first, &last):
            self.add_part(c, first * PART_BYTES, min(self.slab_bytes, last * PART_BYTES))

    cdef void add_part(self, char *c, int64_t first, int64_t end) noexcept nogil:
        """Add bytes [first, end) of all slabs, by the tree."""
        cdef int64_t at = first, stop, slab, apart
        while at < end:
            stop = min(end, at + PART_BYTES)
            apart = 1
            while apart < self.slabs:
                slab = 0
                while slab + apart < self.slabs:
                    if self.item == 4:
                        add_to(<float *>(c + slab * self.slab_bytes + at),
                            <const float *>(c + (slab + apart) * self.slab_bytes + at), (stop - at) // 4)
                    else:
                        add_to(<double *>(c + slab * self.slab_bytes + at),
                            <const double *>(c + (slab + apart) * self.slab_bytes + at), (stop - at) // 8)
                    slab += 2 * apart
                apart *= 2
            at = stop
