"""Reductions over any set of axes: threads around the micro-kernels of reduce.c.

Axes are merged where they can be; each is kept or reduced. If the innermost one, of contiguous elements, is reduced, each
run of it is reduced to a number; if it is kept, rows are reduced element by element. What is reduced is divided into *units*
of a fixed size, whose results are combined in order: they do not depend on the number of threads.
"""

from libc.math cimport log, sqrt
from libc.stdint cimport int64_t

from itertools import groupby
from operator import itemgetter

import numpy as np

from ..axes import merged

from ...kernels cimport LK_REDUCE
from ...kernels.normalise cimport (
    LK_FOLD_ABSOLUTE, LK_FOLD_MIN, LK_FOLD_MAX, LK_FOLD_POWERS, LK_FOLD_PRODUCT, LK_FOLD_SQUARES, LK_FOLD_SUM,
    lk_reduce, lk_reduce_fn,
)
from ...ndarray cimport import_array, ndarray
from ...runtime.registry cimport best_row
from ...runtime.team cimport lk_claim, lk_portions, share_out, threads_for
from ..executor cimport aligned, ceil_div, share
from ..norms.normalise cimport SEGMENT, Loops, iteration_at, loops_of
from ..operation cimport Operation

import_array()

cdef enum:
    UNIT_ROWS = 512    # of a unit, where rows are reduced element by element
    MAX_RESULTS = 256  # of a task

cdef enum Finish:  # the last step of a reduction
    IDENTITY, MEAN, ROOT, LOGARITHM, LOGARITHM_OF_POWERS

FOLDS = {
    "ReduceSum": (LK_FOLD_SUM, IDENTITY), "ReduceMean": (LK_FOLD_SUM, MEAN), "ReduceMax": (LK_FOLD_MAX, IDENTITY),
    "ReduceMin": (LK_FOLD_MIN, IDENTITY), "ReduceProd": (LK_FOLD_PRODUCT, IDENTITY),
    "ReduceL1": (LK_FOLD_ABSOLUTE, IDENTITY), "ReduceL2": (LK_FOLD_SQUARES, ROOT),
    "ReduceSumSquare": (LK_FOLD_SQUARES, IDENTITY), "ReduceLogSum": (LK_FOLD_SUM, LOGARITHM),
    "ReduceLogSumExp": (LK_FOLD_POWERS, LOGARITHM_OF_POWERS),
}  # by operator


cdef double INFINITE = float("inf")


cdef struct Run:
    void *nest
    const char *x
    double *results      # of all units
    const double *maxima
    int fold


cdef void reduce_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    (<Reduction>(<const Run *>argument).nest).run_tasks(<const Run *>argument, part, parts, portions)


