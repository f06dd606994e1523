"""The step of recurrent layers against its formulas, on every instruction set, between guard pages."""

import harness
import numpy as np
import pytest
from oracle.guard import guarded

from layoutkit._core.runtime import registry

ROWS = [k for k in registry.kernels(all_isas=True) if k.isa in registry.isas() and k.family == "recurrent"]
GATES = [4, 3, 2, 1, 1, 1]  # by cell, as recurrent.h lists them


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def stepped(cell, x, h, r, bias, before, state):
    """y and the state after a step, in float64: x of [row, gate, unit], r of [gate, k, unit]."""
    s = x + np.einsum("ik,gkj->igj", h, r)
    if cell == 0:
        c = sigmoid(s[:, 2]) * state + sigmoid(s[:, 0]) * np.tanh(s[:, 3])
        return sigmoid(s[:, 1]) * np.tanh(c), c
    if cell == 1:
        z, reset, own = sigmoid(s[:, 0]), sigmoid(s[:, 1]), x[:, 2]
        return (1 - z) * np.tanh(own + reset * (s[:, 2] - own + bias)) + z * before, state
    if cell == 2:
        return sigmoid(s[:, 1]) * before, sigmoid(s[:, 0])
    if cell == 3:
        return (1 - state) * np.tanh(s[:, 0]) + state * before, state
    return (np.tanh(s[:, 0]) if cell == 4 else np.maximum(s[:, 0], 0)), state


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("cell", range(6), ids=["lstm", "gru", "gru_gates", "gru_hidden", "tanh", "relu"])
@pytest.mark.parametrize("kernel", ROWS, ids=lambda k: k.name)
def test_step(kernel, cell, end):
    rng, lanes, gates = np.random.default_rng(cell), kernel.lanes, GATES[cell]
    for hidden in {1, 2, lanes - 1, lanes, lanes + 1, 2 * lanes, 4 * lanes + 1, 8 * lanes, 9 * lanes + 3}:
        for rows in range(1, kernel.mr + 1):
            x, h, before, state = (rng.normal(0, 1, (rows, *shape, hidden)).astype(np.float32)
                                   for shape in ((gates,), (), (), ()))  # fmt: skip
            r, bias = (
                rng.normal(0, hidden**-0.5, (*shape, hidden)).astype(np.float32) for shape in ((gates, hidden), ())
            )
            biased = bool(rng.integers(2))
            blocks = -(-hidden // lanes)
            packed = np.zeros((gates, hidden, blocks * lanes), np.float32)
            packed[..., :hidden] = r
            packed = packed.reshape(gates, hidden, blocks, lanes).transpose(2, 1, 0, 3)
            buffers = [guarded(np.ascontiguousarray(a).ravel().view(np.uint8), end)
                    for a in (x, h, packed, bias, before, state, np.full_like(h, 7))]  # fmt: skip
            wide = [a.astype(np.float64) for a in (x, h, r, bias if biased else 0 * bias, before, state)]
            want = stepped(cell, *wide)
            row = 4 * hidden
            gx, gh, gr, gb, gbefore, gstate, gy = (g.address for g in buffers)
            harness.run(
                kernel.name, "lk_recurrent", cell=cell, rows=rows, hidden=hidden, x=gx, x_row=gates * row, x_gate=row,
                h=gh, h_row=row, r=gr, bias=gb if biased else None, before=gbefore, before_row=row, state=gstate,
                state_row=row, y=gy, y_row=row,
            )  # fmt: skip
            for got, of in ((buffers[6], want[0]), (buffers[5], want[1])):
                np.testing.assert_allclose(got.array.view(np.float32).reshape(rows, hidden), of, 2e-5, 2e-5)
            for got, of in zip(buffers, (x, h, packed, bias, before)):
                np.testing.assert_array_equal(got.array.view(np.float32), np.ascontiguousarray(of).ravel())
