"""Elementwise work, y = steps(x): loops and threads around the micro-kernels of elementwise.inc.

The axes of all arrays are sorted by the strides of y, and those that all arrays let are joined. The last two make
matrices, which are cut into tasks.
"""

from libc.stdint cimport int64_t
from numpy cimport PyArray_DATA, import_array, ndarray

import numpy as np

from ..runtime.registry import STEPS
from .route import NUMBERS

from ..kernels cimport LK_BF16, LK_ELEMENTWISE, LK_F16, LK_F32, LK_F64, LK_S8, LK_U8, lk_kernel
from ..kernels.elementwise cimport (
    LK_MAX_STEPS, LK_PIECE_BYTES, lk_elementwise, lk_elementwise_fn, lk_matrix, lk_step,
)
from ..runtime.registry cimport best_row
from ..runtime.team cimport lk_claim, lk_portions, share_out, threads_for
from .executor cimport ceil_div, share
from .operation cimport Operation

import_array()

cdef enum:
    X = LK_MAX_STEPS          # of the arrays below: those of steps come first
    Y = LK_MAX_STEPS + 1
    COUNT = LK_MAX_STEPS + 2
    CONSTANT = -1
    LEAST_ELEMENTS = 2048     # of a task, if there is more than one
    MOST_ELEMENTS = 16384
    MOST_AXES = 10            # after those that can be joined are
    BYTES_OF_FUNCTION = 24    # moved in the time that an element of a step takes, unless that is a mere sum or product

ELEMENTS = {"f32": LK_F32, "f64": LK_F64, "f16": LK_F16, "bf16": LK_BF16, "u8": LK_U8, "s8": LK_S8}


cdef struct Run:
    void *nest
    char *at[COUNT]
    char *workspace


def joined(shape, strides):
    """The extents of axes, outermost first, and for each the strides of all arrays; the last is that of y.

    They are sorted by the strides of y, without those of one element, and two are one where each array lets them.
    """
    axes = [(n, of) for n, of in zip(shape, zip(*strides)) if n != 1]
    axes.sort(key=lambda axis: -abs(axis[1][-1]))
    out = []
    for n, of in axes:
        if out and all(outer == inner * n for outer, inner in zip(out[-1][1], of)):
            out[-1] = (out[-1][0] * n, of)
        else:
            out.append((n, of))
    return out


