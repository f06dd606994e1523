"""Nodes that look for elements, or say where they come from and go to; parts of matrices; audio."""

from __future__ import annotations

from math import prod

import numpy as np

from .build import Build, Dropped, Tensor, allowed


def _where(b: Build, n: int, shape) -> Tensor:
    """Indices into an axis of `n`."""
    if not n and prod(shape):
        raise Dropped
    return b.constant(b.rng.integers(-n, max(n, 1), shape), b.one(["int32", "int64"]))


def _reduction(b: Build) -> str | None:
    return b.one([None, None, *(["add", "mul"] if b.opset >= 16 else []), *(["max", "min"] if b.opset >= 18 else [])])


def elements(b: Build, op: str) -> None:
    t = b.pick(op, 1, 4)
    axis = b.axis(len(t.shape))
    a = axis % len(t.shape)
    shape = [b.int(0, 4) if i == a else b.int(min(n, 1), n) for i, n in enumerate(t.shape)]
    if op == "GatherElements":
        b.add(op, t, _where(b, t.shape[a], shape), axis=axis)
        return
    reduction = _reduction(b) if op == "ScatterElements" else None
    n = t.shape[a]
    if reduction is None:  # which one of several is undefined
        shape[a] = min(shape[a], n)
        at = np.argsort(b.rng.random([n if i == a else k for i, k in enumerate(shape)]), a)
        at = b.constant(np.take(at, range(shape[a]), a), b.one(["int32", "int64"]))
    else:
        at = _where(b, n, shape)
    b.add(op, t, at, b.operand(t.dtype, shape), axis=axis, reduction=reduction)


def elements_nd(b: Build, op: str) -> None:
    t = b.pick(op, 1, 4)
    rank = len(t.shape)
    batch = b.int(0, rank - 1) if op == "GatherND" and b.opset >= 12 and b.maybe(0.4) else 0
    k = b.int(1, rank - batch)
    outer = (*t.shape[:batch], *b.shape(0, 1)) if batch else b.shape(1, 2)
    sizes = t.shape[batch : batch + k]
    if prod(outer) and 0 in sizes:
        raise Dropped
    if op == "GatherND":
        at = [b.rng.integers(-n, max(n, 1), outer) for n in sizes]
        b.add(op, t, b.constant(np.stack(at, -1)), batch_dims=batch or None)
        return
    reduction = _reduction(b)
    count = prod(outer) if reduction else min(prod(outer), prod(sizes))
    places = (
        b.rng.permutation(prod(sizes))[:count] if reduction is None else b.rng.integers(0, max(prod(sizes), 1), count)
    )
    at = np.stack(np.unravel_index(places, sizes), -1) if prod(sizes) else np.zeros((count, k), np.int64)
    b.add(op, t, b.constant(at), b.operand(t.dtype, (count, *t.shape[k:])), reduction=reduction)


def non_zero(b: Build, op: str) -> None:
    b.add(op, b.pick(op, 1), open=True)


def found_elements(b: Build, op: str) -> None:
    """What NonZero finds, read again, as exporters write masks."""
    t = b.pick("NonZero", 1, 3)
    (at,) = b.add("NonZero", t, open=True)
    (rows,) = b.add("Transpose", at, open=True, perm=[1, 0])
    if b.opset < 11:
        return
    (values,) = b.add("GatherND", t, rows, open=True)
    if t.dtype.kind == "f":
        (values,) = b.add("Neg", values, open=True)
    if b.maybe():
        b.add("ScatterND", t, rows, values, open=True)


