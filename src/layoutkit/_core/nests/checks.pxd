"""What operations expect of their arrays."""

from ..ndarray cimport NPY_FLOAT32, NPY_FLOAT64, PyArray_IS_C_CONTIGUOUS, PyArray_TYPE, ndarray


cdef inline int check_order(tuple arrays, str what) except -1:
    """ValueError unless arrays are in C order."""
    for array in arrays:
        if not PyArray_IS_C_CONTIGUOUS(<ndarray>array):
            raise ValueError(f"{what}: expected arrays in C order")
    return 0


cdef inline int check_reals(tuple arrays, ndarray x, ndarray y, str what) except -1:
    """ValueError unless arrays are in C order, and x and y of the same real type."""
    check_order(arrays, what)
    if PyArray_TYPE(x) not in (NPY_FLOAT32, NPY_FLOAT64) or PyArray_TYPE(y) != PyArray_TYPE(x):
        raise ValueError(f"{what}: {x.dtype} to {y.dtype}, expected float32 or float64")
    return 0
