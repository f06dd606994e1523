"""The functions behind layoutkit.h and api.pxd: plans as C objects that execute without the GIL.

Planning is what `lk.reorder` and `lk.Conv2d` do; here only the checks of C's side are added, and a plan is kept in a
struct that holds on to its Python objects.
"""

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .convolutions import conv as _conv
from .convolutions import transposed as _transposed
from .convolutions.transposed_operation import compiled as _compiled_transposed
from .formats.layout import Layout
from .reorders.binding import UNCHANGED, Call, bind
from .memory.spans import overlaps_itself
from .choosing.threads import check_threads

from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset, strncpy

from ._core.ndarray cimport PyArray_DATA, import_array, ndarray
from ._core.runtime.process cimport forks
from ._core.nests.executor cimport aligned
from ._core.nests.moves.reorder cimport Program
from ._core.kernels.elementwise cimport lk_epilogue
from ._core.nests.convolutions.route cimport Epilogue, Route

import_array()

cdef extern from *:
    """
    #include <string.h>
    #include "kernels.h"
    static _Thread_local char layoutkit_message[1024];
    typedef struct {
        void *program; /* of a reorder, or NULL */
        void *route;   /* of a convolution, or NULL */
        const char *filter, *bias;
        const lk_epilogue *epilogue; /* or NULL */
        int source, to;              /* SRC, DST, WORK */
        int64_t source_at, to_at;    /* bytes */
        int threads;                 /* of a reorder */
    } layoutkit_step;
    struct layoutkit_plan {
        PyObject *owner; /* of what the pointers of the steps point to */
        int64_t workspace, scratch_at, dst_bytes; /* scratch_at: where the workspace of the steps begins */
        int threads, src_item, dst_item, count;
        layoutkit_step step[]; /* none: there is nothing to do */
    };
    """
    char layoutkit_message[1024]
    ctypedef struct Step "layoutkit_step":
        void *program
        void *route
        const char *filter
        const char *bias
        const lk_epilogue *epilogue
        int source, to
        int64_t source_at, to_at
        int threads
    ctypedef struct Plan "struct layoutkit_plan":
        PyObject *owner
        int64_t workspace, scratch_at, dst_bytes
        int threads, src_item, dst_item, count
        Step *step

ctypedef void (*run_program)(void *, const char *, char *, int) noexcept nogil
ctypedef void (*run_route)(void *, const char *, const char *, const char *, const lk_epilogue *, char *,
                           char *) noexcept nogil

cdef enum:
    ALIGNMENT = 64

cdef enum: # where a step reads and writes
    SRC
    DST
    WORK


# ---- errors

cdef int fail(int code, const char *text) noexcept nogil:
    strncpy(layoutkit_message, text, sizeof(layoutkit_message) - 1)
    return code


cdef int failed(error) noexcept:
    """Keep the message of an exception; its code."""
    cdef bytes text
    try:
        text = str(error).encode()
        fail(0, text)
    except BaseException:
        fail(0, b"layoutkit: out of memory")
    if isinstance(error, MemoryError):
        return LAYOUTKIT_ERROR_MEMORY
    if isinstance(error, TypeError):
        return LAYOUTKIT_ERROR_TYPE
    return LAYOUTKIT_ERROR_VALUE if isinstance(error, (ValueError, UnicodeDecodeError)) else LAYOUTKIT_ERROR_OTHER


cdef const char *last_error() noexcept nogil:
    return layoutkit_message


# ---- what a struct says, as Python has it

cdef str text_of(const char *s, default=None):
    return default if s == NULL else s.decode()


cdef tuple numbers(const int64_t *p, int n):
    return tuple([p[i] for i in range(n)])


cdef int64_t or_one(int64_t n) noexcept nogil:
    return n if n else 1


cdef like(layout, shape, dtype, const int64_t *strides):
    """An array that stands for the caller's: its shape and strides, nothing behind them."""
    physical = layout.physical_shape(shape)
    steps = [n * dtype.itemsize for n in layout.axis_strides(shape)]
    if strides != NULL:
        steps = numbers(strides, len(physical))
    return as_strided(np.empty(1, dtype), physical, steps, writeable=False)


cdef check_out_strides(array):
    """Raise if two elements of a destination would lie in one place."""
    if overlaps_itself(array.shape, array.strides, array.itemsize):
        raise ValueError(f"dst_strides {array.strides}: elements of the destination overlap one another")


