"""The steps of a program as a flat list, through which one call goes without the GIL.

A step is an operation on some of the arrays whose addresses are in a table, that of its workspace among them. Runs at the
same time share the list; each has a table and memory of its own.
"""

from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport calloc, free

from ..ndarray cimport NPY_INT64, PyArray_DATA, PyArray_NBYTES, PyArray_TYPE, import_array, ndarray
from ..runtime.signals cimport go_on, interrupted, watch_signals
from ..runtime.team cimport begin_work, end_work
from .operation cimport MAX_ARRAYS, Operation

import_array()

cdef extern from "clock.h" nogil:
    int64_t lk_now()

cdef enum:
    LINE_BYTES = 64


class StepFault(ValueError):
    """What a step says of a number that it cannot use.

    Attributes
    ----------
    step : int
    """

    def __init__(self, step, reason):
        super().__init__(reason)
        self.step = step


cdef class Context:
    """The table of addresses of a run.

    Parameters
    ----------
    places : int
        Length of the table.
    """

    def __cinit__(self, int places):
        self.addresses = <char **>calloc(max(1, places), sizeof(char *))
        self.sizes = <int64_t *>calloc(max(1, places), sizeof(int64_t))
        if self.addresses == NULL or self.sizes == NULL:
            raise MemoryError(f"program: {places} arrays")
        self.places = places

    def __dealloc__(self):
        free(self.addresses)
        free(self.sizes)

    def set(self, int place, ndarray array not None, int64_t offset=0):
        """Set the address at a place: that of an array, plus `offset` bytes. The caller keeps the array alive."""
        if not 0 <= place < self.places:
            raise IndexError(f"program: array {place} of {self.places}")
        self.addresses[place] = <char *>PyArray_DATA(array) + offset
        self.sizes[place] = PyArray_NBYTES(array) - offset


cdef class StepList:
    """The steps, in order.

    Parameters
    ----------
    steps : sequence of (operation, of_python, places, workspace)
        The operation, or None where there is nothing to do or Python does it; the places of its arrays in the table, in
        the order in which they were bound; that of its workspace, which begins at a cache line, -1 if it needs none.
    """

    def __cinit__(self, steps):
        cdef Operation operation
        cdef Step *step
        cdef int i, j, max_place = -1, used = 0
        self.count, self.operations = len(steps), []
        self.steps = <Step *>calloc(max(1, self.count), sizeof(Step))
        self.places = <int *>calloc(max(1, sum([len(places) for _, _, places, _ in steps])), sizeof(int))
        if self.steps == NULL or self.places == NULL:
            raise MemoryError(f"program: {self.count} steps")
        for i, (run_by, of_python, places, workspace) in enumerate(steps):
            step = self.steps + i
            step.of_python = of_python
            if run_by is None:
                continue
            operation = run_by
            if len(places) > MAX_ARRAYS or operation.array_types is None or len(places) != len(operation.array_types):
                raise ValueError(f"program: step {i} is bound to {operation.array_types}, got {len(places)} arrays")
            self.operations.append(operation)
            if workspace < 0 < operation.workspace:
                raise ValueError(f"program: step {i} needs a workspace of {operation.workspace} bytes, got none")
            step.workspace, step.bytes, step.checks = workspace, operation.workspace, operation.checks
            max_place = max(max_place, step.workspace)
            step.operation, step.count, step.places = <void *>operation, len(places), self.places + used
            for j in range(step.count):
                if places[j] < 0:
                    raise ValueError(f"program: step {i} is on array {places[j]}")
                self.places[used + j] = places[j]
                max_place = max(max_place, <int>places[j])
            used += step.count
        self.max_place = max_place

    def __dealloc__(self):
        free(self.steps)
        free(self.places)

    def run(self, Context context not None, int first, ndarray times=None):
        """Run steps from `first` up to the next one that is Python's; returns its number, or the count of steps.

        Parameters
        ----------
        context : Context
        first : int
        times : ndarray of int64, optional
            Gets the begin and end of each step by the clock of `time.perf_counter_ns`.
        """
        cdef int64_t *clock = NULL
        cdef char **addresses = context.addresses
        cdef int step
        if context.places <= self.max_place:
            raise ValueError(f"program: a context of {context.places} arrays, expected {self.max_place + 1}")
        self.check_workspaces(context)
        if not 0 <= first <= self.count:
            raise IndexError(f"program: step {first} of {self.count}")
        if times is not None:
            if PyArray_TYPE(times) != NPY_INT64 or PyArray_NBYTES(times) < self.count * 16 or not (<object>times).flags.c_contiguous:
                raise ValueError(f"program: times of {self.count} steps, got {(<object>times).shape} {times.dtype}")
            clock = <int64_t *>PyArray_DATA(times)
        watch_signals()
        with nogil:
            begin_work()
            step = self.run_until_python(addresses, first, clock)
            end_work()
        go_on()
        if step < 0:
            self.raise_fault(context, -1 - step)
        return step

    cdef int raise_fault(self, Context context, int number) except -1:
        """StepFault of a step that has found a number that it cannot use."""
        cdef char *arrays[MAX_ARRAYS]
        cdef const Step *step = self.steps + number
        cdef int j
        for j in range(step.count):
            arrays[j] = context.addresses[step.places[j]]
        error = (<Operation>step.operation).fault(arrays, context.addresses[step.workspace])
        raise StepFault(number, str(error)) from error

    cdef int check_workspaces(self, Context context) except -1:
        """ValueError unless all workspaces are as large as their steps need them, and begin at cache lines."""
        cdef const Step *step
        cdef int i
        for i in range(self.count):
            step = self.steps + i
            if step.bytes and (context.sizes[step.workspace] < step.bytes
                               or <uintptr_t>context.addresses[step.workspace] % LINE_BYTES):
                raise ValueError(f"program: step {i} needs a workspace of {step.bytes} bytes at a cache line, "
                                 f"got {context.sizes[step.workspace]} bytes")
        return 0

    cdef int run_until_python(self, char **addresses, int i, int64_t *times) noexcept nogil:
        """Run steps from i on; the number of the first one that is not run: Python's, or the next one after a signal. Of one
        that has found a number that it cannot use: -1 less its own."""
        cdef char *arrays[MAX_ARRAYS]
        cdef const Step *step
        cdef int j
        while i < self.count:
            step = self.steps + i
            if step.of_python:
                break
            if times != NULL:
                times[2 * i] = lk_now()
            if step.operation != NULL:
                for j in range(step.count):
                    arrays[j] = addresses[step.places[j]]
                (<Operation>step.operation).run(arrays, NULL if step.workspace < 0 else addresses[step.workspace])
                if interrupted():
                    break
                if step.checks and (<int64_t *>addresses[step.workspace])[0] >= 0:
                    return -1 - i
            if times != NULL:
                times[2 * i + 1] = lk_now()
            i += 1
        return i
