"""Elementwise work, y = steps(x): loops and threads around the micro-kernels of elementwise.inc.

The axes are sorted by the strides of y, and merged where all arrays allow it. The last two are those of matrices, which
are divided into tasks.
"""

from libc.stdint cimport int64_t, uint8_t

import numpy as np

from ...runtime.registry import STEPS
from ..axes import merged
from ..convolutions.route import NUMBERS

from ...kernels cimport LK_BF16, LK_ELEMENTWISE, LK_F16, LK_F32, LK_F64, LK_S8, LK_U8, lk_kernel
from ...kernels.elementwise cimport (
    LK_MAX_STEPS, LK_PIECE_BYTES, lk_elementwise, lk_elementwise_fn, lk_matrix, lk_step,
)
from ...ndarray cimport PyArray_DATA, import_array, ndarray
from ...runtime.registry cimport best_row
from ...runtime.team cimport lk_claim, lk_portions, threads_for
from ..executor cimport ceil_div, share
from ..operation cimport Operation

import_array()

cdef enum:
    X = LK_MAX_STEPS          # in tables by operand: the operands of steps come first
    Y = LK_MAX_STEPS + 1
    OPERANDS = LK_MAX_STEPS + 2
    CONSTANT = -1
    MIN_TASK_ELEMENTS = 2048  # if there is more than one task
    MAX_TASK_ELEMENTS = 16384
    MAX_OUTER_AXES = 10       # after merging, around matrices
    FUNCTION_BYTES = 24       # moved in the time that an element of a step takes, unless that is a mere sum or product

ELEMENTS = {"f32": LK_F32, "f64": LK_F64, "f16": LK_F16, "bf16": LK_BF16, "u8": LK_U8, "s8": LK_S8}


