"""Softmax of bytes that stand for numbers, along rows: threads around the micro-kernel of softmax_bytes.c."""

from libc.stdint cimport int64_t

import numpy as np

from ...kernels cimport LK_SOFTMAX_BYTES
from ...kernels.normalise cimport LK_HIGH_ROW, lk_softmax_bytes, lk_softmax_bytes_fn
from ...ndarray cimport import_array, ndarray
from ...runtime.registry cimport best_row
from ...runtime.team cimport lk_claim, lk_portions, threads_for
from ..executor cimport ceil_div, share
from .normalise cimport SEGMENT, Loops, dims_of, iteration_at, loops_of
from ..operation cimport Operation

from ..axes import merged

import_array()

MAX_STEP = 4.0  # of x: e to the power of 15 such steps, and of minus 30, are normal numbers of float32
LEAST_STEP = 1e-9  # of y: results round away what the tables have lost


cdef class SoftmaxOfBytes(Operation):
    """``y = round(softmax(scale * x) / y_scale) + zero``, saturated, along the last axis.

    Parameters
    ----------
    x, y : ndarray
        Of uint8 or int8 and of one shape, not empty. The last axis is contiguous, the others have any strides.
    scale, y_scale : float
        0 < scale <= MAX_STEP, y_scale >= LEAST_STEP.
    zero : int
        What stands for 0 in y.
    threads : int
    """

    cdef lk_softmax_bytes_fn fn
    cdef lk_softmax_bytes task_template     # without addresses and extent
    cdef Loops loops
    cdef int64_t count, x_step, y_step      # rows in an iteration of the loops, and their strides
    cdef int64_t step, steps                # rows of a task; tasks of an iteration
    cdef int threads

    def __init__(self, ndarray x not None, ndarray y not None, double scale, double y_scale, int zero, int threads):
        if (<object>x).shape != (<object>y).shape or not x.size or not {x.dtype.name, y.dtype.name} <= {"uint8", "int8"}:
            raise ValueError(f"softmax: {x.dtype} of shape {(<object>x).shape} to {y.dtype} of shape "
                             f"{(<object>y).shape}, expected bytes of one shape")
        if x.shape[x.ndim - 1] > 1 and not x.strides[x.ndim - 1] == y.strides[y.ndim - 1] == 1:
            raise ValueError("softmax: rows of bytes that are not contiguous")
        if not (0 < scale <= MAX_STEP and y_scale >= LEAST_STEP):
            raise ValueError(f"softmax: steps of {scale} to steps of {y_scale}")
        self.bind((x, y))
        self.fn = <lk_softmax_bytes_fn>best_row(LK_SOFTMAX_BYTES, "f32").fn
        high, low = tables(scale)
        cdef lk_softmax_bytes *g = &self.task_template
        g.high, g.low = <const float *>self.keep(high, np.float32), <const float *>self.keep(low, np.float32)
        g.y_scale, g.zero = y_scale, zero
        g.x_signed, g.y_signed = x.dtype.kind == "i", y.dtype.kind == "i"
        g.count = x.shape[x.ndim - 1]
        outer = merged(dims_of(x, y)[:-1])
        self.count, self.x_step, self.y_step = outer.pop() if outer else (1, 0, 0)
        g.x_row, g.y_row = self.x_step, self.y_step
        self.step = max(1, SEGMENT // g.count)
        self.loops = loops_of(outer)
        self.steps = ceil_div(self.count, self.step)
        self.threads = threads_for(threads, 4.0 * x.size)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        self.run_shares(<int>min(self.threads, self.loops.total * self.steps), at, workspace)

    cdef void run_share(self, char **at, char *workspace, int slot, int part, int parts,
                        lk_portions *portions) noexcept nogil:
        """A share of the tasks: for each iteration of the loops, some rows."""
        cdef lk_softmax_bytes g = self.task_template
        cdef int64_t tasks = self.loops.total * self.steps, task, last, x_at, y_at, first
        while lk_claim(portions, share(tasks, parts, part), share(tasks, parts, part + 1), &task, &last):
            for task in range(task, last):
                iteration_at(&self.loops, task // self.steps, &x_at, &y_at)
                first = task % self.steps * self.step
                g.rows = min(self.step, self.count - first)
                g.x, g.y = at[0] + x_at + first * self.x_step, at[1] + y_at + first * self.y_step
                self.fn(&g)


def tables(double scale):
    """The numbers that exponentials are products of, see softmax_bytes.h."""
    rest, at = np.arange(16.0)[:, None], np.arange(16.0)
    high = np.zeros((16, LK_HIGH_ROW))
    high[:, :16] = np.exp(scale * (16 * (at - 15) - rest))
    high[high < np.finfo(np.float32).tiny] = 0
    return high, np.exp(scale * at)
