"""A recurrent layer as an operation: loops over directions, sequences and time around the micro-kernel of a step.

Directions and tiles of sequences do not wait for one another: threads take them, and one goes through all of time.
"""

import numpy as np

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
from numpy cimport PyArray_DATA, import_array, ndarray

from ..kernels cimport LK_RECURRENT, lk_kernel
from ..kernels.recurrent cimport (
    LK_GRU, LK_GRU_GATES, LK_GRU_HIDDEN, LK_LSTM, LK_RNN_RELU, LK_RNN_TANH, lk_recurrent, lk_recurrent_fn,
)
from ..runtime.registry cimport best_row
from ..runtime.team cimport lk_claim, lk_portions, share_out, threads_for
from .executor cimport aligned, ceil_div, share
from .operation cimport Operation

import_array()

# By cell, the gates of its steps: those of a GRU whose reset gate multiplies the state are two for each step in time.
CELLS = {"LSTM": (4,), "GRU": (3,), "GRU, reset first": (2, 1), "Tanh": (1,), "Relu": (1,)}

cdef enum:
    MAX_DIRECTIONS = 2


cdef struct Axes:  # bytes from one to the next; `direction` 0 of what all directions share
    int64_t time, row, direction


cdef struct Layer:
    lk_recurrent_fn fn
    int cell, rows, directions, threads
    bint backward[MAX_DIRECTIONS]
    bint has_h, has_c
    int64_t steps, batch, hidden, gates, state_bytes
    const char *packed[2]  # of the first step of a cell and of the second
    int64_t packed_bytes[2]  # of a direction
    const char *bias
    Axes z, y, h, c, last_h, last_c


cdef struct Run:
    const Layer *of
    const char *z
    const char *h
    const char *c
    char *y
    char *last_h
    char *last_c
    char *work


