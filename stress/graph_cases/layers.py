"""Layers of networks: convolutions, pooling, products, normalisations, resizing, integers that stand for numbers."""

from __future__ import annotations

import numpy as np

from .build import Build, Tensor, allowed

F16, F32, F64 = (np.dtype(t) for t in ("float16", "float32", "float64"))
INTEGERS = [np.dtype(t) for t in ("uint8", "int8")]


def image(b: Build, op: str, low: int = 3, high: int = 5, types=None) -> Tensor:
    """A tensor of some spatial axes, with channels worth a layout now and then."""
    there = [t for t in b.tensors[-6:] if low <= len(t.shape) <= high and t.dtype in allowed(op, b.opset, 0)]
    there = [t for t in there if types is None or t.dtype in types]
    if there and b.maybe(0.85):
        return b.one(there)
    dtype = b.one([t for t in (F32, F32, F32, F64, F16) if types is None or t in types])
    spatial = b.ints(1, 9, b.one([k for k in (1, 2, 2, 2, 3) if low <= k + 2 <= high]))
    return b.new(
        dtype, (b.one([1, 1, 2, 0]), b.one([1, 2, 3, 4, 8, 16, 17, 20, 32]), *spatial[:2], *spatial[2:][:1]), -2, 2
    )


def windows(b: Build, size, kernel, pool: bool = False) -> dict:
    """Attributes of windows over axes of these extents."""
    rank, drawn = len(size), {}
    if b.maybe():
        drawn["strides"] = b.ints(1, b.one([2, 2, 4]), rank)
    if b.maybe(0.3):
        drawn["dilations"] = b.ints(1, 2, rank)
    auto = b.one(["NOTSET"] * 4 + [None] * 4 + ["SAME_UPPER", "SAME_LOWER", "VALID"])
    if auto:
        drawn["auto_pad"] = auto
    if auto in (None, "NOTSET") and b.maybe(0.7):
        # less than a window, so that each has a number
        drawn["pads"] = [b.int(0, min(2, k - 1) if pool else 2) for k in (*kernel, *kernel)]
    return drawn


def kernel_of(b: Build, size) -> list[int]:
    return [b.int(1, max(1, min(3, n))) if b.maybe(0.95) else b.int(1, 4) for n in size]


