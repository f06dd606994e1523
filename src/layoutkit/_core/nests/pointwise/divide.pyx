"""Quotients and remainders: rows of elements around the micro-kernels of divide.c."""

from libc.stdint cimport int64_t

import numpy as np

from ..axes import merged

from ...kernels cimport LK_DIVIDE
from ...kernels.divide cimport LK_MODULO, LK_QUOTIENT, LK_REMAINDER, lk_divide, lk_divide_fn
from ...ndarray cimport import_array, ndarray
from ...runtime.registry cimport best_row
from ...runtime.team cimport threads_for
from ..executor cimport ceil_div
from ..operation cimport Operation, chunks_of

import_array()

cdef enum:
    MAX_AXES = 10        # after merging, around rows
    TASK_ELEMENTS = 4096
    COST = 40            # bytes that are moved in the time of an element

WHAT = {"quotient": LK_QUOTIENT, "remainder": LK_REMAINDER, "modulo": LK_MODULO}
DIVIDED = {"int8": "s8", "uint8": "u8", "int16": "s16", "uint16": "u16", "int32": "s32", "uint32": "u32", "int64": "s64",
           "float32": "f32"}


cdef class Divide(Operation):
    """Quotients rounded towards 0, or what they leave, for arrays (x, d, y).

    Parameters
    ----------
    x, d : ndarray
        Of one of the types of `DIVIDED`, broadcast to the shape of `y`; their elements are contiguous along its last axis that
        is not of one element, or one for all of it.
    y : ndarray
        Of the same type, in C order. It may be `x` or `d`, unless that is broadcast.
    what : {"quotient", "remainder", "modulo"}
        "remainder" has the sign of `x`, "modulo" that of `d`; of float32, there are remainders only. Of integers, they are 0
        where `d` is, and wrap around.
    threads : int
    """

    cdef lk_divide_fn fn
    cdef int64_t extents[MAX_AXES]
    cdef int64_t x_steps[MAX_AXES]
    cdef int64_t d_steps[MAX_AXES]
    cdef int64_t length, rows, parts, each, group, chunks
    cdef int axes, threads, item, what
    cdef bint one_x, one_d

    def __init__(self, ndarray x not None, ndarray d not None, ndarray y not None, str what, int threads):
        cdef int i
        shape, name = (<object>y).shape, y.dtype.name
        if not x.dtype == d.dtype == y.dtype or name not in DIVIDED or (name == "float32" and what != "remainder"):
            raise TypeError(f"divide: {what} of {x.dtype} and {d.dtype} in {y.dtype}")
        if not y.flags.c_contiguous:
            raise ValueError("divide: expected a result in C order")
        self.bind((x, d, y))
        self.fn, self.what, self.item = <lk_divide_fn>best_row(LK_DIVIDE, DIVIDED[name]).fn, WHAT[what], y.itemsize
        strides = [np.broadcast_to(a, shape).strides for a in (x, d)]
        axes = merged(zip(shape, *strides)) if y.size else []
        self.length, x_step, d_step = axes.pop() if axes else (1 if y.size else 0, 0, 0)
        if x_step not in (0, self.item) or d_step not in (0, self.item) or len(axes) > MAX_AXES:
            raise ValueError(f"divide: strides of {strides} for {shape}")
        self.one_x, self.one_d, self.axes = x_step == 0, d_step == 0, <int>len(axes)
        for i, (n, x_step, d_step) in enumerate(axes):
            self.extents[i], self.x_steps[i], self.d_steps[i] = n, x_step, d_step
        self.rows = y.size // self.length if self.length else 0
        cost = <double>COST * y.size
        most = threads_for(threads, cost)
        self.each = min(max(self.length, 1), TASK_ELEMENTS)         # elements of a row in a task,
        self.group = max(<int64_t>1, TASK_ELEMENTS // self.each)    # and its rows
        self.parts = ceil_div(self.length, self.each)
        self.threads = <int>max(1, min(most, ceil_div(self.rows, self.group) * self.parts))
        self.chunks = chunks_of(cost)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        self.run_chunks(self.threads, ceil_div(self.rows, self.group) * self.parts, self.chunks, at, workspace, 0)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        cdef int64_t begin = task % self.parts * self.each, first = task // self.parts * self.group, row, rest, n
        cdef lk_divide p
        cdef int i
        p.count, p.what, p.one_x, p.one_d = min(self.each, self.length - begin), self.what, self.one_x, self.one_d
        for row in range(first, min(self.rows, first + self.group)):
            p.x = at[0] + (0 if self.one_x else begin * self.item)
            p.d = at[1] + (0 if self.one_d else begin * self.item)
            p.y = at[2] + (row * self.length + begin) * self.item
            rest = row
            for i in range(self.axes - 1, -1, -1):
                n = rest % self.extents[i]
                rest //= self.extents[i]
                p.x += n * self.x_steps[i]
                p.d += n * self.d_steps[i]
            self.fn(&p)