cdef class Recurrent(Operation):
    """y, last_h and, of an LSTM, last_c of the products of the input with its matrices.

    Parameters
    ----------
    arrays : tuple of ndarray
        z: [time and sequence, direction * gate * unit], contiguous, biases included; the initial h and c if there are any; y: [time,
        direction, sequence, unit]; the last h and c: [direction, sequence, unit]. Units lie together.
    cell : {"LSTM", "GRU", "GRU, reset first", "Tanh", "Relu"}
    r : ndarray
        [direction, gate * unit, unit]
    bias : ndarray or None
        [direction, unit]: of a GRU's hidden gate, what its reset gate multiplies.
    backward : tuple of bool
        By direction.
    batch_first : bool
        The axes are [sequence and time, ..] of z, [sequence, time, direction, unit] of y, [sequence, direction, unit].
    initial_h, initial_c : int
        Where they are among the arrays, -1 if they are 0.
    threads : int
    """

    cdef Layer layer
    cdef int initial_h, initial_c, first_result
    cdef object kept

    def __cinit__(self, tuple arrays, str cell, ndarray r, ndarray bias, tuple backward, bint batch_first,
                  int initial_h, int initial_c, int threads):
        cdef const lk_kernel *row = best_row(LK_RECURRENT, "f32")
        cdef Layer *layer = &self.layer
        cdef int i, lanes = row.lanes
        cdef int64_t hidden = r.shape[2], gates = sum(CELLS[cell]), bytes_of_step, parts
        cdef ndarray z = arrays[0], y
        self.bind(arrays)
        self.initial_h, self.initial_c = initial_h, initial_c
        self.first_result = 1 + (initial_h >= 0) + (initial_c >= 0)
        y = arrays[self.first_result]
        states = [arrays[i] for i in (initial_h, initial_c) if i >= 0] + list(arrays[self.first_result + 1:])
        time = 1 if batch_first else 0
        if y.ndim != 4 or hidden == 0:
            raise ValueError(f"{cell}: a result of {(<object>y).shape}")
        directions, steps, batch = len(backward), y.shape[time], y.shape[0 if batch_first else 2]
        whole = (batch, steps, directions, hidden) if batch_first else (steps, directions, batch, hidden)
        state = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
        fits = (<object>z).shape == (steps * batch, directions * gates * hidden) and (<object>y).shape == whole
        fits = fits and (<object>r).shape == (directions, gates * hidden, hidden) and directions <= MAX_DIRECTIONS
        fits = fits and (bias is None or (<object>bias).shape == (directions, hidden))
        fits = fits and len(states) == 1 + (cell == "LSTM") + (initial_h >= 0) + (initial_c >= 0) and z.flags.c_contiguous
        if not fits or any(s.shape != state for s in states) or any(a.dtype != np.float32 for a in (*arrays, r)):
            raise ValueError(f"{cell}: arrays of {[a.shape for a in arrays]}, R of {(<object>r).shape}, {backward}")
        if any(a.size and a.strides[a.ndim - 1] != 4 and a.shape[a.ndim - 1] > 1 for a in arrays):
            raise ValueError(f"{cell}: units must lie together")
        layer.fn, layer.rows, layer.directions, layer.steps, layer.batch = <lk_recurrent_fn>row.fn, row.mr, directions, steps, batch
        layer.hidden, layer.gates, layer.has_h, layer.has_c = hidden, gates, initial_h >= 0, initial_c >= 0
        layer.cell = {"LSTM": LK_LSTM, "GRU": LK_GRU, "GRU, reset first": LK_GRU_GATES, "Tanh": LK_RNN_TANH,
                      "Relu": LK_RNN_RELU}[cell]
        for i in range(directions):
            layer.backward[i] = backward[i]
        packed, first = [], 0
        for i, count in enumerate(CELLS[cell]):
            packed.append(_packed(np.asarray(r).reshape(directions, gates, hidden, hidden)[:, first:first + count], lanes))
            layer.packed[i], layer.packed_bytes[i] = <const char *>PyArray_DATA(<ndarray>packed[i]), packed[i].nbytes // directions
            first += count
        bias = None if bias is None else np.ascontiguousarray(bias, np.float32)
        layer.bias = NULL if bias is None else <const char *>PyArray_DATA(bias)
        self.kept = packed, bias
        pitch = directions * gates * hidden * 4
        layer.z = Axes(pitch, steps * pitch, gates * hidden * 4) if batch_first else Axes(batch * pitch, pitch, gates * hidden * 4)
        layer.y = Axes(y.strides[time], y.strides[0 if batch_first else 2], y.strides[2 if batch_first else 1])
        layer.h = _axes(arrays[initial_h] if initial_h >= 0 else None, batch_first)
        layer.c = _axes(arrays[initial_c] if initial_c >= 0 else None, batch_first)
        layer.last_h = _axes(arrays[self.first_result + 1], batch_first)
        layer.last_c = _axes(arrays[self.first_result + 2] if cell == "LSTM" else None, batch_first)
        # zeros for a state before the first; of a GRU that resets first z and the state that is reset
        layer.state_bytes = aligned(hidden * 4)
        self.workspace = (1 + (2 * directions * batch if cell == "GRU, reset first" else 0)) * layer.state_bytes
        parts = directions * ceil_div(batch, layer.rows)
        bytes_of_step = gates * hidden * hidden * 4
        layer.threads = <int>max(1, min(threads_for(threads, <double>parts * steps * bytes_of_step), parts))

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef Run r
        cdef int to = self.first_result
        r.of, r.z, r.work = &self.layer, at[0], workspace
        r.h = at[self.initial_h] if self.initial_h >= 0 else NULL
        r.c = at[self.initial_c] if self.initial_c >= 0 else NULL
        r.y, r.last_h = at[to], at[to + 1]
        r.last_c = at[to + 2] if self.layer.cell == LK_LSTM else NULL
        memset(workspace, 0, self.layer.state_bytes)
        share_out(self.layer.threads, recurrent_share, &r)


