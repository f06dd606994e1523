"""Executes a conversion: loop nests as those of a reorder, around tiles that move, convert and move again.

What a tile does is planned in layoutkit.reorders.conversions. Scales and zero points are given with each call.
"""

from cython.parallel cimport parallel
cimport openmp
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset
from numpy cimport PyArray_DATA, import_array, ndarray

from .pace cimport Pace, done, pace_of
from .registry cimport (
    LK_CONVERT, LK_GATHER, LK_TRANSPOSE, LK_TYPE_COUNT, best_row, element_bytes, element_name, lk_convert,
    lk_convert_fn, lk_move, lk_move_fn
)
from .reorder cimport Program, Reordering
from .team cimport team

cdef extern from "stream.h" nogil:
    void stream_end()

import_array()

cdef enum:
    MAX_LOOPS = 32
    CHUNK_ELEMENTS = 4 << 20  # between checks for signals: at worst a tenth of a second, into new pages
    SCRATCH_BYTES = 40 << 10  # a tile takes 16 KB in the narrower type, and there are gaps between rows

TYPES = {element_name(element): element for element in range(LK_TYPE_COUNT)}
ELEMENT_BYTES = {name: element_bytes(element) for name, element in TYPES.items()}
_FAMILY = {"transpose": LK_TRANSPOSE, "gather": LK_GATHER}

cdef struct Step:
    lk_move_fn fn  # NULL: nothing to do
    lk_move move

cdef struct Nest:
    Step before, fetch, after  # fetch: loads what the destination holds into the buffer that `after` stores
    lk_convert tile
    int64_t src_offset, dst_offset, par_offset
    int loops
    int64_t tasks
    int64_t n[MAX_LOOPS]
    int64_t s[MAX_LOOPS]
    int64_t d[MAX_LOOPS]
    int64_t p[MAX_LOOPS]


cdef class Converter(Reordering):
    """A conversion ready to run: its nests.

    Parameters
    ----------
    nests : sequence of layoutkit.reorders.conversions.Nest
    types : (str, str)
        Source and destination, keys of TYPES.
    real : str
        The type that is computed in: "f32" or "f64".
    sum : bool
        Whether the result is added to what the destination holds.
    fill : Program or None
        Writes the pads.
    stream : bool
        Stores bypass the caches.
    """

    cdef Nest *nests
    cdef int count
    cdef lk_convert_fn fn
    cdef Program fill
    cdef bint sum
    cdef int real_bytes  # size of the type that is computed in

    def __cinit__(self, nests, types, str real, bint sum, Program fill, bint stream):
        cdef Nest *nest
        cdef double elements = 0
        cdef int i, j
        self.fn = <lk_convert_fn>best_row(LK_CONVERT, real).fn
        self.fill, self.count, self.sum, self.real_bytes = fill, len(nests), sum, 8 if real == "f64" else 4
        self.nests = <Nest *>calloc(max(1, self.count), sizeof(Nest))
        if self.nests == NULL:
            raise MemoryError(f"reorder: {self.count} loop nests")
        for i, (loops, before, convert, after, offsets, prefetch_bytes) in enumerate(nests):
            if len(loops) > MAX_LOOPS:
                raise ValueError(f"reorder: {len(loops)} nested loops, at most {MAX_LOOPS}")
            nest = self.nests + i
            set_step(&nest.before, before)
            set_step(&nest.after, after)
            if after is not None and sum:
                set_step(&nest.fetch, ("gather", after.bits, after.n, after.d, after.s))
            (nest.tile.n0, nest.tile.n1), s, d, (nest.tile.p0, nest.tile.p1) = convert
            (nest.tile.s0, nest.tile.s1), (nest.tile.d0, nest.tile.d1) = s, d
            nest.tile.src_type, nest.tile.dst_type = TYPES[types[0]], TYPES[types[1]]
            nest.tile.stream = stream and after is None
            nest.after.move.stream = stream
            if before is None:
                nest.tile.prefetch_bytes = prefetch_bytes
            else:
                nest.before.move.prefetch_bytes = prefetch_bytes
            nest.src_offset, nest.dst_offset, nest.par_offset = offsets
            nest.loops, nest.tasks = len(loops), 1
            for j, (n, s, d, p, _) in enumerate(loops):
                nest.n[j], nest.s[j], nest.d[j], nest.p[j] = n, s, d, p
                nest.tasks *= n
            elements += <double>nest.tasks * nest.tile.n0 * nest.tile.n1
        self.chunks = 1 + <int64_t>(elements / CHUNK_ELEMENTS)

    def __dealloc__(self):
        free(self.nests)

    def __call__(self, ndarray src, ndarray dst, int threads, sub=None, mul=None, inv=None, off=None, add=None,
                 high=None, low=None, bint divide=False, double alpha=1, double beta=0):
        """Convert `src` to `dst`, arrays of the strides that this was planned for.

        `sub`, `mul`, `inv`, `off`, `add`, `high`, `low`: contiguous arrays of type `real`, or None; see lk_convert in kernels.h.
        """
        cdef lk_convert given
        take_parameters(&given, (sub, mul, inv, off, add, high, low), divide, alpha, beta)
        self.all_of(<const char *>PyArray_DATA(src), <char *>PyArray_DATA(dst), &given, threads)

    cdef int all_of(self, const char *s, char *d, lk_convert *given, int threads) except -1:
        """Convert by the parameters of `given`, with the GIL held: signals are checked for between chunks."""
        cdef int64_t chunk, chunks
        cdef int tid = 0, n = 1
        cdef Pace pace = pace_of(self.chunks)
        threads = team(threads)
        given.sum = self.sum
        while pace.at < pace.end:
            chunk, chunks = pace.at // pace.size, pace.end // pace.size
            with nogil:
                if threads <= 1:
                    self.convert(s, d, given, chunk, chunks)
                else:
                    with parallel(num_threads=threads):
                        tid = openmp.omp_get_thread_num()
                        n = openmp.omp_get_num_threads()
                        self.convert(s, d, given, chunk * n + tid, chunks * n)
            if self.chunks > 1:
                PyErr_CheckSignals()
            done(&pace)
        return 0

    cdef void part(self, const char *src, char *dst, int64_t share, int64_t shares) noexcept nogil:
        """Convert the numbers as they are."""
        cdef lk_convert given
        memset(&given, 0, sizeof(given))
        given.alpha = 1
        self.convert(src, dst, &given, share, shares)

    cdef void convert(self, const char *src, char *dst, const lk_convert *given, int64_t share,
                      int64_t shares) noexcept nogil:
        cdef int64_t at[MAX_LOOPS]
        cdef char first[SCRATCH_BYTES]
        cdef char second[SCRATCH_BYTES]
        cdef char *scratch[2]
        cdef int64_t task, end, rest, par
        cdef const char *s
        cdef char *d
        cdef Nest *nest
        cdef lk_convert c
        cdef int i, j
        scratch[0], scratch[1] = first, second
        if self.fill is not None:
            self.fill.part(src, dst, share, shares)
        for i in range(self.count):
            nest = self.nests + i
            task, end = nest.tasks * share // shares, nest.tasks * (share + 1) // shares
            if task == end:
                continue
            c = nest.tile
            c.divide, c.sum, c.alpha, c.beta = given.divide, given.sum, given.alpha, given.beta
            s, d, par = src + nest.src_offset, dst + nest.dst_offset, nest.par_offset
            rest = task
            for j in range(nest.loops - 1, -1, -1):
                at[j] = rest % nest.n[j]
                rest //= nest.n[j]
                s += at[j] * nest.s[j]
                d += at[j] * nest.d[j]
                par += at[j] * nest.p[j]
            while True:
                c.sub = NULL if given.sub == NULL else given.sub + par * self.real_bytes
                c.mul = NULL if given.mul == NULL else given.mul + par * self.real_bytes
                c.inv = NULL if given.inv == NULL else given.inv + par * self.real_bytes
                c.off = NULL if given.off == NULL else given.off + par * self.real_bytes
                c.add = NULL if given.add == NULL else given.add + par * self.real_bytes
                c.high = NULL if given.high == NULL else given.high + par * self.real_bytes
                c.low = NULL if given.low == NULL else given.low + par * self.real_bytes
                self.tile(nest, &c, s, d, scratch)
                task += 1
                if task == end:
                    break
                j = nest.loops - 1
                while True:  # the odometer: next digit, with carries
                    at[j] += 1
                    s += nest.s[j]
                    d += nest.d[j]
                    par += nest.p[j]
                    if at[j] < nest.n[j]:
                        break
                    s -= nest.n[j] * nest.s[j]
                    d -= nest.n[j] * nest.d[j]
                    par -= nest.n[j] * nest.p[j]
                    at[j] = 0
                    j -= 1
        stream_end()

    cdef void tile(self, Nest *nest, lk_convert *c, const char *s, char *d, char **scratch) noexcept nogil:
        c.src, c.dst = s, d
        if nest.before.fn != NULL:
            run_step(&nest.before, s, scratch[0])
            c.src = scratch[0]
        if nest.after.fn != NULL:
            c.dst = scratch[1]
            if nest.fetch.fn != NULL:
                run_step(&nest.fetch, d, scratch[1])
        self.fn(c)
        if nest.after.fn != NULL:
            run_step(&nest.after, scratch[1], d)


