"""Numbers between the pixels of planes, at points that a run gets: sums of the pixels around, by weight.

For some points at a time a table is made of the pixels around each of them and their weights. It serves all channels, some of
which are summed at a time.
"""

from libc.math cimport fabs, floor, fmod, rint
from libc.stdint cimport int64_t

from ...ndarray cimport (
    NPY_FLOAT32, NPY_FLOAT64, PyArray_TYPE, import_array, ndarray,
)
from ...runtime.team cimport threads_for
from ..executor cimport ceil_div
from ..checks cimport check_reals
from ..operation cimport Operation, chunks_of
from .pixel_sums cimport aligned_table, over_channels, real

import_array()

cdef enum:
    MAX_AXES = 3
    MAX_TAPS = 4        # pixels around a point along an axis
    BLOCK = 256         # points of a table, at most
    LEAST_BLOCK = 32

cdef enum Mode:
    NEAREST, LINEAR, CUBIC

cdef enum Padding:
    ZEROS, BORDER, REFLECTION

MODES = {"nearest": NEAREST, "linear": LINEAR, "cubic": CUBIC}
PADDINGS = {"zeros": ZEROS, "border": BORDER, "reflection": REFLECTION}
cdef double FAR = 1e9   # coordinates are cut there

ctypedef fused place:
    float
    double

cdef struct Taps:  # along an axis
    int64_t at[MAX_TAPS]  # below 0: outside
    double weight[MAX_TAPS]
    int count


cdef struct Planes:
    int64_t sizes[MAX_AXES]
    int axes, mode, padding
    bint aligned, absolute


cdef inline place reflected(place at, int64_t n, bint aligned) noexcept nogil:
    """A coordinate mirrored at the centers of the outermost pixels, or at their edges, as often as needed."""
    cdef place low = 0 if aligned else <place>-0.5, span = n - 1 if aligned else n
    if span <= 0:
        return 0
    at = <place>fmod(fabs(at - low), 2 * span)
    at = (2 * span - at if at > span else at) + low
    return min(max(at, <place>0), <place>(n - 1))


cdef inline void taps_of(place at, int64_t n, const Planes *p, Taps *taps) noexcept nogil:
    """The pixels around a coordinate of an axis."""
    cdef place low, part
    cdef int64_t first
    cdef int i
    if not p.absolute:
        at = (at + 1) / 2 * (n - 1) if p.aligned else ((at + 1) * n - 1) / 2
    if at != at:
        at = -1 if p.padding == ZEROS else 0
    at = min(max(at, <place>-FAR), <place>FAR)
    if p.mode != CUBIC and p.padding == BORDER:
        at = min(max(at, <place>0), <place>(n - 1))
    elif p.mode != CUBIC and p.padding == REFLECTION:
        at = reflected(at, n, p.aligned)
    if p.mode == NEAREST:
        taps.count, taps.at[0], taps.weight[0] = 1, <int64_t>rint(at), 1
    else:
        low = <place>floor(at)
        part, first = at - low, <int64_t>low
        if p.mode == LINEAR:
            taps.count, taps.at[0], taps.at[1], taps.weight[0], taps.weight[1] = 2, first, first + 1, 1 - part, part
        else:
            taps.count = 4
            for i in range(4):
                taps.at[i] = first - 1 + i
            taps.weight[0], taps.weight[1] = far_weight(part + 1), near_weight(part)
            taps.weight[2], taps.weight[3] = near_weight(1 - part), far_weight(2 - part)
    for i in range(taps.count):
        if 0 <= taps.at[i] < n:
            continue
        if p.padding == ZEROS:
            taps.at[i] = -1
        elif p.padding == BORDER:
            taps.at[i] = min(max(taps.at[i], 0), n - 1)
        else:
            taps.at[i] = <int64_t>rint(reflected(<double>taps.at[i], n, p.aligned))


cdef inline place near_weight(place t) noexcept nogil:
    """Of a pixel less than 1 away, by the cubic convolution with a = -0.75."""
    return (<place>1.25 * t - <place>2.25) * t * t + 1


cdef inline place far_weight(place t) noexcept nogil:
    """Of a pixel 1 to 2 away."""
    return ((<place>-0.75 * t + <place>3.75) * t - 6) * t + 3


cdef int64_t table_of(const place *grid, int64_t points, const Planes *p, int64_t *first, int64_t *offset,
                      real *weight) noexcept nogil:
    """Fill the table of some points: where the pixels of each begin, and what they are; the number of all."""
    cdef Taps taps[MAX_AXES]
    cdef int64_t used = 0, i, at
    cdef int k, a, b, c
    cdef double w
    for k in range(p.axes, MAX_AXES):
        taps[k].count, taps[k].at[0], taps[k].weight[0] = 1, 0, 1
    for i in range(points):
        first[i] = used
        for k in range(p.axes):
            taps_of(grid[i * p.axes + p.axes - 1 - k], p.sizes[k], p, taps + k)
        for a in range(taps[0].count):
            for b in range(taps[1].count):
                for c in range(taps[2].count):
                    if taps[0].at[a] < 0 or taps[1].at[b] < 0 or taps[2].at[c] < 0:
                        continue
                    w = taps[0].weight[a] * taps[1].weight[b] * taps[2].weight[c]
                    at = (taps[0].at[a] * p.sizes[1] + taps[1].at[b]) * p.sizes[2] + taps[2].at[c]
                    offset[used], weight[used] = at, <real>w
                    used += 1
    first[points] = used
    return used


