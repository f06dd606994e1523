"""Runs one kernel row on raw addresses, for the tests only.

The caller is responsible for every address, size and stride. Keywords are fields of the structures in the headers of kernels.
"""

from libc.stdint cimport int64_t, uint32_t

from ..kernels cimport lk_kernel
from ..kernels.convert cimport lk_convert, lk_convert_fn, lk_packed, lk_packed_fn
from ..kernels.depthwise cimport lk_plane_strips, lk_plane_strips_fn, lk_quads, lk_quads_fn, lk_strips, lk_strips_fn
from ..kernels.gemm cimport lk_gemm, lk_gemm_fn, lk_rounding
from ..kernels.moves cimport lk_move, lk_move_fn
from ..kernels.winograd cimport (
    lk_winograd_filter, lk_winograd_filter_fn, lk_winograd_in, lk_winograd_in_fn, lk_winograd_out, lk_winograd_out_fn,
)
from ..runtime.registry cimport row_named


def move(str name, size_t src, size_t dst, n, s, d, *, bint stream=False, prefetch_bytes=0, outer=(0, 0, 0, 0),
         valid=0, const unsigned char[::1] pad=None):
    """Run a copy, transpose, gather or fill row; n, s, d are pairs (i0, i1), strides in bytes.

    `outer` is (in0, out_d0, in1, out_s1), `pad` 64 bytes; see lk_move in move.h.
    """
    cdef const lk_kernel *row = row_named(name)
    cdef lk_move m
    m.src, m.dst = <const char *>src, <char *>dst
    m.n0, m.n1 = n
    m.s0, m.s1 = s
    m.d0, m.d1 = d
    m.stream, m.prefetch_bytes, m.valid = stream, prefetch_bytes, valid
    m.in0, m.out_d0, m.in1, m.out_s1 = outer
    m.pad = NULL if pad is None else <const char *>&pad[0]
    (<lk_move_fn>row.fn)(&m)


def convert(str name, int src_type, int dst_type, size_t src, size_t dst, n, s, d, *, p=(0, 0),
            size_t sub=0, size_t mul=0, size_t inv=0, size_t off=0, size_t add=0,
            size_t high=0, size_t low=0, bint divide=False, alpha=1, beta=None,
            bint stream=False, prefetch_bytes=0):
    """Run a convert row on elements of types of convert.TYPES; see lk_convert in convert.h. 0: no parameter."""
    cdef const lk_kernel *row = row_named(name)
    cdef lk_convert c
    c.src, c.dst, c.src_type, c.dst_type = <const char *>src, <char *>dst, src_type, dst_type
    (c.n0, c.n1), (c.s0, c.s1), (c.d0, c.d1), (c.p0, c.p1) = n, s, d, p
    c.sub, c.mul, c.inv = <const char *>sub, <const char *>mul, <const char *>inv
    c.off, c.add, c.high, c.low = <const char *>off, <const char *>add, <const char *>high, <const char *>low
    c.divide, c.alpha, c.sum, c.beta = divide, alpha, beta is not None, beta or 0
    c.stream, c.prefetch_bytes = stream, prefetch_bytes
    (<lk_convert_fn>row.fn)(&c)


def packed(str name, size_t src, size_t dst, n, *, at=0, s=(0, 1), d=0, bint signed=False):
    """Run a pack or unpack row; n and s are pairs (i0, i1), strides and `at` in elements; see lk_packed in pairs.h."""
    cdef const lk_kernel *row = row_named(name)
    cdef lk_packed p
    p.src, p.dst, p.at, p.d0, p.is_signed = <const char *>src, <char *>dst, at, d, signed
    (p.n0, p.n1), (p.s0, p.s1) = n, s
    (<lk_packed_fn>row.fn)(&p)


