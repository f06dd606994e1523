"""A pool of large blocks of memory, which new arrays reuse, and the workspaces of calls.

There are no locks and no reference counts: a free block is an entry of one dictionary, and whoever removes it owns it.
Arrays may die anywhere, also in a garbage collection in the middle of `take`. A fork while another thread is in here,
or a signal (whose handlers do not run inside compiled code), can at worst lose a block, which is then freed.
"""

import mmap

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uintptr_t
from numpy import empty, uint8

from ..ndarray cimport (
    NPY_UINT8, PyArray_NBYTES, PyArray_SimpleNewFromData, import_array, ndarray, npy_intp, set_array_base
)

cdef extern from *:
    """
    #include <stdlib.h>
    #if defined(__GLIBC__)
    #include <malloc.h>
    #define lk_trim() malloc_trim(0)
    #else
    #define lk_trim() ((void)0)
    #endif
    """
    void lk_trim() nogil

import_array()

cdef size_t HUGE_PAGE_BYTES = 2 << 20
LARGE_BYTES = 4 << 20  # arrays and workspaces of at least this size have a block of their own
cdef size_t _large_bytes = LARGE_BYTES
cdef int MAX_SMALL = 8  # small workspaces that are kept, if they cannot fill more than half of what a pool may hold
cdef double MAX_SURPLUS = 1.25  # a free block may be this many times as large as what it is used for


@cython.no_gc
cdef class _Lease:
    """The base of an array over a block: returns the block when the last view of the array is gone."""

    cdef Pool pool
    cdef object block
    cdef Py_buffer memory

    def __dealloc__(self):
        if self.block is not None:
            PyBuffer_Release(&self.memory)
            self.pool.give(self.block)


cdef class Pool:
    """Free blocks; the one unused for longest is released first.

    Parameters
    ----------
    bound : int
        Bytes that are kept at most, those of small workspaces included.
    """

    def __init__(self, bound):
        self.free, self.small = {}, []
        self.set_bound(bound)

    cdef set_bound(self, bound):
        self.bound, self.most_small = bound, min(bound // 2 // _large_bytes, MAX_SMALL)

    @property
    def free_bytes(self):
        """Bytes that are free."""
        return sum([len(block) for block in self.free.copy().values()]) + self.free_small_bytes()

    def free_small_bytes(self):
        """Bytes of small workspaces that are free."""
        return sum([array.nbytes for array in self.small.copy()])

    def limit(self, bound):
        """Keep at most `bound` bytes from now on."""
        self.set_bound(bound)
        self.release(bound)

    cdef object lend(self, size_t size):
        """A workspace of at least `size` bytes; a large one returns with its last view, others by `take_back`.

        Calls that follow one another share one: the workspace that was returned last, or a larger one in its place.
        """
        if size >= _large_bytes:
            return self.take(size)
        try:
            array = self.small.pop()
        except IndexError:
            array = None
        return array if array is not None and <size_t>PyArray_NBYTES(<ndarray>array) >= size else empty(size, uint8)

    cdef object take_back(self, array):
        if len(self.small) < self.most_small and <size_t>PyArray_NBYTES(<ndarray>array) < _large_bytes:
            self.small.append(array)

    def take(self, size):
        """An array of `size` bytes that begins at a huge page."""
        cdef npy_intp length = size
        cdef _Lease lease = _Lease.__new__(_Lease)
        need = -(-size // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
        block = self.free_block(need)
        if block is None:
            block = self.new(need + HUGE_PAGE_BYTES)
        PyObject_GetBuffer(block, &lease.memory, PyBUF_WRITABLE)
        lease.pool, lease.block = self, block
        at = <char *>lease.memory.buf
        array = PyArray_SimpleNewFromData(1, &length, NPY_UINT8, at + (-<uintptr_t>at & (HUGE_PAGE_BYTES - 1)))
        set_array_base(array, lease)
        return array

    cdef free_block(self, need):
        for key, block in self.free.copy().items():
            if need <= len(block) - HUGE_PAGE_BYTES <= MAX_SURPLUS * need and self.free.pop(key, None) is not None:
                return block

    cdef new(self, size):
        try:
            block = self.mapped(size)
        except (OSError, OverflowError):
            self.release(0)
            try:
                block = self.mapped(size)
            except (OSError, OverflowError):
                raise MemoryError(f"no memory for {size} bytes") from None
        if hasattr(mmap, "MADV_HUGEPAGE"):
            try:
                block.madvise(mmap.MADV_HUGEPAGE)
            except OSError:
                pass  # an operating system without huge pages
        return block

    cdef mapped(self, size):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    cdef give(self, block):
        self.free[id(block)] = block
        self.release(self.bound)

    def release(self, keep=0):
        """Return memory to the system until at most `keep` bytes are left; returns how many bytes that were."""
        released = 0
        free = self.free.copy()
        left = sum([len(block) for block in free.values()]) + self.free_small_bytes()
        for key, block in free.items():
            if left <= keep:
                break
            left -= len(block)
            if self.free.pop(key, None) is not None:
                released += len(block)
        while left > keep and self.small:
            try:
                size = self.small.pop().nbytes
            except IndexError:  # another thread took it
                break
            left, released = left - size, released + size
        return released


def trim():
    """Return to the system what the C library's allocator has free: after many large arrays it keeps much of them."""
    with nogil:
        lk_trim()
