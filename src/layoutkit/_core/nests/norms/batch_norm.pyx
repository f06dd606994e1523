"""Batch normalisation and its gradient, with a sum and a ReLU behind it or not: around moments.c, scale.c and slopes.c.

Arrays are seen with axes image, group, pixel, channel of the group. Where pixels are contiguous (NCHW), a group is a channel;
where channels are (NHWC, nChw16c), it is all of them, or a block. A *unit* is some pixels of a group, of one image or of some:
its sums are made apart, and combined in a fixed order, so that results do not depend on the number of threads. Of many groups
a thread takes one after another, so that the second half finds them in the cache; of few, threads share the units.
"""

from libc.stdint cimport int64_t

import numpy as np

from ...kernels cimport LK_MOMENTS, LK_SCALE, LK_SLOPE_SUMS, LK_SLOPES
from ...kernels.normalise cimport lk_moments, lk_moments_fn, lk_scaling, lk_scaling_fn, lk_slopes, lk_slopes_fn
from ...ndarray cimport PyArray_DATA, import_array, ndarray
from ...runtime.registry cimport best_row
from ...runtime.team cimport lk_claim, lk_portions, share_out, threads_for
from ..executor cimport ceil_div, share
from .normalise cimport SEGMENT, inverse_deviation, merge_moments, set_scaling

import_array()

cdef enum:
    IMAGES = 64            # of a unit, at most
    GROUPS_PER_THREAD = 2  # if there are fewer, threads share units
    NUMBERS = 5            # of a channel: mean, factor, shift, slope, offset
    MIN_PIXELS = 64        # of a unit
    COLUMNS = 65536        # elements of a unit whose channels are contiguous

WIDTHS = {"f32": 4, "bf16": 2, "f16": 2}


cdef struct Axes:  # an array: its address, and strides in bytes
    char *at
    int64_t image, group, pixel


cdef struct Job:
    Axes x, dy, to
    Axes more      # forwards what is added, backwards its gradient
    Axes result    # backwards of a sum: what followed it
    bint summed
    int64_t images, groups, pixels, width, channels, item
    int64_t block, blocks, segment, segments, units  # images and pixels of a unit; how many there are; units of a group
    bint by_column, backward, given
    double epsilon
    float limit
    const double *weight   # by channel, as what follows
    const double *bias
    double *mean
    double *variance
    double *sums           # of gradients: of the bias
    double *products       # and of the weight
    double *partial        # of units: two numbers by channel
    float *numbers
    lk_moments_fn moments
    lk_scaling_fn scale
    lk_slopes_fn slope_sums
    lk_slopes_fn slopes


cdef Axes axes_of(ndarray a):
    cdef Axes r
    r.at, r.image, r.group, r.pixel = <char *>PyArray_DATA(a), a.strides[0], a.strides[1], a.strides[2]
    return r


cdef inline double *unit_sums(const Job *j, int64_t group, int64_t unit) noexcept nogil:
    return j.partial + (group * j.units + unit) * 2 * j.width


cdef inline int64_t images_of(const Job *j, int64_t unit, int64_t *first) noexcept nogil:
    first[0] = unit // j.segments * j.block
    return min(j.block, j.images - first[0])


cdef inline int64_t pixels_of(const Job *j, int64_t unit, int64_t *first) noexcept nogil:
    first[0] = unit % j.segments * j.segment
    return min(j.segment, j.pixels - first[0])


cdef inline char *start_of(const Axes *a, int64_t group, int64_t image, int64_t pixel) noexcept nogil:
    return a.at + image * a.image + group * a.group + pixel * a.pixel


cdef const float *numbers_of(const Job *j, int64_t group, int64_t images, float *copies) noexcept nogil:
    """Those of a group; the numbers of a channel once for each of its rows."""
    cdef int64_t i, k
    if j.by_column:
        return j.numbers + group * NUMBERS * j.width
    for k in range(NUMBERS):
        for i in range(images):
            copies[k * IMAGES + i] = j.numbers[group * NUMBERS + k]
    return copies