def gemm(str name, *, size_t a, const int64_t[::1] row, const int64_t[::1] tap, size_t zero, kb, kb_last,
         size_t b, ldb, size_t c, const int64_t[::1] c_row, const int64_t[::1] c_col, int cols, mask=None, blocks=1,
         block_stride=0, size_t bias_col=0, size_t bias_row=0, bint c_split=False, bint accumulate=False, clip=None,
         bint prefetch_c=False, int pads=0, bint resume=False, bint positive=False, const int64_t[::1] b_row=None,
         chunks=None, bint narrow=False):
    """Run a gemm row; see lk_gemm. 0 for a bias: none; `prefetch_c`: prefetch C for writing."""
    cdef const lk_kernel *kernel = row_named(name)
    cdef const uint32_t[::1] bits
    cdef lk_gemm g
    g.a, g.row, g.tap, g.zero = <const char *>a, &row[0], &tap[0], <const void *>zero
    g.mask = NULL
    if mask is not None:
        bits = mask
        g.mask = &bits[0]
    g.taps, g.blocks, g.block_stride, g.kb, g.kb_last = tap.shape[0], blocks, block_stride, kb, kb_last
    g.b, g.ldb, g.b_tap, g.b_row = <const char *>b, ldb, NULL, NULL
    if b_row is not None:
        g.b_row = &b_row[0]
    g.bias_col, g.bias_row = <const void *>bias_col, <const void *>bias_row
    g.c, g.c_row, g.c_col = <char *>c, &c_row[0], &c_col[0]
    g.c_split, g.accumulate, g.resume, g.positive, g.pads = c_split, accumulate, resume, positive, pads
    g.rows, g.cols, g.narrow = row.shape[0], cols, narrow
    g.chunk, g.period = chunks if chunks is not None else (1 << 62, 1 << 62)
    g.to_prefetch, g.to_prefetch_bytes, g.clip, g.next_c, g.next_c_row, g.out = NULL, 0, NULL, g.c, NULL, NULL
    g.beside = 0
    if clip is not None:
        g.clip = <const void *><size_t>clip
    if prefetch_c:
        g.next_c_row = g.c_row
    (<lk_gemm_fn>kernel.fn)(&g)


def strips(str name, *, size_t x, x_strides, size_t w, size_t bias, size_t y, y_strides, rows, cols, step, inside,
           top, bottom, vectors, x_lanes=0, y_lanes=0, bint positive=False, bint wide=True):
    """Run a strips row; strides (row, col), 0 for the bias: none; see lk_strips in strips.h."""
    cdef const lk_kernel *kernel = row_named(name)
    cdef lk_strips s
    s.x, s.w, s.bias, s.y = <const char *>x, <const void *>w, <const void *>bias, <char *>y
    s.x_row, s.x_col = x_strides
    s.y_row, s.y_col = y_strides
    s.rows, s.cols, s.step = rows, cols, step
    s.inside, s.x_lanes, s.y_lanes = inside, x_lanes, y_lanes
    s.top, s.bottom, s.vectors = top, bottom, vectors
    s.clip, s.positive, s.wide = NULL, positive, wide
    (<lk_strips_fn>kernel.fn)(&s)


def plane_strips(str name, *, size_t x, x_strides, size_t w, size_t bias, size_t y, y_strides, int planes, rows, top,
                 bottom, const uint32_t[:, ::1] x_lanes, y_lanes, bint masked, bint positive=False):
    """Run a plane_strips row; 0 for the bias: none; see lk_plane_strips in plane_strips.h."""
    cdef const lk_kernel *kernel = row_named(name)
    cdef lk_plane_strips s
    s.x, s.w, s.bias, s.y = <const char *>x, <const void *>w, <const void *>bias, <char *>y
    s.x_plane, s.x_row = x_strides
    s.y_plane, s.y_row = y_strides
    s.planes, s.rows, s.top, s.bottom = planes, rows, top, bottom
    s.x_lanes, s.y_lanes, s.vectors = &x_lanes[0, 0], y_lanes, <int>x_lanes.shape[0]
    s.masked, s.positive, s.clip = masked, positive, NULL
    (<lk_plane_strips_fn>kernel.fn)(&s)


