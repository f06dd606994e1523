"""The steps of a program as a flat list, through which one call goes without the GIL.

A step is an operation on some of the arrays whose addresses a table has. Runs that go on at the same time share the list;
each has a table of its own, and memory of its own that the addresses point to.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from numpy cimport NPY_INT64, PyArray_DATA, PyArray_NBYTES, PyArray_TYPE, import_array, ndarray

from ..runtime.signals cimport go_on, interrupted, watch_signals
from ..runtime.team cimport begin_work, end_work
from .executor cimport aligned
from .operation cimport MAX_ARRAYS, Operation

import_array()

cdef extern from "clock.h" nogil:
    int64_t lk_now()


cdef class Context:
    """What a run has of its own.

    Parameters
    ----------
    places : int
        How many addresses the table has.
    scratch : ndarray
        Of bytes, 64 more than the steps need as a workspace.
    """

    def __cinit__(self, int places, ndarray scratch not None):
        self.at = <char **>calloc(max(1, places), sizeof(char *))
        if self.at == NULL:
            raise MemoryError(f"program: {places} arrays")
        self.places, self.scratch = places, scratch
        self.workspace = <char *>aligned(<int64_t>PyArray_DATA(scratch))

    def __dealloc__(self):
        free(self.at)

    def set(self, int place, ndarray array not None, int64_t offset=0):
        """Let a place have the address of an array, plus `offset` bytes. The caller keeps the array."""
        if not 0 <= place < self.places:
            raise IndexError(f"program: array {place} of {self.places}")
        self.at[place] = <char *>PyArray_DATA(array) + offset


cdef class StepList:
    """The steps, in order.

    Parameters
    ----------
    steps : sequence of (operation, of_python, places)
        The operation, or None where there is nothing to do or Python does it; the places of its arrays, as it was bound.
    """

    def __cinit__(self, steps):
        cdef Operation operation
        cdef Step *step
        cdef int i, j, most = -1, at = 0
        self.count, self.operations = len(steps), []
        self.steps = <Step *>calloc(max(1, self.count), sizeof(Step))
        self.places = <int *>calloc(max(1, sum([len(places) for _, _, places in steps])), sizeof(int))
        if self.steps == NULL or self.places == NULL:
            raise MemoryError(f"program: {self.count} steps")
        for i, (of, python, places) in enumerate(steps):
            step = self.steps + i
            step.of_python = python
            if of is None:
                continue
            operation = of
            if len(places) > MAX_ARRAYS or operation.kinds is None or len(places) != len(operation.kinds):
                raise ValueError(f"program: step {i} is bound to {operation.kinds}, got {len(places)} arrays")
            self.operations.append(operation)
            self.workspace = max(self.workspace, operation.workspace)
            step.operation, step.count, step.places = <void *>operation, len(places), self.places + at
            for j in range(step.count):
                if places[j] < 0:
                    raise ValueError(f"program: step {i} is on array {places[j]}")
                self.places[at + j] = places[j]
                most = max(most, <int>places[j])
            at += step.count
        self.most = most

    def __dealloc__(self):
        free(self.steps)
        free(self.places)

    def run(self, Context context not None, int first, ndarray times=None):
        """Run steps from `first` up to the next one that is Python's; its number, or that of all steps.

        Parameters
        ----------
        context : Context
        first : int
        times : ndarray of int64, optional
            By step, gets its beginning and its end by the clock of `time.perf_counter_ns`.
        """
        cdef int64_t *taken = NULL
        cdef char **at = context.at
        cdef char *workspace = context.workspace
        cdef int step
        if context.places <= self.most or PyArray_NBYTES(context.scratch) < self.workspace + 64:
            raise ValueError(f"program: a context of {context.places} arrays and {(<object>context.scratch).nbytes} bytes of scratch; "
                             f"expected {self.most + 1} and {self.workspace + 64}")
        if not 0 <= first <= self.count:
            raise IndexError(f"program: step {first} of {self.count}")
        if times is not None:
            if PyArray_TYPE(times) != NPY_INT64 or PyArray_NBYTES(times) < self.count * 16 or not (<object>times).flags.c_contiguous:
                raise ValueError(f"program: times of {self.count} steps, got {(<object>times).shape} {times.dtype}")
            taken = <int64_t *>PyArray_DATA(times)
        watch_signals()
        with nogil:
            begin_work()
            step = self.walk(at, workspace, first, taken)
            end_work()
        go_on()
        return step

    cdef int walk(self, char **at, char *workspace, int i, int64_t *times) noexcept nogil:
        """Run steps from i on; the number of the first one that it leaves: Python's, or any after a signal."""
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
                    arrays[j] = at[step.places[j]]
                (<Operation>step.operation).run(arrays, workspace)
                if interrupted():
                    break
            if times != NULL:
                times[2 * i + 1] = lk_now()
            i += 1
        return i