cdef lk_slopes slopes_of(const Job *j, int64_t group, int64_t unit, float *copies) noexcept nogil:
    """What both halves of the gradient of a unit have in common."""
    cdef lk_slopes g
    cdef int64_t image, pixel
    cdef int64_t images = images_of(j, unit, &image), pixels = pixels_of(j, unit, &pixel)
    cdef int64_t pitch = j.width if j.by_column else IMAGES
    g.x, g.dy, g.dx = (start_of(&j.x, group, image, pixel), start_of(&j.dy, group, image, pixel),
                       start_of(&j.to, group, image, pixel))
    g.rows, g.count, g.x_row, g.dy_row, g.dx_row = images, pixels, j.x.image, j.dy.image, j.to.image
    if j.by_column:
        g.rows, g.count, g.x_row, g.dy_row, g.dx_row = pixels, j.width, j.x.pixel, j.dy.pixel, j.to.pixel
    g.by_column, g.limit, g.y = j.by_column, j.limit, NULL
    g.mean = numbers_of(j, group, images, copies)
    g.factor, g.shift, g.slope, g.offset = g.mean + pitch, g.mean + 2 * pitch, g.mean + 3 * pitch, g.mean + 4 * pitch
    return g


cdef void measure(const Job *j, int64_t group, int64_t unit) noexcept nogil:
    """The sums of a unit: mean and squares, or sums and products."""
    cdef float copies[NUMBERS * IMAGES]
    cdef double first[IMAGES]
    cdef double second[IMAGES]
    cdef double *sums = unit_sums(j, group, unit)
    cdef lk_slopes g
    cdef lk_moments m
    cdef int64_t image, pixel, i
    cdef int64_t images = images_of(j, unit, &image), pixels = pixels_of(j, unit, &pixel)
    if j.backward:
        g = slopes_of(j, group, unit, copies)
        g.sums, g.products = first, second
        if j.by_column:
            g.sums, g.products = sums, sums + j.width
        if j.summed:
            g.y, g.d = start_of(&j.result, group, image, pixel), start_of(&j.more, group, image, pixel)
            g.y_row, g.d_row = j.result.image, j.more.image
            if j.by_column:
                g.y_row, g.d_row = j.result.pixel, j.more.pixel
        j.slope_sums(&g)
        if not j.by_column:
            sums[0] = sums[1] = 0
            for i in range(images):
                sums[0] += first[i]
                sums[1] += second[i]
        return
    m.x, m.about_zero, m.by_column = start_of(&j.x, group, image, pixel), 0, j.by_column
    if j.by_column:
        m.rows, m.count, m.x_row, m.mean, m.squares = pixels, j.width, j.x.pixel, sums, sums + j.width
        j.moments(&m)
        return
    m.rows, m.count, m.x_row, m.mean, m.squares = images, pixels, j.x.image, first, second
    j.moments(&m)
    for i in range(images):
        merge_moments(sums, sums + 1, <double>i * pixels, first + i, second + i, <double>pixels, 1)


cdef void combine(const Job *j, int64_t group) noexcept nogil:
    """The statistics or gradients of a group, and the numbers of its results."""
    cdef double *sums = unit_sums(j, group, 0)
    cdef double *more
    cdef double count = 0, each = <double>j.images * j.pixels, elements, inverse, weight, rounded
    cdef int64_t unit, image, pixel, c, channel
    cdef float *numbers = j.numbers + group * NUMBERS * j.width
    if not j.given or j.backward:
        for unit in range(j.units):
            more, elements = unit_sums(j, group, unit), <double>images_of(j, unit, &image) * pixels_of(j, unit, &pixel)
            if not j.backward:
                merge_moments(sums, sums + j.width, count, more, more + j.width, elements, j.width)
                count += elements
            elif unit:
                for c in range(2 * j.width):
                    sums[c] += more[c]
    for c in range(j.width):
        channel = group * j.width + c
        if channel >= j.channels:  # pads of a block
            set_scaling(0, 0, 0, numbers, c, j.width)
            numbers[3 * j.width + c] = numbers[4 * j.width + c] = 0
            continue
        if not j.backward and not j.given:
            j.mean[channel], j.variance[channel] = sums[c], sums[j.width + c] / each
        weight = 1 if j.weight == NULL else j.weight[channel]
        inverse = inverse_deviation(j.variance[channel], 1, j.epsilon)
        if not j.backward:
            set_scaling(j.mean[channel], weight * inverse, 0 if j.bias == NULL else j.bias[channel], numbers, c, j.width)
            continue
        rounded = numbers[c]  # the kernel took the products with distances from the rounded mean
        j.sums[channel] = sums[c]
        j.products[channel] = (sums[j.width + c] + (rounded - j.mean[channel]) * sums[c]) * inverse
        numbers[3 * j.width + c] = numbers[4 * j.width + c] = 0
        if not j.given:
            count = -weight * inverse * inverse * j.products[channel] / each
            numbers[3 * j.width + c] = <float>count
            numbers[4 * j.width + c] = <float>(count * (rounded - j.mean[channel]) - weight * inverse * sums[c] / each)