def quads(str name, *, const int64_t[::1] row, const int64_t[::1] column, const int64_t[::1] at,
          const int64_t[::1] sizes, size_t zero, size_t panel, size_t w, size_t bias, size_t s, const int64_t[::1] s_at,
          s_strides, span, taps, int kw, int rows, int packed_rows, int cols, int vectors, int whole, flip=0, lanes=0,
          const char[::1] order=None, rounding=None, int segments=1, bint s_whole=True, s_bytes=0):
    """Run a quads row; row: addresses, 0: padding; s_strides (row, col); span (columns, first, end, begin); taps (step,
    apart); rounding: the sums become bytes by these mul, off, least, most, zero, sign, shifts; see lk_quads in
    quads.h."""
    cdef const lk_kernel *kernel = row_named(name)
    cdef lk_quads d
    cdef lk_rounding f
    cdef int i
    d.row, d.column, d.at, d.bytes = <const char **>&row[0], &column[0], &at[0], &sizes[0]
    d.order = NULL if order is None else &order[0]
    d.zero, d.panel, d.w, d.bias = <const char *>zero, <char *>panel, <const char *>w, <const char *>bias
    d.s, d.s_at = <char *>s, &s_at[0]
    d.s_row, d.s_col = s_strides
    d.columns, d.first, d.end, d.begin = span
    d.step, d.apart = taps
    d.flip, d.lanes, d.quads, d.kw, d.rows, d.packed_rows = flip, lanes, <int>row.shape[0] // 4, kw, rows, packed_rows
    d.cols, d.vectors, d.pieces, d.whole, d.segments = cols, vectors, <int>at.shape[0], whole, segments
    d.out, d.s_whole, d.s_bytes = NULL, s_whole, s_bytes
    if rounding is not None:
        mul, off, least, most, f.zero, f.sign, f.shifts = rounding
        f.adds, f.apart = off is not None, False
        for i in range(len(mul)):
            f.mul[i], f.off[i], f.least[i], f.most[i] = mul[i], 0 if off is None else off[i], least[i], most[i]
        d.out = &f
    (<lk_quads_fn>kernel.fn)(&d)


def winograd_in(str name, *, size_t src, strides, inside, channels, block, block_stride, size_t v, v_stride,
                size_t table, pad=0, flip=0):
    """Run a winograd_in row; strides (row, col), inside (row0, row1, col0, col1); see lk_winograd_in in winograd.h."""
    cdef const lk_kernel *kernel = row_named(name)
    cdef lk_winograd_in g
    g.src, g.v, g.v_stride, g.k = <const char *>src, <void *>v, v_stride, <const void *>table
    g.row, g.col = strides
    g.row0, g.row1, g.col0, g.col1 = inside
    g.channels, g.block, g.block_stride, g.pad, g.flip = channels, block, block_stride, pad, flip
    (<lk_winograd_in_fn>kernel.fn)(&g)


def winograd_out(str name, *, size_t m, m_stride, size_t dst, strides, rows, cols, channels, block, block_stride,
                 size_t bias, size_t table):
    """Run a winograd_out row; strides (row, col); 0 for the bias: none; see lk_winograd_out in winograd.h."""
    cdef const lk_kernel *kernel = row_named(name)
    cdef lk_winograd_out g
    g.m, g.m_stride, g.dst, g.k = <const void *>m, m_stride, <char *>dst, <const void *>table
    g.row, g.col = strides
    g.rows, g.cols, g.bias = rows, cols, <const void *>bias
    g.channels, g.block, g.block_stride = channels, block, block_stride
    (<lk_winograd_out_fn>kernel.fn)(&g)


def winograd_filter(str name, *, size_t w, w_stride, count, width, const double[:, ::1] gh,
                    const double[:, ::1] gw, size_t u, u_stride):
    """Run a winograd_filter row; see lk_winograd_filter in winograd.h."""
    cdef const lk_kernel *kernel = row_named(name)
    cdef lk_winograd_filter g
    g.w, g.w_stride, g.count, g.width = <const void *>w, w_stride, count, width
    g.nh, g.rh, g.nw, g.rw = gh.shape[0], gh.shape[1], gw.shape[0], gw.shape[1]
    g.gh, g.gw, g.u, g.u_stride = &gh[0, 0], &gw[0, 0], <void *>u, u_stride
    (<lk_winograd_filter_fn>kernel.fn)(&g)