def _packed(r, int lanes):
    """[direction, gate, unit, k] as [direction, block, k, gate, unit of the block]."""
    directions, gates, hidden, k = r.shape
    blocks = -(-hidden // lanes)
    whole = np.zeros((directions, gates, blocks * lanes, k), np.float32)
    whole[:, :, :hidden] = r
    return np.ascontiguousarray(whole.reshape(directions, gates, blocks, lanes, k).transpose(0, 2, 4, 1, 3))


cdef Axes _axes(a, bint batch_first) except *:
    """Of a state."""
    if a is None:
        return Axes(0, 0, 0)
    return Axes(0, a.strides[0 if batch_first else 1], a.strides[1 if batch_first else 0])


cdef void recurrent_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const Run *r = <const Run *>argument
    cdef int64_t tiles = ceil_div(r.of.batch, r.of.rows), count = r.of.directions * tiles, first, last, i
    while lk_claim(portions, share(count, parts, part), share(count, parts, part + 1), &first, &last):
        for i in range(first, last):
            through_time(r, <int>(i / tiles), i % tiles * r.of.rows)


cdef void through_time(const Run *r, int direction, int64_t row) noexcept nogil:
    """All steps of a tile of sequences, which begins with one."""
    cdef const Layer *of = r.of
    cdef lk_recurrent p
    cdef int64_t step, t, i, bytes = of.hidden * 4, rows = min(of.batch - row, of.rows)
    cdef const char *z = r.z + direction * of.z.direction + row * of.z.row
    cdef char *y = r.y + direction * of.y.direction + row * of.y.row
    cdef char *c = NULL
    cdef char *scratch = r.work + of.state_bytes * (1 + 2 * (direction * of.batch + row))
    cdef char *last = r.last_h + direction * of.last_h.direction + row * of.last_h.row
    p.cell, p.rows, p.hidden, p.x_row, p.x_gate = of.cell, <int>rows, of.hidden, of.z.row, bytes
    p.r = of.packed[0] + direction * of.packed_bytes[0]
    p.bias = NULL if of.bias == NULL else of.bias + direction * bytes
    p.h, p.h_row = r.work, 0
    if of.has_h:
        p.h, p.h_row = r.h + direction * of.h.direction + row * of.h.row, of.h.row
    p.state, p.state_row = scratch, 2 * of.state_bytes
    if of.cell == LK_LSTM:
        c = r.last_c + direction * of.last_c.direction + row * of.last_c.row
        p.state, p.state_row = c, of.last_c.row
        for i in range(rows):
            if of.has_c:
                memcpy(c + i * of.last_c.row, r.c + direction * of.c.direction + (row + i) * of.c.row, bytes)
            else:
                memset(c + i * of.last_c.row, 0, bytes)
    for step in range(of.steps):
        t = of.steps - 1 - step if of.backward[direction] else step
        p.x, p.y, p.y_row = z + t * of.z.time, y + t * of.y.time, of.y.row
        p.before, p.before_row = p.h, p.h_row
        if of.cell == LK_GRU_GATES:
            reset_first(of, &p, direction)
        else:
            of.fn(&p)
        p.h, p.h_row = y + t * of.y.time, of.y.row
    for i in range(rows):
        memcpy(last + i * of.last_h.row, p.h + i * p.h_row, bytes)


cdef void reset_first(const Layer *of, const lk_recurrent *step, int direction) noexcept nogil:
    """A step of a GRU in two: both gates, then the new state of the old one after its reset."""
    cdef lk_recurrent p = step[0]
    p.y, p.y_row = step.state + of.state_bytes, step.state_row
    of.fn(&p)
    p.cell, p.x, p.r = LK_GRU_HIDDEN, step.x + 2 * step.x_gate, of.packed[1] + direction * of.packed_bytes[1]
    p.h, p.h_row, p.y, p.y_row = p.y, p.y_row, step.y, step.y_row
    of.fn(&p)
