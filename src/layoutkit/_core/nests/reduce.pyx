"""Reductions over any set of axes: threads around the micro-kernels of reduce.c.

The axes of an array are merged to as few as can be, each kept or reduced. Innermost is one of contiguous elements: of
reduced ones each run is folded to a number, of kept ones rows are folded element by element. What is reduced is divided
into *units* of a fixed size, whose results are folded in order: they do not depend on the number of threads.
"""

from libc.math cimport log, sqrt
from libc.stdint cimport int64_t
from numpy cimport import_array, ndarray

import numpy as np

from ..kernels cimport LK_REDUCE
from ..kernels.normalise cimport (
    LK_FOLD_ABSOLUTE, LK_FOLD_LEAST, LK_FOLD_MOST, LK_FOLD_POWERS, LK_FOLD_PRODUCT, LK_FOLD_SQUARES, LK_FOLD_SUM,
    lk_reduce, lk_reduce_fn,
)
from ..runtime.registry cimport best_row
from ..runtime.team cimport lk_claim, lk_portions, share_out, threads_for
from .executor cimport aligned, ceil_div, share
from .normalise cimport SEGMENT, Loops, loops_of, place
from .operation cimport Operation

import_array()

cdef enum:
    UNIT_ROWS = 512  # of a unit, where rows are folded
    BLOCK = 256      # results of a task, at most

cdef enum Finish:
    AS_IT_IS, MEAN, ROOT, LOGARITHM, LOGARITHM_OF_POWERS

FOLDS = {
    "ReduceSum": (LK_FOLD_SUM, AS_IT_IS), "ReduceMean": (LK_FOLD_SUM, MEAN), "ReduceMax": (LK_FOLD_MOST, AS_IT_IS),
    "ReduceMin": (LK_FOLD_LEAST, AS_IT_IS), "ReduceProd": (LK_FOLD_PRODUCT, AS_IT_IS),
    "ReduceL1": (LK_FOLD_ABSOLUTE, AS_IT_IS), "ReduceL2": (LK_FOLD_SQUARES, ROOT),
    "ReduceSumSquare": (LK_FOLD_SQUARES, AS_IT_IS), "ReduceLogSum": (LK_FOLD_SUM, LOGARITHM),
    "ReduceLogSumExp": (LK_FOLD_POWERS, LOGARITHM_OF_POWERS),
}  # by operator


cdef double INFINITE = float("inf")


cdef struct Run:
    void *nest
    const char *x
    double *into
    const double *most
    int fold


cdef void reduce_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    (<Reduction>(<const Run *>argument).nest).some(<const Run *>argument, part, parts, portions)


