"""Normalisations over the pixels of channels or of groups of channels: the nests of instance and group normalisation.

Where pixels are contiguous (NCHW) a slab is a group of an image; where channels are (NHWC, nChw16c), an image, or if
groups fill blocks of channels, some of its blocks.
"""

from libc.stdint cimport int64_t
from numpy cimport ndarray

from ..kernels.normalise cimport lk_moments, lk_scaling
from .executor cimport ceil_div
from .normalise cimport SEGMENT, Loops, Normalisation, deviation, dims_of, loops_of, merged, place, put

cdef enum:
    LEAST_COLUMNS = 64      # of a slab
    MOST_MEASURES = 16      # into which an image is divided
    LEAST_ELEMENTS = 8192   # of them
    LEAST_ROWS = 16


cdef class Planes(Normalisation):
    """Slabs of elements that lie in runs: groups of channels (axis 1), or the axes from `axis` on if `groups` is 0.

    Scale and bias are those of the channel, or of the element.
    """

    cdef Loops loops                       # over slabs
    cdef Loops runs                        # of a channel; of the group the first one's are meant
    cdef int64_t groups, parts, part_x, part_y, count, segments, rows
    cdef bint flat                         # of x the whole slab is one run

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
        whole = merged([(n, stride, stride) for n, stride, _ in (part, *inner)])
        self.flat = len(whole) == 0 or (len(whole) == 1 and whole[0][1] == x.itemsize)
        inner, self.count = merged(inner), 1
        if inner and inner[-1][1:] == (x.itemsize, y.itemsize):
            self.count = inner.pop()[0]
        self.runs = loops_of(inner)
        self.segments = ceil_div(self.count, SEGMENT)
        self.rows = min(self.parts, max(1, SEGMENT // max(1, self.count))) if self.runs.total == 1 else 1
        self.elements = self.parts * self.runs.total * self.count
        self.slabs = self.loops.total if x.size else 0
        self.pieces = ceil_div(self.parts, self.rows) * self.runs.total * self.segments
        self.measures = ceil_div(self.elements, SEGMENT) if self.flat else self.parts * self.runs.total * self.segments
        self.statistics_bytes = 2 * self.measures * sizeof(double) + 3 * self.parts * sizeof(float)
        self.settle()

    cdef void measure(self, const char *x, int64_t slab, int64_t first, int64_t end, char *statistics) noexcept nogil:
        cdef lk_moments m
        cdef int64_t i, at, rest, x_at, y_at
        place(&self.loops, slab, &at, &y_at)
        m.x_row, m.rows, m.down, m.about_zero = 0, 1, 0, self.about_zero
        for i in range(first, end):
            m.x = x + at
            if self.flat:
                m.x += i * SEGMENT * self.item
            else:
                rest = i // self.segments
                place(&self.runs, rest % self.runs.total, &x_at, &y_at)
                m.x += rest // self.runs.total * self.part_x + x_at + i % self.segments * SEGMENT * self.item
            m.count = self.size_of(i)
            m.mean = <double *>statistics + i
            m.squares = m.mean + self.measures
            self.moments(&m)

    cdef inline int64_t size_of(self, int64_t i) noexcept nogil:
        """The elements of a part of the statistics."""
        if self.flat:
            return min(SEGMENT, self.elements - i * SEGMENT)
        return min(SEGMENT, self.count - i % self.segments * SEGMENT)

    cdef void combine(self, int64_t slab, char *statistics) noexcept nogil:
        cdef const double *means = <const double *>statistics
        cdef float *numbers = <float *>(statistics + 2 * self.measures * sizeof(double))
        cdef double mean = 0, squares = 0, apart, count = 0, more, factor
        cdef int64_t i, c
        for i in range(self.measures):
            more, apart = self.size_of(i), means[i] - mean
            squares += means[self.measures + i] + apart * apart * (more * count / (count + more))
            count += more
            mean += apart * (more / count)
        factor = deviation(squares, count, self.epsilon)
        for i in range(self.parts):
            c = slab % self.groups * self.parts + i if self.groups else 0
            if self.groups:
                put(mean, factor * (1 if self.scales == NULL else self.scales[c]),
                    0 if self.biases == NULL else self.biases[c], numbers, i, self.parts)
            else:
                put(mean, factor, 0, numbers, i, self.parts)

    cdef void apply(self, const char *x, char *y, int64_t slab, int64_t first, int64_t end, const char *statistics,
                    char *scratch) noexcept nogil:
        cdef const float *numbers = <const float *>(statistics + 2 * self.measures * sizeof(double))
        cdef lk_scaling g
        cdef int64_t i, segment, run, part, x_slab, y_slab, x_at, y_at, channel = 0
        place(&self.loops, slab, &x_slab, &y_slab)
        g.by_column, g.x_row, g.y_row = 0, self.part_x, self.part_y
        g.scale = g.bias = NULL
        for i in range(first, end):
            segment, run = i % self.segments, i // self.segments
            part, run = run // self.runs.total * self.rows, run % self.runs.total
            place(&self.runs, run, &x_at, &y_at)
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
            self.scaled(&g, channel, scratch)


cdef class Pixels(Normalisation):
    """Instance or group normalisation of pixels with contiguous channels, in axes (image, .., channel), or if `blocked`
    (image, block, .., channel of the block); there are so many `channels`.
    """

    cdef Loops loops               # over slabs
    cdef Loops runs                # of pixels of a panel, each `pixels` that are equally far apart
    cdef int64_t channels, group   # of a group
    cdef int64_t parts, panels, panel_x, panel_y, width, lanes  # slabs of an image; panels of a slab; channels of a panel, of a slab
    cdef int64_t pixels, pixel_x, pixel_y, least, segments, units

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
        self.least = max(LEAST_ROWS, ceil_div(self.pixels, MOST_MEASURES), ceil_div(LEAST_ELEMENTS, max(1, self.width)))
        self.segments = ceil_div(self.pixels, self.least)
        self.units = self.runs.total * self.segments
        self.channel_row, self.channel_col = 0, 1
        self.elements = self.pixels * self.runs.total * self.lanes
        self.slabs = self.loops.total if x.size else 0
        self.measures = self.pieces = self.panels * self.units
        self.statistics_bytes = self.lanes * (2 * self.units * sizeof(double) + 3 * sizeof(float))
        self.settle()

    cdef inline int64_t size_of(self, int64_t unit) noexcept nogil:
        """The pixels of a part of a panel."""
        return min(self.least, self.pixels - unit % self.segments * self.least)

    cdef inline void unit_at(self, int64_t slab, int64_t i, int64_t *x, int64_t *y) noexcept nogil:
        """The offsets of a part of a slab."""
        cdef int64_t x_run, y_run, unit = i % self.units, panel = i // self.units, pixel
        place(&self.loops, slab, x, y)
        place(&self.runs, unit // self.segments, &x_run, &y_run)
        pixel = unit % self.segments * self.least
        x[0] += panel * self.panel_x + x_run + pixel * self.pixel_x
        y[0] += panel * self.panel_y + y_run + pixel * self.pixel_y

    cdef void measure(self, const char *x, int64_t slab, int64_t first, int64_t end, char *statistics) noexcept nogil:
        cdef lk_moments m
        cdef int64_t i, x_at, y_at, unit
        m.x_row, m.count, m.down, m.about_zero = self.pixel_x, self.width, 1, self.about_zero
        for i in range(first, end):
            unit = i % self.units
            self.unit_at(slab, i, &x_at, &y_at)
            m.x, m.rows = x + x_at, self.size_of(unit)
            m.mean = <double *>statistics + unit * self.lanes + i // self.units * self.width
            m.squares = m.mean + self.units * self.lanes
            self.moments(&m)

    cdef void combine(self, int64_t slab, char *statistics) noexcept nogil:
        cdef double *mean = <double *>statistics
        cdef double *squares = mean + self.units * self.lanes
        cdef double *mean_of
        cdef double *squares_of
        cdef double count = self.size_of(0), more, weight, apart
        cdef int64_t unit, c, lanes = self.lanes
        for unit in range(1, self.units):
            mean_of, squares_of, more = mean + unit * lanes, squares + unit * lanes, self.size_of(unit)
            weight = more * count / (count + more)
            count += more
            more /= count
            for c in range(lanes):
                apart = mean_of[c] - mean[c]
                mean[c] += apart * more
                squares[c] += squares_of[c] + apart * apart * weight
        self.combine_groups(slab % self.parts * lanes, count, mean, squares,
                            <float *>(statistics + 2 * self.units * lanes * sizeof(double)))

    cdef void combine_groups(self, int64_t first, double pixels, const double *mean, const double *squares,
                             float *numbers) noexcept nogil:
        """What channels from the `first` on are scaled with; those beyond the last are pads."""
        cdef int64_t c, i, here = min(self.lanes, self.channels - first)
        cdef double middle, around, factor
        for c in range(here, self.lanes):
            put(0, 0, 0, numbers, c, self.lanes)
        c = 0
        while c < here:
            middle, around = mean[c], squares[c]
            if self.group > 1:
                middle = around = 0
                for i in range(c, c + self.group):
                    middle += mean[i]
                middle /= self.group
                for i in range(c, c + self.group):
                    around += squares[i] + pixels * (mean[i] - middle) * (mean[i] - middle)
            factor = deviation(around, pixels * self.group, self.epsilon)
            for i in range(c, c + self.group):
                put(middle, factor * (1 if self.scales == NULL else self.scales[first + i]),
                    0 if self.biases == NULL else self.biases[first + i], numbers, i, self.lanes)
            c += self.group

    cdef void apply(self, const char *x, char *y, int64_t slab, int64_t first, int64_t end, const char *statistics,
                    char *scratch) noexcept nogil:
        cdef const float *numbers = <const float *>(statistics + 2 * self.units * self.lanes * sizeof(double))
        cdef lk_scaling g
        cdef int64_t i, x_at, y_at, panel
        g.x_row, g.y_row, g.count, g.by_column = self.pixel_x, self.pixel_y, self.width, 1
        g.scale = g.bias = NULL
        for i in range(first, end):
            panel = i // self.units
            self.unit_at(slab, i, &x_at, &y_at)
            g.x, g.y, g.rows = x + x_at, y + y_at, self.size_of(i % self.units)
            g.mean = numbers + panel * self.width
            g.factor, g.shift = g.mean + self.lanes, g.mean + 2 * self.lanes
            self.scaled(&g, slab % self.parts * self.lanes + panel * self.width, scratch)


cdef class Columns(Normalisation):
    """Normalisation over axis 1, of arrays whose pixels are contiguous; scale and bias are those of the channel. A slab is
    some of the pixels."""

    cdef Loops loops
    cdef int64_t channels, x_channel, y_channel, pixels, step, steps, x_pixel, y_pixel

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
        self.step = max(LEAST_COLUMNS, SEGMENT // max(1, self.channels) // LEAST_COLUMNS * LEAST_COLUMNS)
        self.steps = ceil_div(self.pixels, self.step)
        self.channel_row, self.channel_col = 1, 0
        self.slabs = self.loops.total * self.steps if x.size else 0
        self.elements, self.measures, self.pieces = 0, 1, 1
        self.statistics_bytes = self.step * (2 * sizeof(double) + 3 * sizeof(float))
        self.settle()

    cdef inline int64_t columns_at(self, int64_t slab, int64_t *x, int64_t *y) noexcept nogil:
        """The offsets of a slab, and its pixels."""
        cdef int64_t first = slab % self.steps * self.step
        place(&self.loops, slab // self.steps, x, y)
        x[0] += first * self.x_pixel
        y[0] += first * self.y_pixel
        return min(self.step, self.pixels - first)

    cdef void measure(self, const char *x, int64_t slab, int64_t first, int64_t end, char *statistics) noexcept nogil:
        cdef lk_moments m
        cdef int64_t x_at, y_at
        m.count = self.columns_at(slab, &x_at, &y_at)
        m.x, m.x_row, m.rows, m.down, m.about_zero = x + x_at, self.x_channel, self.channels, 1, self.about_zero
        m.mean = <double *>statistics
        m.squares = m.mean + self.step
        self.moments(&m)

    cdef void combine(self, int64_t slab, char *statistics) noexcept nogil:
        cdef const double *mean = <const double *>statistics
        cdef float *numbers = <float *>(statistics + 2 * self.step * sizeof(double))
        cdef int64_t i, x_at, y_at
        for i in range(self.columns_at(slab, &x_at, &y_at)):
            put(mean[i], deviation(mean[self.step + i], <double>self.channels, self.epsilon), 0, numbers, i, self.step)

    cdef void apply(self, const char *x, char *y, int64_t slab, int64_t first, int64_t end, const char *statistics,
                    char *scratch) noexcept nogil:
        cdef lk_scaling g
        cdef int64_t x_at, y_at
        g.count, g.rows, g.by_column = self.columns_at(slab, &x_at, &y_at), self.channels, 1
        g.x, g.y, g.x_row, g.y_row = x + x_at, y + y_at, self.x_channel, self.y_channel
        g.mean = <const float *>(statistics + 2 * self.step * sizeof(double))
        g.factor, g.shift = g.mean + self.step, g.mean + 2 * self.step
        g.scale, g.bias = self.scales, self.biases
        self.scaled(&g, 0, scratch)