def compress(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    axis = b.one([None, b.axis(len(t.shape)) if b.opset >= 11 else b.int(0, len(t.shape) - 1)])
    n = prod(t.shape) if axis is None else t.shape[axis]
    b.add(op, t, b.constant(b.rng.integers(0, 2, b.int(0, n)), bool), open=True, axis=axis)


def unique(b: Build, op: str) -> None:
    t = b.pick(op, 1, 3)
    if not prod(t.shape) or b.special:
        raise Dropped
    b.add(op, t, outputs=b.int(1, 4), open=True, axis=b.one([None, b.axis(len(t.shape))]), sorted=b.int(0, 1))


def top(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    if not t.exact:
        t = b.new(t.dtype, t.shape)
    axis = b.axis(len(t.shape)) if b.opset >= 11 else b.int(0, len(t.shape) - 1)
    k = b.int(0 if b.opset >= 11 else 1, t.shape[axis]) if t.shape[axis] else 0
    k = {"k": k} if b.opset < 10 else {"K": [k]}
    largest = b.one([0, 1, None]) if b.opset >= 11 else None
    b.add(op, t, outputs=2, axis=b.one([axis, axis, -1]), largest=largest, **k)


def one_hot(b: Build, op: str) -> None:
    depth, shape = b.int(1, 5), b.shape(0, 3)
    of = b.one([t for t in allowed(op, b.opset, 0) if t.kind in "if"])
    at = b.constant(b.rng.integers(-depth - 1, depth + 2, shape), of)
    dtype = b.one(allowed(op, b.opset, 2))
    b.add(op, at, b.constant(depth), b.operand(dtype, (2,)), axis=b.int(-len(shape) - 1, len(shape)))


def reverse_sequence(b: Build, op: str) -> None:
    t = b.pick(op, 2)
    batch = b.int(0, 1)
    lengths = b.rng.integers(min(t.shape[1 - batch], 1), t.shape[1 - batch] + 1, t.shape[batch])
    b.add(op, t, b.constant(lengths), batch_axis=batch, time_axis=1 - batch)


def running(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    b.add(op, t, b.constant(b.axis(len(t.shape)), b.one(["int32", "int64"])), exclusive=b.one([0, 1, None]),
          reverse=b.one([0, 1, None]))  # fmt: skip


def triangle(b: Build, op: str) -> None:
    t = b.pick(op, 2)
    k = b.constant(b.int(-4, 4)) if b.maybe(0.6) else None
    b.add(op, t, *([k] if k else []), upper=b.one([0, 1, None]))


def eye(b: Build, op: str) -> None:
    from onnx import helper

    dtype = b.one([None, *(helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in ("float32", "int64", "float64"))])
    b.add(op, b.pick(op, 2, 2), dtype=dtype, k=b.one([None, b.int(-4, 4)]))


def bit_shift(b: Build, op: str) -> None:
    t = b.pick(op, types=[np.dtype(f"uint{n}") for n in (8, 16, 32, 64)])
    b.add(op, t, b.operand(t.dtype, b.broadcast(t).shape, 0, 5), direction=b.one(["LEFT", "RIGHT"]))


def det(b: Build, op: str) -> None:
    n = b.int(1, 4)
    b.add(op, b.new(b.one(["float32", "float64"]), (*b.shape(0, 2), n, n)))


def center(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    axes = sorted({b.int(0, len(t.shape) - 1) for _ in t.shape}) if b.maybe(0.6) else None
    count = len(t.shape) if axes is None else len(axes)
    b.add(op, t, b.constant(b.ints(0, 8, count), b.one(["int32", "int64"])), axes=axes)


def columns(b: Build, op: str) -> None:
    rank = b.int(1, 3)
    image, block, strides, dilations, pads = (b.ints(*limits, n) for limits, n in (
        ((1, 6), rank), ((1, 3), rank), ((1, 2), rank), ((1, 2), rank), ((0, 1), 2 * rank)))  # fmt: skip
    counts = [(n + p + q - d * (k - 1) - 1) // s + 1
              for n, p, q, d, k, s in zip(image, pads, pads[rank:], dilations, block, strides)]  # fmt: skip
    if min(counts) < 1:
        raise Dropped
    x = b.new(b.one(["float32", "float64"]), (b.int(0, 2), b.int(1, 2) * prod(block), prod(counts)))
    b.add(op, x, b.constant(image), b.constant(block), strides=strides, dilations=dilations, pads=pads)


EINSUMS = """
    ij,jk->ik bij,bjk->bik bhqd,bhkd->bhqk bhqk,bhkd->bhqd ij->ji ii->i ij,ij-> i,j->ij ij,jk,kl->il ...ij,...jk->...ik
    ij->j abc,cd->abd bchw,oc->bohw ij,j bnij,jk->bkni i...->... ab,cb->ac
""".split()


def einsum(b: Build, op: str) -> None:
    equation = b.one(EINSUMS)
    sizes, shapes = {}, []
    dots = b.shape(0, 1)
    for term in equation.partition("->")[0].split(","):
        shape = []
        for letter in term.replace("...", "."):
            shape += dots if letter == "." else [sizes.setdefault(letter, b.int(0, 4) if b.maybe(0.1) else b.int(1, 4))]
        shapes.append(shape)
    dtype = np.dtype(b.one(["float32", "float32", "float64"]))
    b.add(op, *(b.operand(dtype, shape) for shape in shapes), equation=equation)


# ---- audio


def window(b: Build, op: str) -> None:
    from onnx import helper

    types = [None, *(helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in ("float32", "float64"))]
    b.add(op, b.constant(b.int(2, 40), "int64"), periodic=b.one([0, 1, None]), output_datatype=b.one(types))


def mel(b: Build, op: str) -> None:
    values = b.int(2, 8), b.one([16, 32, 64, 100]), b.one([8000, 16000])
    edges = b.one([0.0, 20.0, 300.0]), b.one([2000.0, 4000.0])
    b.add(op, *(b.constant(v, "int64") for v in values), *(b.constant(v, "float32") for v in edges))


def transform(b: Build, op: str) -> None:
    rank = b.int(2, 4)
    shape = [b.int(1, 6) for _ in range(rank - 1)]
    inverse, onesided = b.maybe(0.3), b.maybe(0.4)
    if inverse:  # the inverse of one side came with version 27
        onesided = False
    x = b.new(b.one(["float32", "float64"]), (*shape, 1 if onesided or b.maybe(0.4) else 2))
    axis = b.int(1, max(1, rank - 2))
    if axis > rank - 2 or (b.opset < 20 and rank == 2):
        raise Dropped
    length = b.constant(b.int(1, 8)) if b.maybe(0.3) else None
    named = {"axis": axis} if b.opset < 20 else {}
    given = [x, length, b.constant(axis)] if b.opset >= 20 else [x, length] if length else [x]
    b.add(op, *given, inverse=int(inverse), onesided=int(onesided), **named)


def short_transform(b: Build, op: str) -> None:
    n, length, step = b.int(8, 40), b.one([4, 5, 8]), b.int(1, 5)
    kind = b.one([(), (1,), (2,)])
    x = b.new("float32", (b.int(1, 2), n, *kind) if kind else (b.int(1, 2), n, 1))
    windowed = b.maybe(0.7)
    given = [x, b.constant(step), b.operand(np.dtype(np.float32), (length,)) if windowed else None]
    if not windowed or b.maybe():
        given.append(b.constant(length))
    b.add(op, *given, onesided=0 if x.shape[-1] == 2 else b.int(0, 1))


DRAWS = {
    **dict.fromkeys(("GatherElements", "ScatterElements", "Scatter"), elements),
    **dict.fromkeys(("GatherND", "ScatterND"), elements_nd), "NonZero": non_zero, "found elements": found_elements,
    "Compress": compress, "Unique": unique, "TopK": top, "OneHot": one_hot, "ReverseSequence": reverse_sequence,
    "CumSum": running, "Trilu": triangle, "EyeLike": eye, "BitShift": bit_shift, "Det": det, "CenterCropPad": center,
    "Col2Im": columns, "Einsum": einsum, "MelWeightMatrix": mel, "DFT": transform, "STFT": short_transform,
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), window),
}  # fmt: skip
