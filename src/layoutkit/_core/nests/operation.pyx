"""An operation on arrays of fixed shapes and strides; compiled programs are lists of them.

It checks and plans once, for arrays like those that it will run on; a run gets nothing but addresses, holds no lock and
allocates nothing.
"""

from libc.stdint cimport int64_t

import numpy as np

from ..ndarray cimport PyArray_DATA, import_array, ndarray
from ..runtime.pace cimport seconds
from ..runtime.pool cimport Pool
from ..runtime.signals cimport go_on, interrupted, watch_signals
from ..runtime.team cimport lk_claim, lk_portions, share_out
from .executor cimport aligned, share

import_array()

cdef Pool _pool = Pool(64 << 20)  # of workspaces, for calls from Python

cdef enum:
    REGION_TASKS = 4  # of a thread, at least, between looks at signals
cdef double QUICK_SECONDS = 0.02, SLOW_SECONDS = 0.1  # of regions that grow, and of those that shrink


cdef struct Run:
    void *operation
    char **at
    char *workspace


cdef void run_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const Run *r = <const Run *>argument
    (<Operation>r.operation).run_share(r.at, r.workspace, slot, part, parts, portions)


cdef struct Tasks:
    void *operation
    char **at
    char *workspace
    int64_t first, last, thread_bytes


cdef void run_some_tasks(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const Tasks *t = <const Tasks *>argument
    cdef char *mine = t.workspace + slot * t.thread_bytes
    cdef int64_t count = t.last - t.first, first, last, task
    while lk_claim(portions, share(count, parts, part), share(count, parts, part + 1), &first, &last):
        for task in range(t.first + first, t.first + last):
            (<Operation>t.operation).run_one(task, t.at, mine)


cdef class Operation:
    """The base class. A subclass calls `bind`, sets `workspace` to the bytes that it needs, and implements `run`; where that
    is one region, by `run_shares` and `run_share`; where it is many tasks, by `run_chunks` and `run_one`. One that `checks`
    numbers which it reads also implements `fault`.

    ``operation(*arrays)`` runs it on other arrays of the same shapes and strides.
    """

    def __cinit__(self):
        self.owned = []

    cdef int bind(self, tuple arrays) except -1:
        """Fix the shapes and strides of all runs: those of these arrays."""
        if len(arrays) > MAX_ARRAYS:
            raise ValueError(f"{type(self).__name__}: {len(arrays)} arrays, at most {MAX_ARRAYS}")
        self.array_types = tuple([(a.shape, a.strides, a.itemsize) for a in arrays])
        return 0

    cdef object fault(self, char **at, char *workspace):
        """The error of a run that has begun its workspace with a place."""
        raise NotImplementedError(type(self).__name__)

    cdef const char *keep(self, numbers, dtype=None) except? NULL:
        """The address of an array, contiguous and of a type, which lives as long as the operation."""
        cdef ndarray array = np.ascontiguousarray(numbers, dtype)
        self.owned.append(array)
        return <const char *>PyArray_DATA(array)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        """Run on the arrays at these addresses, in the order in which they were bound; `workspace` begins at a cache line."""
        pass

    cdef void run_shares(self, int threads, char **at, char *workspace) noexcept nogil:
        """Run all shares, on at most so many threads."""
        cdef Run r
        r.operation, r.at, r.workspace = <void *>self, at, workspace
        share_out(threads, run_share, &r)

    cdef void run_share(self, char **at, char *workspace, int slot, int part, int parts,
                        lk_portions *portions) noexcept nogil:
        """Claim and run tasks of share `part` of `parts`, see region.h."""
        pass

    cdef void run_chunks(self, int threads, int64_t tasks, int64_t chunks, char **at, char *workspace,
                        int64_t thread_bytes) noexcept nogil:
        """Run all tasks, on at most so many threads; each thread has a workspace of so many bytes. If they are expected to
        take more than one chunk, then in regions, between which signals are checked for: small ones at first, which grow as
        long as they are quick, but never of so few tasks that threads would wait for one another."""
        cdef Tasks t
        cdef int64_t least = REGION_TASKS * threads if threads > 1 else 1
        cdef int64_t size = tasks if chunks <= 1 else max(least, tasks // (16 * chunks))
        cdef double since = seconds() if chunks > 1 else 0, now
        t.operation, t.at, t.workspace, t.thread_bytes = <void *>self, at, workspace, thread_bytes
        t.last = 0
        while t.last < tasks:
            t.first = t.last
            t.last = tasks if tasks - t.first < size + least else t.first + size
            share_out(threads, run_some_tasks, &t)
            if interrupted():
                return
            if t.last < tasks:
                now = seconds()
                if now - since < QUICK_SECONDS:
                    size *= 2
                elif now - since > SLOW_SECONDS:
                    size = max(least, size // 2)
                since = now

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        """Run one of the tasks that `run_chunks` shares out."""
        pass

    def __call__(self, *arrays):
        cdef char *at[MAX_ARRAYS]
        cdef int i
        types = tuple([(a.shape, a.strides, a.itemsize) for a in arrays])
        if types != self.array_types:
            raise ValueError(
                f"{type(self).__name__}: bound to arrays of (shape, strides, itemsize) {self.array_types}, got {types}"
            )
        for i in range(len(arrays)):
            at[i] = <char *>PyArray_DATA(<ndarray>arrays[i])
        scratch = _pool.lend(self.workspace + 64)
        cdef char *workspace = <char *>aligned(<int64_t>PyArray_DATA(<ndarray>scratch))
        watch_signals()
        with nogil:
            self.run(at, workspace)
        error = None
        if self.checks and not interrupted() and (<int64_t *>workspace)[0] >= 0:
            error = self.fault(at, workspace)
        _pool.take_back(scratch)
        go_on()
        if error is not None:
            raise error
