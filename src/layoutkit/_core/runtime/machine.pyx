"""Measures the machine's limits: peak rate of FMAs and copy bandwidth."""

from cython.parallel cimport parallel
cimport openmp
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from ..kernels cimport LK_COPY, LK_PEAK, lk_kernel
from ..kernels.moves cimport lk_move, lk_move_fn
from ..kernels.peak cimport lk_peak_fn
from .process cimport forks
from .registry cimport best_row
from .team cimport team

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
    cdef double flops = 0, t
    threads = team(threads)
    with nogil, parallel(num_threads=threads):
        fn(1000)
    t = now()
    with nogil, parallel(num_threads=threads):
        fn(rounds)
    t = now() - t
    flops = fn(1) * rounds * threads
    return flops / t


def copy(const unsigned char[::1] src, unsigned char[::1] dst, int threads=1, bint stream=False):
    """Seconds to copy `src` to `dst` (equal sizes) by memcpy or by streaming stores on `threads` threads."""
    cdef const lk_kernel *row = best_row(LK_COPY, "x8")
    cdef lk_move_fn fn = <lk_move_fn>row.fn
    cdef int64_t n = src.shape[0]
    cdef int tid = 0
    cdef double t
    if dst.shape[0] != n or n == 0:
        raise ValueError(f"copy: {n} bytes to {dst.shape[0]} bytes")
    threads = team(threads)
    cdef const char *s = <const char *>&src[0]
    cdef char *d = <char *>&dst[0]
    t = now()
    if threads == 1:
        copy_part(fn, s, d, 0, n, stream)
    else:
        with nogil, parallel(num_threads=threads):
            tid = openmp.omp_get_thread_num()
            copy_part(fn, s, d, n * tid // threads // 64 * 64,
                      n if tid == threads - 1 else n * (tid + 1) // threads // 64 * 64, stream)
    return now() - t


cdef void copy_part(lk_move_fn fn, const char *s, char *d, int64_t lo, int64_t hi, bint stream) noexcept nogil:
    cdef lk_move m
    if not stream:
        memcpy(d + lo, s + lo, hi - lo)
        return
    memset(&m, 0, sizeof(m))
    m.src, m.dst, m.n0, m.n1, m.s1, m.d1, m.stream = s + lo, d + lo, 1, hi - lo, 1, 1, 1
    fn(&m)
    stream_end()
