"""What modules use of numpy's arrays in C. numpy's own declarations are a thousand lines, which Cython would read for
each module: a fifth of its time; and each module would import all of numpy's types.

A module that has arrays calls `import_array()` first: without it functions such as that of `size` are not there."""

from cpython.ref cimport Py_INCREF

cdef extern from "numpy/arrayobject.h":
    ctypedef signed long npy_intp  # Cython knows its rank by this; its size is that of C
    ctypedef struct PyArray_Descr:
        pass
    cdef enum:
        NPY_ARRAY_ALIGNED, NPY_ARRAY_CARRAY, NPY_ARRAY_WRITEABLE, NPY_INT8, NPY_UINT8, NPY_INT32, NPY_UINT32, NPY_INT64, NPY_FLOAT32, NPY_FLOAT64

    ctypedef class numpy.dtype [object PyArray_Descr, check_size ignore]:
        pass
    ctypedef class numpy.ndarray [object PyArrayObject, check_size ignore]:
        @property
        cdef inline int ndim(self) noexcept nogil:
            return PyArray_NDIM(self)

        @property
        cdef inline npy_intp *shape(self) noexcept nogil:
            return PyArray_DIMS(self)

        @property
        cdef inline npy_intp *strides(self) noexcept nogil:
            return PyArray_STRIDES(self)

        @property
        cdef inline npy_intp size(self) noexcept nogil:
            return PyArray_SIZE(self)

    int import_array "_import_array"() except -1
    bint PyArray_CheckExact(object)
    bint PyArray_IS_C_CONTIGUOUS(ndarray) nogil
    bint PyArray_ISCARRAY(ndarray) nogil
    bint PyArray_ISALIGNED(ndarray) nogil
    bint PyArray_ISWRITEABLE(ndarray) nogil
    int PyArray_NDIM(ndarray) nogil
    npy_intp *PyArray_DIMS(ndarray) nogil
    npy_intp *PyArray_STRIDES(ndarray) nogil
    npy_intp PyArray_SIZE(ndarray) nogil
    npy_intp PyArray_NBYTES(ndarray) nogil
    npy_intp PyArray_ITEMSIZE(ndarray) nogil
    int PyArray_TYPE(ndarray) nogil
    void *PyArray_DATA(ndarray) nogil
    PyArray_Descr *PyArray_DESCR(ndarray) nogil
    object PyArray_EMPTY(int ndim, npy_intp *shape, int type_number, int fortran)
    object PyArray_SimpleNewFromData(int ndim, npy_intp *shape, int type_number, void *data)
    int PyArray_SetBaseObject(ndarray, object base) except -1  # takes a reference of its caller's


cdef inline int set_array_base(ndarray array, object base) except -1:
    """Have `array` keep `base`, which owns its memory."""
    Py_INCREF(base)
    return PyArray_SetBaseObject(array, base)
