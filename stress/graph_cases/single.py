"""Nodes on single elements, along axes, and those that say where elements go."""

from __future__ import annotations

from math import prod

import numpy as np

from .build import Build, Dropped, Tensor, allowed, schema

UNARY = """
    Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Cos Cosh Erf Exp Floor HardSwish Identity IsNaN Log Mish Neg
    Not Reciprocal Relu Round Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh
""".split()
FLOATS = {  # attributes that are numbers, from .. to
    "Celu": {"alpha": (0.5, 2)}, "Elu": {"alpha": (0.5, 2)}, "LeakyRelu": {"alpha": (0.01, 0.5)},
    "Selu": {"alpha": (1, 2), "gamma": (1, 2)}, "HardSigmoid": {"alpha": (0.1, 0.5), "beta": (0.2, 0.6)},
    "Shrink": {"bias": (0, 1), "lambd": (0.2, 1)}, "Swish": {"alpha": (0.5, 2)}, "ThresholdedRelu": {"alpha": (0.5, 2)},
}  # fmt: skip
BINARY = """
    Add Sub Mul Div And Or Xor Equal Less Greater LessOrEqual GreaterOrEqual BitwiseAnd BitwiseOr BitwiseXor
""".split()
REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()


def unary(b: Build, op: str) -> None:
    b.add(op, b.pick(op))


def floats(b: Build, op: str) -> None:
    drawn = {name: float(b.rng.uniform(*limits)) for name, limits in FLOATS[op].items() if b.maybe(0.7)}
    b.add(op, b.pick(op), **drawn)


def gelu(b: Build, op: str) -> None:
    b.add(op, b.pick(op), approximate=b.one(["none", "tanh", None]))


def is_inf(b: Build, op: str) -> None:
    b.add(op, b.pick(op), detect_negative=b.int(0, 1), detect_positive=b.int(0, 1))


def _exact(b: Build, op: str, t: Tensor) -> Tensor:
    """An operand; of steps an exact one."""
    found = b.broadcast(t)
    return b.new(t.dtype, found.shape) if op in ("Mod", *BINARY[4:]) and not found.exact else found


def binary(b: Build, op: str) -> None:
    t = b.pick(op)
    pair = [t, _exact(b, op, t)]
    if op == "Div" and t.dtype.kind in "iu":  # by zero it is undefined
        pair[1] = b.operand(t.dtype, t.shape, 1, 4)
    elif b.maybe(0.3) and op != "Div":
        pair.reverse()
    b.add(op, *pair)


def power(b: Build, op: str) -> None:
    t = b.pick(op)
    other = b.one([t.dtype, t.dtype, np.dtype("float32"), np.dtype("int64")])
    b.add(op, t, b.constant(b.numbers(other, b.one([(), t.shape]), 0, 3), other))


def modulo(b: Build, op: str) -> None:
    t = b.pick(op)
    floats = t.dtype.kind == "f"
    b.add(op, t, b.constant(b.numbers(t.dtype, t.shape, 1, 4), t.dtype), fmod=int(floats or b.maybe()))


def variadic(b: Build, op: str) -> None:
    t = b.pick(op)
    others = (b.broadcast(t) if b.opset >= 8 else b.operand(t.dtype, t.shape) for _ in range(b.int(0, 2)))
    b.add(op, t, *others)


