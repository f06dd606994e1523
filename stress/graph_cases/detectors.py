"""Nodes of detectors, recurrent networks, and quantised products."""

from __future__ import annotations

from math import prod

import numpy as np

from .build import Build, Dropped, allowed

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FUNCTIONS = "Relu Tanh Sigmoid Softsign Softplus LeakyRelu Elu ThresholdedRelu HardSigmoid Affine ScaledTanh".split()


def _boxes(b: Build, shape) -> np.ndarray:
    """Corners on a grid, so that boxes overlap and are equal now and then."""
    low = b.rng.integers(0, 8, (*shape, 2))
    return np.concatenate([low, low + b.rng.integers(1, 6, (*shape, 2))], -1).astype(np.float32)


def suppression(b: Build, op: str) -> None:
    images, classes, n = b.int(1, 2), b.int(1, 3), b.int(1, 12)
    boxes = b.constant(_boxes(b, (images, n)), "float32")
    scores = b.constant(b.rng.permutation(images * classes * n).reshape(images, classes, n) / 100, "float32")
    limits = [b.constant([b.int(0, n)]), b.constant([b.one([0.0, 0.3, 0.5, 1.0])], "float32"),
              b.constant([b.one([0.0, 0.1])], "float32")]  # fmt: skip
    (at,) = b.add(op, boxes, scores, *limits[: b.int(0, 3)], open=True, center_point_box=b.one([None, 0]))
    if b.maybe():
        (of,) = b.add("Gather", at, b.constant([2]), open=True, axis=1)
        (of,) = b.add("Reshape", of, b.constant([-1]), open=True)
        (kept,) = b.add("Gather", boxes, of, open=True, axis=1)
        b.add("Neg", kept, open=True)


def align(b: Build, op: str) -> None:
    x = b.new("float32", (b.int(1, 2), b.int(1, 3), b.int(1, 8), b.int(1, 8)))
    n = b.int(0, 3)
    rois = b.constant(_boxes(b, (n,)) / b.one([1, 2, 0.7]), "float32")
    modes = (
        {"coordinate_transformation_mode": b.one([None, "half_pixel", "output_half_pixel"])} if b.opset >= 16 else {}
    )
    b.add(op, x, rois, b.constant(b.rng.integers(0, x.shape[0], n)), output_height=b.int(1, 4),
          output_width=b.int(1, 4), sampling_ratio=b.int(0, 3), spatial_scale=b.one([1.0, 0.5]),
          mode=b.one(["avg", "avg", "max", None]), **modes)  # fmt: skip


def regions(b: Build, op: str) -> None:
    x = b.new("float32", (b.int(1, 2), b.int(1, 3), b.int(1, 8), b.int(1, 8)))
    n = b.int(1, 3)
    rois = np.concatenate([b.rng.integers(0, x.shape[0], (n, 1)), _boxes(b, (n,))], 1)
    b.add(op, x, b.constant(rois, "float32"), pooled_shape=b.ints(1, 3, 2), spatial_scale=b.one([1.0, 0.5, None]))


def grid(b: Build, op: str) -> None:
    rank = b.int(2, 3) if b.opset >= 20 else 2
    x = b.new(b.one(["float32", "float64"]), (b.int(0, 2), b.int(1, 3), *b.ints(1, 5, rank)))
    modes = (
        ["linear", "nearest", *(["cubic"] if rank == 2 else [])]
        if b.opset >= 20
        else ["bilinear", "nearest", "bicubic"]
    )
    places = b.operand(x.dtype, (x.shape[0], *b.ints(1, 4, rank), rank), -1.5, 1.5)
    mode = b.one(modes)
    if mode == "nearest":  # ties are what rounding makes of them
        places = b.constant(b.rng.uniform(-1.5, 1.5, places.shape), x.dtype)
    b.add(op, x, places, mode=mode, padding_mode=b.one(["zeros", "border", "reflection", None]),
          align_corners=b.one([0, 1, None]))  # fmt: skip


def affine_grid(b: Build, op: str) -> None:
    rank = b.int(2, 3)
    size = [b.int(1, 2), 1, *b.ints(1, 4, rank)]
    b.add(op, b.operand(np.dtype(np.float32), (size[0], rank, rank + 1)), b.constant(size), align_corners=b.int(0, 1))