cdef class Elementwise(Operation):
    """``y = steps(x)``, one step after another.

    Parameters
    ----------
    steps : sequence of (name, numbers, operand)
        Names of `registry.STEPS`. The numbers are an array of reals or None; the operand is None, a constant array of
        reals, or the index of an array in `tensors`.
    tensors : sequence of ndarray
        x and operands, each broadcast to the shape of `y`, of any strides.
    y : ndarray
        It overlaps none of the others, or is one of them.
    elements : sequence of (name, scale, zero)
        Types of tensors and y: all f64; or each f32, bf16, f16, or, for integers q that stand for (q - zero) * scale, u8 or
        s8. Steps are computed in float64 in the first case, in float32 in the others.
    threads : int
        At most.
    table : ndarray, optional
        256 bytes: without steps, y of u8 or s8 is that of these which the bits of x, of bytes too, are the index of.
    """

    cdef lk_elementwise_fn fn
    cdef lk_step step[LK_MAX_STEPS]
    cdef lk_matrix matrix[OPERANDS]
    cdef int source[OPERANDS]      # indices among the arrays of a run, or CONSTANT
    cdef int64_t outer[MAX_OUTER_AXES][OPERANDS]  # strides
    cdef int64_t extents[MAX_OUTER_AXES]
    cdef int steps, axes, threads
    cdef int64_t rows, cols              # of a matrix
    cdef int64_t task_rows, task_cols    # of a task
    cdef int64_t row_tasks, col_tasks    # that a matrix is divided into
    cdef int64_t tasks, scratch          # in all; bytes of a thread
    cdef const uint8_t *table

    def __init__(self, steps, tensors, ndarray y not None, elements, int threads, table=None):
        cdef int k
        self.table = NULL
        if table is not None:
            if steps or len(tensors) != 1 or table.nbytes != 256 or any([e[0] not in ("u8", "s8") for e in elements]):
                raise ValueError(f"elementwise: a table of {table.nbytes} bytes, {len(steps)} steps, {elements}")
            self.table = <const uint8_t *>self.keep(table, np.uint8)
        steps, tensors = tuple(steps), tuple(tensors)
        if len(steps) > LK_MAX_STEPS:
            raise ValueError(f"elementwise: {len(steps)} steps, at most {LK_MAX_STEPS}")
        if len(elements) != len(tensors) + 1:
            raise ValueError(f"elementwise: {len(elements)} types of {len(tensors) + 1} arrays")
        real = np.float64 if elements[len(tensors)][0] == "f64" else np.float32
        cdef const lk_kernel *row = best_row(LK_ELEMENTWISE, "f64" if real is np.float64 else "f32")
        self.fn = <lk_elementwise_fn>row.fn
        shape = (<object>y).shape
        arrays = [None] * OPERANDS
        for k, (name, values, operand) in enumerate(steps):
            self.step[k].step, self.step[k].numbers = NUMBERS[name], NULL
            self.matrix[k].at, self.source[k] = NULL, CONSTANT
            if values is not None:
                self.step[k].numbers = self.keep(values, real)
            if isinstance(operand, int):
                self.set_source(k, operand, elements[operand], real)
                arrays[k] = np.broadcast_to(tensors[operand], shape)
            elif operand is not None:
                constant = np.asarray(operand, real)
                self.owned.append(constant)
                self.set_source(k, CONSTANT, ("f64" if real is np.float64 else "f32", 1, 0), real)
                self.matrix[k].at = <char *>PyArray_DATA(<ndarray>constant)
                arrays[k] = np.broadcast_to(constant, shape)
        self.set_source(X, 0, elements[0], real)
        self.set_source(Y, len(tensors), elements[len(tensors)], real)
        arrays[X], arrays[Y] = np.broadcast_to(tensors[0], shape), y
        for tensor, (element, _, _) in zip((*tensors, y), elements):
            if tensor.itemsize != {"f64": 8, "f32": 4, "bf16": 2, "f16": 2}.get(element, 1):
                raise TypeError(f"elementwise: expected {element}, got {tensor.dtype}")
        self.bind((*tensors, y))
        self.steps = len(steps)
        self.set_axes(shape, [(0,) * len(shape) if a is None else a.strides for a in arrays])
        functions = len([1 for name, _, _ in steps if STEPS[name] > 0.5])
        moved = sum([a.itemsize for a in arrays if a is not None]) + FUNCTION_BYTES * functions
        self.set_tasks(threads_for(threads, <double>moved * y.size), y.size)

    cdef int set_source(self, int k, int source, element, real) except -1:
        """Set which array an operand is, and the type of its elements."""
        name, scale, zero = element
        self.source[k], self.matrix[k].scale, self.matrix[k].zero = source, scale, zero
        self.matrix[k].element = ELEMENTS[name]
        if (name == "f64") != (real is np.float64):
            raise TypeError(f"elementwise: {name} among arrays of {'f64' if real is np.float64 else 'f32'}")
        return 0

    cdef int set_axes(self, tuple shape, strides) except -1:
        """Sort and merge axes: the last two are those of matrices, the others of loops around them."""
        cdef int k, i
        axes = merged(sorted(zip(shape, *strides), key=lambda axis: -abs(axis[OPERANDS])))  # the strides of y are last
        if len(axes) > MAX_OUTER_AXES + 2:
            raise ValueError(f"elementwise: {len(axes)} axes that cannot be merged, at most {MAX_OUTER_AXES + 2}")
        while len(axes) < 2:
            axes.insert(0, (1, *(0,) * OPERANDS))
        (self.rows, *row_strides), (self.cols, *col_strides) = axes[-2:]
        self.axes = len(axes) - 2
        for i in range(self.axes):
            self.extents[i], *outer = axes[i]
            for k in range(OPERANDS):
                self.outer[i][k] = outer[k]
        for k in range(OPERANDS):
            self.matrix[k].row, self.matrix[k].col = row_strides[k], col_strides[k]
        return 0

    cdef int set_tasks(self, int threads, int64_t total) except -1:
        """Divide the matrices into tasks."""
        cdef int i
        cdef int64_t elements = min(<int64_t>MAX_TASK_ELEMENTS, max(<int64_t>MIN_TASK_ELEMENTS, total // (4 * threads)))
        self.task_cols = max(<int64_t>1, min(self.cols, elements))
        self.task_rows = max(<int64_t>1, min(self.rows, elements // self.task_cols))
        self.row_tasks, self.col_tasks = ceil_div(self.rows, self.task_rows), ceil_div(self.cols, self.task_cols)
        self.tasks = self.row_tasks * self.col_tasks
        for i in range(self.axes):
            self.tasks *= self.extents[i]
        self.threads = <int>max(<int64_t>1, min(<int64_t>threads, self.tasks))
        self.scratch = LK_PIECE_BYTES * (1 + self.steps)
        self.workspace = self.scratch * self.threads
        return 0

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.tasks:
            self.run_shares(self.threads, at, workspace)

    cdef void run_share(self, char **at, char *workspace, int slot, int part, int parts,
                        lk_portions *portions) noexcept nogil:
        cdef int64_t task, end
        cdef lk_elementwise f
        cdef lk_matrix operand[LK_MAX_STEPS]
        cdef char *operands[OPERANDS]
        cdef int k
        for k in range(OPERANDS):
            operands[k] = <char *>self.matrix[k].at
            if (k < self.steps or k >= X) and self.source[k] != CONSTANT:
                operands[k] = at[self.source[k]]
        f.steps, f.step, f.operand = self.steps, self.step, operand
        f.table = self.table
        f.x, f.y, f.scratch = self.matrix[X], self.matrix[Y], workspace + slot * self.scratch
        for k in range(f.steps):
            operand[k] = self.matrix[k]
        while lk_claim(portions, share(self.tasks, parts, part), share(self.tasks, parts, part + 1), &task, &end):
            while task < end:
                self.task(operands, &f, operand, task)
                task += 1

    cdef void task(self, char **operands, lk_elementwise *f, lk_matrix *operand, int64_t task) noexcept nogil:
        """Run a task, whose number is divided into indices along the axes, innermost first."""
        cdef int64_t j = task % self.col_tasks * self.task_cols, i, n
        cdef int k, axis
        task //= self.col_tasks
        i = task % self.row_tasks * self.task_rows
        task //= self.row_tasks
        f.rows, f.count = min(self.task_rows, self.rows - i), min(self.task_cols, self.cols - j)
        f.x.at = operands[X] + i * f.x.row + j * f.x.col
        f.y.at = operands[Y] + i * f.y.row + j * f.y.col
        for k in range(self.steps):
            operand[k].at = operands[k] + i * operand[k].row + j * operand[k].col
        for axis in range(self.axes - 1, -1, -1):
            n = task % self.extents[axis]
            task //= self.extents[axis]
            f.x.at += n * self.outer[axis][X]
            f.y.at += n * self.outer[axis][Y]
            for k in range(self.steps):
                operand[k].at += n * self.outer[axis][k]
        self.fn(f)
