"""Executes a conversion: loop nests like those of a reorder, around tiles that move, convert and move again.

What a tile does is planned in layoutkit.reorders.conversions. Scales and zero points come with each call. Where the
source is of packed pairs, all its offsets and strides count elements, and a tile unpacks what it reads to bytes first.
Packed pairs are written by way of a workspace, see PackingConverter.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from ...kernels cimport LK_CONVERT, LK_GATHER, LK_PACK, LK_TRANSPOSE, LK_TYPE_COUNT, LK_UNPACK
from ...kernels.convert cimport lk_convert, lk_convert_fn, lk_packed, lk_packed_fn
from ...kernels.moves cimport lk_move, lk_move_fn
from ...ndarray cimport PyArray_DATA, import_array, ndarray
from ...runtime.pace cimport Pace, done, pace_of
from ...runtime.pool cimport Pool
from ...runtime.registry cimport best_row, element_bytes, element_name
from ...runtime.team cimport lk_claim, lk_portions, share_out
from .reorder cimport Program
from .reordering cimport SHARE_PARTS, MIN_PARTS_BYTES, Reordering

cdef extern from "common/stream.h" nogil:
    void stream_end()

import_array()

cdef enum:
    MAX_LOOPS = 32
    CHUNK_ELEMENTS = 4 << 20  # between checks for signals: at worst a tenth of a second, into new pages
    PACKED_ELEMENTS = 64 << 20  # likewise, of packed pairs
    PACKED_STEP = 128  # a thread packs or unpacks multiples of it
    SHARED_ELEMENTS = 1 << 18  # below this a second thread costs more than it gains
    SCRATCH_BYTES = 40 << 10  # of a tile: up to 32 KB of elements, with gaps between rows

TYPES = {element_name(element): element for element in range(LK_TYPE_COUNT)}
ELEMENT_BYTES = {name: element_bytes(element) for name, element in TYPES.items()}
_FAMILY = {"transpose": LK_TRANSPOSE, "gather": LK_GATHER}

cdef struct TileStep:
    lk_move_fn fn  # NULL: nothing to do
    lk_move move

cdef struct Nest:
    TileStep before, fetch, after  # fetch: loads what the destination holds into the buffer that `after` stores
    lk_convert tile
    lk_packed unpack
    int64_t src_offset, dst_offset, par_offset
    int loops
    int64_t tasks
    int64_t n[MAX_LOOPS]
    int64_t s[MAX_LOOPS]
    int64_t d[MAX_LOOPS]
    int64_t p[MAX_LOOPS]


cdef class ConverterBase(Reordering):
    """Converts a whole array; the parameters come with each call."""

    cdef bint sum
    cdef int real_bytes  # size of the type that is computed in

    def __call__(self, ndarray src, ndarray dst, int threads, *parameters):
        """Convert `src` to `dst`, arrays of the strides that this was planned for, by `parameters`: see `set_parameters`."""
        cdef lk_convert c
        set_parameters(&c, parameters)
        self.convert_all(<const char *>PyArray_DATA(src), 0, <char *>PyArray_DATA(dst), &c, threads)

    cdef int convert_all(self, const char *s, int64_t at, char *d, lk_convert *parameters, int threads) except -1:
        """Convert by `parameters`, with the GIL held: signals are checked for between chunks. `at`: bytes from s, elements
        of packed pairs, to where the source begins."""


cdef struct Run:
    void *converter
    const char *src
    int64_t src_at
    char *dst
    const lk_convert *parameters
    int64_t chunk, chunks


cdef void convert_share(void *argument, int slot, int share, int shares, lk_portions *portions) noexcept nogil:
    cdef const Run *r = <const Run *>argument
    cdef int64_t parts = (<Converter>r.converter).share_parts, begin = (r.chunk * shares + share) * parts, first, last
    while lk_claim(portions, begin, begin + parts, &first, &last):
        (<Converter>r.converter).convert(r.src, r.src_at, r.dst, r.parameters, first, last,
                                         r.chunks * shares * parts)


cdef class Converter(ConverterBase):
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
    pairs : bool
        The source is of packed pairs.
    """

    cdef Nest *nests
    cdef int count
    cdef lk_convert_fn fn
    cdef lk_packed_fn unpack  # NULL: the source is not of packed pairs
    cdef Program fill

    def __cinit__(self, nests, types, str real, bint sum, Program fill, bint stream, bint pairs=False):
        cdef Nest *nest
        cdef double elements = 0
        cdef int i, j
        self.fn = <lk_convert_fn>best_row(LK_CONVERT, real).fn
        if pairs:
            self.unpack = <lk_packed_fn>best_row(LK_UNPACK, "x4").fn
        self.fill, self.count, self.sum, self.real_bytes = fill, len(nests), sum, 8 if real == "f64" else 4
        self.nests = <Nest *>calloc(max(1, self.count), sizeof(Nest))
        if self.nests == NULL:
            raise MemoryError(f"reorder: {self.count} loop nests")
        for i, (loops, before, convert, after, offsets, prefetch_bytes, unpack) in enumerate(nests):
            if len(loops) > MAX_LOOPS:
                raise ValueError(f"reorder: {len(loops)} nested loops, at most {MAX_LOOPS}")
            nest = self.nests + i
            set_step(&nest.before, before)
            set_step(&nest.after, after)
            if after is not None and sum:
                set_step(&nest.fetch, ("gather", after.bits, after.n, after.d, after.s))
            if pairs:
                (nest.unpack.n0, nest.unpack.n1), s, d = unpack[2:]
                (nest.unpack.s0, nest.unpack.s1), (nest.unpack.d0, _) = s, d
                nest.unpack.is_signed = types[0] == "s8"
                if nest.unpack.n0 * max(nest.unpack.d0, nest.unpack.n1) > SCRATCH_BYTES:
                    raise ValueError(f"reorder: a tile unpacks {nest.unpack.n0} x {nest.unpack.n1} elements")
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
        self.share_parts = 1 if elements < MIN_PARTS_BYTES // 4 else SHARE_PARTS

    def __dealloc__(self):
        free(self.nests)

    cdef int convert_all(self, const char *s, int64_t at, char *d, lk_convert *parameters, int threads) except -1:
        cdef Pace pace = pace_of(self.chunks)
        cdef Run r
        r.converter, r.src, r.src_at, r.dst, r.parameters = <void *>self, s, at, d, parameters
        parameters.sum = self.sum
        while pace.at < pace.end:
            r.chunk, r.chunks = pace.at // pace.size, pace.end // pace.size
            with nogil:
                share_out(threads, convert_share, &r)
            if self.chunks > 1:
                PyErr_CheckSignals()
            done(&pace)
        return 0

    cdef void part(self, const char *src, char *dst, int64_t first, int64_t end, int64_t parts) noexcept nogil:
        """Convert the numbers as they are."""
        cdef lk_convert parameters
        memset(&parameters, 0, sizeof(parameters))
        parameters.alpha = 1
        self.convert(src, 0, dst, &parameters, first, end, parts)

    cdef void convert(self, const char *src, int64_t src_at, char *dst, const lk_convert *parameters, int64_t part,
                      int64_t stop, int64_t parts) noexcept nogil:
        cdef int64_t at[MAX_LOOPS]
        cdef char first[SCRATCH_BYTES]
        cdef char second[SCRATCH_BYTES]
        cdef char third[SCRATCH_BYTES]
        cdef char *scratch[3]
        cdef int64_t task, end, rest, par, s
        cdef char *d
        cdef Nest *nest
        cdef lk_convert c
        cdef int i, j
        scratch[0], scratch[1], scratch[2] = first, second, third
        if self.fill is not None:
            self.fill.part(src, dst, part, stop, parts)
        for i in range(self.count):
            nest = self.nests + i
            task, end = nest.tasks * part // parts, nest.tasks * stop // parts
            if task == end:
                continue
            c = nest.tile
            c.divide, c.sum, c.alpha, c.beta = parameters.divide, parameters.sum, parameters.alpha, parameters.beta
            s, d, par = src_at + nest.src_offset, dst + nest.dst_offset, nest.par_offset
            rest = task
            for j in range(nest.loops - 1, -1, -1):
                at[j] = rest % nest.n[j]
                rest //= nest.n[j]
                s += at[j] * nest.s[j]
                d += at[j] * nest.d[j]
                par += at[j] * nest.p[j]
            while True:
                c.sub, c.mul, c.inv = parameters.sub, parameters.mul, parameters.inv
                c.off, c.add, c.high, c.low = parameters.off, parameters.add, parameters.high, parameters.low
                advance(&c, par * self.real_bytes)
                self.tile(nest, &c, src, s, d, scratch)
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

    cdef void tile(self, Nest *nest, lk_convert *c, const char *src, int64_t s, char *d, char **scratch) noexcept nogil:
        cdef lk_packed u
        if self.unpack == NULL:
            src += s
        else:
            u = nest.unpack
            u.src, u.at, u.dst = src, s, scratch[2]
            self.unpack(&u)
            src = scratch[2]
        c.src, c.dst = src, d
        if nest.before.fn != NULL:
            run_step(&nest.before, src, scratch[0])
            c.src = scratch[0]
        if nest.after.fn != NULL:
            c.dst = scratch[1]
            if nest.fetch.fn != NULL:
                run_step(&nest.fetch, d, scratch[1])
        self.fn(c)
        if nest.after.fn != NULL:
            run_step(&nest.after, scratch[1], d)