cdef class Elementwise(Operation):
    """``y = steps(x)``, one step after another.

    Parameters
    ----------
    steps : sequence of (name, numbers, operand)
        Names of `registry.STEPS`. The numbers are an array of reals or None; the operand is None, a constant array of
        reals, or the place of an array in `tensors`.
    tensors : sequence of ndarray
        x and operands, each broadcast to the shape of `y`, of any strides.
    y : ndarray
        It overlaps none of the others, or is one of them.
    elements : sequence of (name, scale, zero)
        Of tensors and y: f64 all; or each f32, bf16, f16, or integers q that stand for (q - zero) * scale, u8 or s8.
        Reals are float64 in the first case, float32 in the others.
    threads : int
        At most.
    """

    cdef lk_elementwise_fn fn
    cdef lk_step step[LK_MAX_STEPS]
    cdef lk_matrix matrix[COUNT]   # operands by step, x, y
    cdef int source[COUNT]         # places among the arrays of a run, or CONSTANT
    cdef int64_t outer[MOST_AXES][COUNT]  # by outer axis, strides of all these
    cdef int64_t extents[MOST_AXES]
    cdef int steps, axes, threads
    cdef int64_t rows, count, row_part, col_part, row_parts, col_parts, tasks, scratch
    cdef object kept

    def __init__(self, steps, tensors, ndarray y not None, elements, int threads):
        cdef ndarray numbers
        cdef int k, place
        steps, tensors = tuple(steps), tuple(tensors)
        if len(steps) > LK_MAX_STEPS:
            raise ValueError(f"elementwise: {len(steps)} steps, at most {LK_MAX_STEPS}")
        if len(elements) != len(tensors) + 1:
            raise ValueError(f"elementwise: {len(elements)} types of {len(tensors) + 1} arrays")
        real = np.float64 if elements[len(tensors)][0] == "f64" else np.float32
        cdef const lk_kernel *row = best_row(LK_ELEMENTWISE, "f64" if real is np.float64 else "f32")
        self.fn = <lk_elementwise_fn>row.fn
        shape = (<object>y).shape
        arrays = [None] * COUNT
        self.kept = list(steps)
        for k, (name, values, operand) in enumerate(steps):
            self.step[k].step, self.step[k].numbers = NUMBERS[name], NULL
            self.matrix[k].at, self.source[k] = NULL, CONSTANT
            if values is not None:
                numbers = np.ascontiguousarray(values, real)
                self.kept.append(numbers)
                self.step[k].numbers = <const char *>PyArray_DATA(numbers)
            if isinstance(operand, int):
                self.place(k, operand, elements[operand], real)
                arrays[k] = np.broadcast_to(tensors[operand], shape)
            elif operand is not None:
                numbers = np.asarray(operand, real)
                self.kept.append(numbers)
                self.place(k, CONSTANT, ("f64" if real is np.float64 else "f32", 1, 0), real)
                self.matrix[k].at = <char *>PyArray_DATA(numbers)
                arrays[k] = np.broadcast_to(numbers, shape)
        self.place(X, 0, elements[0], real)
        self.place(Y, len(tensors), elements[len(tensors)], real)
        arrays[X], arrays[Y] = np.broadcast_to(tensors[0], shape), y
        for tensor, of in zip((*tensors, y), elements):
            if tensor.itemsize != {"f64": 8, "f32": 4, "bf16": 2, "f16": 2}.get(of[0], 1):
                raise TypeError(f"elementwise: expected {of[0]}, got {tensor.dtype}")
        self.bind((*tensors, y))
        self.steps = len(steps)
        self.plan(shape, [(0,) * len(shape) if a is None else a.strides for a in arrays])
        functions = len([1 for name, _, _ in steps if STEPS[name] > 0.5])
        moved = sum([a.itemsize for a in arrays if a is not None]) + BYTES_OF_FUNCTION * functions
        self.share_work(threads_for(threads, <double>moved * y.size), y.size)

    cdef int place(self, int k, int source, of, real) except -1:
        """Say where an array is and what its elements mean."""
        name, scale, zero = of
        self.source[k], self.matrix[k].scale, self.matrix[k].zero = source, scale, zero
        self.matrix[k].element = ELEMENTS[name]
        if (name == "f64") != (real is np.float64):
            raise TypeError(f"elementwise: {name} among arrays of {'f64' if real is np.float64 else 'f32'}")
        return 0

    cdef int plan(self, tuple shape, strides) except -1:
        """Join axes, and tell matrices from loops around them."""
        cdef int k, i
        axes = joined(shape, strides)
        if len(axes) > MOST_AXES + 2:
            raise ValueError(f"elementwise: {len(axes)} axes that cannot be joined, at most {MOST_AXES + 2}")
        while len(axes) < 2:
            axes.insert(0, (1, (0,) * COUNT))
        (self.rows, rows), (self.count, cols) = axes[-2:]
        self.axes = len(axes) - 2
        for i in range(self.axes):
            self.extents[i], strides_of = axes[i]
            for k in range(COUNT):
                self.outer[i][k] = strides_of[k]
        for k in range(COUNT):
            self.matrix[k].row, self.matrix[k].col = rows[k], cols[k]
        return 0

    cdef int share_work(self, int threads, int64_t total) except -1:
        """Cut the matrices into tasks."""
        cdef int i
        cdef int64_t most = min(<int64_t>MOST_ELEMENTS, max(<int64_t>LEAST_ELEMENTS, total // (4 * threads)))
        self.col_part = max(<int64_t>1, min(self.count, most))
        self.row_part = max(<int64_t>1, min(self.rows, most // self.col_part))
        self.row_parts, self.col_parts = ceil_div(self.rows, self.row_part), ceil_div(self.count, self.col_part)
        self.tasks = self.row_parts * self.col_parts
        for i in range(self.axes):
            self.tasks *= self.extents[i]
        self.threads = <int>max(<int64_t>1, min(<int64_t>threads, self.tasks))
        self.scratch = LK_PIECE_BYTES * (1 + self.steps)
        self.workspace = self.scratch * self.threads
        return 0

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef Run r
        cdef int k
        for k in range(COUNT):
            if (k < self.steps or k >= X) and self.source[k] != CONSTANT:
                r.at[k] = at[self.source[k]]
            else:
                r.at[k] = self.matrix[k].at
        r.nest, r.workspace = <void *>self, workspace
        if self.tasks:
            share_out(self.threads, elementwise_share, &r)

    cdef void run_share(self, const Run *r, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
        cdef int64_t task, end
        cdef lk_elementwise f
        cdef lk_matrix operand[LK_MAX_STEPS]
        cdef int k
        f.steps, f.step, f.operand = self.steps, self.step, operand
        f.x, f.y, f.scratch = self.matrix[X], self.matrix[Y], r.workspace + slot * self.scratch
        for k in range(f.steps):
            operand[k] = self.matrix[k]
        while lk_claim(portions, share(self.tasks, parts, part), share(self.tasks, parts, part + 1), &task, &end):
            while task < end:
                self.task(r, &f, operand, task)
                task += 1

    cdef void task(self, const Run *r, lk_elementwise *f, lk_matrix *operand, int64_t task) noexcept nogil:
        """One task: its place along each axis, innermost first."""
        cdef int64_t j = task % self.col_parts * self.col_part, i, n
        cdef int k, axis
        task //= self.col_parts
        i = task % self.row_parts * self.row_part
        task //= self.row_parts
        f.rows, f.count = min(self.row_part, self.rows - i), min(self.col_part, self.count - j)
        f.x.at = r.at[X] + i * f.x.row + j * f.x.col
        f.y.at = r.at[Y] + i * f.y.row + j * f.y.col
        for k in range(self.steps):
            operand[k].at = r.at[k] + i * operand[k].row + j * operand[k].col
        for axis in range(self.axes - 1, -1, -1):
            n = task % self.extents[axis]
            task //= self.extents[axis]
            f.x.at += n * self.outer[axis][X]
            f.y.at += n * self.outer[axis][Y]
            for k in range(self.steps):
                operand[k].at += n * self.outer[axis][k]
        self.fn(f)


cdef void elementwise_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const Run *r = <const Run *>argument
    (<Elementwise>r.nest).run_share(r, slot, part, parts, portions)
