# cython: language_level=3, boundscheck=False, wraparound=False
"""One plan, executed without the GIL inside this package's own prange, each thread with its own workspace."""

from cython.parallel cimport parallel, prange
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from layoutkit.api cimport (
    LAYOUTKIT_ERROR_MEMORY, LAYOUTKIT_OK, execute, free_plan, last_error, layoutkit_convolution, layoutkit_plan,
    plan_convolution, plan_workspace
)


def filter_images(const float[:, :, :, ::1] images, const float[:, :, :, ::1] filters, float[:, :, :, ::1] out,
                  int threads):
    """Convolve (N, H, W, C) images with (O, C, k, k) filters into (N, H-k+1, W-k+1, O), image by image."""
    cdef layoutkit_convolution s
    cdef layoutkit_plan *plan
    cdef int64_t i, bytes
    cdef int code = LAYOUTKIT_OK, one
    cdef void *workspace
    if images.shape[3] != filters.shape[1] or out.shape[0] != images.shape[0]:
        raise ValueError("images, filters and out do not fit")
    memset(&s, 0, sizeof(s))
    s.size, s.spatial, s.layout, s.threads = sizeof(s), 2, b"NHWC", 1
    s.n, s.in_channels, s.out_channels = 1, images.shape[3], filters.shape[0]
    s.in_[1], s.in_[2], s.kernel[1], s.kernel[2] = images.shape[1], images.shape[2], filters.shape[2], filters.shape[3]
    s.filter = &filters[0, 0, 0, 0]
    if plan_convolution(&s, &plan) != LAYOUTKIT_OK:
        raise ValueError(last_error().decode())
    bytes = plan_workspace(plan)
    with nogil, parallel(num_threads=threads):
        workspace = malloc(bytes)
        for i in prange(images.shape[0], schedule="dynamic"):
            one = LAYOUTKIT_ERROR_MEMORY
            if workspace != NULL or bytes == 0:
                one = execute(plan, &images[i, 0, 0, 0], &out[i, 0, 0, 0], workspace, bytes)
            if one != LAYOUTKIT_OK:
                code = one
        free(workspace)
    free_plan(plan)
    if code != LAYOUTKIT_OK:
        raise RuntimeError(f"layoutkit error {code}")
