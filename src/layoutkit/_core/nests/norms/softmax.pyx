"""Softmax and its logarithm along any axis: threads around the micro-kernels of softmax.c."""

from libc.stdint cimport int64_t

from ...kernels cimport LK_SOFTMAX
from ...kernels.normalise cimport lk_softmax, lk_softmax_fn
from ...ndarray cimport import_array, ndarray
from ...runtime.registry cimport best_row
from ...runtime.team cimport lk_claim, lk_portions, threads_for
from ..executor cimport ceil_div, share
from .normalise cimport SEGMENT, Loops, dims_of, iteration_at, loops_of
from ..operation cimport Operation

from ..axes import merged
from .normalise import WIDTHS

import_array()

cdef enum:
    MIN_COLUMNS = 64  # of a task


cdef class Softmax(Operation):
    """``y = softmax(x)`` along an axis.

    Parameters
    ----------
    types : {"f32", "bf16", "f16"}
        Of the elements of both arrays.
    x, y : ndarray
        Of one shape and any strides.
    axis : int
        From the front.
    logarithm : bool
    threads : int
    """

    cdef lk_softmax_fn fn
    cdef lk_softmax task_template         # without addresses and extent
    cdef Loops loops
    cdef int64_t count, x_step, y_step    # rows or columns in an iteration of the loops, and their strides
    cdef int64_t step, steps              # rows or columns of a task; tasks of an iteration
    cdef int threads

    def __init__(self, str types, ndarray x not None, ndarray y not None, int axis, bint logarithm, int threads):
        if (<object>x).shape != (<object>y).shape or not x.itemsize == y.itemsize == WIDTHS[types]:
            raise ValueError(f"softmax: {x.dtype} of shape {(<object>x).shape} to {y.dtype} of shape "
                             f"{(<object>y).shape}, expected {types} of one shape")
        self.bind((x, y))
        self.fn = <lk_softmax_fn>best_row(LK_SOFTMAX, types).fn
        dims, contiguous = dims_of(x, y), (x.itemsize, y.itemsize)
        length, *along = dims[axis]
        outer, inner = merged(dims[:axis]), merged(dims[axis + 1:])
        self.task_template.logarithm, self.task_template.by_column = logarithm, True
        if not inner and (tuple(along) == contiguous or length == 1):
            last = outer.pop() if outer else (1, 0, 0)
            self.task_template.by_column, self.task_template.count = False, length
            self.count, self.x_step, self.y_step = last
            self.task_template.x_row, self.task_template.y_row = last[1:]
            self.step = max(1, SEGMENT // max(1, length))
        else:
            last = inner.pop() if inner and inner[-1][1:] == contiguous else (1, *contiguous)
            outer += inner
            self.task_template.rows, (self.task_template.x_row, self.task_template.y_row) = length, along
            self.count, self.x_step, self.y_step = last
            self.step = max(MIN_COLUMNS, SEGMENT // max(1, length) // MIN_COLUMNS * MIN_COLUMNS)
        self.loops = loops_of(outer)
        self.steps = ceil_div(self.count, self.step) if x.size else 0
        self.threads = threads_for(threads, 4.0 * x.size * x.itemsize)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef int64_t tasks = self.loops.total * self.steps
        if tasks:
            self.run_shares(<int>min(self.threads, tasks), at, workspace)

    cdef void run_share(self, char **at, char *workspace, int slot, int part, int parts,
                        lk_portions *portions) noexcept nogil:
        """A share of the tasks: for each iteration of the loops, some rows or columns."""
        cdef lk_softmax g = self.task_template
        cdef int64_t tasks = self.loops.total * self.steps, task, last, x_at, y_at, first, count
        while lk_claim(portions, share(tasks, parts, part), share(tasks, parts, part + 1), &task, &last):
            while task < last:
                iteration_at(&self.loops, task // self.steps, &x_at, &y_at)
                first = task % self.steps * self.step
                count = min(self.step, self.count - first)
                if g.by_column:
                    g.count = count
                else:
                    g.rows = count
                g.x, g.y = at[0] + x_at + first * self.x_step, at[1] + y_at + first * self.y_step
                self.fn(&g)
                task += 1