cdef struct PackRun:
    void *packing
    lk_packed_fn fn
    const char *src
    char *dst
    int64_t first, end  # elements


cdef void pack_share(void *argument, int slot, int share, int shares, lk_portions *portions) noexcept nogil:
    cdef const PackRun *r = <const PackRun *>argument
    cdef int64_t count = (r.end - r.first + PACKED_STEP - 1) // PACKED_STEP, first, last
    while lk_claim(portions, count * share // shares, count * (share + 1) // shares, &first, &last):
        (<PackingConverter>r.packing).share(r.fn, r.src, r.dst, r.first + first * PACKED_STEP,
                                   min(r.end, r.first + last * PACKED_STEP))


cdef class PackingConverter(ConverterBase):
    """A conversion to packed pairs, slice after slice: the numbers of a slice are converted to bytes in a workspace, which
    are packed from there.

    Parameters
    ----------
    parts : sequence of (converter, count, src_step, par_step, elements)
        What converts the first of `count` slices of so many elements, an even number but for the last slice of all; from
        one to the next are src_step bytes of the source (elements of packed pairs), and par_step parameters.
    is_signed : bool
        Of the pairs.
    pool : Pool
        Lends the workspace.
    """

    cdef list parts
    cdef bint is_signed
    cdef Pool pool
    cdef lk_packed_fn pack, unpack

    def __cinit__(self, parts, bint is_signed, Pool pool not None):
        self.parts, self.is_signed, self.pool = list(parts), is_signed, pool
        self.pack, self.unpack = <lk_packed_fn>best_row(LK_PACK, "x4").fn, <lk_packed_fn>best_row(LK_UNPACK, "x4").fn
        self.sum, self.real_bytes = (<Converter?>self.parts[0][0]).sum, (<Converter>self.parts[0][0]).real_bytes
        odd_sizes = [count * elements for _, count, _, _, elements in self.parts[:-1] if elements % 2]
        if odd_sizes or (self.parts[-1][1] > 1 and self.parts[-1][4] % 2):
            raise ValueError(f"reorder: slices of an odd number of elements: {odd_sizes or self.parts[-1][1:]}")

    cdef int convert_all(self, const char *s, int64_t at, char *d, lk_convert *parameters, int threads) except -1:
        cdef int64_t i, par, count, src_step, par_step, elements
        cdef lk_convert c
        cdef Converter converter
        cdef char *work
        workspace = self.pool.lend(max([part[4] for part in self.parts]))
        work = <char *>PyArray_DATA(<ndarray>workspace)
        par = 0
        for converter, count, src_step, par_step, elements in self.parts:
            for i in range(count):
                c = parameters[0]
                advance(&c, par * self.real_bytes)
                if self.sum:
                    self.shared(self.unpack, d, work, elements, threads)
                converter.convert_all(s, at, work, &c, threads)
                self.shared(self.pack, work, d, elements, threads)
                at, par, d = at + src_step, par + par_step, d + elements // 2
        self.pool.take_back(workspace)
        return 0

    cdef int shared(self, lk_packed_fn fn, const char *s, char *d, int64_t elements, int threads) except -1:
        """Pack or unpack a slice, in chunks between which signals are checked for."""
        cdef int64_t at, n
        cdef PackRun r
        threads = threads if elements >= SHARED_ELEMENTS else 1
        r.packing, r.fn, r.src, r.dst = <void *>self, fn, s, d
        for at in range(0, elements, PACKED_ELEMENTS):
            n = min(PACKED_ELEMENTS, elements - at)
            r.first, r.end = at, at + n
            with nogil:
                share_out(threads, pack_share, &r)
            PyErr_CheckSignals()
        return 0

    cdef void share(self, lk_packed_fn fn, const char *s, char *d, int64_t begin, int64_t end) noexcept nogil:
        """Elements [begin, end) of a slice; `begin` is even."""
        cdef lk_packed p
        memset(&p, 0, sizeof(p))
        p.n0, p.n1, p.s1, p.is_signed = 1, end - begin, 1, self.is_signed
        if fn == self.pack:
            p.src, p.dst = s + begin, d + begin // 2
        else:
            p.src, p.dst = s + begin // 2, d + begin
        fn(&p)


cdef class Conversion(Reordering):
    """A conversion with its parameters: those of its call, after `threads`."""

    cdef ConverterBase converter
    cdef lk_convert parameters
    cdef tuple arguments  # whose arrays `parameters` points into

    def __cinit__(self, ConverterBase converter not None, *parameters):
        self.converter, self.arguments = converter, parameters
        set_parameters(&self.parameters, parameters)
        self.parameters.sum, self.chunks, self.share_parts = converter.sum, converter.chunks, converter.share_parts

    cdef int call(self, const char *src, char *dst, int threads) except -1:
        if isinstance(self.converter, PackingConverter):
            return self.converter.convert_all(src, 0, dst, &self.parameters, threads)
        return Reordering.call(self, src, dst, threads)

    cdef void part(self, const char *src, char *dst, int64_t first, int64_t end, int64_t parts) noexcept nogil:
        (<Converter>self.converter).convert(src, 0, dst, &self.parameters, first, end, parts)


cdef inline const char *advanced(const char *array, int64_t nbytes) noexcept nogil:
    return array + nbytes if array != NULL else NULL


cdef void advance(lk_convert *c, int64_t n) noexcept nogil:
    """Advance by n bytes of the parameters."""
    c.sub, c.mul, c.inv, c.off = advanced(c.sub, n), advanced(c.mul, n), advanced(c.inv, n), advanced(c.off, n)
    c.add, c.high, c.low = advanced(c.add, n), advanced(c.high, n), advanced(c.low, n)


cdef int set_parameters(lk_convert *c, tuple parameters) except -1:
    """What a call gives to all tiles: contiguous arrays of type `real`, or None in their place, and numbers; see lk_convert
    in convert.h."""
    sub, mul, inv, off, add, high, low, divide, alpha, beta = parameters
    memset(c, 0, sizeof(lk_convert))
    c.sub, c.mul, c.inv, c.off, c.add = data_of(sub), data_of(mul), data_of(inv), data_of(off), data_of(add)
    c.high, c.low = data_of(high), data_of(low)
    c.divide, c.alpha, c.beta = divide, alpha, beta
    return 0


cdef const char *data_of(object array) except? NULL:
    return NULL if array is None else <const char *>PyArray_DATA(<ndarray?>array)


cdef int set_step(TileStep *step, move) except -1:
    if move is None:
        return 0
    family, bits, n, s, d = move
    step.fn = <lk_move_fn>best_row(_FAMILY[family], f"x{bits}").fn
    step.move.n0, step.move.n1 = n
    step.move.s0, step.move.s1 = s
    step.move.d0, step.move.d1 = d


cdef void run_step(const TileStep *step, const char *src, char *dst) noexcept nogil:
    cdef lk_move m = step.move
    m.src, m.dst = src, dst
    step.fn(&m)
