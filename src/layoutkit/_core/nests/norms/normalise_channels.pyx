"""Normalisations over the pixels of channels or of groups of channels: the nests of instance and group normalisation.

Where pixels are contiguous (NCHW), a slab is a group of an image. Where channels are (NHWC, nChw16c), it is an image, or
some of its blocks of channels if groups fill these.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from math import gcd

from ...kernels.normalise cimport lk_moments, lk_scaling
from ...ndarray cimport import_array, ndarray
from ..executor cimport ceil_div
from .normalise cimport (
    SEGMENT, Loops, Normalisation, inverse_deviation, dims_of, iteration_at, loops_of, merge_moments, set_scaling,
)

import_array()

from ..axes import merged

cdef enum:
    MIN_COLUMNS = 64             # of a slab
    MAX_PARTIALS = 16            # partial statistics of an image
    MIN_PARTIAL_ELEMENTS = 8192
    MIN_PARTIAL_PIXELS = 16
    FOLDED = 32                  # elements that several pixels of few channels fill: whole vectors
    MAX_FOLDED = 256


cdef class Planes(Normalisation):
    """Slabs of contiguous runs of elements: groups of channels (axis 1), or the axes from `axis` on if `groups` is 0.

    Scale and bias are those of the channel, or of the element.
    """

    cdef Loops loops                       # over slabs
    cdef Loops runs                        # over the contiguous runs of a channel
    cdef int64_t groups
    cdef int64_t parts, part_x, part_y     # channels of a group (else 1), and their strides
    cdef int64_t count, segments           # elements of a run; segments that it is divided into
    cdef int64_t rows                      # channels that are scaled at a time
    cdef bint flat                         # a slab of x is contiguous

    def __init__(self, types, ndarray x, ndarray y, scale, bias, epsilon, epilogue, threads, int groups=0, int axis=0,
                 **options):
        Normalisation.__init__(self, types, x, y, scale, bias, epsilon, epilogue, threads, **options)
        dims = dims_of(x, y)
        part, inner = (1, 0, 0), dims[axis:]
        if groups:
            channels, *strides = dims[1]
            part, inner = (channels // groups, *strides), dims[2:]
            dims[1:2], axis = [(groups, *[part[0] * stride for stride in strides])], 2
        self.loops = loops_of(dims[:axis])
        self.groups, (self.parts, self.part_x, self.part_y) = groups, part
        self.channel_row, self.channel_col = groups > 0, groups == 0
        slab = merged([(n, stride) for n, stride, _ in (part, *inner)])
        self.flat = not slab or (len(slab) == 1 and slab[0][1] == x.itemsize)
        inner, self.count = merged(inner), 1
        if inner and inner[-1][1:] == (x.itemsize, y.itemsize):
            self.count = inner.pop()[0]
        self.runs = loops_of(inner)
        self.segments = ceil_div(self.count, SEGMENT)
        self.rows = min(self.parts, max(1, SEGMENT // max(1, self.count))) if self.runs.total == 1 else 1
        self.elements = self.parts * self.runs.total * self.count
        self.slabs = self.loops.total if x.size else 0
        self.pieces = ceil_div(self.parts, self.rows) * self.runs.total * self.segments
        self.partials = ceil_div(self.elements, SEGMENT) if self.flat else self.parts * self.runs.total * self.segments
        self.statistics_bytes = 2 * self.partials * sizeof(double) + 3 * self.parts * sizeof(float)
        self.set_workspace()

    cdef void measure(self, const char *x, int64_t slab, int64_t first, int64_t end, char *statistics) noexcept nogil:
        cdef lk_moments m
        cdef int64_t i, at, rest, x_at, y_at
        iteration_at(&self.loops, slab, &at, &y_at)
        m.x_row, m.rows, m.by_column, m.about_zero = 0, 1, 0, self.about_zero
        for i in range(first, end):
            m.x = x + at
            if self.flat:
                m.x += i * SEGMENT * self.item
            else:
                rest = i // self.segments
                iteration_at(&self.runs, rest % self.runs.total, &x_at, &y_at)
                m.x += rest // self.runs.total * self.part_x + x_at + i % self.segments * SEGMENT * self.item
            m.count = self.size_of(i)
            m.mean = <double *>statistics + i
            m.squares = m.mean + self.partials
            self.moments_kernel(&m)

    cdef inline int64_t size_of(self, int64_t i) noexcept nogil:
        """The elements of partial statistics."""
        if self.flat:
            return min(SEGMENT, self.elements - i * SEGMENT)
        return min(SEGMENT, self.count - i % self.segments * SEGMENT)

    cdef void combine(self, int64_t slab, char *statistics) noexcept nogil:
        cdef const double *means = <const double *>statistics
        cdef float *numbers = <float *>(statistics + 2 * self.partials * sizeof(double))
        cdef double mean = 0, squares = 0, delta, count = 0, more, factor
        cdef int64_t i, c
        for i in range(self.partials):
            more, delta = self.size_of(i), means[i] - mean
            squares += means[self.partials + i] + delta * delta * (more * count / (count + more))
            count += more
            mean += delta * (more / count)
        factor = inverse_deviation(squares, count, self.epsilon)
        for i in range(self.parts):
            c = slab % self.groups * self.parts + i if self.groups else 0
            if self.groups:
                set_scaling(mean, factor * (1 if self.scales == NULL else self.scales[c]),
                    0 if self.biases == NULL else self.biases[c], numbers, i, self.parts)
            else:
                set_scaling(mean, factor, 0, numbers, i, self.parts)

    cdef void apply(self, const char *x, char *y, int64_t slab, int64_t first, int64_t end, const char *statistics,
                    char *scratch) noexcept nogil:
        cdef const float *numbers = <const float *>(statistics + 2 * self.partials * sizeof(double))
        cdef lk_scaling g
        cdef int64_t i, segment, run, part, x_slab, y_slab, x_at, y_at, channel = 0
        iteration_at(&self.loops, slab, &x_slab, &y_slab)
        g.by_column, g.x_row, g.y_row = 0, self.part_x, self.part_y
        g.scale = g.bias = NULL
        g.limit, g.add = 0, NULL
        for i in range(first, end):
            segment, run = i % self.segments, i // self.segments
            part, run = run // self.runs.total * self.rows, run % self.runs.total
            iteration_at(&self.runs, run, &x_at, &y_at)
            g.x = x + x_slab + x_at + part * self.part_x + segment * SEGMENT * self.item
            g.y = y + y_slab + y_at + part * self.part_y + segment * SEGMENT * self.item
            g.rows, g.count = min(self.rows, self.parts - part), min(SEGMENT, self.count - segment * SEGMENT)
            g.mean = numbers + part
            g.factor, g.shift = g.mean + self.parts, g.mean + 2 * self.parts
            if self.groups:
                channel = slab % self.groups * self.parts + part
            else:
                if self.scales != NULL:
                    g.scale = self.scales + run * self.count + segment * SEGMENT
                if self.biases != NULL:
                    g.bias = self.biases + run * self.count + segment * SEGMENT
            self.scale_rows(&g, channel, scratch)


cdef class Pixels(Normalisation):
    """Instance or group normalisation of pixels with contiguous channels, in axes (image, .., channel), or if `blocked`
    (image, block, .., channel of the block). `channels` does not count the pads of blocks.

    Few channels that do not fill vectors are looked at as those of several pixels that follow one another.
    """

    cdef Loops loops               # over slabs
    cdef Loops runs                # over the runs of equally spaced pixels of a panel
    cdef int64_t channels, group   # in all; of a group
    cdef int64_t parts             # slabs of an image
    cdef int64_t panels, panel_x, panel_y  # of contiguous channels in a slab, and their strides
    cdef int64_t width, lanes      # channels of a panel; of a slab
    cdef int64_t pixels, pixel_x, pixel_y  # of a run, and their strides
    cdef int64_t unit_pixels, segments, units  # of partial statistics; of a run; of a panel
    cdef int64_t fold              # pixels that are looked at as one

    def __init__(self, types, ndarray x, ndarray y, scale, bias, epsilon, epilogue, threads, int64_t channels, int groups,
                 bint blocked, **options):
        Normalisation.__init__(self, types, x, y, scale, bias, epsilon, epilogue, threads, **options)
        dims, item = dims_of(x, y), x.itemsize
        *dims, (self.width, x_channel, y_channel) = dims
        if self.width > 1 and x.size and not x_channel == y_channel == item:
            raise ValueError("normalise: channels that are not contiguous")
        if not blocked:
            dims.insert(1, (1, 0, 0))
        image, (panels, self.panel_x, self.panel_y), *inner = dims
        self.channels, self.group = channels, max(1, channels // groups)
        self.panels = panels
        if x.size and (self.group % self.width == 0 or self.width % self.group == 0):
            self.panels = max(1, self.group // self.width)
        self.parts, self.lanes = panels // max(1, self.panels), self.panels * self.width
        self.loops = loops_of([image, (self.parts, self.panels * self.panel_x, self.panels * self.panel_y)])
        inner = merged(inner) or [(1, 0, 0)]
        self.pixels, self.pixel_x, self.pixel_y = inner.pop()
        self.runs = loops_of(inner)
        self.unit_pixels = max(MIN_PARTIAL_PIXELS, ceil_div(self.pixels, MAX_PARTIALS),
                               ceil_div(MIN_PARTIAL_ELEMENTS, max(1, self.width)))
        self.fold = FOLDED // gcd(max(1, self.width), <int>FOLDED)
        dense = self.pixel_x == self.pixel_y == self.width * item
        if self.panels > 1 or not dense or self.width * self.fold > MAX_FOLDED:
            self.fold = 1
        self.unit_pixels = ceil_div(self.unit_pixels, self.fold) * self.fold
        self.segments = ceil_div(self.pixels, self.unit_pixels)
        self.units = self.runs.total * self.segments
        self.channel_row, self.channel_col = 0, 1
        self.elements = self.pixels * self.runs.total * self.lanes
        self.slabs = self.loops.total if x.size else 0
        self.partials = self.pieces = self.panels * self.units
        self.statistics_bytes = self.lanes * (2 * self.units * sizeof(double) + 3 * self.fold * sizeof(float))
        self.set_workspace()

    cdef inline int64_t size_of(self, int64_t unit) noexcept nogil:
        """The pixels of a unit."""
        return min(self.unit_pixels, self.pixels - unit % self.segments * self.unit_pixels)

    cdef inline void unit_at(self, int64_t slab, int64_t i, int64_t *x, int64_t *y) noexcept nogil:
        """The offsets of unit `i` of a slab, counted through its panels."""
        cdef int64_t x_run, y_run, unit = i % self.units, panel = i // self.units, pixel
        iteration_at(&self.loops, slab, x, y)
        iteration_at(&self.runs, unit // self.segments, &x_run, &y_run)
        pixel = unit % self.segments * self.unit_pixels
        x[0] += panel * self.panel_x + x_run + pixel * self.pixel_x
        y[0] += panel * self.panel_y + y_run + pixel * self.pixel_y

    cdef void measure(self, const char *x, int64_t slab, int64_t first, int64_t end, char *statistics) noexcept nogil:
        cdef lk_moments m
        cdef int64_t i, x_at, y_at, unit
        m.x_row, m.count, m.by_column, m.about_zero = self.pixel_x, self.width, 1, self.about_zero
        for i in range(first, end):
            unit = i % self.units
            self.unit_at(slab, i, &x_at, &y_at)
            m.x, m.rows = x + x_at, self.size_of(unit)
            m.mean = <double *>statistics + unit * self.lanes + i // self.units * self.width
            m.squares = m.mean + self.units * self.lanes
            if self.fold == 1:
                self.moments_kernel(&m)
            else:
                self.measure_folded(&m)

    cdef void measure_folded(self, const lk_moments *of) noexcept nogil:
        """Moments of pixels of which several are looked at as one, and of those that are left."""
        cdef double mean[MAX_FOLDED]
        cdef double squares[MAX_FOLDED]
        cdef lk_moments m = of[0]
        cdef double count = 0
        cdef int64_t part, parts = self.fold
        m.mean, m.squares = mean, squares
        m.x_row, m.rows, m.count = of.x_row * self.fold, of.rows // self.fold, self.width * self.fold
        while parts:
            if m.rows:
                self.moments_kernel(&m)
                for part in range(parts):
                    merge_moments(of.mean, of.squares, count, mean + part * self.width, squares + part * self.width,
                                  <double>m.rows, self.width)
                    count += m.rows
            m.x += m.rows * m.x_row
            m.x_row, m.rows, m.count = of.x_row, of.rows % self.fold, self.width
            parts = 1 if parts > 1 else 0

    cdef void combine(self, int64_t slab, char *statistics) noexcept nogil:
        cdef double *mean = <double *>statistics
        cdef double *squares = mean + self.units * self.lanes
        cdef double count = self.size_of(0)
        cdef int64_t unit, lanes = self.lanes
        for unit in range(1, self.units):
            merge_moments(mean, squares, count, mean + unit * lanes, squares + unit * lanes, self.size_of(unit), lanes)
            count += self.size_of(unit)
        self.combine_groups(slab % self.parts * lanes, count, mean, squares,
                            <float *>(statistics + 2 * self.units * lanes * sizeof(double)))

    cdef void combine_groups(self, int64_t first, double pixels, const double *mean, const double *squares,
                             float *numbers) noexcept nogil:
        """Mean, factor and shift of the channels from `first` on; those beyond the last are pads."""
        cdef int64_t c, i, valid = min(self.lanes, self.channels - first), pitch = self.lanes * self.fold
        cdef double group_mean, group_squares, factor
        for c in range(valid, self.lanes):
            set_scaling(0, 0, 0, numbers, c, pitch)
        c = 0
        while c < valid:
            group_mean, group_squares = mean[c], squares[c]
            if self.group > 1:
                group_mean = group_squares = 0
                for i in range(c, c + self.group):
                    group_mean += mean[i]
                group_mean /= self.group
                for i in range(c, c + self.group):
                    group_squares += squares[i] + pixels * (mean[i] - group_mean) * (mean[i] - group_mean)
            factor = inverse_deviation(group_squares, pixels * self.group, self.epsilon)
            for i in range(c, c + self.group):
                set_scaling(group_mean, factor * (1 if self.scales == NULL else self.scales[first + i]),
                    0 if self.biases == NULL else self.biases[first + i], numbers, i, pitch)
            c += self.group
        for c in range(3):
            for i in range(1, self.fold):
                memcpy(numbers + c * pitch + i * self.width, numbers + c * pitch, self.width * sizeof(float))

    cdef void apply(self, const char *x, char *y, int64_t slab, int64_t first, int64_t end, const char *statistics,
                    char *scratch) noexcept nogil:
        cdef const float *numbers = <const float *>(statistics + 2 * self.units * self.lanes * sizeof(double))
        cdef lk_scaling g
        cdef int64_t i, x_at, y_at, panel, pixels, fold
        g.by_column = 1
        g.scale = g.bias = NULL
        g.limit, g.add = 0, NULL
        for i in range(first, end):
            panel = i // self.units
            self.unit_at(slab, i, &x_at, &y_at)
            g.mean = numbers + panel * self.width
            g.factor, g.shift = g.mean + self.lanes * self.fold, g.mean + 2 * self.lanes * self.fold
            pixels, fold = self.size_of(i % self.units), self.fold
            g.x, g.y = x + x_at, y + y_at
            while True:
                g.x_row, g.y_row, g.count = self.pixel_x * fold, self.pixel_y * fold, self.width * fold
                g.rows = pixels // fold
                self.scale_rows(&g, slab % self.parts * self.lanes + panel * self.width, scratch)
                if fold == 1 or pixels % fold == 0:
                    break
                g.x, g.y = g.x + g.rows * g.x_row, g.y + g.rows * g.y_row
                pixels, fold = pixels % fold, 1


cdef class Columns(Normalisation):
    """Normalisation of each pixel over its channels (axis 1), of arrays whose pixels are contiguous; scale and bias are
    those of the channel. A slab is some of the pixels."""

    cdef Loops loops
    cdef int64_t channels, x_channel, y_channel  # and their strides
    cdef int64_t pixels, x_pixel, y_pixel        # of a contiguous run, and their strides
    cdef int64_t step, steps                     # pixels of a slab; slabs of a run

    def __init__(self, types, ndarray x, ndarray y, scale, bias, epsilon, epilogue, threads, **options):
        Normalisation.__init__(self, types, x, y, scale, bias, epsilon, epilogue, threads, **options)
        dims = dims_of(x, y)
        self.channels, self.x_channel, self.y_channel = dims[1]
        inner = merged(dims[2:])
        last = (1, x.itemsize, y.itemsize)
        if inner and inner[-1][1:] == last[1:]:
            last = inner.pop()
        self.pixels, self.x_pixel, self.y_pixel = last
        self.loops = loops_of([dims[0], *inner])
        self.step = max(MIN_COLUMNS, SEGMENT // max(1, self.channels) // MIN_COLUMNS * MIN_COLUMNS)
        self.steps = ceil_div(self.pixels, self.step)
        self.channel_row, self.channel_col = 1, 0
        self.slabs = self.loops.total * self.steps if x.size else 0
        self.elements, self.partials, self.pieces = 0, 1, 1
        self.statistics_bytes = self.step * (2 * sizeof(double) + 3 * sizeof(float))
        self.set_workspace()

    cdef inline int64_t columns_at(self, int64_t slab, int64_t *x, int64_t *y) noexcept nogil:
        """The offsets of a slab; returns how many pixels it has."""
        cdef int64_t first = slab % self.steps * self.step
        iteration_at(&self.loops, slab // self.steps, x, y)
        x[0] += first * self.x_pixel
        y[0] += first * self.y_pixel
        return min(self.step, self.pixels - first)

    cdef void measure(self, const char *x, int64_t slab, int64_t first, int64_t end, char *statistics) noexcept nogil:
        cdef lk_moments m
        cdef int64_t x_at, y_at
        m.count = self.columns_at(slab, &x_at, &y_at)
        m.x, m.x_row, m.rows, m.by_column, m.about_zero = x + x_at, self.x_channel, self.channels, 1, self.about_zero
        m.mean = <double *>statistics
        m.squares = m.mean + self.step
        self.moments_kernel(&m)

    cdef void combine(self, int64_t slab, char *statistics) noexcept nogil:
        cdef const double *mean = <const double *>statistics
        cdef float *numbers = <float *>(statistics + 2 * self.step * sizeof(double))
        cdef int64_t i, x_at, y_at
        for i in range(self.columns_at(slab, &x_at, &y_at)):
            set_scaling(mean[i], inverse_deviation(mean[self.step + i], <double>self.channels, self.epsilon), 0, numbers, i, self.step)

    cdef void apply(self, const char *x, char *y, int64_t slab, int64_t first, int64_t end, const char *statistics,
                    char *scratch) noexcept nogil:
        cdef lk_scaling g
        cdef int64_t x_at, y_at
        g.count, g.rows, g.by_column = self.columns_at(slab, &x_at, &y_at), self.channels, 1
        g.x, g.y, g.x_row, g.y_row = x + x_at, y + y_at, self.x_channel, self.y_channel
        g.mean = <const float *>(statistics + 2 * self.step * sizeof(double))
        g.factor, g.shift = g.mean + self.step, g.mean + 2 * self.step
        g.scale, g.bias, g.limit, g.add = self.scales, self.biases, 0, NULL
        self.scale_rows(&g, 0, scratch)