cdef class Samples(Operation):
    """What lies at the points of a grid, for arrays (x, grid, y).

    Parameters
    ----------
    x : ndarray [images, channels, ..]
        float32 or float64, of one to three spatial axes, none of them empty.
    grid : ndarray [images, points, axes]
        float32 or float64; the coordinate along the last axis comes first. From -1 to 1, the edges of the outermost pixels
        or, `aligned`, their centers; or `absolute`, in pixels from the center of the first one.
    y : ndarray [images, channels, points]
        Of the type of `x`; all in C order.
    mode : {"nearest", "linear", "cubic"}
    padding : {"zeros", "border", "reflection"}
    aligned, absolute : bool
    threads : int
    """

    cdef Planes planes
    cdef int64_t images, channels, points, plane, block, blocks, chunks, table_bytes
    cdef int taps, threads
    cdef bint doubles, fine

    def __init__(self, ndarray x not None, ndarray grid not None, ndarray y not None, str mode, str padding, bint aligned,
                 bint absolute, int threads):
        self.bind((x, grid, y))
        check_reals((x, grid, y), x, y, "samples")
        axes = x.ndim - 2
        if not 1 <= axes <= MAX_AXES or grid.ndim != 3 or y.ndim != 3:
            raise ValueError(f"samples: {(<object>x).shape} at {(<object>grid).shape} to {(<object>y).shape}")
        self.images, self.channels, self.points = x.shape[0], x.shape[1], grid.shape[1]
        if (PyArray_TYPE(grid) not in (NPY_FLOAT32, NPY_FLOAT64) or grid.shape[0] != self.images or grid.shape[2] != axes
                or (<object>y).shape != (self.images, self.channels, self.points) or 0 in (<object>x).shape[2:]):
            raise ValueError(f"samples: {(<object>x).shape} at {grid.dtype} {(<object>grid).shape} to {(<object>y).shape}")
        self.doubles, self.fine = PyArray_TYPE(x) == NPY_FLOAT64, PyArray_TYPE(grid) == NPY_FLOAT64
        for k in range(MAX_AXES):
            self.planes.sizes[k] = x.shape[2 + k] if k < axes else 1
        self.planes.axes, self.planes.mode, self.planes.padding = axes, MODES[mode], PADDINGS[padding]
        self.planes.aligned, self.planes.absolute = aligned, absolute
        self.plane = x.size // (self.images * self.channels) if x.size else 0
        self.taps = {NEAREST: 1, LINEAR: 2, CUBIC: 4}[MODES[mode]] ** axes
        cost = 4.0 * y.size * self.taps + 200.0 * grid.size
        most = threads_for(threads, cost)
        self.block = max(LEAST_BLOCK, min(BLOCK, self.images * self.points // (4 * most)))
        self.blocks = ceil_div(self.points, self.block)
        self.threads = <int>max(1, min(most, self.images * self.blocks))
        self.chunks = chunks_of(cost)
        self.table_bytes = aligned_table(self.block, self.taps)
        self.workspace = self.threads * self.table_bytes

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.channels:
            self.run_chunks(self.threads, self.images * self.blocks, self.chunks, at, workspace, self.table_bytes)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        cdef int64_t image = task // self.blocks, begin = task % self.blocks * self.block
        cdef int64_t count = min(self.block, self.points - begin)
        cdef int64_t x = image * self.channels * self.plane, y = image * self.channels * self.points + begin
        cdef int64_t grid = (image * self.points + begin) * self.planes.axes
        cdef int64_t *first = <int64_t *>workspace
        cdef int64_t *offset = first + self.block + 1
        cdef char *weight = <char *>(offset + self.block * self.taps)
        if self.doubles and self.fine:
            table_of(<const double *>at[1] + grid, count, &self.planes, first, offset, <double *>weight)
        elif self.doubles:
            table_of(<const float *>at[1] + grid, count, &self.planes, first, offset, <double *>weight)
        elif self.fine:
            table_of(<const double *>at[1] + grid, count, &self.planes, first, offset, <float *>weight)
        else:
            table_of(<const float *>at[1] + grid, count, &self.planes, first, offset, <float *>weight)
        if self.doubles:
            over_channels(<const double *>at[0] + x, self.plane, first, offset, <const double *>weight, count,
                          <double *>at[2] + y, self.points, self.channels, False)
        else:
            over_channels(<const float *>at[0] + x, self.plane, first, offset, <const float *>weight, count,
                          <float *>at[2] + y, self.points, self.channels, False)