cdef class Reduction(Operation):
    """``y`` = `x` reduced over axes.

    Parameters
    ----------
    op : str
        Of FOLDS.
    x : ndarray of float32
        With elements, of any strides.
    y : ndarray of float32
        Contiguous, the axes of `x` that are kept, with or without the others.
    axes : sequence of int
        From the front.
    threads : int
    """

    cdef lk_reduce_fn fn
    cdef int fold, finish, threads
    cdef Loops kept, reduced                # around what a call of the kernel does
    cdef int64_t inner, inner_step          # results of an iteration over `kept`, and bytes between what they read
    cdef int64_t length, length_step        # what is folded in an iteration over `reduced`, and bytes between
    cdef int64_t unit, units, block, blocks # of what is folded; of results
    cdef int64_t results, elements
    cdef bint down

    def __init__(self, str op, ndarray x not None, ndarray y not None, axes, int threads):
        if x.dtype != np.float32 or y.dtype != np.float32 or not y.flags.c_contiguous or not x.size:
            raise ValueError(f"{op}: {x.dtype} of shape {(<object>x).shape} to {y.dtype}, expected float32 with elements")
        self.bind((x, y))
        self.fn = <lk_reduce_fn>best_row(LK_REDUCE, "f32").fn
        self.fold, self.finish = FOLDS[op]
        dims = merged_by_kind([(x.shape[i], x.strides[i], i in set(axes)) for i in range(x.ndim)])
        kept = [(n, stride, 0) for n, stride, reduced in dims if not reduced]
        reduced = [(n, stride, 0) for n, stride, reduced in dims if reduced]
        self.down = not (dims and dims[-1][2] and dims[-1][1] == x.itemsize)
        if self.down:
            last = kept.pop() if kept and not dims[-1][2] and kept[-1][1] == x.itemsize else (1, x.itemsize, 0)
            self.unit = UNIT_ROWS
        else:
            last = kept.pop() if kept else (1, 0, 0)
            self.unit = SEGMENT
        self.inner, self.inner_step, _ = last
        self.length, self.length_step, _ = reduced.pop() if reduced else (1, 0, 0)
        self.kept, self.reduced = loops_of(kept), loops_of(reduced)
        self.units = self.reduced.total * ceil_div(self.length, self.unit)
        each = 1 if self.down else self.length * self.reduced.total
        self.block = min(self.inner, max(1, BLOCK // max(1, each * BLOCK // SEGMENT)))
        self.blocks = ceil_div(self.inner, self.block)
        self.results, self.elements = self.kept.total * self.inner, x.size
        if self.results != y.size:
            raise ValueError(f"{op}: {self.results} results in an array of shape {(<object>y).shape}")
        self.threads = threads_for(threads, 1.0 * x.size * x.itemsize)
        self.workspace = aligned((self.units + (self.fold == LK_FOLD_POWERS)) * self.results * sizeof(double))

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef Run r
        cdef int64_t tasks = self.kept.total * self.blocks * self.units
        cdef double *found = <double *>workspace
        r.nest, r.x, r.into, r.fold, r.most = <void *>self, at[0], found, self.fold, NULL
        if self.fold == LK_FOLD_POWERS:
            r.fold = LK_FOLD_MOST
            share_out(<int>min(self.threads, tasks), reduce_share, &r)
            self.joined(found, LK_FOLD_MOST)
            r.most, r.into, r.fold = found, found + self.results, self.fold
            self.finite(found)
        share_out(<int>min(self.threads, tasks), reduce_share, &r)
        self.joined(r.into, self.fold)
        self.finished(r.into, r.most, <float *>at[1])

    cdef void finite(self, double *most) noexcept nogil:
        """Of infinite numbers e^(x - most) is taken with most = 0."""
        cdef int64_t i
        for i in range(self.results):
            if not -1e300 < most[i] < 1e300:
                most[i] = 0

    cdef void joined(self, double *found, int fold) noexcept nogil:
        """The results of all units, in those of the first one."""
        cdef int64_t i, unit
        cdef const double *more
        for unit in range(1, self.units):
            more = found + unit * self.results
            for i in range(self.results):
                if fold == LK_FOLD_PRODUCT:
                    found[i] *= more[i]
                elif fold == LK_FOLD_MOST:
                    found[i] = found[i] if found[i] != found[i] or found[i] > more[i] else more[i]
                elif fold == LK_FOLD_LEAST:
                    found[i] = found[i] if found[i] != found[i] or found[i] < more[i] else more[i]
                else:
                    found[i] += more[i]

    cdef void finished(self, const double *found, const double *most, float *y) noexcept nogil:
        cdef int64_t i
        cdef double count = <double>self.elements / self.results
        for i in range(self.results):
            if self.finish == AS_IT_IS:
                y[i] = <float>found[i]
            elif self.finish == MEAN:
                y[i] = <float>(found[i] / count)
            elif self.finish == ROOT:
                y[i] = <float>sqrt(found[i])
            elif self.finish == LOGARITHM:
                y[i] = <float>log(found[i])
            else:
                y[i] = <float>(log(found[i]) + most[i])

    cdef void some(self, const Run *r, int part, int parts, lk_portions *portions) noexcept nogil:
        """A share of the tasks: for each iteration over `kept`, for each block of its results, all units."""
        cdef int64_t tasks = self.kept.total * self.blocks * self.units, task, last
        while lk_claim(portions, share(tasks, parts, part), share(tasks, parts, part + 1), &task, &last):
            while task < last:
                self.one(r, task)
                task += 1

    cdef void one(self, const Run *r, int64_t task) noexcept nogil:
        cdef lk_reduce g
        cdef int64_t unit = task % self.units, of = task // self.units, segments = self.units // self.reduced.total
        cdef int64_t block = of % self.blocks * self.block, results = min(self.block, self.inner - block)
        cdef int64_t from_kept, from_reduced, none, first = unit % segments * self.unit, length, i, at
        place(&self.kept, of // self.blocks, &from_kept, &none)
        place(&self.reduced, unit // segments, &from_reduced, &none)
        length = min(self.unit, self.length - first)
        at = of // self.blocks * self.inner + block
        g.x = r.x + from_kept + from_reduced + block * self.inner_step + first * self.length_step
        g.into = r.into + unit * self.results + at
        g.most = NULL if r.most == NULL else r.most + at
        g.down, g.fold = self.down, r.fold
        g.x_row = self.length_step if self.down else self.inner_step
        g.rows, g.count = (length, results) if self.down else (results, length)
        for i in range(results):
            g.into[i] = self.begin(r.fold)
        self.fn(&g)

    cdef inline double begin(self, int fold) noexcept nogil:
        """What is folded with the elements first."""
        return 1 if fold == LK_FOLD_PRODUCT else -INFINITE if fold == LK_FOLD_MOST else INFINITE if fold == LK_FOLD_LEAST else 0


cdef list merged_by_kind(list dims):
    """The same axes, (size, stride, whether it is reduced) from outer to inner, in as few as can be."""
    found = []
    for size, stride, reduced in dims:
        if size == 1:
            continue
        if found and found[-1][2] == reduced and found[-1][1] == size * stride:
            found[-1] = (found[-1][0] * size, stride, reduced)
        else:
            found.append((size, stride, reduced))
    return found
