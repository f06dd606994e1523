"""Boxes that overlap no better one too much, by class. Candidates come from a heap, best first, until enough are chosen."""

from libc.stdint cimport int64_t

from ...ndarray cimport (
    NPY_FLOAT32, NPY_FLOAT64, NPY_INT64, PyArray_IS_C_CONTIGUOUS, PyArray_NDIM, PyArray_TYPE, import_array, ndarray,
)
from ...runtime.signals cimport interrupted
from ...runtime.team cimport threads_for
from ..executor cimport aligned
from ..operation cimport Operation, chunks_of

import_array()

ctypedef fused real:
    float
    double


cdef inline bint comes_first(const real *score, int64_t i, int64_t j) noexcept nogil:
    """Whether box i is better than box j: the one before it of equal ones, NaN last."""
    if score[i] > score[j]:
        return True
    if score[i] < score[j]:
        return False
    if score[i] == score[j] or (score[i] != score[i] and score[j] != score[j]):
        return i < j
    return score[i] == score[i]


cdef inline void sink(const real *score, int64_t *heap, int64_t i, int64_t count, int64_t box) noexcept nogil:
    """Put a box into a heap from element i on, whose own box is overwritten."""
    cdef int64_t child = 2 * i + 1
    while child < count:
        if child + 1 < count and comes_first(score, heap[child + 1], heap[child]):
            child += 1
        if not comes_first(score, heap[child], box):
            break
        heap[i] = heap[child]
        i, child = child, 2 * child + 1
    heap[i] = box


cdef inline bint overlap_too_much(const real *a, const real *b, real overlap) noexcept nogil:
    """Whether the intersection of boxes is more than this part of their union; boxes without an area overlap none."""
    cdef real height = min(a[2], b[2]) - max(a[0], b[0]), width, common, a_area, b_area
    if not height > 0:
        return False
    width = min(a[3], b[3]) - max(a[1], b[1])
    if not width > 0:
        return False
    common = height * width
    a_area, b_area = (a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1])  # NaN if a corner is
    return common > 0 and a_area > 0 and b_area > 0 and common / (a_area + b_area - common) > overlap


cdef int64_t choose(const real *corners, const real *score, int64_t n, int64_t most, double overlap, bint has_least,
                    double least, int64_t *chosen, int64_t *heap, bint looks) noexcept nogil:
    """Write the boxes that are chosen of a class; their number. `looks` at signals now and then."""
    cdef int64_t left = 0, count = 0, i, box
    for i in range(n):
        if not has_least or score[i] > <real>least:
            heap[left] = i
            left += 1
    for i in range(left // 2 - 1, -1, -1):
        sink(score, heap, i, left, heap[i])
    while left and count < most:
        box = heap[0]
        left -= 1
        sink(score, heap, 0, left, heap[left])
        for i in range(count):
            if overlap_too_much(corners + 4 * chosen[i], corners + 4 * box, <real>overlap):
                break
        else:
            chosen[count] = box
            count += 1
        if looks and interrupted():
            break
    return count


cdef class Suppression(Operation):
    """The boxes of each class that overlap no better one too much, for arrays (corners, scores, chosen, counts).

    Parameters
    ----------
    corners : ndarray [images, boxes, 4]
        The lower corner of each box, and the upper one; float32 or float64.
    scores : ndarray [images, classes, boxes]
        Of the type of `corners`.
    chosen : ndarray of int64 [images, classes, most]
        Becomes the indices of boxes, best first.
    counts : ndarray of int64 [images, classes]
        Becomes how many there are of each class. All in C order.
    overlap : float
        The largest intersection of two boxes that are chosen, as a part of their union.
    least : float or None
        Boxes are not chosen unless their score is larger.
    threads : int
    """

    cdef int64_t boxes, classes, images, most, chunks
    cdef double overlap, least
    cdef bint has_least, doubles
    cdef int threads

    def __init__(self, ndarray corners not None, ndarray scores not None, ndarray chosen not None, ndarray counts not None,
                 double overlap, least, int threads):
        self.bind((corners, scores, chosen, counts))
        for array in (corners, scores, chosen, counts):
            if not PyArray_IS_C_CONTIGUOUS(<ndarray>array):
                raise ValueError("suppression: expected arrays in C order")
        if PyArray_TYPE(corners) not in (NPY_FLOAT32, NPY_FLOAT64) or PyArray_TYPE(scores) != PyArray_TYPE(corners):
            raise ValueError(f"suppression: corners of {corners.dtype} and scores of {scores.dtype}, expected float32 or"
                             " float64")
        if PyArray_TYPE(chosen) != NPY_INT64 or PyArray_TYPE(counts) != NPY_INT64:
            raise ValueError(f"suppression: {chosen.dtype} and {counts.dtype}, expected int64")
        if PyArray_NDIM(corners) != 3 or PyArray_NDIM(scores) != 3 or PyArray_NDIM(chosen) != 3:
            raise ValueError("suppression: expected arrays of three axes")
        self.images, self.classes, self.boxes, self.most = scores.shape[0], scores.shape[1], scores.shape[2], chosen.shape[2]
        if ((<object>corners).shape != (self.images, self.boxes, 4) or (<object>counts).shape != (self.images, self.classes)
                or (<object>chosen).shape[:2] != (self.images, self.classes)):
            raise ValueError(f"suppression: corners of shape {(<object>corners).shape}, scores of {(<object>scores).shape},"
                             f" room of {(<object>chosen).shape} and {(<object>counts).shape}")
        self.doubles = PyArray_TYPE(corners) == NPY_FLOAT64
        self.overlap, self.has_least = overlap, least is not None
        if self.has_least:
            self.least = least
        cost = 64.0 * scores.size + 8.0 * scores.size * min(self.most, 64)  # in bytes that would take as long
        self.threads = <int>max(1, min(threads_for(threads, cost), self.images * self.classes))
        self.chunks = chunks_of(8.0 * scores.size * self.most)
        self.workspace = self.threads * aligned(self.boxes * sizeof(int64_t))

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        self.run_chunks(self.threads, self.images * self.classes, self.chunks, at, workspace,
                        aligned(self.boxes * sizeof(int64_t)))

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        cdef int64_t boxes = task // self.classes * self.boxes * 4, scores = task * self.boxes
        cdef int64_t *chosen = <int64_t *>at[2] + task * self.most
        cdef int64_t *counts = <int64_t *>at[3]
        cdef bint looks = self.threads == 1  # workers must not
        if self.doubles:
            counts[task] = choose(<const double *>at[0] + boxes, <const double *>at[1] + scores, self.boxes, self.most,
                                  self.overlap, self.has_least, self.least, chosen, <int64_t *>workspace, looks)
        else:
            counts[task] = choose(<const float *>at[0] + boxes, <const float *>at[1] + scores, self.boxes, self.most,
                                  self.overlap, self.has_least, self.least, chosen, <int64_t *>workspace, looks)
