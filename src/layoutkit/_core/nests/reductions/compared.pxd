"""Numbers that are compared as they are."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

ctypedef fused number:  # in the order of `element_types.COMPARED`
    float
    double
    int64_t
    int32_t
    uint8_t
    int8_t