cdef int new_plan(steps, int64_t kept, y, items, layoutkit_plan **plan) except -1:
    """Hand out a plan of steps (run, filter, bias, epilogue, (from, offset), (to, offset)), each after those before it.

    `kept`: bytes of the workspace that steps write for later ones. `y`: the destination. `items`: what source and
    destination must be aligned to.
    """
    cdef Plan *p = <Plan *>calloc(1, sizeof(Plan) + len(steps) * sizeof(Step))
    if p == NULL:
        raise MemoryError("plan")
    try:
        fill(p, steps, kept, y, items)
    except BaseException:
        free(p)
        raise
    p.owner = <PyObject *>steps
    Py_INCREF(steps)
    plan[0] = <layoutkit_plan *>p
    return 0


cdef int fill(Plan *p, steps, int64_t kept, y, items) except -1:
    cdef Step *step
    cdef Program program
    cdef Route route
    cdef Epilogue epilogue
    cdef int64_t most = 0
    p.threads, p.dst_bytes, p.count, p.scratch_at = 1, y.nbytes, <int>len(steps), aligned(kept)
    p.src_item, p.dst_item = items
    for i, (run, w, bias, then, source, to) in enumerate(steps):
        step = p.step + <int>i
        step.source, step.source_at = source
        step.to, step.to_at = to
        if isinstance(run, Route):
            route = run
            step.route = <void *>route
            step.filter = <const char *>PyArray_DATA(w)
            step.bias = NULL if bias is None else <const char *>PyArray_DATA(bias)
            if then is not None:
                epilogue = then
                step.epilogue = &epilogue.f
            most = max(most, route.workspace)
            p.threads = max(p.threads, route.executor.threads)
        else:
            program, step.threads = run
            step.program = <void *>program
            p.threads = max(p.threads, step.threads)
    if p.scratch_at + most:
        p.workspace = p.scratch_at + most + ALIGNMENT
    return 0


# ---- planning

cdef int take(str what, const void *spec, void *s, size_t size, layoutkit_plan **plan) except -1:
    """Copy the caller's struct, of which an older header may know less; what it does not is 0."""
    if plan == NULL:
        raise ValueError(f"{what}: nowhere to put the plan")
    plan[0] = NULL
    if spec == NULL or (<const size_t *>spec)[0] < sizeof(size_t):
        raise ValueError(f"{what}: the first field must be the size of the struct")
    memset(s, 0, size)
    memcpy(s, spec, min((<const size_t *>spec)[0], size))
    return 0


cdef int plan_reorder(const layoutkit_reorder *spec, layoutkit_plan **plan) noexcept with gil:
    cdef layoutkit_reorder s
    try:
        take("plan_reorder", spec, &s, sizeof(s), plan)
        make_reorder(&s, plan)
        return LAYOUTKIT_OK
    except BaseException as error:
        return failed(error)


cdef int make_reorder(const layoutkit_reorder *s, layoutkit_plan **plan) except -1:
    if s.src == NULL or s.dst == NULL or s.rank < 0 or (s.rank and s.shape == NULL):
        raise ValueError("plan_reorder: src, dst and shape must be given")
    if s.itemsize not in (1, 2, 4, 8, 16):
        raise TypeError(f"plan_reorder: elements of {s.itemsize} bytes; expected 1, 2, 4, 8 or 16")
    src, dst = Layout(text_of(s.src)), Layout(text_of(s.dst))
    if src.rank != s.rank:
        raise ValueError(f"plan_reorder: rank {s.rank}, but {src} has {src.rank} dimensions")
    shape = src.check_shape(numbers(s.shape, s.rank))
    dtype = np.dtype("V16" if s.itemsize == 16 else f"u{s.itemsize}")
    pad = np.zeros((), dtype)
    if s.pad != NULL:
        pad = np.frombuffer((<const char *>s.pad)[:s.itemsize], dtype)[0]
    x, y = like(src, shape, dtype, s.src_strides), like(dst, shape, dtype, s.dst_strides)
    check_out_strides(y)
    bound = bind(Call(x, src, dst, shape, y, UNCHANGED, None, None, pad, check_threads(s.threads or None)), None)
    steps = [] if bound.run is None else [((bound.run, bound.threads), None, None, None, (SRC, 0), (DST, 0))]
    return new_plan(steps, 0, y, (1, 1), plan)