def prelu(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    shape = b.one([t.shape, (1,), (1,) * len(t.shape), t.shape[1:2] + (1,) * (len(t.shape) - 2)])
    b.add(op, t, b.operand(t.dtype, shape, -1, 1))


def where(b: Build, op: str) -> None:
    t = b.pick(op, i=1)
    b.add(op, b.operand(np.dtype(bool), b.broadcast(t).shape), t, b.broadcast(t))


def clip(b: Build, op: str) -> None:
    t = b.pick(op)
    low, high = sorted(b.int(0 if t.dtype.kind == "u" else -3, 3) for _ in range(2))
    of = schema(op, b.opset)
    if "min" in of.attributes:
        b.add(op, t, min=float(low) if b.maybe(0.8) else None, max=float(high) if b.maybe(0.8) else None)
        return
    limits = [b.constant(v, t.dtype) if b.maybe(0.8) else None for v in (low, high)]
    b.add(op, t, *limits) if limits[1] else b.add(op, t, *limits[:1])


def dropout(b: Build, op: str) -> None:
    b.add(op, b.pick(op), outputs=b.int(1, 2))


def cast(b: Build, op: str) -> None:
    t, to = b.pick(op), b.one(allowed(op, b.opset, 0))
    if t.dtype.kind == "f" and to.kind in "iu":  # below 0 and of NaN it is undefined
        t = b.new(t.dtype, t.shape, 0, 100)
    if op == "Cast":
        from onnx import helper

        b.add(op, t, to=helper.np_dtype_to_tensor_dtype(to))
    else:
        b.add(op, t, b.operand(to, b.shape()))


def reduction(b: Build, op: str) -> None:
    t = b.pick(op, 1 if b.opset < 18 else 0)
    if op == "ReduceProd" and t.dtype == np.float16 and prod(t.shape) > 8:  # past its limits, depending on the order
        raise Dropped
    if op == "ReduceMean" and t.dtype.kind != "f" and not prod(t.shape):  # of no integers it is undefined
        raise Dropped
    rank = len(t.shape)
    drawn = sorted({b.int(0, rank - 1) for _ in range(b.int(0, rank))}) if rank else []
    axes = [a - rank if b.opset >= 11 and b.maybe(0.3) else a for a in drawn]
    noop = 1 if b.maybe(0.25) else None
    b.add(op, t, axes=axes or (None if b.opset < 18 or b.maybe() else []), keepdims=b.one([0, 1, None]),
          noop_with_empty_axes=noop)  # fmt: skip


def arg(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    axis = b.axis(len(t.shape)) if b.opset >= 11 else b.int(0, len(t.shape) - 1)
    if not t.shape[axis]:
        raise Dropped
    b.add(op, t, axis=b.one([axis, axis, None]), keepdims=b.one([0, 1, None]),
          select_last_index=b.one([0, 1, None]))  # fmt: skip


def softmax(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    left = None if b.opset >= 13 or len(t.shape) > 1 else 0  # the default was 1
    b.add(op, t, axis=b.one([b.axis(len(t.shape)) if b.opset >= 11 else b.int(0, len(t.shape) - 1), left]))


def concat(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    axis = b.axis(len(t.shape)) if b.opset >= 11 else b.int(0, len(t.shape) - 1)
    others = []
    for _ in range(b.int(0, 2)):
        shape = list(t.shape)
        shape[axis] = b.extent()
        others.append(b.operand(t.dtype, shape))
    given = [*others, t] if b.maybe() else [t, *others]
    b.add(op, *given, axis=axis)


def split(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    axis = b.axis(len(t.shape)) if b.opset >= 11 else b.int(0, len(t.shape) - 1)
    n, count = t.shape[axis], b.int(1, 3)
    cuts = sorted(b.int(0, n) for _ in range(count - 1))
    sizes = [z - a for a, z in zip([0, *cuts], [*cuts, n])]
    equal = n % count == 0 or b.opset >= 18
    if equal and b.maybe(0.4):
        b.add(op, t, outputs=count, axis=axis, num_outputs=count)
    else:
        b.add(op, t, outputs=count, axis=axis, split=sizes)


def slices(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    rank = len(t.shape)
    axes = sorted({b.int(0, rank - 1) for _ in range(b.int(1, rank))})
    starts, ends, steps = [], [], []
    for a in axes:
        n = t.shape[a]
        step = b.one([1, 1, 1, 2, 3, -1, -1, -2]) if b.opset >= 10 else 1
        edges = [b.int(-n - 2, n + 2), b.int(-n - 2, n + 2)]
        if b.maybe(0.2):
            edges[1] = b.one([2**31 - 1, 2**63 - 1]) if step > 0 else b.one([-(2**31), -(2**63)])
        starts.append(edges[0])
        ends.append(edges[1])
        steps.append(step)
    told = [a - rank if b.opset >= 11 and b.maybe(0.3) else a for a in axes]
    if told == list(range(len(told))) and b.maybe(0.3) and set(steps) == {1}:
        told = None
    b.add(op, t, starts=starts, ends=ends, axes=told, steps=None if set(steps) == {1} and b.maybe() else steps)


def gather(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    axis = b.axis(len(t.shape)) if b.opset >= 11 else b.int(0, len(t.shape) - 1)
    n, shape = t.shape[axis], b.shape(0, 2)
    if not n and prod(shape):
        raise Dropped
    at = b.rng.integers(-n if b.opset >= 11 else 0, max(n, 1), shape)
    b.add(op, t, b.constant(at, b.one(["int32", "int64"])), axis=axis)


def pad(b: Build, op: str) -> None:
    t = b.pick(op, 1, 4)
    rank = len(t.shape)
    mode = b.one(["constant", "constant", "reflect", "edge", "wrap" if b.opset >= 19 else "edge"])
    axes = list(range(rank))
    if b.opset >= 18 and b.maybe(0.4):
        axes = sorted({b.int(0, rank - 1) for _ in range(rank)})
    low = -1 if mode == "constant" else 0
    pads = [b.int(low, 2 if mode == "constant" else max(0, min(2, t.shape[a] - 1))) for a in axes * 2]
    if any(t.shape[a] + p + q < 0 for a, p, q in zip(axes, pads, pads[len(axes) :])):
        raise Dropped
    if mode != "constant" and any(not t.shape[a] for a in axes):
        raise Dropped
    value = {}
    if mode == "constant" and b.maybe():
        drawn = b.numbers(t.dtype, ())
        value = {"value": float(drawn)} if b.opset < 11 else {"constant_value": b.constant(drawn, t.dtype)}
    told = None if len(axes) == rank and b.maybe() else [a - rank if b.maybe(0.3) else a for a in axes]
    b.add(op, t, pads=pads, mode=mode, axes=told, **value)


def reshape(b: Build, op: str) -> None:
    t = b.pick(op)
    shape, left = [], prod(t.shape)
    zeros = b.maybe(0.2)
    while left > 1 and len(shape) < 5 and b.maybe(0.8):
        n = b.one([k for k in range(1, min(left, 32) + 1) if left % k == 0])
        shape.append(n)
        left //= n
    shape.append(left)
    if not prod(t.shape):
        shape = list(t.shape)[::-1]
        b.add(op, t, shape=shape, allowzero=1 if 0 in shape and b.opset >= 14 else None)
        return
    if b.maybe(0.4):
        shape[b.int(0, len(shape) - 1)] = -1
    if zeros:
        shape = [0 if i < len(t.shape) and n == t.shape[i] else n for i, n in enumerate(shape)]
    b.add(op, t, shape=shape)


def flatten(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    rank = len(t.shape)
    b.add(op, t, axis=b.one([b.int(-rank if b.opset >= 11 else 0, rank), None]))


def transpose(b: Build, op: str) -> None:
    t = b.pick(op)
    b.add(op, t, perm=b.one([b.rng.permutation(len(t.shape)).tolist(), None]) or None)


def squeeze(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    rank = len(t.shape)
    ones = [a for a, n in enumerate(t.shape) if n == 1 and b.maybe(0.7)]
    axes = [a - rank if b.opset >= 11 and b.maybe(0.3) else a for a in ones]
    b.add(op, t, axes=axes or None)


def unsqueeze(b: Build, op: str) -> None:
    t = b.pick(op, 0, 3)
    count = b.int(1, 2)
    rank = len(t.shape) + count
    axes = b.rng.permutation(rank)[:count].tolist()
    b.add(op, t, axes=[a - rank if b.opset >= 11 and b.maybe(0.3) else a for a in axes])


def expand(b: Build, op: str) -> None:
    t = b.pick(op)
    shape = [n if n != 1 or b.maybe() else b.int(1, 3) for n in t.shape]
    shape = [b.int(1, 2) for _ in range(b.int(0, 1))] + [n if b.maybe(0.8) else 1 for n in shape]
    b.add(op, t, shape=shape)


def tile(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    b.add(op, t, repeats=[b.one([0, 1, 1, 2, 2, 3]) for _ in t.shape])


def shape_of(b: Build, op: str) -> None:
    t = b.pick(op)
    rank = len(t.shape)
    b.add(op, t, start=b.one([None, b.int(-rank - 1, rank + 1)]), end=b.one([None, b.int(-rank - 1, rank + 1)]))


def range_of(b: Build, op: str) -> None:
    dtype = b.one(allowed(op, b.opset, 0))
    start, delta, count = b.int(-4, 4), b.one([1, 2, 3, -1, -2]), b.int(-1, 9)
    b.add(op, *(b.constant(v, dtype) for v in (start, start + delta * count, delta)))


def constant_of_shape(b: Build, op: str) -> None:
    from onnx import numpy_helper

    dtype = b.one([np.dtype(t) for t in ("float32", "float64", "int64", "bool")])
    value = numpy_helper.from_array(b.numbers(dtype, (1,))) if b.maybe(0.8) else None
    b.add(op, b.constant([b.extent() for _ in range(b.int(0, 3))]), value=value)


def blocks(b: Build, op: str) -> None:
    n, block = b.one((1, 2, 1, 2, 0)), b.int(1, 3)
    c, h, w = b.int(1, 4), b.int(1, 3), b.int(1, 3)
    dtype = b.one(allowed(op, b.opset, 0))
    deep = op == "DepthToSpace"
    shape = (n, c * block**2, h, w) if deep else (n, c, h * block, w * block)
    b.add(op, b.operand(dtype, shape), blocksize=block, mode=b.one(["DCR", "CRD", None]) if deep else None)


def of_shapes(b: Build, op: str) -> None:
    """A shape that is computed of another tensor's, as exporters write it."""
    t, u = b.pick("Reshape", 1, 4), b.pick("Shape", 1, 4)
    (shape,) = b.add("Shape", u)
    (part,) = b.add("Gather", shape, b.constant([0], np.int64), axis=0)
    if b.maybe():
        (part,) = b.add("Mul", part, b.constant([b.int(1, 2)]))
    if b.maybe() and u.shape[0]:
        (whole,) = b.add(
            "Concat", part, b.constant([*[1] * (len(t.shape) - 1), *t.shape[1:]][: len(t.shape) - 1]), axis=0
        )
        b.add("ConstantOfShape", whole)
    elif prod(t.shape):
        (size,) = b.add("Size", t)
        (size,) = b.add("Unsqueeze", size, axes=[0])
        b.add("Reshape", t, size)
    else:
        (shape,) = b.add("Shape", t)
        b.add("Expand", b.operand(t.dtype, (1,) * len(t.shape)), shape)


DRAWS = {
    **dict.fromkeys(UNARY, unary), **dict.fromkeys(FLOATS, floats), **dict.fromkeys(BINARY, binary),
    **dict.fromkeys(("Max", "Min", "Sum", "Mean"), variadic), **{f"Reduce{name}": reduction for name in REDUCTIONS},
    "Gelu": gelu, "IsInf": is_inf, "Pow": power, "Mod": modulo, "PRelu": prelu, "Where": where, "Clip": clip,
    "Dropout": dropout, "Cast": cast, "CastLike": cast, "ArgMax": arg, "ArgMin": arg, "Softmax": softmax,
    "LogSoftmax": softmax, "Hardmax": softmax, "Concat": concat, "Split": split, "Slice": slices, "Gather": gather,
    "Pad": pad, "Reshape": reshape, "Flatten": flatten, "Transpose": transpose, "Squeeze": squeeze,
    "Unsqueeze": unsqueeze, "Expand": expand, "Tile": tile, "Shape": shape_of, "Size": unary, "Range": range_of,
    "ConstantOfShape": constant_of_shape, "DepthToSpace": blocks, "SpaceToDepth": blocks, "shapes of shapes": of_shapes,
}  # fmt: skip
ALONE = [*UNARY, *FLOATS, *BINARY, "Max", "Min", "Sum", "Mean", "Gelu", "IsInf", "Pow", "PRelu", "Where", "Clip"]