def deform(b: Build, op: str) -> None:
    groups, apart = b.int(1, 2), b.int(1, 2)
    c, o = 2 * b.int(1, 2), groups * b.int(1, 2)
    kernel, size = b.ints(1, 3, 2), b.ints(3, 6, 2)
    strides, dilations, pads = b.ints(1, 2, 2), b.ints(1, 2, 2), b.ints(0, 1, 4)
    out = [(n + p + q - d * (k - 1) - 1) // s + 1
           for n, p, q, d, k, s in zip(size, pads, pads[2:], dilations, kernel, strides)]  # fmt: skip
    if min(out) < 1:
        raise Dropped
    n, f = b.int(1, 2), np.dtype(np.float32)
    x, w = b.new(f, (n, c, *size)), b.operand(f, (o, c // groups, *kernel), -1, 1)
    offset = b.new(f, (n, apart * 2 * prod(kernel), *out), -1.5, 1.5)
    bias = b.operand(f, (o,)) if b.maybe() else None
    mask = [b.operand(f, (n, apart * prod(kernel), *out), 0, 1)] if b.maybe() else []
    b.add(op, x, w, offset, bias, *mask, group=groups, offset_group=apart, strides=strides, dilations=dilations,
          pads=pads, kernel_shape=kernel)  # fmt: skip


def unpool(b: Build, op: str) -> None:
    k, n, c = b.int(1, 3), b.int(1, 2), b.int(1, 2)
    x = b.new("float32", (n, c, b.int(1, 3), b.int(1, 3)))
    count = prod((n, c, x.shape[2] * k, x.shape[3] * k))
    at = b.rng.permutation(count)[: prod(x.shape)].reshape(x.shape)
    b.add(op, x, b.constant(at), kernel_shape=[k, k], strides=[k, k])


def recurrent(b: Build, op: str) -> None:
    steps, batch, width, n = b.int(1, 4), b.int(1, 3), b.int(1, 4), b.int(1, 4)
    direction = b.one(["forward", "reverse", "bidirectional", None])
    dirs = 2 if direction == "bidirectional" else 1
    first = b.opset >= 14 and b.maybe(0.3)
    f, gates = np.dtype(b.one(allowed(op, b.opset, 0))), GATES[op] * n
    if f == np.float16:
        raise Dropped
    x = b.operand(f, (batch, steps, width) if first else (steps, batch, width))
    w, r = (b.constant(b.numbers(f, (dirs, gates, k), -1, 1), f) if b.maybe(0.8) else b.new(f, (dirs, gates, k), -1, 1)
            for k in (width, n))  # fmt: skip
    state = (batch, dirs, n) if first else (dirs, batch, n)
    more = [
        b.operand(f, (dirs, 2 * gates)) if b.maybe(0.7) else None,
        b.constant(b.rng.integers(1, steps + 1, batch), "int32") if b.maybe(0.3) else None,
        b.operand(f, state) if b.maybe(0.4) else None,
    ]
    if op == "LSTM":
        more += [b.operand(f, state) if b.maybe(0.4) else None, b.operand(f, (dirs, 3 * n)) if b.maybe(0.3) else None]
    while more and more[-1] is None:
        more.pop()
    named = {}
    if b.maybe(0.3):
        named["activations"] = [b.one(FUNCTIONS) for _ in range({"LSTM": 3, "GRU": 2, "RNN": 1}[op] * dirs)]
        named["activation_alpha"] = [float(b.rng.uniform(0.2, 0.6)) for _ in named["activations"]]
        named["activation_beta"] = [float(b.rng.uniform(0.2, 0.6)) for _ in named["activations"]]
    b.add(op, x, w, r, *more, outputs=b.int(1, 3 if op == "LSTM" else 2), hidden_size=n, direction=direction,
          clip=b.one([None, None, 1.5]), layout=1 if first else None,
          input_forget=b.one([None, None, 1]) if op == "LSTM" else None,
          linear_before_reset=b.one([None, 1]) if op == "GRU" else None, **named)  # fmt: skip


def quantised_product(b: Build, op: str) -> None:
    m, k, n = b.ints(1, 5, 3)
    t = np.dtype(b.one(["uint8", "int8"]))

    def scale():
        return b.constant(np.float32(b.one([0.5, 0.02, 1.0])), "float32")

    def zero():
        return b.constant(b.int(0, 5), t)

    left, right = b.operand(t, (*b.shape(0, 1), m, k), 0, 4), b.operand(t, (k, n), 0, 4)
    b.add(op, left, scale(), zero(), right, scale(), zero(), scale(), zero())


def dynamic(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    if not prod(t.shape):
        raise Dropped
    b.add(op, t if t.exact else b.new(t.dtype, t.shape), outputs=3)


DRAWS = {
    "NonMaxSuppression": suppression, "RoiAlign": align, "MaxRoiPool": regions, "GridSample": grid,
    "AffineGrid": affine_grid, "DeformConv": deform, "MaxUnpool": unpool, **dict.fromkeys(GATES, recurrent),
    "QLinearMatMul": quantised_product, "DynamicQuantizeLinear": dynamic,
}  # fmt: skip
