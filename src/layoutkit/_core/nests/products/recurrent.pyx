"""A recurrent layer: loops over directions, sequences and time around the micro-kernel of a step.

Directions and tiles of sequences are independent: threads share them, and one thread runs all steps of a tile.
"""

import numpy as np

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from ...kernels cimport LK_RECURRENT, lk_kernel
from ...kernels.recurrent cimport (
    LK_GRU, LK_GRU_GATES, LK_GRU_HIDDEN, LK_LSTM, LK_RNN_RELU, LK_RNN_TANH, lk_recurrent, lk_recurrent_fn,
)
from ...ndarray cimport import_array, ndarray
from ...runtime.registry cimport best_row
from ...runtime.team cimport lk_claim, lk_portions, share_out, threads_for
from ..executor cimport aligned, ceil_div, share
from ..operation cimport Operation

import_array()

# By cell, the gates that a call of the kernel computes. A GRU whose reset gate multiplies the state takes two calls a step.
CELLS = {"LSTM": (4,), "GRU": (3,), "GRU, reset first": (2, 1), "Tanh": (1,), "Relu": (1,)}

cdef enum:
    MAX_DIRECTIONS = 2


cdef struct Strides:  # in bytes; a row is a sequence
    int64_t time, row, direction


cdef struct Layer:
    lk_recurrent_fn fn
    int cell, rows, directions, threads
    bint backward[MAX_DIRECTIONS]
    bint has_h, has_c
    int64_t steps, batch, hidden, gates, state_bytes
    const char *packed[2]    # matrices of the first and the second call of a step
    int64_t packed_bytes[2]  # of a direction
    const char *bias
    Strides z, y, h, c, last_h, last_c


cdef struct Run:
    const Layer *layer
    const char *z
    const char *h
    const char *c
    char *y
    char *last_h
    char *last_c
    char *workspace


cdef class Recurrent(Operation):
    """The states y of all steps, last_h and, for an LSTM, last_c, from the products z of the inputs with their matrices.

    Parameters
    ----------
    arrays : tuple of ndarray
        z: [time and sequence, direction * gate * unit], contiguous, with biases added; the initial h and c if there are
        any; y: [time, direction, sequence, unit]; the last h and c: [direction, sequence, unit]. Units are contiguous.
    cell : {"LSTM", "GRU", "GRU, reset first", "Tanh", "Relu"}
    r : ndarray
        [direction, gate * unit, unit]
    bias : ndarray or None
        [direction, unit]: the bias of a GRU's hidden gate that its reset gate multiplies.
    backward : tuple of bool
        By direction.
    batch_first : bool
        The axes are [sequence and time, ..] of z, [sequence, time, direction, unit] of y, [sequence, direction, unit].
    initial_h, initial_c : int
        Their indices among the arrays, -1 for states of 0.
    threads : int
    """

    cdef Layer layer
    cdef int initial_h, initial_c, first_result

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
        y_shape = (batch, steps, directions, hidden) if batch_first else (steps, directions, batch, hidden)
        state = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
        fits = (<object>z).shape == (steps * batch, directions * gates * hidden) and (<object>y).shape == y_shape
        fits = fits and (<object>r).shape == (directions, gates * hidden, hidden) and directions <= MAX_DIRECTIONS
        fits = fits and (bias is None or (<object>bias).shape == (directions, hidden))
        fits = fits and len(states) == 1 + (cell == "LSTM") + (initial_h >= 0) + (initial_c >= 0) and z.flags.c_contiguous
        if not fits or any(s.shape != state for s in states) or any(a.dtype != np.float32 for a in (*arrays, r)):
            raise ValueError(f"{cell}: arrays of {[a.shape for a in arrays]}, R of {(<object>r).shape}, {backward}")
        if any(a.size and a.strides[a.ndim - 1] != 4 and a.shape[a.ndim - 1] > 1 for a in arrays):
            raise ValueError(f"{cell}: units must be contiguous")
        layer.fn, layer.rows, layer.directions, layer.steps, layer.batch = <lk_recurrent_fn>row.fn, row.mr, directions, steps, batch
        layer.hidden, layer.gates, layer.has_h, layer.has_c = hidden, gates, initial_h >= 0, initial_c >= 0
        layer.cell = {"LSTM": LK_LSTM, "GRU": LK_GRU, "GRU, reset first": LK_GRU_GATES, "Tanh": LK_RNN_TANH,
                      "Relu": LK_RNN_RELU}[cell]
        for i in range(directions):
            layer.backward[i] = backward[i]
        first = 0
        for i, count in enumerate(CELLS[cell]):
            packed = _packed(np.asarray(r).reshape(directions, gates, hidden, hidden)[:, first:first + count], lanes)
            layer.packed[i], layer.packed_bytes[i] = self.keep(packed), packed.nbytes // directions
            first += count
        layer.bias = NULL if bias is None else self.keep(bias, np.float32)
        pitch = directions * gates * hidden * 4
        layer.z = Strides(pitch, steps * pitch, gates * hidden * 4) if batch_first else Strides(batch * pitch, pitch, gates * hidden * 4)
        layer.y = Strides(y.strides[time], y.strides[0 if batch_first else 2], y.strides[2 if batch_first else 1])
        layer.h = _state_strides(arrays[initial_h] if initial_h >= 0 else None, batch_first)
        layer.c = _state_strides(arrays[initial_c] if initial_c >= 0 else None, batch_first)
        layer.last_h = _state_strides(arrays[self.first_result + 1], batch_first)
        layer.last_c = _state_strides(arrays[self.first_result + 2] if cell == "LSTM" else None, batch_first)
        # A state of zeros; for a GRU that resets first, two states of each sequence: the update gate and the reset state.
        layer.state_bytes = aligned(hidden * 4)
        self.workspace = (1 + (2 * directions * batch if cell == "GRU, reset first" else 0)) * layer.state_bytes
        parts = directions * ceil_div(batch, layer.rows)
        bytes_of_step = gates * hidden * hidden * 4
        layer.threads = <int>max(1, min(threads_for(threads, <double>parts * steps * bytes_of_step), parts))

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef Run r
        cdef int y = self.first_result
        r.layer, r.z, r.workspace = &self.layer, at[0], workspace
        r.h = at[self.initial_h] if self.initial_h >= 0 else NULL
        r.c = at[self.initial_c] if self.initial_c >= 0 else NULL
        r.y, r.last_h = at[y], at[y + 1]
        r.last_c = at[y + 2] if self.layer.cell == LK_LSTM else NULL
        memset(workspace, 0, self.layer.state_bytes)
        share_out(self.layer.threads, recurrent_share, &r)


