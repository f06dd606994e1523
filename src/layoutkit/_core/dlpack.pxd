"""DLPack's structures, version 1, as far as they are used, and its table of functions for exchange in C: dlpack.h of
https://github.com/dmlc/dlpack. Frameworks put that table, in a capsule, on their type of tensors."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    enum { LK_DL_CPU = 1, LK_DL_FLOAT = 2, LK_DL_BFLOAT = 4, LK_DL_MAJOR = 1 };
    typedef struct { int32_t type, id; } lk_dl_device;
    typedef struct { uint8_t code, bits; uint16_t lanes; } lk_dl_type;
    typedef struct {
        void *data;
        lk_dl_device device;
        int32_t ndim;
        lk_dl_type dtype;
        int64_t *shape, *strides;
        uint64_t byte_offset;
    } lk_dl_tensor;
    typedef struct {
        struct { uint32_t major, minor; } version;
        void *previous;
        void *allocate, *from_object, *to_object;
        int (*describe)(void *object, lk_dl_tensor *tensor);  /* may be NULL; 0, or -1 with an exception */
        void *stream;
    } lk_dl_exchange;
    """
    enum: LK_DL_CPU, LK_DL_FLOAT, LK_DL_BFLOAT, LK_DL_MAJOR
    ctypedef struct lk_dl_device:
        int32_t type
    ctypedef struct lk_dl_type:
        uint8_t code, bits
        uint16_t lanes
    ctypedef struct lk_dl_tensor:
        void *data
        lk_dl_device device
        int32_t ndim
        lk_dl_type dtype
        int64_t *shape
        int64_t *strides
        uint64_t byte_offset
    ctypedef struct lk_dl_version:
        uint32_t major
    ctypedef struct lk_dl_exchange:
        lk_dl_version version
        int (*describe)(void *object, lk_dl_tensor *tensor) except? -1
