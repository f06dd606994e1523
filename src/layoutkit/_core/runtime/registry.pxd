from ..kernels cimport lk_kernel, lk_tile, lk_types

cdef const lk_kernel *row_named(str name) except NULL
cdef const lk_kernel *best_row(int family, str types) except NULL
cdef const lk_kernel *row_of(int family, str types, int isa) except NULL
cdef int k_step_of(const lk_kernel *row) noexcept
cdef const lk_types *types_named(str name) except NULL
cdef int element_bytes(int element) noexcept
cdef str element_name(int element)
cdef int isa_in_use() noexcept
