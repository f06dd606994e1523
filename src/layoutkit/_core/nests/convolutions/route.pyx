"""A convolution on the caller's arrays: its loop nest, the reorders around it, and its epilogue."""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from numpy import empty, uint8
from numpy import ndarray as new_array

from ...runtime.registry import STEPS

from ...kernels cimport LK_EPILOGUE, lk_kernel, lk_types
from ...kernels.elementwise cimport (
    LK_MAX_STEPS, LK_NUMBER, LK_PER_CHANNEL, LK_STEP_CLIP, LK_TENSOR, lk_epilogue, lk_epilogue_fn, lk_step,
)
from ...ndarray cimport PyArray_DATA, import_array, ndarray
from ...runtime.pace cimport Pace, done, pace_of
from ...runtime.registry cimport best_row, element_bytes, types_named
from ...runtime.signals cimport go_on, interrupted
from ..executor cimport Executor, aligned
from ..moves.reordering cimport Reordering

import_array()

TENSOR = "tensor"  # the operand of a step that is a tensor like the output

cdef double CHUNK_SECONDS = 0.02  # between checks for signals
cdef enum:
    MAX_CHUNKS = 1 << 16

NUMBERS = {name: i for i, name in enumerate(STEPS)}  # of steps, in epilogue.h


cdef class Epilogue:
    """The epilogue: steps that are applied one after another.

    Parameters
    ----------
    steps : sequence of (name, numbers, operand)
        Names of `registry.STEPS`. The numbers are an array of the type of the sums, or None; the operand is None, an
        array of that type with one element or one per channel, or TENSOR: `over` says which.
    tensors : sequence of ndarray
        The tensors of those steps, laid out as the output.
    mul, off, scale, zero, x_zero
        For sums of integers: `mul` and `off`, per channel, dequantise them, `scale` and `zero` quantise the result, and
        `x_zero` is the value of the input's padding: see lk_epilogue in epilogue.h.
    """

    def __init__(self, steps=(), tensors=(), ndarray mul=None, ndarray off=None, scale=1, zero=0, x_zero=0):
        cdef lk_step *step = self.step
        cdef ndarray numbers, operand
        self.steps, self.tensors = tuple(steps), tuple(tensors)
        slots = len([s for s in self.steps if s[2] is TENSOR])
        if self.tensors and len(self.tensors) != slots:
            raise ValueError(f"epilogue: {len(self.tensors)} tensors for {slots} steps")
        if len(self.steps) > LK_MAX_STEPS:
            raise ValueError(f"epilogue: {len(self.steps)} steps, at most {LK_MAX_STEPS}")
        at = 0
        for name, numbers, values in self.steps:
            step.step, step.kind, step.numbers, step.operand = NUMBERS[name], LK_NUMBER, NULL, NULL
            if numbers is not None:
                step.numbers = <const char *>PyArray_DATA(numbers)
            if values is TENSOR:
                step.kind = LK_TENSOR
                if self.tensors:
                    operand = self.tensors[at]
                    step.operand = <const char *>PyArray_DATA(operand)
                    at += 1
            elif values is not None:
                operand = values
                step.kind = LK_PER_CHANNEL if operand.size > 1 else LK_NUMBER
                step.operand = <const char *>PyArray_DATA(operand)
            step += 1
        self.f.step, self.f.steps = self.step, len(self.steps)
        self.f.add, self.f.channel_row, self.f.channel_col = NULL, 0, 1
        self.meaning = dict(mul=mul, off=off, scale=scale, zero=zero, x_zero=x_zero)
        self.f.scale, self.f.zero, self.f.x_zero = scale, zero, x_zero
        self.f.mul = NULL if mul is None else <const float *>PyArray_DATA(mul)
        self.f.off = NULL if off is None else <const float *>PyArray_DATA(off)
        self.f.sums, self.f.sums_row = NULL, 0
        if len(self.steps) == 1 and self.f.step.step == LK_STEP_CLIP:
            lo, hi = self.steps[0][1]
            self.f.keeps_zero = lo <= 0 <= hi

    def over(self, tensors):
        """The same steps with these tensors, arrays with the strides of the output."""
        return Epilogue(self.steps, tensors, **self.meaning)

    def of_channels(self, channels, tensors=()):
        """The same steps for these channels of the output, as an array of their numbers, with these tensors."""
        def taken(numbers):
            return numbers if numbers is None or numbers is TENSOR or numbers.size == 1 else numbers[channels]

        steps = [(name, numbers, taken(operand)) for name, numbers, operand in self.steps]
        mul, off = [None if a is None else a[channels] for a in (self.meaning["mul"], self.meaning["off"])]
        return Epilogue(steps, tensors, **self.meaning | {"mul": mul, "off": off})

    def __reduce__(self):
        return _restored, (self.steps, self.tensors, self.meaning)