cdef class Conversion(Reordering):
    """A converter with its parameters: those of its call, after `threads`."""

    cdef Converter converter
    cdef lk_convert given
    cdef tuple arrays  # that `given` points into

    def __cinit__(self, Converter converter not None, *arrays, bint divide, double alpha, double beta):
        self.converter, self.arrays = converter, arrays
        take_parameters(&self.given, arrays, divide, alpha, beta)
        self.given.sum, self.chunks = converter.sum, converter.chunks

    cdef void part(self, const char *src, char *dst, int64_t share, int64_t shares) noexcept nogil:
        self.converter.convert(src, dst, &self.given, share, shares)


cdef int take_parameters(lk_convert *given, arrays, bint divide, double alpha, double beta) except -1:
    """What a call gives to all tiles: arrays (sub, mul, inv, off, add, high, low), or None in their place."""
    sub, mul, inv, off, add, high, low = arrays
    memset(given, 0, sizeof(lk_convert))
    given.sub, given.mul, given.inv, given.off = data_of(sub), data_of(mul), data_of(inv), data_of(off)
    given.add, given.high, given.low = data_of(add), data_of(high), data_of(low)
    given.alpha, given.beta, given.divide = alpha, beta, divide
    return 0


cdef const char *data_of(object array) except? NULL:
    return NULL if array is None else <const char *>PyArray_DATA(<ndarray?>array)


cdef int set_step(Step *step, move) except -1:
    if move is None:
        return 0
    family, bits, n, s, d = move
    step.fn = <lk_move_fn>best_row(_FAMILY[family], f"x{bits}").fn
    step.move.n0, step.move.n1 = n
    step.move.s0, step.move.s1 = s
    step.move.d0, step.move.d1 = d


cdef void run_step(const Step *step, const char *src, char *dst) noexcept nogil:
    cdef lk_move m = step.move
    m.src, m.dst = src, dst
    step.fn(&m)
