"""A convolution on the caller's arrays: its loop nest, the reorders around it, and its epilogue."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t
from libc.string cimport memset
from numpy cimport PyArray_DATA, import_array, ndarray

from numpy import empty, uint8
from numpy import ndarray as new_array

from .executor cimport Executor, aligned
from .registry cimport (
    LK_CLIP, LK_EPILOGUE, LK_GELU, LK_GELU_TANH, LK_HARDSWISH, LK_IDENTITY, LK_PRELU, LK_SILU, best_row,
    element_bytes, lk_epilogue, lk_epilogue_fn, lk_kernel, lk_types, types_of,
)
from .pace cimport Pace, done, pace_of
from .reorder cimport Program

import_array()

cdef double CHUNK_SECONDS = 0.02  # between checks for signals
cdef enum:
    MAX_CHUNKS = 1 << 16

ACTIVATIONS = {
    "clip": LK_CLIP, "prelu": LK_PRELU, "silu": LK_SILU, "gelu": LK_GELU, "gelu_tanh": LK_GELU_TANH,
    "hardswish": LK_HARDSWISH, None: LK_IDENTITY,
}


cdef class Epilogue:
    """The epilogue: an activation, and its numbers, of the type of the sums.

    They are the two limits of a clip, or the slopes of a prelu (one, or one per channel).
    """

    cdef lk_epilogue f
    cdef ndarray numbers

    def __init__(self, name=None, ndarray numbers=None):
        self.f.activation, self.f.keeps_zero, self.numbers = ACTIVATIONS[name], False, numbers
        self.f.add = self.f.numbers = NULL
        self.f.slope_row = self.f.slope_col = 0
        if name in ("clip", "prelu"):
            if numbers is None:
                raise TypeError(f"epilogue: {name} without its numbers")
            self.f.numbers = <const char *>PyArray_DATA(numbers)
        if name == "clip":
            self.f.keeps_zero = numbers[0] <= 0 <= numbers[1]
        elif name == "prelu":
            self.f.slope_col = numbers.size > 1


def epilogue_pixels(str types, Epilogue epilogue not None, ndarray y, ndarray add=None):
    """y = epilogue(y + add) by the row of `types`, on pixels of shape (count, channels), both contiguous; `add` may be
    None."""
    cdef lk_epilogue f = epilogue.f
    cdef const lk_kernel *kernel = best_row(LK_EPILOGUE, types)
    cdef lk_epilogue_fn fn = <lk_epilogue_fn>kernel.fn
    cdef int64_t i, start = 0, row = y.itemsize * y.shape[1]
    cdef const lk_types *found = types_of(kernel)
    if y.itemsize != element_bytes(found.dst) or add is not None and add.itemsize != element_bytes(found.sum):
        raise TypeError(f"epilogue: expected {types}, got {y.dtype} and {None if add is None else add.dtype}")
    cdef char *at = <char *>PyArray_DATA(y)
    f.add = NULL if add is None else <const char *>PyArray_DATA(add)
    f.row, f.rows, f.count = &start, 1, y.shape[1]
    for i in range(y.shape[0]):
        f.y = at + i * row
        fn(&f)
        if f.add != NULL:
            f.add += row


cdef span_of(y):
    """Where the memory of an array begins, in bytes from its first element (0 or less), and its length."""
    steps = [(n - 1) * s for n, s in zip(y.shape, y.strides)]
    first = -sum([s for s in steps if s < 0])
    return first, first + sum([s for s in steps if s > 0]) + y.itemsize


cdef ndarray like(y, char *memory):
    """A copy of `y` with the same strides, made in `memory`."""
    first, size = span_of(y)
    copied = new_array(y.shape, y.dtype, <unsigned char[:size]><unsigned char *>memory, first, y.strides)
    copied[...] = y
    return copied


cdef ndarray at_whole_elements(a):
    """A copy of `a` with the same strides whose first element is aligned to its size."""
    first, size = span_of(a)
    memory = empty(size + a.itemsize, uint8)
    shift = -(first + <size_t>PyArray_DATA(<ndarray>memory)) % a.itemsize
    copied = new_array(a.shape, a.dtype, memory, shift + first, a.strides)
    copied[...] = a
    return copied


cdef class Route:
    """All of a call: reorder the input if need be, convolve, reorder the output if need be.

    Parameters
    ----------
    before, after : Program or None
        Reorders from the caller's input and to the caller's output.
    residual : Program or None
        Reorder of the residual, from the layout of the caller's output to the layout that the loop nest writes.
    x_bytes, y_bytes : int
        Bytes of the workspace that the reordered input and output take.
    pool : Pool
        Gives workspaces to calls that bring none.
    seconds : float
        Expected time of the loop nest: a call longer than CHUNK_SECONDS checks for signals meanwhile.
    pads : (n, planes, rows, row), optional
        The reordered input is a padded input, n images with zeros around them: (before, inside, after) planes, rows,
        and bytes of a row.
    """

    def __init__(self, Program before, Executor executor, Program after, Program residual, int64_t x_bytes,
                 int64_t y_bytes, Pool pool not None, double seconds=0, pads=None):
        self.images = self.start = 0
        if pads is not None:
            self.images = pads[0]
            for i in range(3):
                for j in range(3):
                    self.pads[i][j] = pads[1 + i][j]
            rows, pitch = sum(pads[2]), sum(pads[3])
            self.start = pitch * (rows * pads[1][0] + pads[2][0]) + pads[3][0]
        self.before, self.executor, self.after, self.residual = before, executor, after, residual
        self.x_bytes, self.y_bytes = aligned(x_bytes), aligned(y_bytes)
        self.workspace = self.x_bytes + self.y_bytes + executor.ws_thread * executor.threads
        self.pool, self.chunks = pool, 1 + <int64_t>min(seconds / CHUNK_SECONDS, <double>MAX_CHUNKS)
        self.whole = self.chunks == 1
        for program in (before, after, residual):
            self.whole &= program is None or (<Program>program).chunks == 1

    def needs(self, ndarray y, add=None):
        """Bytes of workspace that a call needs which writes `y`, with `add` or without."""
        cdef int64_t copied = 0
        if add is not None and self.residual is not None:
            copied = self.y_bytes
        elif add is not None and not self.executor.accumulates and PyArray_DATA(<ndarray?>add) == PyArray_DATA(y):
            copied = aligned(span_of(y)[1])
        return self.workspace + copied + 64

    def __call__(self, ndarray x, ndarray w, bias, ndarray y, Epilogue epilogue=None, ndarray add=None,
                 ndarray workspace=None):
        """Convolve `x` into `y` with a filter and bias packed for this route; y = epilogue(convolution + add).

        `add` has the strides of `y`, and may be `y`. With a `workspace` of at least needs(y, add) bytes nothing is
        allocated, except copies of the arrays if one of them is not aligned to its elements.
        """
        cdef size_t written = <size_t>PyArray_DATA(y) | (<size_t>PyArray_DATA(add) if add is not None else 0)
        if <size_t>PyArray_DATA(x) & (self.executor.x_item - 1) or written & (self.executor.y_item - 1):
            self.copied(x, w, bias, y, epilogue, add, workspace)
            return
        cdef ndarray scratch = workspace
        cdef const char *px = <const char *>PyArray_DATA(x)
        cdef const char *pw = <const char *>PyArray_DATA(w)
        cdef const char *pb = NULL
        cdef char *py = <char *>PyArray_DATA(y)
        cdef char *at
        cdef lk_epilogue f
        cdef const lk_epilogue *pf = NULL
        cdef char *reordered = NULL
        cdef ndarray other = None, copied
        cdef bint onto = False
        f.add = NULL
        if epilogue is not None:
            f = epilogue.f
            pf = &f
            if add is not None:
                f.add = <const char *>PyArray_DATA(add)
                onto = f.add == py and self.residual is None and not self.executor.accumulates
        if bias is not None:
            pb = <const char *>PyArray_DATA(<ndarray?>bias)
        if workspace is None:
            scratch = self.pool.lend(self.workspace + 64)
        at = <char *>aligned(<int64_t>PyArray_DATA(scratch))
        if onto or (f.add != NULL and self.residual is not None):  # the residual is copied
            if workspace is None:
                other = self.pool.lend(self.needs(y, add) - self.workspace)
                reordered = <char *>aligned(<int64_t>PyArray_DATA(other))
            else:
                reordered = at + self.workspace
            if onto:
                copied = like(y, reordered)
                f.add = <const char *>PyArray_DATA(copied)
                reordered = NULL
        if reordered != NULL:
            self.residual.call(f.add, reordered, self.executor.threads)
            f.add = reordered
        if self.whole:
            with nogil:
                self.run(px, pw, pb, pf, py, at)
        else:
            self.call(px, pw, pb, pf, py, at)
        if workspace is None:
            self.pool.take_back(scratch)
            if other is not None:
                self.pool.take_back(other)

    cdef copied(self, x, w, bias, y, epilogue, add, workspace):
        """As a call, on aligned copies of the arrays, one of which is not aligned to its elements."""
        made = at_whole_elements(y)
        if add is not None:
            add = made if add is y else at_whole_elements(add)
        self(at_whole_elements(x), w, bias, made, epilogue, add, workspace)
        y[...] = made

    cdef void run(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                  char *at) noexcept nogil:
        cdef char *work = at + self.x_bytes + self.y_bytes
        cdef char *inner = y
        cdef int threads = self.executor.threads
        if self.before is not None:
            self.before.run(x, at + self.start, threads)
            x = at
            if self.images:
                self.zeros(at)
        if self.after is not None:
            inner = at + self.x_bytes
        self.executor.run(x, w, bias, epilogue, inner, work, 0, 1)
        if self.after is not None:
            self.after.run(inner, y, threads)

    cdef int call(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                  char *at) except -1:
        """As `run`, with the GIL held: signals are checked for between chunks."""
        cdef char *inner = y if self.after is None else at + self.x_bytes
        cdef Pace pace
        if self.before is not None:
            self.before.call(x, at + self.start, self.executor.threads)
            x = at
            if self.images:
                self.zeros(at)
        pace = pace_of(self.chunks)
        while pace.at < pace.end:
            with nogil:
                self.executor.run(x, w, bias, epilogue, inner, at + self.x_bytes + self.y_bytes, pace.at // pace.size,
                                  pace.end // pace.size)
            done(&pace)
            PyErr_CheckSignals()
        if self.after is not None:
            self.after.call(inner, y, self.executor.threads)
        return 0

    cdef void zeros(self, char *at) noexcept nogil:
        """Write the zeros of the padded input."""
        cdef int64_t *planes = self.pads[0]
        cdef int64_t *rows = self.pads[1]
        cdef int64_t *row = self.pads[2]
        cdef int64_t pitch = row[0] + row[1] + row[2], image, d, h
        for image in range(self.images):
            for d in range(planes[0] + planes[1] + planes[2]):
                for h in range(rows[0] + rows[1] + rows[2]):
                    if planes[0] <= d < planes[0] + planes[1] and rows[0] <= h < rows[0] + rows[1]:
                        memset(at, 0, row[0])
                        memset(at + row[0] + row[1], 0, row[2])
                    else:
                        memset(at, 0, pitch)
                    at += pitch
