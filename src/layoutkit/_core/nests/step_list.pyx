"""The steps of a program as a flat list, through which one call goes without the GIL.

A step is an operation on some of the arrays whose addresses are in a table. Runs at the same time share the list; each has
a table and memory of its own.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from ..ndarray cimport NPY_INT64, PyArray_DATA, PyArray_NBYTES, PyArray_TYPE, import_array, ndarray
from ..runtime.signals cimport go_on, interrupted, watch_signals
from ..runtime.team cimport begin_work, end_work
from .executor cimport aligned
from .operation cimport MAX_ARRAYS, Operation

import_array()

cdef extern from "clock.h" nogil:
    int64_t lk_now()


cdef class Context:
    """The table of addresses and the workspace of a run.

    Parameters
    ----------
    places : int
        Length of the table.
    scratch : ndarray of uint8
        The workspace, with 64 bytes more than the steps need, so that it can be aligned.
    """

    def __cinit__(self, int places, ndarray scratch not None):
        self.addresses = <char **>calloc(max(1, places), sizeof(char *))
        if self.addresses == NULL:
            raise MemoryError(f"program: {places} arrays")
        self.places, self.scratch = places, scratch
        self.workspace = <char *>aligned(<int64_t>PyArray_DATA(scratch))

    def __dealloc__(self):
        free(self.addresses)

    def set(self, int place, ndarray array not None, int64_t offset=0):
        """Set the address at a place: that of an array, plus `offset` bytes. The caller keeps the array alive."""
        if not 0 <= place < self.places:
            raise IndexError(f"program: array {place} of {self.places}")
        self.addresses[place] = <char *>PyArray_DATA(array) + offset


cdef class StepList:
    """The steps, in order.

    Parameters
    ----------
    steps : sequence of (operation, of_python, places)
        The operation, or None where there is nothing to do or Python does it; the places of its arrays in the table, in
        the order in which they were bound.
    """

    def __cinit__(self, steps):
        cdef Operation operation
        cdef Step *step
        cdef int i, j, max_place = -1, used = 0
        self.count, self.operations = len(steps), []
        self.steps = <Step *>calloc(max(1, self.count), sizeof(Step))
        self.places = <int *>calloc(max(1, sum([len(places) for _, _, places in steps])), sizeof(int))
        if self.steps == NULL or self.places == NULL:
            raise MemoryError(f"program: {self.count} steps")
        for i, (run_by, of_python, places) in enumerate(steps):
            step = self.steps + i
            step.of_python = of_python
            if run_by is None:
                continue
            operation = run_by
            if len(places) > MAX_ARRAYS or operation.array_types is None or len(places) != len(operation.array_types):
                raise ValueError(f"program: step {i} is bound to {operation.array_types}, got {len(places)} arrays")
            self.operations.append(operation)
            self.workspace = max(self.workspace, operation.workspace)
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
        cdef char *workspace = context.workspace
        cdef int step
        if context.places <= self.max_place or PyArray_NBYTES(context.scratch) < self.workspace + 64:
            raise ValueError(f"program: a context of {context.places} arrays and {(<object>context.scratch).nbytes} bytes of scratch; "
                             f"expected {self.max_place + 1} and {self.workspace + 64}")
        if not 0 <= first <= self.count:
            raise IndexError(f"program: step {first} of {self.count}")
        if times is not None:
            if PyArray_TYPE(times) != NPY_INT64 or PyArray_NBYTES(times) < self.count * 16 or not (<object>times).flags.c_contiguous:
                raise ValueError(f"program: times of {self.count} steps, got {(<object>times).shape} {times.dtype}")
            clock = <int64_t *>PyArray_DATA(times)
        watch_signals()
        with nogil:
            begin_work()
            step = self.run_until_python(addresses, workspace, first, clock)
            end_work()
        go_on()
        return step

    cdef int run_until_python(self, char **addresses, char *workspace, int i, int64_t *times) noexcept nogil:
        """Run steps from i on; the number of the first one that is not run: Python's, or the next one after a signal."""
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
                (<Operation>step.operation).run(arrays, workspace)
                if interrupted():
                    break
            if times != NULL:
                times[2 * i + 1] = lk_now()
            i += 1
        return i
