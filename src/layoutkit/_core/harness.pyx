"""Runs one kernel row on raw addresses: what the tests and the kernel benchmark drive, nothing else.

The caller vouches for every address, size and stride.
"""

from libc.stdint cimport int64_t, uint32_t

from .registry cimport lk_convert, lk_convert_fn, lk_gemm, lk_gemm_fn, lk_kernel, lk_move, lk_move_fn, row_named


def move(str name, size_t src, size_t dst, n, s, d, bint stream=False, ahead=0):
    """Run a copy, transpose, gather or fill row; n, s, d are pairs (i0, i1), strides in bytes."""
    cdef const lk_kernel *row = row_named(name)
    cdef lk_move m
    m.src, m.dst = <const char *>src, <char *>dst
    m.n0, m.n1 = n
    m.s0, m.s1 = s
    m.d0, m.d1 = d
    m.stream, m.ahead = stream, ahead
    (<lk_move_fn>row.fn)(&m)


def convert(str name, int src_type, int dst_type, size_t src, size_t dst, n, s0, d0, p=(0, 0), size_t sub=0,
            size_t mul=0, size_t inv=0, size_t add=0, bint divide=False, alpha=1, beta=None, bint stream=False, ahead=0):
    """Run a convert row on elements of types of convert.TYPES; see lk_convert in kernels.h. 0: no parameter."""
    cdef const lk_kernel *row = row_named(name)
    cdef lk_convert c
    c.src, c.dst, c.src_type, c.dst_type = <const char *>src, <char *>dst, src_type, dst_type
    (c.n0, c.n1), c.s0, c.d0, (c.p0, c.p1) = n, s0, d0, p
    c.sub, c.mul, c.inv, c.add = <const char *>sub, <const char *>mul, <const char *>inv, <const char *>add
    c.divide, c.alpha, c.sum, c.beta = divide, alpha, beta is not None, beta or 0
    c.stream, c.ahead = stream, ahead
    (<lk_convert_fn>row.fn)(&c)


def gemm(str name, size_t a, const int64_t[::1] row, const int64_t[::1] tap, mask, const float[::1] zero,
         blocks, block_stride, kb, kb_last, size_t b, ldb, size_t bias_col, size_t bias_row,
         size_t c, const int64_t[::1] c_row, const int64_t[::1] c_col, bint split, bint accumulate, int cols):
    """Run a gemm row; see lk_gemm in kernels.h. 0 for a bias: none."""
    cdef const lk_kernel *kernel = row_named(name)
    cdef const uint32_t[::1] bits
    cdef lk_gemm g
    g.a, g.row, g.tap, g.zero = <const char *>a, &row[0], &tap[0], &zero[0]
    g.mask = NULL
    if mask is not None:
        bits = mask
        g.mask = &bits[0]
    g.taps, g.blocks, g.block_stride, g.kb, g.kb_last = tap.shape[0], blocks, block_stride, kb, kb_last
    g.b, g.ldb = <const float *>b, ldb
    g.bias_col, g.bias_row = <const float *>bias_col, <const float *>bias_row
    g.c, g.c_row, g.c_col = <char *>c, &c_row[0], &c_col[0]
    g.c_split, g.accumulate, g.rows, g.cols = split, accumulate, row.shape[0], cols
    g.ahead, g.ahead_bytes = NULL, 0
    (<lk_gemm_fn>kernel.fn)(&g)
