"""Sums of pixels by weight, or the largest of the products, at some points for all channels.

A table says of each point where its pixels begin, which they are and what they weigh; channels are summed together.
"""

from libc.stdint cimport int64_t

from ..executor cimport aligned

cdef enum:
    TOGETHER = 4  # channels that are summed at a time

ctypedef fused real:
    float
    double


cdef inline void weighted(const real *x, int64_t plane, const int64_t *first, const int64_t *offset, const real *weight,
                          int64_t points, real *y, int64_t y_plane, const int together, const bint largest) noexcept nogil:
    """Sums of pixels by weight for `together` channels, or the largest of the products."""
    cdef real total[TOGETHER]
    cdef const real *from_
    cdef real w
    cdef int64_t i, t
    cdef int k
    for i in range(points):
        for k in range(together):
            total[k] = 0
        for t in range(first[i], first[i + 1]):
            from_, w = x + offset[t], weight[t]
            for k in range(together):
                if largest:
                    total[k] = max(total[k], from_[k * plane] * w) if t > first[i] else from_[k * plane] * w
                else:
                    total[k] += from_[k * plane] * w
        for k in range(together):
            y[i + k * y_plane] = total[k]


cdef inline void over_channels(const real *x, int64_t plane, const int64_t *first, const int64_t *offset, const real *weight,
                        int64_t points, real *y, int64_t y_plane, int64_t channels, bint largest) noexcept nogil:
    cdef int64_t c = 0
    while c + TOGETHER <= channels:
        if largest:
            weighted(x + c * plane, plane, first, offset, weight, points, y + c * y_plane, y_plane, TOGETHER, True)
        else:
            weighted(x + c * plane, plane, first, offset, weight, points, y + c * y_plane, y_plane, TOGETHER, False)
        c += TOGETHER
    while c < channels:
        if largest:
            weighted(x + c * plane, plane, first, offset, weight, points, y + c * y_plane, y_plane, 1, True)
        else:
            weighted(x + c * plane, plane, first, offset, weight, points, y + c * y_plane, y_plane, 1, False)
        c += 1


cdef inline int64_t aligned_table(int64_t points, int64_t taps) noexcept nogil:
    """Bytes of a table of so many points."""
    return aligned((points + 1 + 2 * points * taps) * 8)