def _restored(steps, tensors, meaning):
    """An epilogue from a pickle, where TENSOR is an equal string but not the same object."""
    steps = [(name, numbers, TENSOR if isinstance(operand, str) else operand) for name, numbers, operand in steps]
    return Epilogue(steps, tensors, **meaning)


def epilogue_pixels(str types, Epilogue epilogue not None, ndarray y, ndarray add=None, ndarray sums=None):
    """y = epilogue(y + add) by the row of `types`, on pixels of shape (count, channels), both contiguous; `add` may be
    None. Of narrow types y = epilogue(sums + add), `sums` like the others, and overwritten."""
    cdef lk_epilogue f = epilogue.f
    cdef const lk_kernel *kernel = best_row(LK_EPILOGUE, types)
    cdef lk_epilogue_fn fn = <lk_epilogue_fn>kernel.fn
    cdef int64_t i, start = 0, row = y.itemsize * y.shape[1]
    cdef const lk_types *elements = types_named(types)
    cdef int item = element_bytes(elements.dst)
    if y.itemsize != item or add is not None and add.itemsize != item or (sums is None) != (elements.dst == elements.sum):
        raise TypeError(f"epilogue: expected {types}, got {y.dtype} and {None if add is None else add.dtype}")
    if sums is not None:
        f.sums, f.sums_row = <char *>PyArray_DATA(sums), sums.itemsize * y.shape[1]
    cdef char *at = <char *>PyArray_DATA(y)
    f.add = NULL if add is None else <const char *>PyArray_DATA(add)
    f.y, f.row, f.rows, f.count, f.channel = at, &start, 1, y.shape[1], 0
    for i in range(y.shape[0]):
        f.offset = i * row
        fn(&f)
        if f.sums != NULL:
            f.sums += f.sums_row


cdef span_of(y):
    """Where the memory of an array begins, in bytes from its first element (0 or less), and its length."""
    steps = [(n - 1) * s for n, s in zip(y.shape, y.strides)]
    first = -sum([s for s in steps if s < 0])
    return first, first + sum([s for s in steps if s > 0]) + y.itemsize


cdef ndarray copied_to(y, char *memory):
    """A copy of `y` with the same strides, made in `memory`."""
    first, size = span_of(y)
    copied = new_array(y.shape, y.dtype, <unsigned char[:size]><unsigned char *>memory, first, y.strides)
    copied[...] = y
    return copied


def laid_out_as(a, y):
    """A copy of `a` with the strides of `y`, an array of the same shape and dtype, which has elements."""
    first, size = span_of(y)
    copied = new_array(y.shape, y.dtype, empty(size, uint8), first, y.strides)
    copied[...] = a
    return copied


def view_at(y, int64_t start, shape, strides):
    """An array in the memory of `y` that begins `start` bytes after its first element, for as long as `y` lives."""
    first, size = span_of(y)
    cdef int64_t bytes = size
    cdef char *memory = <char *>PyArray_DATA(<ndarray?>y) - <int64_t>first
    view = new_array(shape, y.dtype, <unsigned char[:bytes]><unsigned char *>memory, first + start, strides)
    return view


cdef ndarray at_whole_elements(a):
    """A copy of `a` with the same strides whose first element is aligned to its size."""
    first, size = span_of(a)
    memory = empty(size + a.itemsize, uint8)
    shift = -(first + <size_t>PyArray_DATA(<ndarray>memory)) % a.itemsize
    copied = new_array(a.shape, a.dtype, memory, shift + first, a.strides)
    copied[...] = a
    return copied