def conv(b: Build, op: str) -> None:
    t = image(b, op)
    c, size = t.shape[1], t.shape[2:]
    group = b.one([1, 1, c, *[g for g in (2, 4) if c % g == 0]]) or 1
    count = group * b.one([1, 2]) if group > 1 else b.one([1, 4, 16, 20, 32])
    kernel = kernel_of(b, size)
    w = b.operand(t.dtype, (count, c // group, *kernel), -1, 1)
    bias = [b.operand(t.dtype, (count,), -1, 1)] if b.maybe() else []
    told = {"kernel_shape": kernel} if b.maybe() else {}
    b.add(op, t, w, *bias, group=group if group > 1 or b.maybe() else None, **windows(b, size, kernel), **told)


def conv_transpose(b: Build, op: str) -> None:
    t = image(b, op)
    c, size = t.shape[1], t.shape[2:]
    group = b.one([1, 1, c]) or 1
    kernel = kernel_of(b, size)
    drawn = windows(b, size, kernel)
    if "pads" in drawn:
        drawn["pads"] = [min(p, k - 1) for p, k in zip(drawn["pads"], kernel * 2)]
    strides, dilations = (drawn.get(name, [1] * len(size)) for name in ("strides", "dilations"))
    if drawn.get("auto_pad", "NOTSET") == "NOTSET" and b.maybe(0.3):
        drawn["output_padding"] = [b.int(0, max(s, d) - 1) for s, d in zip(strides, dilations)]
    if b.maybe(0.15):
        drawn.pop("pads", None)
        drawn["output_shape"] = [max(1, s * n + b.int(-2, 2)) for s, n in zip(strides, size)]
    w = b.operand(t.dtype, (c, b.one([1, 2, 4]), *kernel), -1, 1)
    bias = [b.operand(t.dtype, (w.shape[1] * group,), -1, 1)] if b.maybe() else []
    b.add(op, t, w, *bias, group=group, **drawn)


def pool(b: Build, op: str) -> None:
    t = image(b, op)
    size = t.shape[2:]
    kernel = kernel_of(b, size)
    extra = {"ceil_mode": b.one([0, 1, None]), "count_include_pad": b.one([0, 1, None]), "kernel_shape": kernel}
    if op == "LpPool":
        extra["p"] = b.one([1, 2, 3, None])
    outputs = 1
    if op == "MaxPool" and t.exact and b.maybe(0.2):
        outputs, extra["storage_order"] = 2, b.one([0, 1, None])
    b.add(op, t, outputs=outputs, **extra, **windows(b, size, kernel, pool=True))


def global_pool(b: Build, op: str) -> None:
    b.add(op, image(b, op))


def per_channel(b: Build, t: Tensor, n: int, low: float = -1, high: float = 1) -> Tensor:
    return b.operand(t.dtype, (n,), low, high)


def batch_norm(b: Build, op: str) -> None:
    t = image(b, op, 2)
    c = t.shape[1]
    values = [per_channel(b, t, c), per_channel(b, t, c), per_channel(b, t, c), b.operand(t.dtype, (c,), 0.5, 2)]
    b.add(op, t, *values, epsilon=b.one([1e-3, 0.1, None]))


def instance_norm(b: Build, op: str) -> None:
    t = image(b, op)
    b.add(op, t, per_channel(b, t, t.shape[1]), per_channel(b, t, t.shape[1]), epsilon=b.one([1e-2, 0.1, None]))


def group_norm(b: Build, op: str) -> None:
    t = image(b, op)
    groups = b.one([g for g in range(1, t.shape[1] + 1) if t.shape[1] % g == 0] or [1])
    n = groups if b.opset < 21 else t.shape[1]
    b.add(op, t, per_channel(b, t, n), per_channel(b, t, n), num_groups=groups, epsilon=b.one([1e-2, None]))


def layer_norm(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    axis = b.axis(len(t.shape))
    scale = b.operand(t.dtype, t.shape[axis:], -1, 1)
    bias = [b.operand(t.dtype, t.shape[axis:], -1, 1)] if op == "LayerNormalization" and b.maybe() else []
    b.add(op, t, scale, *bias, axis=b.one([axis]), epsilon=b.one([1e-2, None]))


def mean_variance(b: Build, op: str) -> None:
    t = image(b, op, 4, 4)
    b.add(op, t, axes=b.one([[0, 2, 3], [2, 3], [1], None]))


def lrn(b: Build, op: str) -> None:
    t = image(b, op)
    b.add(op, t, size=b.int(1, 5), alpha=b.one([0.1, None]), beta=b.one([0.75, 0.5, None]), bias=b.one([1.5, None]))


def lp_norm(b: Build, op: str) -> None:
    t = b.pick(op, 1)
    b.add(op, t, axis=b.one([b.axis(len(t.shape)), None]), p=b.one([1, 2, None]))


def gemm(b: Build, op: str) -> None:
    t = b.pick(op, 2, 2)
    swap_a, swap_b = b.int(0, 1), b.int(0, 1)
    m, k = t.shape[::-1] if swap_a else t.shape
    n = b.int(1, 9)
    w = b.operand(t.dtype, (n, k) if swap_b else (k, n), -1, 1)
    c = [b.operand(t.dtype, b.one([(), (n,), (1, n), (m, 1), (m, n)]), -1, 1)] if b.opset < 11 or b.maybe(0.6) else []
    whole = t.dtype.kind != "f"
    scales = {} if whole else {"alpha": b.one([0.5, None]), "beta": b.one([-2.0, None])}
    b.add(op, t, w, *c, transA=swap_a, transB=swap_b, **scales)


def matmul(b: Build, op: str) -> None:
    t = b.pick(op, 1, 4)
    k, n = t.shape[-1], b.int(1, 9)
    shape = b.one([(k,), (k, n), (k, n), (*[1 if b.maybe(0.3) else e for e in t.shape[:-2]], k, n)])
    b.add(op, t, b.operand(t.dtype, shape, -1, 1))


def matmul_integer(b: Build, op: str) -> None:
    x, w = b.one(INTEGERS), b.one(INTEGERS)
    m, k, n = b.int(1, 5), b.int(1, 9), b.int(1, 9)
    lead = b.one([(), (2,)])
    zeros = [b.constant(b.numbers(x, b.one([(), (1,)]), 0, 9), x), b.constant(b.numbers(w, b.one([(), (n,)]), 0, 9), w)]
    b.add(op, b.operand(x, (*lead, m, k), -100, 100), b.operand(w, (k, n), -100, 100), *zeros[: b.int(0, 2)])


def conv_integer(b: Build, op: str) -> None:
    x, w = b.one(INTEGERS), b.one(INTEGERS)
    t = b.operand(x, (b.int(1, 2), b.int(1, 4), *b.ints(2, 6, b.int(1, 2))), -100, 100)
    kernel, count = kernel_of(b, t.shape[2:]), b.int(1, 4)
    zeros = [b.constant(b.numbers(x, (), 0, 9), x), b.constant(b.numbers(w, (), 0, 9), w)]
    b.add(op, t, b.operand(w, (count, t.shape[1], *kernel), -100, 100), *zeros[: b.int(0, 2)],
          **windows(b, t.shape[2:], kernel))  # fmt: skip


def power_of_two(b: Build, shape=(), dtype: np.dtype = F32) -> Tensor:
    return b.constant(2.0 ** b.rng.integers(-3, 1, shape), dtype)


def qlinear_conv(b: Build, op: str) -> None:
    """Scales are powers of two, so that sums are exact, and ties are ties everywhere."""
    x, w = b.one(INTEGERS), np.dtype("int8")
    t = b.operand(x, (b.int(1, 2), b.int(1, 8), *b.ints(2, 6, 2)), -100, 100)
    kernel, count = kernel_of(b, t.shape[2:]), b.int(1, 8)
    each = b.one([(), (count,)])
    bias = [b.constant(b.numbers(np.dtype("int32"), (count,), -50, 50), np.int32)] if b.maybe() else []
    b.add(op, t, power_of_two(b), b.constant(b.numbers(x, (), 0, 9), x),
          b.operand(w, (count, t.shape[1], *kernel), -100, 100), power_of_two(b, each), b.constant(np.zeros(each), w),
          power_of_two(b), b.constant(b.numbers(x, (), 0, 9), x), *bias, **windows(b, t.shape[2:], kernel))  # fmt: skip


def quantize(b: Build, op: str) -> None:
    t = b.pick(op, types=[F32])
    along = len(t.shape) > 1 and b.opset >= 13 and b.maybe(0.3)
    axis = b.axis(len(t.shape)) if along else None
    shape = (t.shape[axis],) if along else ()
    to = b.one(INTEGERS)
    b.add(op, t, power_of_two(b, shape), b.constant(b.numbers(to, shape, 0, 9), to), axis=axis)


def dequantize(b: Build, op: str) -> None:
    t = b.pick(op, types=[*INTEGERS, np.dtype("int32")])
    along = len(t.shape) > 1 and b.opset >= 13 and b.maybe(0.3)
    axis = b.axis(len(t.shape)) if along else None
    shape = (t.shape[axis],) if along else ()
    zero = [b.constant(b.numbers(t.dtype, shape, 0, 9), t.dtype)] if t.dtype.itemsize == 1 and b.maybe(0.7) else []
    b.add(op, t, power_of_two(b, shape), *zero, axis=axis)


def _quantized(b: Build, t: Tensor, to: np.dtype) -> Tensor:
    scale, zero = power_of_two(b), b.constant(b.numbers(to, (), 0, 9), to)
    (q,) = b.add("QuantizeLinear", t, scale, zero)
    (y,) = b.add("DequantizeLinear", q, scale, zero)
    return y


def quantised_layers(b: Build, op: str) -> None:
    """Convolutions and what stands between them, each result rounded to integers: exact, of scales as these."""
    to = b.one(INTEGERS)
    b.strict = True
    x = _quantized(b, b.new(F32, (1, b.one([3, 8, 16]), *b.ints(3, 7, 2)), -3, 3), to)
    for _ in range(b.int(1, 3)):
        c, kernel = x.shape[1], kernel_of(b, x.shape[2:])
        group = b.one([1, c])
        count = c if group > 1 else b.one([4, 8, 16])
        w = b.constant(b.numbers(np.dtype("int8"), (count, c // group, *kernel), -4, 4), np.int8)
        (w,) = b.add("DequantizeLinear", w, power_of_two(b), b.constant(0, np.int8))
        bias = [b.constant(b.rng.integers(-8, 9, count) / 8, F32)] if b.maybe() else []
        pads = {"pads": [1 if k == 3 else 0 for k in kernel * 2]}
        (y,) = b.add("Conv", x, w, *bias, group=group, **pads)
        if b.maybe() and y.shape == x.shape:
            y = _quantized(b, y._replace(exact=True), to)
            (y,) = b.add("Add", y, x)
        if b.maybe():
            (y,) = b.add("Relu", y)
        x = _quantized(b, y._replace(exact=True), to)
        if b.maybe(0.3):
            (x,) = b.add("MaxPool", x, kernel_shape=[1, 2] if x.shape[3] > 1 else [1, 1])


def resize(b: Build, op: str) -> None:
    t = b.pick(op, 1, 4)
    rank, mode = len(t.shape), b.one(["nearest", "nearest", "linear", "cubic" if b.opset >= 11 else "linear"])
    out = [b.one([n, n, 1, 2 * n, b.int(1, 9)]) if n else 0 for n in t.shape]
    if mode == "cubic":
        out = [*t.shape[:-2], *out[-2:]] if rank > 1 else out
    drawn: dict = {"mode": mode}
    if b.opset < 11 or b.maybe():
        drawn["scales"] = b.constant([(m + b.one([0, 0.25])) / n if n else 1.0 for m, n in zip(out, t.shape)], F32)
    else:
        drawn["sizes"] = out
        drawn["roi"] = b.constant(np.zeros(0), F32) if b.opset < 13 else None
        drawn["scales"] = b.constant(np.zeros(0), F32) if b.opset < 13 else None
    if b.opset >= 11 and "roi" not in drawn and b.opset < 13:
        drawn["roi"] = b.constant(np.zeros(0), F32)
    modes = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", None]
    drawn["coordinate_transformation_mode"] = b.one(modes + (["half_pixel_symmetric"] if b.opset >= 19 else []))
    if mode == "nearest":
        drawn["nearest_mode"] = b.one(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil", None])
    if mode == "cubic" and b.maybe():
        drawn["cubic_coeff_a"] = -0.5
    if b.opset >= 18 and mode != "nearest":
        drawn["antialias"] = b.one([None, 0, 1])
    if b.opset >= 11 and mode == "cubic":
        drawn["exclude_outside"] = b.one([None, 0, 1])
    b.add(op, t, **drawn)


def upsample(b: Build, op: str) -> None:
    t = b.pick(op, 2, 4)
    scales = [1.0, 1.0, *b.one([[2.0, 2.0], [1.0, 2.0], [3.0, 1.0]])][: len(t.shape)]
    told = scales if b.opset < 9 else b.constant(scales, F32)
    b.add(op, t, scales=told, mode=b.one(["nearest", "linear"]))


def shuffle(b: Build, op: str) -> None:
    """Groups of channels, exchanged."""
    c, groups, size = b.one([4, 8, 16]), b.one([2, 4]), b.ints(1, 5, b.int(1, 2))
    t = b.operand(F32, (b.int(1, 2), c, *size))
    (apart,) = b.add("Reshape", t, shape=[t.shape[0], groups, c // groups, *size])
    (moved,) = b.add("Transpose", apart, perm=[0, 2, 1, *range(3, len(apart.shape))])
    b.add("Reshape", moved, shape=[t.shape[0], c, *size])


def block(b: Build, op: str) -> None:
    """A convolution with what follows it in networks: they become one."""
    t = image(b, "Conv", 3, 4, [F32])
    c, size = t.shape[1], t.shape[2:]
    kernel = [b.one([1, 3]) for _ in size]
    w = b.constant(b.numbers(F32, (b.one([c, 8, 16]) or 1, c, *kernel), -1, 1), F32)
    (y,) = b.add("Conv", t, w, pads=[k // 2 for k in kernel * 2])
    if b.maybe():
        n = y.shape[1]
        (y,) = b.add("BatchNormalization", y, *(b.operand(F32, (n,), 0.5, 1.5) for _ in range(4)))
    if b.maybe():
        (y,) = b.add(b.one(["Mul", "Add"]), y, b.constant(b.numbers(F32, (y.shape[1], *[1] * len(size)), 0.5, 2), F32))
    if y.shape == t.shape and b.maybe(0.7):
        (y,) = b.add("Add", y, t)
    b.add(b.one(["Relu", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Elu", "Mish", "Softplus"]), y)


DRAWS = {
    "Conv": conv, "ConvTranspose": conv_transpose, "MaxPool": pool, "AveragePool": pool, "LpPool": pool,
    "GlobalAveragePool": global_pool, "GlobalMaxPool": global_pool, "BatchNormalization": batch_norm,
    "InstanceNormalization": instance_norm, "GroupNormalization": group_norm, "LayerNormalization": layer_norm,
    "RMSNormalization": layer_norm, "MeanVarianceNormalization": mean_variance, "LRN": lrn, "LpNormalization": lp_norm,
    "Gemm": gemm, "MatMul": matmul, "MatMulInteger": matmul_integer, "ConvInteger": conv_integer,
    "QLinearConv": qlinear_conv, "QuantizeLinear": quantize, "DequantizeLinear": dequantize, "Resize": resize,
    "Upsample": upsample, "quantised layers": quantised_layers, "shuffle": shuffle, "block": block,
}  # fmt: skip