cdef void begin(const Job *j, int64_t group) noexcept nogil:
    """The numbers that sums of gradients need: those of the results."""
    cdef int64_t c, channel
    cdef float *numbers = j.numbers + group * NUMBERS * j.width
    cdef double inverse
    for c in range(j.width):
        channel = group * j.width + c
        if channel >= j.channels:
            set_scaling(0, 0, 0, numbers, c, j.width)
            continue
        inverse = inverse_deviation(j.variance[channel], 1, j.epsilon)
        set_scaling(j.mean[channel], (1 if j.weight == NULL else j.weight[channel]) * inverse,
                    0 if j.bias == NULL else j.bias[channel], numbers, c, j.width)


cdef void apply(const Job *j, int64_t group, int64_t unit) noexcept nogil:
    """The results of a unit."""
    cdef float copies[NUMBERS * IMAGES]
    cdef lk_slopes s
    cdef lk_scaling g
    cdef int64_t image, pixel, pitch = j.width if j.by_column else IMAGES
    cdef int64_t images = images_of(j, unit, &image), pixels = pixels_of(j, unit, &pixel)
    if j.backward:
        s = slopes_of(j, group, unit, copies)
        if j.summed:  # the first half wrote what the ReLU passed
            s.dy, s.dy_row, s.limit = start_of(&j.more, group, image, pixel), j.more.image, 0
            if j.by_column:
                s.dy_row = j.more.pixel
        j.slopes(&s)
        return
    g.x, g.y = start_of(&j.x, group, image, pixel), start_of(&j.to, group, image, pixel)
    g.add = start_of(&j.more, group, image, pixel) if j.summed else NULL
    g.rows, g.count, g.x_row, g.y_row, g.add_row = images, pixels, j.x.image, j.to.image, j.more.image
    if j.by_column:
        g.rows, g.count, g.x_row, g.y_row, g.add_row = pixels, j.width, j.x.pixel, j.to.pixel, j.more.pixel
    g.mean = numbers_of(j, group, images, copies)
    g.factor, g.shift = g.mean + pitch, g.mean + 2 * pitch
    g.scale = g.bias = NULL
    g.by_column, g.limit = j.by_column, j.limit
    j.scale(&g)


cdef void groups_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    """Whole groups."""
    cdef const Job *j = <const Job *>argument
    cdef int64_t group, last, unit
    while lk_claim(portions, share(j.groups, parts, part), share(j.groups, parts, part + 1), &group, &last):
        while group < last:
            if j.backward:
                begin(j, group)
            if j.backward or not j.given:
                for unit in range(j.units):
                    measure(j, group, unit)
            combine(j, group)
            for unit in range(j.units - 1, -1, -1):  # the last ones are in the cache
                apply(j, group, unit)
            group += 1


cdef struct Units:  # of all groups
    const Job *job
    int64_t first, count


