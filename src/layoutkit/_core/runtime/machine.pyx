"""Measures the machine's limits: peak rate of FMAs, clock and copy bandwidth."""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from ..kernels cimport LK_COPY, LK_PEAK, lk_kernel
from ..kernels.moves cimport lk_move, lk_move_fn
from ..kernels.peak cimport lk_peak_fn
from ..ndarray cimport PyArray_DATA, PyArray_IS_C_CONTIGUOUS, PyArray_ISCARRAY, import_array, ndarray
from .registry cimport best_row
from .team cimport lk_claim, lk_portions, share_out

import_array()

cdef extern from "common/stream.h" nogil:
    void stream_end()


cdef double now() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return t.tv_sec + 1e-9 * t.tv_nsec


def fma_peak(int threads=1, int64_t rounds=200_000, str types="f32"):
    """Flops per second of one short burst of FMAs of `types` on `threads` threads, in the instruction set in use."""
    cdef const lk_kernel *row = best_row(LK_PEAK, types)
    cdef lk_peak_fn fn = <lk_peak_fn>row.fn
    cdef PeakRun warm, burst
    cdef double t
    warm.fn, warm.rounds, warm.threads = fn, 1000, threads
    burst.fn, burst.rounds, burst.threads = fn, rounds, threads
    with nogil:
        share_out(threads, peak_share, &warm)
    t = now()
    with nogil:
        share_out(threads, peak_share, &burst)
    t = now() - t
    return fn(1) * rounds * threads / t


def multiplication(int64_t rounds=20_000):
    """Seconds of an integer multiplication that waits for the one before it: three cycles of most processors."""
    cdef uint64_t x = rounds | 1, factor = x
    cdef int64_t i
    cdef double t = now()
    with nogil:
        for i in range(rounds):
            x *= factor
    return (now() - t) / rounds if x else 0.0  # odd numbers never make 0, but the compiler must find that out


cdef struct PeakRun:
    lk_peak_fn fn
    int64_t rounds
    int threads


cdef void peak_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    """A burst for each of the threads asked for, also where a region has fewer."""
    cdef const PeakRun *r = <const PeakRun *>argument
    cdef int64_t first, last
    while lk_claim(portions, r.threads * part // parts, r.threads * (part + 1) // parts, &first, &last):
        r.fn((last - first) * r.rounds)


def copy(ndarray src, ndarray dst, int threads=1, bint stream=False):
    """Seconds to copy `src` to `dst` (equal sizes) by memcpy or by streaming stores on `threads` threads."""
    cdef const lk_kernel *row = best_row(LK_COPY, "x8")
    cdef lk_move_fn fn = <lk_move_fn>row.fn
    cdef int64_t n = src.nbytes
    cdef CopyRun r
    cdef double t
    if dst.nbytes != n or n == 0 or not (PyArray_IS_C_CONTIGUOUS(src) and PyArray_ISCARRAY(dst)):
        raise ValueError(f"copy: {n} bytes to {dst.nbytes} bytes, both contiguous")
    r.fn, r.src, r.dst = fn, <const char *>PyArray_DATA(src), <char *>PyArray_DATA(dst)
    r.lines, r.n, r.stream = (n + 63) // 64, n, stream
    t = now()
    with nogil:
        share_out(threads, copy_share, &r)
    return now() - t


cdef struct CopyRun:
    lk_move_fn fn
    const char *src
    char *dst
    int64_t lines, n
    bint stream


cdef void copy_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const CopyRun *r = <const CopyRun *>argument
    cdef int64_t first, last
    while lk_claim(portions, r.lines * part // parts, r.lines * (part + 1) // parts, &first, &last):
        copy_part(r.fn, r.src, r.dst, first * 64, min(r.n, last * 64), r.stream)


cdef void copy_part(lk_move_fn fn, const char *s, char *d, int64_t lo, int64_t hi, bint stream) noexcept nogil:
    cdef lk_move m
    if not stream:
        memcpy(d + lo, s + lo, hi - lo)
        return
    memset(&m, 0, sizeof(m))
    m.src, m.dst, m.n0, m.n1, m.s1, m.d1, m.stream = s + lo, d + lo, 1, hi - lo, 1, 1, 1
    fn(&m)
    stream_end()
