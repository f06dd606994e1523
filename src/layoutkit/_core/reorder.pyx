"""Executes a reorder: a list of rectangular loop nests, each around one leaf kernel.

A nest's outer loops are flattened into one range that the threads share evenly; nests follow one another
without a barrier, for they write disjoint elements.
"""

from cython.parallel cimport parallel
cimport openmp
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from numpy cimport PyArray_DATA, import_array, ndarray

from .registry cimport (
    LK_COPY, LK_FILL, LK_GATHER, LK_TRANSPOSE, best_row, lk_kernel, lk_move, lk_move_fn
)

import_array()

cdef enum:
    MAX_LOOPS = 32

_FAMILY = {"copy": LK_COPY, "transpose": LK_TRANSPOSE, "gather": LK_GATHER, "fill": LK_FILL}

cdef struct Nest:
    lk_move_fn fn
    lk_move leaf
    int64_t src_offset, dst_offset
    bint fill
    int loops
    int64_t tasks
    int64_t n[MAX_LOOPS]
    int64_t s[MAX_LOOPS]
    int64_t d[MAX_LOOPS]


def address(ndarray array):
    """Where the first element of `array` lies."""
    return <size_t>PyArray_DATA(array)


cdef class Program:
    """Nests ready to run.

    Parameters
    ----------
    nests : sequence of (family, bits, loops, leaf, src_offset, dst_offset, ahead, outer, valid)
        `loops` and the two of `leaf` are (count, source stride, destination stride), strides in bytes.
    width : int
        Bytes of an element.
    pad : bytes
        The element that fills write.
    stream : bool
        Bypass the caches.
    """

    def __cinit__(self, nests, int width, bytes pad, bint stream):
        cdef Nest *nest
        cdef const lk_kernel *row
        cdef int i, j
        if len(pad) != width or width > 16:
            raise ValueError(f"pad of {len(pad)} bytes for elements of {width}")
        for i in range(0, sizeof(self.pad), width):
            memcpy(&self.pad[i], <const char *>pad, width)
        self.count, self.stream = len(nests), stream
        self.nests = <Nest *>calloc(max(1, self.count), sizeof(Nest))
        if self.nests == NULL:
            raise MemoryError(f"reorder: {self.count} loop nests")
        for i, (family, bits, loops, leaf, src_offset, dst_offset, ahead, outer, valid) in enumerate(nests):
            if len(loops) > MAX_LOOPS:
                raise ValueError(f"reorder: {len(loops)} nested loops, at most {MAX_LOOPS}")
            nest = self.nests + i
            row = best_row(_FAMILY[family], bits)
            nest.fn, nest.fill = <lk_move_fn>row.fn, family == "fill"
            (nest.leaf.n0, nest.leaf.s0, nest.leaf.d0), (nest.leaf.n1, nest.leaf.s1, nest.leaf.d1) = leaf
            nest.src_offset, nest.dst_offset = src_offset, dst_offset
            nest.leaf.stream = stream
            nest.leaf.ahead, nest.leaf.valid, nest.leaf.pad = ahead, valid, self.pad
            nest.leaf.in0, nest.leaf.out_d0, nest.leaf.in1, nest.leaf.out_s1 = outer
            nest.loops, nest.tasks = len(loops), 1
            for j, (n, s, d) in enumerate(loops):
                nest.n[j], nest.s[j], nest.d[j] = n, s, d
                nest.tasks *= n

    def __dealloc__(self):
        free(self.nests)

    def __call__(self, ndarray src, ndarray dst, int threads):
        """Move `src` to `dst`, arrays of the strides that this was planned for."""
        cdef const char *s = <const char *>PyArray_DATA(src)
        cdef char *d = <char *>PyArray_DATA(dst)
        with nogil:
            self.run(s, d, threads)

    cdef void run(self, const char *src, char *dst, int threads) noexcept nogil:
        cdef int tid = 0, n = 1
        if threads <= 1:
            self.part(src, dst, 0, 1)
        else:
            with parallel(num_threads=threads):
                tid = openmp.omp_get_thread_num()
                n = openmp.omp_get_num_threads()
                self.part(src, dst, tid, n)

    cdef void part(self, const char *src, char *dst, int tid, int threads) noexcept nogil:
        cdef int64_t at[MAX_LOOPS]
        cdef int64_t task, end, rest
        cdef Nest *nest
        cdef lk_move m
        cdef int i, j
        for i in range(self.count):
            nest = self.nests + i
            task, end = nest.tasks * tid // threads, nest.tasks * (tid + 1) // threads
            if task == end:
                continue
            m = nest.leaf
            m.dst = dst + nest.dst_offset
            m.src = src + nest.src_offset
            if nest.fill:
                m.src = &self.pad[0]
            rest = task
            for j in range(nest.loops - 1, -1, -1):
                at[j] = rest % nest.n[j]
                rest //= nest.n[j]
                m.src += 0 if nest.fill else at[j] * nest.s[j]
                m.dst += at[j] * nest.d[j]
            while True:
                nest.fn(&m)
                task += 1
                if task == end:
                    break
                j = nest.loops - 1
                while True:  # the odometer: next digit, with carries
                    at[j] += 1
                    m.src += 0 if nest.fill else nest.s[j]
                    m.dst += nest.d[j]
                    if at[j] < nest.n[j]:
                        break
                    m.src -= 0 if nest.fill else nest.n[j] * nest.s[j]
                    m.dst -= nest.n[j] * nest.d[j]
                    at[j] = 0
                    j -= 1
