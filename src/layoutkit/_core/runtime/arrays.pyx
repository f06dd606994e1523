"""Arrays of a call: a key of their shapes and strides, whether they overlap, new ones for results."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport Py_INCREF
from libc.string cimport memcpy

from ..ndarray cimport (
    NPY_ARRAY_ALIGNED, NPY_ARRAY_CARRAY, NPY_ARRAY_WRITEABLE, NPY_UINT8, PyArray_Descr, PyArray_DATA, PyArray_DESCR,
    PyArray_DIMS, PyArray_EMPTY, PyArray_IS_C_CONTIGUOUS, PyArray_ISWRITEABLE, PyArray_ITEMSIZE, PyArray_NDIM,
    PyArray_STRIDES, dtype, import_array,
    ndarray, npy_intp, set_array_base
)

from numpy import ndarray as new_array

import_array()

cdef extern from "numpy/arrayobject.h":
    object PyArray_NewFromDescr(void *type, PyArray_Descr *descr, int ndim, npy_intp *shape, npy_intp *strides,
                                void *data, int flags, void *like)

cdef enum:
    LINE_BYTES = 64  # a cache line
    MAX_AXES = 64    # of an array, as numpy has it


def address(ndarray array not None):
    """The address of the first element of `array`."""
    return <size_t>PyArray_DATA(array)


def strides_key(ndarray array not None, ndarray out=None):
    """What a plan may depend on in the arrays of a call, beside their dtypes: a key, only to be compared.

    Equal for arrays of equal shape and strides, and outputs of equal strides that begin at equal places of cache lines.
    """
    cdef npy_intp key[4 * MAX_AXES + 2]
    cdef npy_intp *end = key + 1
    cdef int n = PyArray_NDIM(array)
    key[0] = n
    if n:  # numpy has no arrays of no sizes
        memcpy(end, PyArray_DIMS(array), n * sizeof(npy_intp))
        memcpy(end + n, PyArray_STRIDES(array), n * sizeof(npy_intp))
    end += 2 * n
    if out is not None:
        n = PyArray_NDIM(out)
        end[0] = <size_t>PyArray_DATA(out) % LINE_BYTES
        if n:
            memcpy(end + 1, PyArray_STRIDES(out), n * sizeof(npy_intp))
        end += 1 + n
    return PyBytes_FromStringAndSize(<char *>key, <char *>end - <char *>key)


def can_hold_result(ndarray out not None, tuple shape not None, kind not None):
    """Whether `out` is a writeable, contiguous array of this shape and dtype: a result can be written there."""
    cdef int i, n = PyArray_NDIM(out)
    if not (PyArray_ISWRITEABLE(out) and PyArray_IS_C_CONTIGUOUS(out)) or n != len(shape):
        return False
    for i in range(n):
        if PyArray_DIMS(out)[i] != <npy_intp>shape[i]:
            return False
    return <void *>PyArray_DESCR(out) == <void *>kind or out.dtype == kind


def extents_overlap(ndarray a not None, ndarray b not None):
    """Whether the ranges of addresses of `a` and `b` overlap."""
    cdef const char *a_first
    cdef const char *a_end
    cdef const char *b_first
    cdef const char *b_end
    return extent(a, &a_first, &a_end) and extent(b, &b_first, &b_end) and a_first < b_end and b_first < a_end


cdef bint extent(ndarray array, const char **first, const char **end) noexcept:
    """Where the bytes of `array` begin and end; False if it has none."""
    cdef npy_intp far
    cdef int i
    first[0] = end[0] = <const char *>PyArray_DATA(array)
    end[0] += PyArray_ITEMSIZE(array)
    for i in range(PyArray_NDIM(array)):
        if PyArray_DIMS(array)[i] == 0:
            return False
        far = (PyArray_DIMS(array)[i] - 1) * PyArray_STRIDES(array)[i]
        if far < 0:
            first[0] += far
        else:
            end[0] += far
    return first[0] < end[0]


def at_address(size_t address, tuple shape not None, tuple strides not None, dtype kind not None):
    """An array of the memory at `address`, which must outlive it; strides are bytes."""
    cdef npy_intp sizes[MAX_AXES]
    cdef npy_intp steps[MAX_AXES]
    cdef int i, n = len(shape)
    if n > MAX_AXES or len(strides) != n:
        raise ValueError(f"an array of {n} axes and {len(strides)} strides; at most {MAX_AXES} and as many")
    for i in range(n):
        sizes[i] = shape[i]
        steps[i] = strides[i]
    Py_INCREF(kind)  # the new array's
    return PyArray_NewFromDescr(<void *>new_array, <PyArray_Descr *>kind, n, sizes, steps, <void *>address,
                                NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE, NULL)


def aligned(tuple shape not None, dtype kind not None, npy_intp nbytes, npy_intp place=0, npy_intp period=64):
    """A new contiguous array of `nbytes` bytes that begins at byte `place` of one of the pieces of `period` bytes into
    which memory divides."""
    cdef npy_intp size = nbytes + period
    cdef npy_intp sizes[MAX_AXES]
    cdef int i, n = len(shape)
    if n > MAX_AXES:
        raise ValueError(f"an array of {n} axes; at most {MAX_AXES}")
    for i in range(n):
        sizes[i] = shape[i]
    memory = PyArray_EMPTY(1, &size, NPY_UINT8, 0)
    cdef size_t at = <size_t>PyArray_DATA(<ndarray>memory)
    at += (<size_t>place - at) % <size_t>period
    Py_INCREF(kind)  # the new array's
    array = PyArray_NewFromDescr(<void *>new_array, <PyArray_Descr *>kind, n, sizes, NULL, <void *>at, NPY_ARRAY_CARRAY,
                                 NULL)
    set_array_base(array, memory)
    return array
