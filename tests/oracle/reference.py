"""The reference of every operation in plain numpy: slow and short; the kernels are tested against it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from layoutkit.formats.layout import Layout


def offsets(layout: Layout, shape: Sequence[int]) -> np.ndarray:
    """Element offset of every logical index in the memory of `layout`, as an array of `shape`."""
    shape = layout.check_shape(shape)
    out = np.zeros(shape, np.int64)
    stride = 1
    for (dim, unit, extent), pitch in zip(reversed(layout.axes(shape)), reversed(layout.pitches)):
        stride = stride if pitch is None else pitch
        digit = np.arange(shape[dim]) // unit % max(extent, 1)
        out += (digit * stride).reshape([-1 if d == dim else 1 for d in range(layout.rank)])
        stride *= extent
    return out


def to_logical(array: np.ndarray, layout: Layout, shape: Sequence[int]) -> np.ndarray:
    """The logical tensor that the physical `array` holds."""
    return np.ascontiguousarray(array).reshape(-1)[offsets(layout, shape)]


def to_physical(tensor: np.ndarray, layout: Layout, pad_value=0) -> np.ndarray:
    """The physical array of a logical `tensor`; pads hold `pad_value`."""
    out = np.full(layout.physical_shape(tensor.shape), pad_value, tensor.dtype)
    out.reshape(-1)[offsets(layout, tensor.shape)] = tensor
    return out


def reorder(array: np.ndarray, src: Layout, dst: Layout, shape: Sequence[int], pad_value=0) -> np.ndarray:
    """The physical array in `dst` of the tensor of `shape` that `array` holds in `src`."""
    return to_physical(to_logical(array, src, shape), dst, pad_value)


def convert(
    x: np.ndarray, dtype, scale=None, zero_point=None, axis: int | Sequence[int] = 1, alpha: float = 1, beta: float = 0,
    old=None, offset=None, out_scale=None, out_zero_point=None, block_size: int | Sequence[int] = 1,
) -> np.ndarray:  # fmt: skip
    """The numbers of the logical tensor `x` as `dtype`; see `layoutkit.reorder`. `old`, times `beta`, is added.

    Computed in float32, or float64 where float64, int32, uint32, int64 or a zero point that is no number of its type
    takes part; every step is rounded once. Integers that are only shifted stay integers.
    """
    dtype = np.dtype(dtype)
    to_integers, of_integers = is_integer(dtype), is_integer(x.dtype) or x.dtype.kind == "b"
    two_sided = out_scale is not None or out_zero_point is not None
    before, after = (zero_point, out_zero_point) if two_sided or not to_integers else (None, zero_point)
    wide = {np.dtype(t) for t in ("f8", "i4", "u4", "i8")} & {x.dtype, dtype}
    beyond = (of_integers and _beyond(before, x.dtype)) or (
        (to_integers or dtype.kind == "b") and _beyond(after, dtype)
    )
    real: Any = np.float64 if wide or beyond else np.float32

    def along(parameter):
        return None if parameter is None else _spread(np.asarray(parameter).astype(real), x.shape, axis, block_size)

    if to_integers and of_integers and scale is offset is out_scale is None and alpha == 1 and not beta:
        shifts = (0 if zero is None else along(zero).astype(np.int64).astype(object) for zero in (before, after))
        return saturated(x.astype(object) - next(shifts) + next(shifts), dtype)
    scale, offset, out_scale, before, after = map(along, (scale, offset, out_scale, before, after))
    divides = to_integers and not of_integers and not two_sided
    with np.errstate(all="ignore"):
        v = x.astype(real)
        if before is not None:
            v = v - before
        if divides:
            v = v if offset is None else v - offset
            v = v if scale is None else v / scale
        else:
            if out_scale is not None:
                v = v / out_scale if scale is None else v * (scale / out_scale)
            elif scale is not None:
                v = v * scale
            if offset is not None:
                v = v + (offset if out_scale is None else offset / out_scale)
        if alpha != 1:
            v = real(alpha) * v
        if beta:
            d = old.astype(real)
            v = v + real(beta) * (d if after is None else d - after)
        if not to_integers:
            return rounded(v if after is None else v + after, dtype)
        whole = np.rint(np.nan_to_num(v.astype(np.float64), nan=0.0, posinf=2.0**70, neginf=-(2.0**70)))
        return saturated(whole if after is None else whole + after, dtype)


def _beyond(zero_point, dtype: np.dtype) -> bool:
    """Whether it is no number of `dtype`, a type of integers."""
    low, high = (0, 1) if dtype.kind == "b" else limits_of(dtype)
    return zero_point is not None and bool((np.less(zero_point, low) | np.greater(zero_point, high)).any())


def _spread(parameter: np.ndarray, shape: Sequence[int], axis, block_size) -> np.ndarray:
    """A parameter that has a value for each block of the dimensions `axis`, to be broadcast to `shape`."""
    if not parameter.ndim:
        return parameter
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    dims = [d % len(shape) for d in axes]
    for k, block in enumerate(block_size if isinstance(block_size, (tuple, list)) else [block_size] * len(dims)):
        parameter = parameter.repeat(min(block, shape[dims[k]] + 1), k).take(range(shape[dims[k]]), k)
    return parameter.transpose(np.argsort(dims)).reshape([n if d in dims else 1 for d, n in enumerate(shape)])


def is_integer(dtype: np.dtype) -> bool:
    """Whether it is of integers, those of ml_dtypes among them."""
    return dtype.kind in "iu" or dtype.name in ("int4", "uint4")


def limits_of(dtype) -> tuple[int, int]:
    """The least and the greatest number of a type of integers."""
    dtype = np.dtype(dtype)
    bits = 4 if dtype.name in ("int4", "uint4") else 8 * dtype.itemsize
    return (0, 2**bits - 1) if dtype.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def saturated(whole: np.ndarray, dtype) -> np.ndarray:
    """Whole numbers of any size, as floats or as objects, as integers of `dtype`."""
    low, high = limits_of(dtype)
    above, below = whole >= high, whole <= low  # as floats, the limits of int64 are rounded away from 0
    within = np.where(above | below, 0, whole).astype(np.int64)
    return np.where(above, high, np.where(below, low, within)).astype(np.int64).astype(dtype)


FORMATS = {"bfloat16": (8, -133, np.inf), "float8_e4m3fn": (4, -9, 464.0), "float8_e5m2": (3, -16, np.inf)}


def rounded(x: np.ndarray, dtype) -> np.ndarray:
    """Floats as another float type, rounded once, to nearest even (numpy's way to those of ml_dtypes rounds twice).

    What is too large becomes infinity, or NaN in float8_e4m3fn, which has none.
    """
    if np.dtype(dtype).name not in FORMATS:
        return x.astype(dtype)
    bits, least, most = FORMATS[np.dtype(dtype).name]
    _, exponent = np.frexp(np.asarray(x, np.float64))
    unit = np.ldexp(1.0, np.maximum(exponent - bits, least))
    with np.errstate(all="ignore"):
        exact = np.where(np.isfinite(x), np.rint(np.nan_to_num(x) / unit) * unit, x)
        exact = np.where(np.abs(x) > most, np.copysign(np.nan, x), exact)
        return exact.astype(np.float32).astype(dtype)


def conv(x, w, bias, stride, padding, dilation, groups) -> np.ndarray:
    """Convolution of logical x (N, C, *spatial) and w (O, C/groups, *kernel) in float64.

    y[n, o, p] = bias[o] + sum over c, k of x[n, c, stride*p + dilation*k - before] * w[o, c, k], x being 0 outside;
    `padding` is (before, after) per spatial axis, the others one number per axis.
    """
    n, oc, size = x.shape[0], w.shape[0], x.shape[2:]
    x = np.asarray(x, np.float64).reshape(n, groups, x.shape[1] // groups, *size)
    w = np.asarray(w, np.float64).reshape(groups, oc // groups, *w.shape[1:])
    kernel = w.shape[3:]
    out = [
        (m + a + b - d * (k - 1) - 1) // t + 1 for m, (a, b), d, k, t in zip(size, padding, dilation, kernel, stride)
    ]
    y = np.zeros((n, groups, oc // groups, *out))
    for tap in itertools.product(*map(range, kernel)):
        read = np.zeros((*x.shape[:3], *out))  # what the padding holds
        to, at = zip(*map(_inside, tap, size, out, stride, dilation, (a for a, _ in padding)))
        read[(..., *to)] = x[(..., *at)]
        y += np.einsum("ngc...,goc->ngo...", read, w[(slice(None),) * 3 + tap])
    y = y.reshape(n, oc, *out)
    return y if bias is None else y + np.asarray(bias, np.float64).reshape(-1, *[1] * len(out))


def conv_weight(x, dy, kernel, stride, padding, dilation, groups) -> np.ndarray:
    """The gradient (O, C/groups, *kernel) of the filter of a convolution of x, given that of its result, in float64.

    dw[o, c, k] = sum over n, p of dy[n, o, p] * x[n, c, stride*p + dilation*k - before].
    """
    n, oc, size, out = x.shape[0], dy.shape[1], x.shape[2:], dy.shape[2:]
    x = np.asarray(x, np.float64).reshape(n, groups, x.shape[1] // groups, *size)
    dy = np.asarray(dy, np.float64).reshape(n, groups, oc // groups, *out)
    dw = np.zeros((groups, oc // groups, x.shape[2], *kernel))
    for tap in itertools.product(*map(range, kernel)):
        to, at = zip(*map(_inside, tap, size, out, stride, dilation, (a for a, _ in padding)))
        inputs, gradients = (a.reshape(*a.shape[:3], math.prod(a.shape[3:])) for a in (x[(..., *at)], dy[(..., *to)]))
        dw[(slice(None),) * 3 + tap] = np.einsum("ngcp,ngop->goc", inputs, gradients)
    return dw.reshape(oc, x.shape[2], *kernel)


def requantized(
    sums: np.ndarray, bias, dtype, scale=1.0, activation=None, add=None, out_scale: float = 1.0, out_zero_point: int = 0
) -> np.ndarray:  # fmt: skip
    """What follows the exact sums (N, O, ..) of a convolution of integers, as `layoutkit.conv2d` documents it."""
    f32, ones = np.float32, [1] * (sums.ndim - 2)
    bias = None if bias is None else bias.reshape(-1, *ones)
    whole = sums if bias is None or bias.dtype != np.int32 else sums + bias
    whole = whole.astype(np.int64).astype(np.int32)  # wraps around
    if dtype == np.int32:
        return whole
    v = whole.astype(f32) * np.broadcast_to(f32(scale), len(whole[0])).reshape(-1, *ones)
    if bias is not None and bias.dtype == f32:
        v = v + bias
    quantized = dtype != f32
    if add is not None:
        v = v + ((add.astype(f32) - f32(out_zero_point)) * f32(out_scale) if quantized else add)
    v = activate(v, activation).astype(f32)
    if not quantized:
        return v
    limits = np.iinfo(dtype)
    v = np.clip(v if out_scale == 1 else v / f32(out_scale), f32(-(2**20)), f32(2**20))
    return np.clip(np.rint(v) + out_zero_point, limits.min, limits.max).astype(dtype)


def _inside(tap: int, size: int, out: int, stride: int, dilation: int, before: int) -> tuple[slice, slice]:
    """Along one axis: the outputs whose `tap` reads inside the input, and the inputs that they read."""
    first = dilation * tap - before  # what the first output reads
    lo = min(out, max(0, -(first // stride)))
    hi = max(lo, min(out, (size - 1 - first) // stride + 1))
    if lo == hi:
        return slice(0), slice(0)
    return slice(lo, hi), slice(first + stride * lo, first + stride * (hi - 1) + 1, stride)


def conv_in_order(x, w, bias, stride, padding, dilation, groups, by_channel: bool = False, chunks=None) -> np.ndarray:
    """The same in the type of `x`, as accuracy "reproducible" promises bit for bit; see `layoutkit.convolutions.order`.

    By taps, then channels, or `by_channel` first; in `chunks` (steps of one, steps after which they begin anew), or in
    one piece. With padding no zero is negative.
    """
    n, oc = x.shape[0], w.shape[0]
    x = np.pad(x, [(0, 0), (0, 0), *padding])
    x = x.reshape(n, groups, 1, x.shape[1] // groups, *x.shape[2:])
    w = w.reshape(groups, oc // groups, *w.shape[1:])
    kernel = w.shape[3:]
    size = [(s - d * (k - 1) - 1) // t + 1 for s, d, k, t in zip(x.shape[4:], dilation, kernel, stride)]
    ones = [1] * len(size)
    begin = np.zeros(oc, x.dtype) if bias is None else bias
    y = np.broadcast_to(begin.reshape(groups, oc // groups, *ones), (n, groups, oc // groups, *size))
    terms = list(itertools.product(itertools.product(*map(range, kernel)), range(w.shape[2])))
    chunk, period = chunks or (max(1, len(terms)),) * 2
    total = None
    for i, (k, c) in enumerate(sorted(terms, key=lambda term: term[1]) if by_channel else terms):
        if i and i % period % chunk == 0:
            total, y = y if total is None else total + y, np.zeros_like(y)
        at = tuple(slice(d * i, d * i + t * (m - 1) + 1, t) for d, i, t, m in zip(dilation, k, stride, size))
        y = fused(x[(slice(None),) * 3 + (c, *at)], w[(slice(None),) * 2 + (c, *k)].reshape(*w.shape[:2], *ones), y)
    y = (y if total is None else total + y).reshape(n, oc, *size)
    return y + x.dtype.type(0) if any(map(any, padding)) else y


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c of float32, or of float64 where no part of the product is denormal, rounded once."""
    if a.dtype == np.float64:
        return _fused_doubles(a, b, c)
    with np.errstate(all="ignore"):
        total, rest = _sum_of(a.astype(np.float64) * b, c.astype(np.float64))  # the product is exact
        return _to_odd(total, rest).astype(np.float32)


def _fused_doubles(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Boldo and Melquiond: what the product and the sum leave is rounded to odd before it is added."""
    with np.errstate(all="ignore"):
        plain = a * b + c
        product = a * b
        (a0, a1), (b0, b1) = _halves(a), _halves(b)
        left = ((a0 * b0 - product) + a0 * b1 + a1 * b0) + a1 * b1
        below, lowest = _sum_of(c, left)
        total, rest = _sum_of(product, below)
        result = total + _to_odd(*_sum_of(rest, lowest))
    return np.where(
        np.isfinite(result) & (result != 0), result, plain
    )  # of exact zeros the sign is that of the plain sum


def _halves(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers of half the bits, whose sum is `a` (Dekker)."""
    far = a * (2.0**27 + 1)
    upper = far - (far - a)
    return upper, a - upper


def _sum_of(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b, and what rounding left of it."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _to_odd(total: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """total + rest rounded to odd: then rounding once more, to fewer bits, gives what a single rounding would."""
    bits = total.view(np.int64)
    inexact = np.isfinite(rest) & (rest != 0) & (bits % 2 == 0)
    odd = bits + np.where((rest > 0) == (total > 0), 1, -1)
    return np.where(inexact, odd, bits).view(np.float64)


def conv_transpose(x, w, bias, stride, padding, output_padding, dilation, groups) -> np.ndarray:
    """Transposed convolution of logical x (N, C, *spatial) and w (C, O/groups, *kernel) in float64.

    y[n, o, stride*p + dilation*k - before] += x[n, i, p] * w[i, o, k]; `padding` is (before, after) per axis.
    """
    n, kernel, rank = x.shape[0], w.shape[2:], w.ndim - 2
    x = np.asarray(x, np.float64).reshape(n, groups, x.shape[1] // groups, *x.shape[2:])
    w = np.asarray(w, np.float64).reshape(groups, w.shape[0] // groups, *w.shape[1:])
    size = [(i - 1) * s + d * (k - 1) + 1 + e
            for i, s, d, k, e in zip(x.shape[3:], stride, dilation, kernel, output_padding)]  # fmt: skip
    y = np.zeros((n, groups, w.shape[2], *size))
    for k in itertools.product(*map(range, kernel)):
        at = tuple(slice(d * i, d * i + s * (m - 1) + 1, s) for d, i, s, m in zip(dilation, k, stride, x.shape[3:]))
        y[(slice(None),) * 3 + at] += np.einsum("ngc...,gco->ngo...", x, w[(slice(None),) * 3 + k])
    y = y.reshape(n, groups * w.shape[2], *size)
    y = y[(slice(None),) * 2 + tuple(slice(a, m - b) for (a, b), m in zip(padding, size))]
    return y if bias is None else y + np.asarray(bias, np.float64).reshape(-1, *[1] * rank)


def activate(y: np.ndarray, activation) -> np.ndarray:
    """The activation of logical y (N, C, *spatial) in float64; see `epilogue.ACTIVATIONS`. At -Inf: its limit."""
    name, *numbers = (activation,) if isinstance(activation, str) or activation is None else activation
    if name == "prelu":
        numbers = [np.asarray(numbers[0], np.float64).reshape(-1, *[1] * (y.ndim - 2))]
    functions: dict[Any, Callable[..., np.ndarray]] = {
        None: lambda v: v,
        "relu": lambda v: np.maximum(v, 0),
        "relu6": lambda v: np.clip(v, 0, 6),
        "clip": lambda v, lo, hi: np.clip(v, lo, hi),
        "leaky_relu": lambda v, slope: np.where(v < 0, v * slope, v),
        "prelu": lambda v, slope: np.where(v < 0, v * slope, v),
        "silu": lambda v: _share(v, sigmoid(v)),
        "gelu": lambda v: _share(v, np.vectorize(math.erfc, [float])(-v / math.sqrt(2)) / 2),
        "gelu_tanh": lambda v: _share(v, sigmoid(2 * math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
        "hardswish": lambda v: _share(v, np.clip(v + 3, 0, 6) / 6),
        "elu": lambda v, alpha: np.where(v < 0, alpha * np.expm1(np.minimum(v, 0)), v),
        "tanh": np.tanh,
        "sigmoid": sigmoid,
        "softplus": lambda v: np.logaddexp(0, v),
        "abs": np.abs,
        "square": np.square,
        "sqrt": np.sqrt,
        "exp": np.exp,
        "log": np.log,
        "pow": lambda v, alpha, beta: alpha * np.power(v, np.full_like(v, beta)),
        "round": np.rint,
        "floor": np.floor,
        "ceil": np.ceil,
        "sign": np.sign,
        "neg": np.negative,
        "reciprocal": lambda v: 1 / v,
        "erf": np.vectorize(math.erf, [float]),
        "sin": np.sin,
        "cos": np.cos,
        "selu": lambda v, alpha, gamma: gamma * np.where(v < 0, alpha * np.expm1(np.minimum(v, 0)), v),
        "celu": lambda v, alpha: np.where(v < 0, alpha * np.expm1(np.minimum(v, 0) / alpha), v),
        "softsign": lambda v: np.where(np.isinf(v), np.sign(v), v / (1 + np.abs(v))),
        "thresholded_relu": lambda v, alpha: np.where(v > alpha, v, 0.0),
        "shrink": lambda v, bias, limit: np.where(v < -limit, v + bias, np.where(v > limit, v - bias, 0.0)),
        "mish": lambda v: _share(v, _mish_share(v)),
        "swish": lambda v, alpha: _share(v, sigmoid(alpha * v)),
        "hardsigmoid": lambda v, alpha, beta: np.clip(alpha * v + beta, 0, 1),
        "linear": lambda v, alpha, beta: alpha * v + beta,
    }
    if (name, len(numbers)) == ("hardswish", 2):
        name, functions = "hardswish_of", {"hardswish_of": lambda v, a, b: _share(v, np.clip(a * v + b, 0, 1))}
    with np.errstate(all="ignore"):
        return functions[name](y, *numbers)


BINARY: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "sub": np.subtract, "div": np.divide,
    "rsub": lambda v, b: b - v, "rdiv": lambda v, b: b / v,
    "prelu": lambda v, slopes: np.where(v < 0, v * slopes, v),
}  # fmt: skip


def epilogue(y: np.ndarray, activation, add: np.ndarray | None = None) -> np.ndarray:
    """What follows the sums y (N, C, *spatial), in float64: the steps of an activation one after another.

    The residual is first, unless a step says where it is summed. Operands are numbers, (C,) or logical tensors like y.
    """
    chain = activation if isinstance(activation, list) else [activation]
    steps = [tuple(step) if isinstance(step, (tuple, list)) else (step,) for step in chain]
    if add is not None and not any(name == "sum" for name, *_ in steps):
        y = y + add
    for name, *numbers in steps:
        with np.errstate(all="ignore"):
            if name == "sum":
                y = y + (numbers[0] if numbers else 1) * np.asarray(add)
            elif name in BINARY:
                operand = np.asarray(numbers[0], np.float64)
                y = BINARY[name](y, operand.reshape(-1, *[1] * (y.ndim - 2)) if operand.ndim == 1 else operand)
            else:
                y = activate(y, (name, *numbers))
    return y


def sigmoid(v: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-v), its relative error small for any v."""
    e = np.exp(-abs(v))
    return np.where(v < 0, e, 1) / (1 + e)


def _mish_share(v: np.ndarray) -> np.ndarray:
    """The hyperbolic tangent of ln(1 + e^v)."""
    e = np.exp(-abs(v))
    return np.where(v < 0, e * (e + 2) / (e * (e + 2) + 2), (1 + 2 * e) / (1 + 2 * e * (1 + e)))


def _share(v: np.ndarray, share: np.ndarray) -> np.ndarray:
    """v times its share, 0 of the sign of v where that is 0: the limit at Inf."""
    return np.where(share == 0, np.copysign(0.0, v), v * share)