cdef void measured_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const Units *u = <const Units *>argument
    cdef const Job *j = u.job
    cdef int64_t i, last, count = j.groups * u.count
    while lk_claim(portions, share(count, parts, part), share(count, parts, part + 1), &i, &last):
        while i < last:
            measure(j, i // u.count, u.first + i % u.count)
            i += 1


cdef void applied_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const Units *u = <const Units *>argument
    cdef const Job *j = u.job
    cdef int64_t i, first, last, count = j.groups * u.count
    cdef int64_t begins = share(count, parts, part), ends = share(count, parts, part + 1)
    while lk_claim(portions, begins, ends, &first, &last):
        for i in range(begins + ends - 1 - first, begins + ends - 1 - last, -1):  # the last ones are in the cache
            apply(j, i // u.count, u.first + i % u.count)


cdef void run(const Job *j, int threads) noexcept nogil:
    cdef int64_t group
    cdef Units all
    if j.groups >= GROUPS_PER_THREAD * threads:
        share_out(threads, groups_share, <void *>j)
        return
    all.job, all.first, all.count = j, 0, j.units
    begin_all(j)
    if j.backward or not j.given:
        share_out(<int>min(threads, j.groups * all.count), measured_share, &all)
    for group in range(j.groups):
        combine(j, group)
    share_out(<int>min(threads, j.groups * all.count), applied_share, &all)


cdef void begin_all(const Job *j) noexcept nogil:
    cdef int64_t group
    if j.backward:
        for group in range(j.groups):
            begin(j, group)


cdef double *numbers_by_channel(name, array, int64_t channels) except? NULL:
    cdef ndarray a = array
    if a.ndim != 1 or a.shape[0] != channels or a.dtype != np.float64 or not (<object>a).flags.c_contiguous:
        raise ValueError(f"batch_norm: {name} of {a.dtype} and shape {(<object>a).shape}, expected {channels} of float64")
    return <double *>PyArray_DATA(a)


cpdef int64_t images_of_unit(int64_t pixels, int64_t images):
    """Of a unit where pixels are contiguous: parts have a multiple of so many, else any number."""
    return max(<int64_t>1, min(<int64_t>IMAGES, images, SEGMENT // max(<int64_t>1, pixels)))


cdef class BatchNorm:
    """Normalisation of `x` into `y`, or, with `dy`, the gradient of `x`: at once, or some images at a time.

    Parameters
    ----------
    types : {"f32", "bf16", "f16"}
        Of `x`, `y` and `dy`.
    x, y, dy : ndarray
        Axes: image, group, pixel, channel of the group; pixels are contiguous and a group has one channel, or channels are.
        `y` may be None where all parts are written elsewhere.
    weight, bias : ndarray of float64 (C,), or None
    mean, variance : ndarray of float64 (C,)
        Written, unless `given` or with `dy`; the variance is the mean of squares.
    sums, products : ndarray of float64 (C,), optional
        With `dy`: written, the gradients of bias and weight.
    given : bool, optional
        Mean and variance do not depend on `x`.
    limit : float, optional
        Not 0: a ReLU with this upper limit, which may be infinite, follows.
    add, result : ndarray, optional
        Axes as of `x`. Forwards `add` is added before the ReLU. With `dy` and a `limit`, `result` is what was written then,
        and the gradient of `add` is written to `add`.
    """

    cdef Job job
    cdef int threads
    cdef bint has_y
    cdef list arrays  # all whose memory the job has

    def __cinit__(self, str types, ndarray x not None, ndarray y, weight, bias, mean not None, variance not None,
                  double epsilon, int threads, *, ndarray dy=None, sums=None, products=None, bint given=False,
                  float limit=0, ndarray add=None, ndarray result=None):
        cdef Job *j = &self.job
        cdef int64_t channels = mean.size, item = WIDTHS[types]
        cdef list arrays = [array for array in (x, y, dy, add, result) if array is not None]
        cdef object partial, numbers
        cdef ndarray a
        if (result is None) == (dy is not None and add is not None) or (result is not None and limit == 0):
            raise ValueError("batch_norm: result, expected with dy, add and limit")
        j.by_column = x.ndim == 4 and x.shape[3] > 1
        for a in arrays:
            if a.ndim != 4 or (<object>a).shape != (<object>x).shape or a.itemsize != item:
                raise ValueError(f"batch_norm: {a.dtype} of shape {(<object>a).shape} beside {(<object>x).shape}, expected four "
                                 f"axes, elements of {types}")
            j.by_column = j.by_column or (a.strides[2] != item and a.shape[2] > 1)
        for a in arrays:
            if a.shape[3] > 1 and a.strides[3] != item:
                raise ValueError("batch_norm: neither pixels nor channels are contiguous")
        self.has_y, j.block = y is not None, 1
        if x.size == 0:  # no groups
            return
        j.images, j.groups, j.pixels, j.width = x.shape[0], x.shape[1], x.shape[2], x.shape[3]
        j.channels, j.item, j.epsilon, j.limit, j.given, j.backward = channels, item, epsilon, limit, given, dy is not None
        if not (j.groups - 1) * j.width < channels <= j.groups * j.width:
            raise ValueError(f"batch_norm: {channels} channels in {j.groups} groups of {j.width}")
        j.x = axes_of(x)
        j.to = j.x if y is None else axes_of(y)
        j.dy = j.x if dy is None else axes_of(dy)
        j.summed = add is not None
        j.more = axes_of(add) if j.summed else j.x
        j.result = j.x if result is None else axes_of(result)
        j.weight = NULL if weight is None else numbers_by_channel("weight", weight, channels)
        j.bias = NULL if bias is None else numbers_by_channel("bias", bias, channels)
        j.mean, j.variance = (numbers_by_channel("mean", mean, channels),
                              numbers_by_channel("variance", variance, channels))
        if j.backward:
            j.sums, j.products = numbers_by_channel("sums", sums, channels), numbers_by_channel("products", products, channels)
        j.segment = min(j.pixels, max(<int64_t>MIN_PIXELS, (COLUMNS if j.by_column else SEGMENT) // j.width))
        j.segments = ceil_div(j.pixels, j.segment)
        j.block = 1 if j.by_column else images_of_unit(j.pixels, j.images)
        j.blocks = ceil_div(j.images, j.block)
        j.units = j.blocks * j.segments
        partial = np.empty(j.groups * j.units * 2 * j.width)
        numbers = np.empty(j.groups * NUMBERS * j.width, np.float32)
        j.partial, j.numbers = <double *>PyArray_DATA(<ndarray>partial), <float *>PyArray_DATA(<ndarray>numbers)
        j.moments, j.scale = <lk_moments_fn>best_row(LK_MOMENTS, types).fn, <lk_scaling_fn>best_row(LK_SCALE, types).fn
        j.slope_sums = <lk_slopes_fn>best_row(LK_SLOPE_SUMS, types).fn
        j.slopes = <lk_slopes_fn>best_row(LK_SLOPES, types).fn
        self.threads = threads_for(threads, (3.0 + 2 * j.backward + (1 + j.backward) * j.summed) * x.size * item)
        self.arrays = [*arrays, weight, bias, mean, variance, sums, products, partial, numbers]

    cdef Units units_of(self, int64_t first, int64_t last) except *:
        """Those of images from one up to another, whole units."""
        cdef Units units
        cdef const Job *j = &self.job
        if not 0 <= first <= last <= j.images or first % j.block or (last % j.block and last != j.images):
            raise ValueError(f"batch_norm: images {first} to {last} of {j.images}, expected multiples of {j.block}")
        units.job, units.first = j, first // j.block * j.segments
        units.count = ceil_div(last, j.block) * j.segments - units.first
        return units

    def run(self):
        """All of it."""
        if self.job.groups:
            with nogil:
                run(&self.job, self.threads)

    def begin(self):
        """What comes before `measure` of the first part."""
        begin_all(&self.job)

    def measure(self, int64_t first, int64_t last):
        """Take up the statistics of some images, or what their gradients sum up to; each image once."""
        cdef Units units = self.units_of(first, last)
        if units.count and (self.job.backward or not self.job.given):
            with nogil:
                share_out(<int>min(self.threads, self.job.groups * units.count), measured_share, &units)

    def combine(self):
        """Make the statistics, or the gradients of weight and bias, of all that was measured."""
        cdef int64_t group
        for group in range(self.job.groups):
            combine(&self.job, group)

    def apply(self, int64_t first, int64_t last, ndarray into=None):
        """Write the results of some images to their place in `y`, or to `into`, which has no others."""
        cdef Units units = self.units_of(first, last)
        cdef Job j = self.job
        if into is not None:
            if into.ndim != 4 or (<object>into).shape != (last - first, j.groups, j.pixels, j.width) or into.itemsize != j.item:
                raise ValueError(f"batch_norm: {into.dtype} of shape {(<object>into).shape} for images {first} to {last}")
            if into.strides[3 if j.by_column else 2] != j.item and j.width * j.pixels > 1:
                raise ValueError("batch_norm: neither pixels nor channels are contiguous")
            j.to = axes_of(into)
            j.to.at -= first * j.to.image
        elif not self.has_y:
            raise ValueError("batch_norm: nowhere to write results to")
        units.job = &j
        if units.count:
            with nogil:
                share_out(<int>min(self.threads, j.groups * units.count), applied_share, &units)


def batch_norm(str types, ndarray x not None, ndarray y not None, *arguments, **options):
    """All of `BatchNorm`, whose parameters it has, in one go."""
    BatchNorm(types, x, y, *arguments, **options).run()