cdef int plan_convolution(const layoutkit_convolution *spec, layoutkit_plan **plan) noexcept with gil:
    cdef layoutkit_convolution s
    try:
        take("plan_convolution", spec, &s, sizeof(s), plan)
        make_convolution(&s, plan)
        return LAYOUTKIT_OK
    except BaseException as error:
        return failed(error)


# Of src: the types of filter and bias as arrays have them.
cdef dict TYPES = {
    "float32": ("f4", "f4"), "float64": ("f8", "f8"), "float16": ("f2", "f4"), "bfloat16": ("u2", "f4"),
    "uint8": ("i1", "i4"), "int8": ("i1", "i4"),
}


cdef ndarray copy_of(const void *numbers, shape, dtype):
    """An array of what the caller has."""
    made = np.empty(shape, dtype)
    if made.size:
        memcpy(PyArray_DATA(made), numbers, made.nbytes)
    return made


cdef int make_convolution(const layoutkit_convolution *s, layoutkit_plan **plan) except -1:
    cdef object w, bias, scale, run, x, y  # declared: Cython 3.3.1 never ends inferring their types
    cdef tuple of, x_shape
    cdef list steps = []
    if s.spatial not in (1, 2, 3):
        raise ValueError(f"plan_convolution: {s.spatial} spatial axes; expected 1, 2 or 3")
    if s.filter == NULL:
        raise ValueError("plan_convolution: no filter")
    first, groups = 3 - s.spatial, or_one(s.groups)
    letters = "DHW"[first:]
    if (s.n < 0 or s.in_channels < 0 or s.out_channels < 1 or groups < 1 or s.in_channels % groups
            or (s.transposed and s.out_channels % groups)):
        raise ValueError(f"plan_convolution: batch {s.n}, {s.in_channels} input and {s.out_channels} output channels "
                         f"in {groups} groups")
    filter_layout = Layout(text_of(s.filter_layout, ("IO" if s.transposed else "OI") + letters))
    of = (s.out_channels // groups, s.in_channels) if s.transposed else (s.out_channels, s.in_channels // groups)
    shape = filter_layout.check_shape((*of, *numbers(s.kernel, 3)[first:]))
    src_type = text_of(s.dtype, "float32")
    dst_type = text_of(s.out_dtype, "int32" if src_type in ("uint8", "int8") else src_type)
    if src_type not in TYPES:
        raise TypeError(f"plan_convolution: dtype {src_type!r} is none of {', '.join(TYPES)}")
    of_filter, of_bias = TYPES[src_type]
    w = copy_of(s.filter, filter_layout.physical_shape(shape), of_filter)
    bias = None if s.bias == NULL else copy_of(s.bias, s.out_channels, of_bias)
    scale = None if s.scale == NULL else copy_of(s.scale, s.out_channels, "f4")
    extra = numbers(s.output_padding, 3)[first:]
    if any(extra) and not s.transposed:
        raise ValueError(f"plan_convolution: output_padding {extra} is of transposed convolutions")
    how = dict(
        groups=groups, layout=text_of(s.layout, "NC" + letters), filter_layout=filter_layout, filter_shape=shape,
        out_layout=text_of(s.out_layout), algorithm=text_of(s.algorithm, "auto"), accuracy=text_of(s.accuracy, "standard"),
        stride=[or_one(k) for k in numbers(s.stride, 3)[first:]],
        dilation=[or_one(k) for k in numbers(s.dilation, 3)[first:]],
        padding=list(zip(numbers(s.before, 3)[first:], numbers(s.after, 3)[first:])),
        threads=s.threads or None, dtype=(src_type, dst_type), scale=scale, zero_point=s.zero_point,
        out_scale=s.out_scale or 1.0, out_zero_point=s.out_zero_point,
    )
    x_shape = (s.n, s.in_channels, *numbers(s.in_, 3)[first:])
    if s.transposed:
        return make_transposed(s, _transposed.CLASSES[s.spatial](w, bias, output_padding=extra, **how), x_shape, plan)
    op = _conv.CLASSES[s.spatial](w, bias, **how)
    f = _conv.filter_of(op)
    p = f.problem(x_shape)
    x, y = between(s, f, p.src_shape, p.dst_shape)
    if y.size:
        run, w, bias = _conv.compiled(op, x, y, p.src_shape)
        steps.append((run, w, bias, f.epilogue, (SRC, 0), (DST, 0)))
    return new_plan(steps, 0, y, (x.itemsize, y.itemsize), plan)


cdef tuple between(const layoutkit_convolution *s, f, x_shape, y_shape):
    """What stands for the caller's arrays."""
    x = like(f.given_layout, x_shape, f.src_dtype, s.src_strides)
    y = like(f.out_layout, y_shape, f.dst_dtype, s.dst_strides)
    check_out_strides(y)
    return x, y


cdef int make_transposed(const layoutkit_convolution *s, op, x_shape, layoutkit_plan **plan) except -1:
    f = _conv.filter_of(op)
    x, y = between(s, f, x_shape, _transposed.out_shape(op, x_shape))
    steps, kept = _compiled_transposed(op, x, y, x_shape) if y.size else ([], 0)
    return new_plan(steps, kept, y, (x.itemsize, y.itemsize), plan)


cdef void free_plan(layoutkit_plan *plan) noexcept with gil:
    cdef Plan *p = <Plan *>plan
    if p != NULL:
        Py_DECREF(<object>p.owner)
        free(p)


# ---- of a plan, and executing it

cdef int abi_version() noexcept nogil:
    return LAYOUTKIT_ABI_VERSION


cdef int64_t plan_workspace(const layoutkit_plan *plan) noexcept nogil:
    return (<const Plan *>plan).workspace


cdef int64_t plan_dst_bytes(const layoutkit_plan *plan) noexcept nogil:
    return (<const Plan *>plan).dst_bytes


cdef int plan_threads(const layoutkit_plan *plan) noexcept nogil:
    return 1 if forks() else (<const Plan *>plan).threads


cdef void call_program(Program program, const char *src, char *dst, int threads) noexcept nogil:
    program.run(src, dst, threads)


cdef void call_route(Route route, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                     char *workspace) noexcept nogil:
    route.run(x, w, bias, epilogue, y, workspace)


cdef int execute(const layoutkit_plan *plan, const void *src, void *dst, void *workspace,
                 int64_t workspace_bytes) noexcept nogil:
    cdef const Plan *p = <const Plan *>plan
    cdef const Step *step
    cdef char *at[3]
    cdef int i
    if p == NULL:
        return fail(LAYOUTKIT_ERROR_VALUE, b"execute: no plan")
    if p.count == 0:
        return LAYOUTKIT_OK
    if dst == NULL or src == NULL:
        return fail(LAYOUTKIT_ERROR_VALUE, b"execute: src or dst is NULL")
    if (<size_t>src & (p.src_item - 1)) or (<size_t>dst & (p.dst_item - 1)):
        return fail(LAYOUTKIT_ERROR_VALUE, b"execute: src and dst must begin at whole elements")
    if p.workspace and (workspace == NULL or workspace_bytes < p.workspace):
        return fail(LAYOUTKIT_ERROR_WORKSPACE, b"execute: the workspace is smaller than the plan asks for")
    at[SRC], at[DST] = <char *>src, <char *>dst
    at[WORK] = <char *>((<size_t>workspace + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT)
    for i in range(p.count):
        step = p.step + i
        # Through pointers: an object's counter of references is not to be touched without the GIL.
        if step.program != NULL:
            (<run_program><void *>call_program)(step.program, at[step.source] + step.source_at, at[step.to] + step.to_at,
                                                step.threads)
        else:
            (<run_route><void *>call_route)(step.route, at[step.source] + step.source_at, step.filter, step.bias,
                                            step.epilogue, at[step.to] + step.to_at, at[WORK] + p.scratch_at)
    return LAYOUTKIT_OK


cdef layoutkit_api table
table.size, table.abi_version = sizeof(table), LAYOUTKIT_ABI_VERSION
table.plan_reorder, table.plan_convolution = plan_reorder, plan_convolution
table.workspace, table.dst_bytes, table.threads = plan_workspace, plan_dst_bytes, plan_threads
table.execute, table.free, table.last_error = execute, free_plan, last_error
_C_API = PyCapsule_New(&table, b"layoutkit.api._C_API", NULL)

__all__ = []