def _packed(r, int lanes):
    """[direction, gate, unit, k] as [direction, block, k, gate, unit of the block]."""
    directions, gates, hidden, k = r.shape
    blocks = -(-hidden // lanes)
    padded = np.zeros((directions, gates, blocks * lanes, k), np.float32)
    padded[:, :, :hidden] = r
    return np.ascontiguousarray(padded.reshape(directions, gates, blocks, lanes, k).transpose(0, 2, 4, 1, 3))


cdef Strides _state_strides(a, bint batch_first) except *:
    """The strides of a state."""
    if a is None:
        return Strides(0, 0, 0)
    return Strides(0, a.strides[0 if batch_first else 1], a.strides[1 if batch_first else 0])


cdef void recurrent_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const Run *r = <const Run *>argument
    cdef int64_t tiles = ceil_div(r.layer.batch, r.layer.rows), count = r.layer.directions * tiles, first, last, i
    while lk_claim(portions, share(count, parts, part), share(count, parts, part + 1), &first, &last):
        for i in range(first, last):
            run_tile(r, <int>(i / tiles), i % tiles * r.layer.rows)


cdef void run_tile(const Run *r, int direction, int64_t row) noexcept nogil:
    """All steps in time of a tile of sequences, from sequence `row` on."""
    cdef const Layer *layer = r.layer
    cdef lk_recurrent p
    cdef int64_t step, t, i, bytes = layer.hidden * 4, rows = min(layer.batch - row, layer.rows)
    cdef const char *z = r.z + direction * layer.z.direction + row * layer.z.row
    cdef char *y = r.y + direction * layer.y.direction + row * layer.y.row
    cdef char *c = NULL
    cdef char *scratch = r.workspace + layer.state_bytes * (1 + 2 * (direction * layer.batch + row))
    cdef char *last = r.last_h + direction * layer.last_h.direction + row * layer.last_h.row
    p.cell, p.rows, p.hidden, p.x_row, p.x_gate = layer.cell, <int>rows, layer.hidden, layer.z.row, bytes
    p.r = layer.packed[0] + direction * layer.packed_bytes[0]
    p.bias = NULL if layer.bias == NULL else layer.bias + direction * bytes
    p.h, p.h_row = r.workspace, 0
    if layer.has_h:
        p.h, p.h_row = r.h + direction * layer.h.direction + row * layer.h.row, layer.h.row
    p.state, p.state_row = scratch, 2 * layer.state_bytes
    if layer.cell == LK_LSTM:
        c = r.last_c + direction * layer.last_c.direction + row * layer.last_c.row
        p.state, p.state_row = c, layer.last_c.row
        for i in range(rows):
            if layer.has_c:
                memcpy(c + i * layer.last_c.row, r.c + direction * layer.c.direction + (row + i) * layer.c.row, bytes)
            else:
                memset(c + i * layer.last_c.row, 0, bytes)
    for step in range(layer.steps):
        t = layer.steps - 1 - step if layer.backward[direction] else step
        p.x, p.y, p.y_row = z + t * layer.z.time, y + t * layer.y.time, layer.y.row
        p.before, p.before_row = p.h, p.h_row
        if layer.cell == LK_GRU_GATES:
            run_reset_first(layer, &p, direction)
        else:
            layer.fn(&p)
        p.h, p.h_row = y + t * layer.y.time, layer.y.row
    for i in range(rows):
        memcpy(last + i * layer.last_h.row, p.h + i * p.h_row, bytes)


cdef void run_reset_first(const Layer *layer, const lk_recurrent *step, int direction) noexcept nogil:
    """A step of a GRU in two calls: both gates, then the new state, from the old one times the reset gate."""
    cdef lk_recurrent p = step[0]
    p.y, p.y_row = step.state + layer.state_bytes, step.state_row
    layer.fn(&p)
    p.cell, p.x, p.r = LK_GRU_HIDDEN, step.x + 2 * step.x_gate, layer.packed[1] + direction * layer.packed_bytes[1]
    p.h, p.h_row, p.y, p.y_row = p.y, p.y_row, step.y, step.y_row
    layer.fn(&p)