cdef class Route:
    """A complete call: reorder the input if needed, convolve, reorder the output if needed.

    Parameters
    ----------
    before, after : Reordering or None
        From the caller's input and to the caller's output.
    residual : Reordering or None
        Reorder of the residual and the tensors of epilogue steps, from the layout of the caller's output to the layout
        that the loop nest writes.
    x_bytes, y_bytes : int
        Bytes of the workspace that the reordered input and output take.
    pool : Pool
        Lends a workspace to calls that have none.
    seconds : float
        Expected time of the loop nest: calls longer than CHUNK_SECONDS check for signals in between.
    items : (int, int), optional
        Bytes of an element of the caller's input and output; those of the loop nest by default.
    pads : (n, planes, rows, row), optional
        The reordered input is a padded input, n images with zeros around them: (before, inside, after) planes, rows,
        and bytes of a row.
    """

    def __init__(self, Reordering before, Executor executor, Reordering after, Reordering residual, int64_t x_bytes,
                 int64_t y_bytes, Pool pool not None, double seconds=0, pads=None, items=None):
        self.images = self.start = 0
        self.x_item, self.y_item = items or (executor.x_item, executor.y_item)
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
        self.unchunked = self.chunks == 1
        for program in (before, after, residual):
            self.unchunked &= program is None or (<Reordering>program).chunks == 1

    def needs(self, ndarray y, add=None, Epilogue epilogue=None):
        """Bytes of workspace that a call with these arrays and the tensors of `epilogue` needs."""
        return self.workspace + self.count_copies(y, add, epilogue) * self.copy_bytes(y) + 64

    cdef int64_t count_copies(self, ndarray y, ndarray add, Epilogue epilogue):
        """How many tensors of the epilogue, the residual included, are copied first."""
        cdef int64_t count = add is not None and self.copies(add, y, self.executor.accumulates)
        if epilogue is not None:
            for tensor in epilogue.tensors:
                count += self.copies(tensor, y, False)
        return count

    cdef int64_t copy_bytes(self, ndarray y):
        """Bytes of such a copy, in whole cache lines."""
        return self.y_bytes if self.residual is not None else aligned(span_of(y)[1])

    cdef bint copies(self, ndarray tensor, ndarray y, bint accumulates):
        """Whether a tensor of the epilogue is copied first: because it is reordered, or `y` would overwrite it."""
        return self.residual is not None or (not accumulates and PyArray_DATA(tensor) == PyArray_DATA(y))

    cdef const char *reordered(self, ndarray tensor, ndarray y, char *memory) except NULL:
        """A copy in `memory` of a tensor of the epilogue, in the layout that the loop nest writes."""
        if self.residual is None:
            return <const char *>PyArray_DATA(copied_to(tensor, memory))  # strides may be negative
        self.residual.call(<const char *>PyArray_DATA(tensor), memory, self.executor.threads)
        return memory

    def __call__(self, ndarray x, ndarray w, bias, ndarray y, Epilogue epilogue=None, ndarray add=None,
                 ndarray workspace=None):
        """Convolve `x` into `y` with a filter and bias packed for this route; y = epilogue(convolution + add).

        `add` and the epilogue's tensors have the strides of `y`, and may be `y`. With a `workspace` of at least
        needs(y, add, epilogue) bytes nothing is allocated, except copies of the arrays if one of them is not aligned to
        its elements.
        """
        cdef size_t written = <size_t>PyArray_DATA(y) | (<size_t>PyArray_DATA(add) if add is not None else 0)
        cdef tuple tensors = () if epilogue is None else epilogue.tensors
        for tensor in tensors:
            written |= <size_t>PyArray_DATA(<ndarray?>tensor)
        if <size_t>PyArray_DATA(x) & (self.x_item - 1) or written & (self.y_item - 1):
            self.copied(x, w, bias, y, epilogue, add, workspace)
            return
        if self.executor.integers and (epilogue is None or epilogue.f.mul == NULL):
            raise TypeError("a convolution of integers without what its numbers mean")
        cdef ndarray scratch = workspace
        cdef const char *px = <const char *>PyArray_DATA(x)
        cdef const char *pw = <const char *>PyArray_DATA(w)
        cdef const char *pb = NULL
        cdef char *py = <char *>PyArray_DATA(y)
        cdef char *at
        cdef lk_epilogue f
        cdef lk_step steps[LK_MAX_STEPS]
        cdef const lk_epilogue *pf = NULL
        cdef char *copy = NULL
        cdef ndarray copies = None
        cdef int64_t size, i
        cdef bint adds = False
        if epilogue is not None:
            f = epilogue.f
            pf = &f
            adds = add is not None
            if adds:
                f.add = <const char *>PyArray_DATA(<ndarray?>add)
        if bias is not None:
            pb = <const char *>PyArray_DATA(<ndarray?>bias)
        if workspace is None:
            scratch = self.pool.lend(self.workspace + 64)
        at = <char *>aligned(<int64_t>PyArray_DATA(scratch))
        if adds or tensors:
            i = self.count_copies(y, add if adds else None, epilogue)
            size = self.copy_bytes(y) if i else 0
            if i and workspace is None:
                copies = self.pool.lend(i * size + 64)
                copy = <char *>aligned(<int64_t>PyArray_DATA(copies))
            elif i:
                copy = at + self.workspace
            if adds and self.copies(add, y, self.executor.accumulates):
                f.add = self.reordered(add, y, copy)
                copy += size
            if tensors:
                i = 0
                memcpy(steps, f.step, f.steps * sizeof(lk_step))
                f.step = steps
                for tensor in tensors:
                    while steps[i].kind != LK_TENSOR:
                        i += 1
                    if self.copies(tensor, y, False):
                        steps[i].operand = self.reordered(tensor, y, copy)
                        copy += size
                    i += 1
        with nogil:
            self.paced(px, pw, pb, pf, py, at)
        go_on()
        if workspace is None:
            self.pool.take_back(scratch)
            if copies is not None:
                self.pool.take_back(copies)

    cdef copied(self, x, w, bias, y, epilogue, add, workspace):
        """As a call, but on aligned copies, for arrays that are not aligned to their elements."""
        aligned_y = at_whole_elements(y)
        if add is not None:
            add = aligned_y if add is y else at_whole_elements(add)
        if epilogue is not None and epilogue.tensors:
            epilogue = epilogue.over([at_whole_elements(tensor) for tensor in epilogue.tensors])
        self(at_whole_elements(x), w, bias, aligned_y, epilogue, add, workspace)
        y[...] = aligned_y

    cdef void run(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                  char *at) noexcept nogil:
        cdef char *work = at + self.x_bytes + self.y_bytes
        cdef char *inner = y
        cdef int threads = self.executor.threads
        if self.before is not None:
            self.before.run(x, at + self.start, threads)
            x = at
            if self.images:
                self.write_padding(at, epilogue.x_zero if self.executor.integers else 0)
        if self.after is not None:
            inner = at + self.x_bytes
        self.executor.run(x, w, bias, epilogue, inner, work, 0, 1)
        if self.after is not None:
            self.after.run(inner, y, threads)

    cdef bint paced(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                    char *at) noexcept nogil:
        """As `run`, in chunks between which signals are checked for; whether one has stopped it."""
        cdef char *inner = y if self.after is None else at + self.x_bytes
        cdef Pace pace
        if self.unchunked:
            self.run(x, w, bias, epilogue, y, at)
            return False
        if self.before is not None:
            if self.before.paced(x, at + self.start, self.executor.threads):
                return True
            x = at
            if self.images:
                self.write_padding(at, epilogue.x_zero if self.executor.integers else 0)
        pace = pace_of(self.chunks)
        while pace.at < pace.end:
            self.executor.run(x, w, bias, epilogue, inner, at + self.x_bytes + self.y_bytes, pace.at // pace.size,
                              pace.end // pace.size)
            done(&pace)
            if interrupted():
                return True
        return self.after is not None and self.after.paced(inner, y, self.executor.threads)

    cdef void write_padding(self, char *at, int zero) noexcept nogil:
        """Write the padding of the padded input, bytes of `zero`."""
        cdef int64_t *planes = self.pads[0]
        cdef int64_t *rows = self.pads[1]
        cdef int64_t *row = self.pads[2]
        cdef int64_t pitch = row[0] + row[1] + row[2], image, d, h
        for image in range(self.images):
            for d in range(planes[0] + planes[1] + planes[2]):
                for h in range(rows[0] + rows[1] + rows[2]):
                    if planes[0] <= d < planes[0] + planes[1] and rows[0] <= h < rows[0] + rows[1]:
                        memset(at, zero, row[0])
                        memset(at + row[0] + row[1], zero, row[2])
                    else:
                        memset(at, zero, pitch)
                    at += pitch
