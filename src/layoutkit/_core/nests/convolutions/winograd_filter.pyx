"""Filters of Winograd: their transforms, packed as the loop nest of winograd.pyx reads them, and the extent of their weights.

    U = G w G^T        of every piece of a filter, see convolutions/winograd_pieces.py

Taps that are not contiguous, and pieces with zeros among them, are gathered first.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

import numpy as np

from ...kernels cimport LK_EXTENT, LK_WINOGRAD_FILTER
from ...kernels.winograd cimport lk_extent, lk_extent_fn, lk_winograd_filter, lk_winograd_filter_fn
from ...ndarray cimport NPY_FLOAT32, NPY_FLOAT64, NPY_INT64, PyArray_DATA, import_array, ndarray
from ...runtime.registry cimport best_row
from ...runtime.team cimport lk_claim, lk_portions, share_out, threads_for
from ..executor cimport ceil_div, elements, share

import_array()

cdef enum:
    SKEW_BYTES = 64           # between products in the buffer, which would share sets of the cache otherwise
    BUFFER_FLOATS = 1 << 14   # 64 KB of the stack
    EXTENT_WEIGHTS = 1 << 18  # of a thread, at least
    EXTENT_THREADS = 64
    MAX_GATHERED = 64 * 9     # taps of a panel

cdef int64_t NO_TAP = -(1 << 62)  # an offset that no array has


cdef struct Packing:
    int64_t groups, panels, channels, depth
    int64_t outputs                              # of a group
    int64_t w_output, w_channel, w_depth         # byte strides of the filter
    const int64_t *taps                          # of each piece, in bytes; NULL: they are contiguous
    int64_t pieces, size                         # of each depth, each of so many taps
    int64_t u_group, u_panel, u_depth            # and of the packed one
    int64_t run, runs                            # channels that are transformed at a time; how often


def pack(str types, ndarray w, ndarray places, ndarray gh, ndarray gw, ndarray u, int threads=1):
    """Filter (groups * outputs, channels, depth, *kernel) into u [groups][products][panels][depth][pieces][channels][nr].

    Both are of the element that `types` names; those of the filter have any strides. `places`: the taps of each piece,
    counted row by row, -1 for a zero.
    """
    cdef lk_winograd_filter f
    cdef lk_winograd_filter_fn fn = <lk_winograd_filter_fn>best_row(LK_WINOGRAD_FILTER, types).fn
    cdef const char *from_ = <const char *>PyArray_DATA(w)
    cdef char *to = <char *>PyArray_DATA(u)
    cdef int64_t item = w.itemsize, step
    cdef ndarray taps = offsets(places, w)
    cdef Packing s
    cdef PackRun r
    s.groups, s.panels, s.channels, s.depth = u.shape[0], u.shape[2], w.shape[1], w.shape[2]
    s.outputs = w.shape[0] // s.groups
    s.w_output, s.w_channel, s.w_depth = w.strides[0], w.strides[1], w.strides[2]
    s.u_group, s.u_panel, s.u_depth = u.strides[0], u.strides[2], u.strides[3]
    s.pieces, s.size = taps.shape[0], taps.shape[1]
    if w.shape[0] == 0 or s.channels == 0:
        return
    if u.shape[5] * s.size > MAX_GATHERED:
        raise ValueError(f"winograd: {u.shape[5]} outputs of {s.size} taps, expected at most {MAX_GATHERED} taps")
    s.taps = <const int64_t *>elements(taps, NPY_INT64)
    step = s.taps[1] - s.taps[0]
    f.w_stride = s.size
    if s.pieces == 1 and abs(step) == item and s.w_output % item == 0 and (np.diff(taps[0]) == step).all():
        from_ += s.taps[0] if step > 0 else s.taps[s.size - 1]
        s.taps, f.w_stride = NULL, s.w_output // item
        if step < 0:
            gh, gw = gh[:, ::-1].copy(), gw[:, ::-1].copy()
    f.width, f.u_stride = <int>u.shape[5], u.strides[1] // item
    f.nh, f.nw, f.rh, f.rw = <int>gh.shape[0], <int>gw.shape[0], <int>gh.shape[1], <int>gw.shape[1]
    f.gh, f.gw = <const double *>elements(gh, NPY_FLOAT64), <const double *>elements(gw, NPY_FLOAT64)
    s.run = min(s.channels, (BUFFER_FLOATS // (f.nh * f.nw) - SKEW_BYTES // item) // f.width)
    s.runs = ceil_div(s.channels, s.run)
    threads = threads_for(threads, <double>w.nbytes)
    r.fn, r.filter, r.w, r.u, r.packing, r.tasks = fn, &f, from_, to, &s, s.groups * s.panels * s.runs
    with nogil:
        share_out(threads, pack_share, &r)


cdef ndarray offsets(ndarray places, ndarray w):
    """Where the taps at `places` are, in bytes from the first; a zero is where no tap can be."""
    inside = places // w.shape[4] * w.strides[3] + places % w.shape[4] * w.strides[4]
    return np.where(places < 0, NO_TAP, inside)


cdef struct PackRun:
    lk_winograd_filter_fn fn
    const lk_winograd_filter *filter
    const char *w
    char *u
    const Packing *packing
    int64_t tasks


cdef void pack_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const PackRun *r = <const PackRun *>argument
    cdef int64_t first, last
    while lk_claim(portions, share(r.tasks, parts, part), share(r.tasks, parts, part + 1), &first, &last):
        pack_channels(r.fn, r.filter[0], r.w, r.u, r.packing, first, last)


cdef void pack_channels(lk_winograd_filter_fn fn, lk_winograd_filter f, const char *w, char *u, const Packing *s,
                        int64_t task, int64_t end) noexcept nogil:
    """Tasks [task, end), each some input channels of a panel of a group.

    Products are far apart, often by a power of two, so several channels are transformed at a time: their runs are long.
    """
    cdef float buffer[BUFFER_FLOATS]
    cdef float gathered[MAX_GATHERED]
    cdef int64_t first, count, c, d, t, panel, group, product = f.u_stride * sizeof(float)
    cdef int64_t products = f.nh * f.nw, channel = f.width * sizeof(float)
    cdef const char *from_
    cdef char *to
    f.u_stride = s.run * f.width + SKEW_BYTES // sizeof(float)
    while task < end:
        first, panel = task % s.runs * s.run, task // s.runs
        count = min(s.run, s.channels - first)
        group, panel = panel // s.panels, panel % s.panels
        f.count = <int>max(0, min(f.width, s.outputs - panel * f.width))
        for d in range(s.depth * s.pieces):
            from_ = w + (group * s.outputs + panel * f.width) * s.w_output + d // s.pieces * s.w_depth
            for c in range(count):
                f.w, f.u = from_ + (first + c) * s.w_channel, buffer + c * f.width
                if s.taps:
                    gather(<const char *>f.w, s, s.taps + d % s.pieces * s.size, f.count, gathered)
                    f.w = gathered
                fn(&f)
            to = u + group * s.u_group + panel * s.u_panel + d * s.u_depth + first * channel
            for t in range(products):
                memcpy(to + t * product, buffer + t * f.u_stride, count * channel)
        task += 1


cdef void gather(const char *w, const Packing *s, const int64_t *taps, int count, float *to) noexcept nogil:
    """The taps of a piece, for one channel and `count` outputs."""
    cdef int64_t j, t
    for j in range(count):
        for t in range(s.size):
            to[t] = 0 if taps[t] == NO_TAP else (<const float *>(w + taps[t]))[0]
        to, w = to + s.size, w + s.w_output


def extent(ndarray w, int threads=1):
    """The smallest (but 0) and the largest of the maximum magnitudes of the rows of `w`; see lk_extent in extent.h."""
    cdef lk_extent extents[EXTENT_THREADS]
    cdef const float *data = <const float *>elements(w, NPY_FLOAT32)
    cdef int64_t rows = w.shape[0], count = w.shape[1]
    cdef int32_t least, most
    cdef ExtentRun r
    cdef int i
    if rows == 0 or count == 0:
        return 0.0, 0.0
    memset(extents, 0, sizeof(extents))
    threads = <int>min(<int64_t>min(threads, <int>EXTENT_THREADS), max(1, rows * count // EXTENT_WEIGHTS), rows)
    r.fn, r.extents, r.w, r.rows, r.count = <lk_extent_fn>best_row(LK_EXTENT, "f32").fn, extents, data, rows, count
    with nogil:
        share_out(threads, extent_share, &r)
    for i in range(1, threads):
        merge(extents, extents + i)
    least, most = extents[0].least, extents[0].most
    return (<float *>&least)[0], (<float *>&most)[0]


cdef struct ExtentRun:
    lk_extent_fn fn
    lk_extent *extents  # of every thread
    const float *w
    int64_t rows, count


cdef void extent_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const ExtentRun *r = <const ExtentRun *>argument
    cdef lk_extent *of_thread = r.extents + slot
    cdef lk_extent e
    cdef int64_t first, last
    while lk_claim(portions, share(r.rows, parts, part), share(r.rows, parts, part + 1), &first, &last):
        e.w, e.rows, e.count = r.w + first * r.count, last - first, r.count
        r.fn(&e)
        merge(of_thread, &e)


cdef inline void merge(lk_extent *to, const lk_extent *other) noexcept nogil:
    """Extend one extent by another; a `least` of 0 means that there is no weight but 0."""
    to.most = max(to.most, other.most)
    if other.least and (to.least == 0 or other.least < to.least):
        to.least = other.least
