"""layoutkit from Cython: ``from layoutkit.api cimport plan_reorder, execute, ..``; layoutkit.h says what they do.

The functions bind to the installed module at import, and raise there if its interface is another one.
"""

from libc.stdint cimport int64_t

cdef extern from "layoutkit.h" nogil:
    int LAYOUTKIT_ABI_VERSION
    int LAYOUTKIT_OK
    int LAYOUTKIT_ERROR_VALUE
    int LAYOUTKIT_ERROR_TYPE
    int LAYOUTKIT_ERROR_MEMORY
    int LAYOUTKIT_ERROR_WORKSPACE
    int LAYOUTKIT_ERROR_OTHER

    ctypedef struct layoutkit_plan

    ctypedef struct layoutkit_reorder:
        size_t size
        const char *src
        const char *dst
        int rank
        const int64_t *shape
        int itemsize
        const int64_t *src_strides
        const int64_t *dst_strides
        const void *pad
        int threads

    ctypedef struct layoutkit_convolution:
        size_t size
        int spatial
        const char *layout
        const char *out_layout
        const char *filter_layout
        int64_t n, in_channels, out_channels, groups
        int64_t in_ "in"[3]
        int64_t kernel[3]
        int64_t stride[3]
        int64_t dilation[3]
        int64_t before[3]
        int64_t after[3]
        const void *filter
        const void *bias
        const int64_t *src_strides
        const int64_t *dst_strides
        const char *algorithm
        const char *accuracy
        int threads
        const char *dtype
        const char *out_dtype
        const float *scale
        int zero_point, out_zero_point
        float out_scale
        int transposed
        int64_t output_padding[3]

    ctypedef struct layoutkit_api:
        size_t size
        int abi_version
        int (*plan_reorder)(const layoutkit_reorder *, layoutkit_plan **) noexcept
        int (*plan_convolution)(const layoutkit_convolution *, layoutkit_plan **) noexcept
        int64_t (*workspace)(const layoutkit_plan *) noexcept
        int64_t (*dst_bytes)(const layoutkit_plan *) noexcept
        int (*threads)(const layoutkit_plan *) noexcept
        int (*execute)(const layoutkit_plan *, const void *, void *, void *, int64_t) noexcept
        void (*free)(layoutkit_plan *) noexcept
        const char *(*last_error)() noexcept

cdef int abi_version() noexcept nogil
cdef int plan_reorder(const layoutkit_reorder *spec, layoutkit_plan **plan) noexcept with gil
cdef int plan_convolution(const layoutkit_convolution *spec, layoutkit_plan **plan) noexcept with gil
cdef int64_t plan_workspace(const layoutkit_plan *plan) noexcept nogil
cdef int64_t plan_dst_bytes(const layoutkit_plan *plan) noexcept nogil
cdef int plan_threads(const layoutkit_plan *plan) noexcept nogil
cdef int execute(const layoutkit_plan *plan, const void *src, void *dst, void *workspace,
                 int64_t workspace_bytes) noexcept nogil
cdef void free_plan(layoutkit_plan *plan) noexcept with gil
cdef const char *last_error() noexcept nogil