cdef class Reduction(Operation):
    """``y = op(x)`` over some axes.

    Parameters
    ----------
    op : str
        Of FOLDS.
    x : ndarray of float32
        With elements, of any strides.
    y : ndarray of float32
        Contiguous, with the axes of `x` that are kept, with or without the others as 1.
    axes : sequence of int
        From the front.
    threads : int
    """

    cdef lk_reduce_fn fn
    cdef int fold, finish, threads
    cdef Loops kept, reduced           # outer loops over axes of both kinds
    cdef int64_t inner, inner_step     # results of an iteration over `kept`, and their stride in x
    cdef int64_t length, length_step   # elements that are reduced in an iteration over `reduced`, and their stride
    cdef int64_t unit, units           # elements of a unit along `length`; how many there are in all
    cdef int64_t block, blocks         # results of a task; tasks of an iteration over `kept`
    cdef int64_t results, elements
    cdef bint by_column                     # rows are reduced element by element

    def __init__(self, str op, ndarray x not None, ndarray y not None, axes, int threads):
        if x.dtype != np.float32 or y.dtype != np.float32 or not y.flags.c_contiguous or not x.size:
            raise ValueError(f"{op}: {x.dtype} of shape {(<object>x).shape} to {y.dtype}, expected float32 with elements")
        self.bind((x, y))
        self.fn = <lk_reduce_fn>best_row(LK_REDUCE, "f32").fn
        self.fold, self.finish = FOLDS[op]
        dims = merged_by_kind([(x.shape[i], x.strides[i], i in set(axes)) for i in range(x.ndim)])
        kept = [(n, stride, 0) for n, stride, is_reduced in dims if not is_reduced]
        reduced = [(n, stride, 0) for n, stride, is_reduced in dims if is_reduced]
        self.by_column = not (dims and dims[-1][2] and dims[-1][1] == x.itemsize)
        if self.by_column:
            last = kept.pop() if kept and not dims[-1][2] and kept[-1][1] == x.itemsize else (1, x.itemsize, 0)
            self.unit = UNIT_ROWS
        else:
            last = kept.pop() if kept else (1, 0, 0)
            self.unit = SEGMENT
        self.inner, self.inner_step, _ = last
        self.length, self.length_step, _ = reduced.pop() if reduced else (1, 0, 0)
        self.kept, self.reduced = loops_of(kept), loops_of(reduced)
        self.units = self.reduced.total * ceil_div(self.length, self.unit)
        contiguous = 1 if self.by_column else self.length * self.reduced.total  # elements of a result
        self.block = min(self.inner, max(1, MAX_RESULTS // max(1, contiguous * MAX_RESULTS // SEGMENT)))
        self.blocks = ceil_div(self.inner, self.block)
        self.results, self.elements = self.kept.total * self.inner, x.size
        if self.results != y.size:
            raise ValueError(f"{op}: {self.results} results in an array of shape {(<object>y).shape}")
        self.threads = threads_for(threads, 1.0 * x.size * x.itemsize)
        self.workspace = aligned((self.units + (self.fold == LK_FOLD_POWERS)) * self.results * sizeof(double))

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef Run r
        cdef int64_t tasks = self.kept.total * self.blocks * self.units
        cdef double *results = <double *>workspace
        r.nest, r.x, r.results, r.fold, r.maxima = <void *>self, at[0], results, self.fold, NULL
        if self.fold == LK_FOLD_POWERS:
            r.fold = LK_FOLD_MAX
            share_out(<int>min(self.threads, tasks), reduce_share, &r)
            self.combine_units(results, LK_FOLD_MAX)
            r.maxima, r.results, r.fold = results, results + self.results, self.fold
            self.replace_infinite(results)
        share_out(<int>min(self.threads, tasks), reduce_share, &r)
        self.combine_units(r.results, self.fold)
        self.finish_results(r.results, r.maxima, <float *>at[1])

    cdef void replace_infinite(self, double *maxima) noexcept nogil:
        """Where the maximum is infinite or NaN, 0 is subtracted from exponents instead."""
        cdef int64_t i
        for i in range(self.results):
            if not -1e300 < maxima[i] < 1e300:
                maxima[i] = 0

    cdef void combine_units(self, double *results, int fold) noexcept nogil:
        """Combine the results of all units into those of the first one."""
        cdef int64_t i, unit
        cdef const double *more
        for unit in range(1, self.units):
            more = results + unit * self.results
            for i in range(self.results):
                if fold == LK_FOLD_PRODUCT:
                    results[i] *= more[i]
                elif fold == LK_FOLD_MAX:
                    results[i] = results[i] if results[i] != results[i] or results[i] > more[i] else more[i]
                elif fold == LK_FOLD_MIN:
                    results[i] = results[i] if results[i] != results[i] or results[i] < more[i] else more[i]
                else:
                    results[i] += more[i]

    cdef void finish_results(self, const double *results, const double *maxima, float *y) noexcept nogil:
        """Means, roots or logarithms of the combined results, as f32."""
        cdef int64_t i
        cdef double count = <double>self.elements / self.results
        for i in range(self.results):
            if self.finish == IDENTITY:
                y[i] = <float>results[i]
            elif self.finish == MEAN:
                y[i] = <float>(results[i] / count)
            elif self.finish == ROOT:
                y[i] = <float>sqrt(results[i])
            elif self.finish == LOGARITHM:
                y[i] = <float>log(results[i])
            else:
                y[i] = <float>(log(results[i]) + maxima[i])

    cdef void run_tasks(self, const Run *r, int part, int parts, lk_portions *portions) noexcept nogil:
        """A share of the tasks: for each iteration over `kept`, for each block of its results, all units."""
        cdef int64_t tasks = self.kept.total * self.blocks * self.units, task, last
        while lk_claim(portions, share(tasks, parts, part), share(tasks, parts, part + 1), &task, &last):
            while task < last:
                self.run_task(r, task)
                task += 1

    cdef void run_task(self, const Run *r, int64_t task) noexcept nogil:
        """A unit of a block of results."""
        cdef lk_reduce g
        cdef int64_t unit = task % self.units, block = task // self.units, segments = self.units // self.reduced.total
        cdef int64_t column = block % self.blocks * self.block, results = min(self.block, self.inner - column)
        cdef int64_t kept_at, reduced_at, unused, first = unit % segments * self.unit, length, i, result
        iteration_at(&self.kept, block // self.blocks, &kept_at, &unused)
        iteration_at(&self.reduced, unit // segments, &reduced_at, &unused)
        length = min(self.unit, self.length - first)
        result = block // self.blocks * self.inner + column
        g.x = r.x + kept_at + reduced_at + column * self.inner_step + first * self.length_step
        g.into = r.results + unit * self.results + result
        g.maxima = NULL if r.maxima == NULL else r.maxima + result
        g.by_column, g.fold = self.by_column, r.fold
        g.x_row = self.length_step if self.by_column else self.inner_step
        g.rows, g.count = (length, results) if self.by_column else (results, length)
        for i in range(results):
            g.into[i] = self.neutral(r.fold)
        self.fn(&g)

    cdef inline double neutral(self, int fold) noexcept nogil:
        """The result of no elements."""
        return 1 if fold == LK_FOLD_PRODUCT else -INFINITE if fold == LK_FOLD_MAX else INFINITE if fold == LK_FOLD_MIN else 0


cdef list merged_by_kind(list dims):
    """Axes (size, stride, whether it is reduced), outermost first, merged where neighbours are of one kind."""
    axes = [axis for axis in dims if axis[0] != 1]
    return [(n, stride, kind) for kind, group in groupby(axes, itemgetter(2)) for n, stride in
            merged([axis[:2] for axis in group])]
