"""Elementwise operators: they run in any layout that all operands share."""

from __future__ import annotations

import math

import numpy as np

from ..._core.nests.pointwise.divide import DIVIDED, Divide
from ...choosing.threads import check_threads
from .base import OPERATORS, Follows, Unsupported, broadcast_shape, operator, required, result

MAX_DIVIDED = 10  # axes that the compiled loop of quotients takes


def _same(attributes, layout, shapes):
    return attributes


def each(*names, into=False):
    """Register an elementwise operator; `into`: it takes arrays for its results."""
    return operator(*names, kind=Follows.FOLLOWS, shape=broadcast_shape, follow=_same, elementwise=True, into=into)


UNARY = {
    "Abs": np.abs, "Neg": np.negative, "Exp": np.exp, "Log": np.log, "Sqrt": np.sqrt, "Tanh": np.tanh, "Sin": np.sin,
    "Cos": np.cos, "Tan": np.tan, "Sinh": np.sinh, "Cosh": np.cosh, "Asin": np.arcsin, "Acos": np.arccos,
    "Atan": np.arctan, "Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh, "Floor": np.floor,
    "Ceil": np.ceil, "Round": np.rint, "Sign": np.sign, "Not": np.logical_not,
    "Relu": lambda x: np.maximum(x, 0), "Reciprocal": lambda x: (1 / x).astype(x.dtype), "IsNaN": np.isnan,
    "Softsign": lambda x: np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x))),
    "Softplus": lambda x: np.logaddexp(x, x.dtype.type(0)), "Erf": lambda x: erf(x), "BitwiseNot": np.bitwise_not,
}  # fmt: skip
BINARY = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum, "And": np.logical_and,
    "Or": np.logical_or, "Xor": np.logical_xor, "Equal": np.equal, "Less": np.less, "Greater": np.greater,
    "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor,
    "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal, "Sum": np.add,
}  # fmt: skip


@each("Identity")
def _identity(inputs, attributes):
    return [np.asarray(inputs[0])]


@each(*UNARY, into=True)
def _unary(inputs, attributes, out=None):
    of = UNARY[attributes["op"]]
    with np.errstate(all="ignore"):
        return [of(inputs[0], out=out and out[0]) if isinstance(of, np.ufunc) else of(inputs[0])]


@each(*BINARY, into=True)
def _binary(inputs, attributes, out=None):
    running, *others = inputs
    with np.errstate(all="ignore"):
        for i, other in enumerate(others, 1):
            running = BINARY[attributes["op"]](running, other, out=out[0] if out and i == len(others) else None)
    return [running]


@each("Mean")
def _mean(inputs, attributes):
    return [(_binary(inputs, {"op": "Sum"})[0] / len(inputs)).astype(inputs[0].dtype)]


def _divided(what, inputs, attributes, out):
    """What a compiled loop makes of two arrays; None if it has no such types."""
    x, d = (np.asarray(a, order="C") for a in inputs)
    shape = np.broadcast_shapes(x.shape, d.shape)
    if x.dtype != d.dtype or x.dtype.name not in DIVIDED or len(shape) > MAX_DIVIDED:
        return None
    y = result(out, shape, x.dtype)
    to = y if y.flags.c_contiguous else np.empty(shape, x.dtype)
    Divide(x, d, to, what, check_threads(attributes.get("threads")))(x, d, to)
    if to is not y:
        np.copyto(y, to)
    return [y]


@each("Div", into=True)
def _div(inputs, attributes, out=None):
    """Of integers rounded towards 0, and 0 where the divisor is."""
    a, b = inputs
    if a.dtype.kind in "iu" and (y := _divided("quotient", inputs, attributes, out)):
        return y
    with np.errstate(all="ignore"):
        if a.dtype.kind not in "iu":
            return [np.divide(a, b, out=out and out[0])]
        towards_0 = a if a.dtype.kind == "u" else a - np.fmod(a, b)
        return [np.floor_divide(towards_0, b, out=out and out[0])]  # 0 where b is


@each("Pow", into=True)
def _pow(inputs, attributes, out=None):
    x, exponent = inputs
    with np.errstate(all="ignore"):
        if x.dtype == exponent.dtype:
            return [np.power(x, exponent, out=out and out[0])]
        return [np.power(x, exponent).astype(x.dtype)]


@each("Mod", into=True)
def _mod(inputs, attributes, out=None):
    kind, fmod = inputs[0].dtype.kind, attributes.get("fmod")
    what = "remainder" if fmod else "modulo"
    if (kind in "iu" or (fmod and kind == "f")) and (y := _divided(what, inputs, attributes, out)):
        return y
    with np.errstate(all="ignore"):
        return [(np.fmod if attributes.get("fmod") else np.mod)(*inputs, out=out and out[0])]


@each("Where")
def _where(inputs, attributes):
    return [np.where(*inputs)]


@each("Clip", into=True)
def _clip(inputs, attributes, out=None):
    x, *limits = (*inputs, None, None)[:3]
    with np.errstate(over="ignore"):  # attributes of old models are float32, whatever the tensor is
        low, high = (None if v is None else np.asarray(v).astype(x.dtype, copy=False) for v in limits)
    if low is None or high is None:
        limit, cut = (high, np.minimum) if low is None else (low, np.maximum)
        return [np.asarray(x if limit is None else cut(x, limit, out=out and out[0]))]
    return [np.asarray(np.clip(x, low, high, out=out and out[0]))]


@each("Dropout")
def _dropout(inputs, attributes):
    """Inference only, where it is the identity."""
    x, _, training = (*inputs, None, None)[:3]
    if training is not None and np.any(training):
        raise Unsupported("Dropout: training")
    x = np.asarray(x)
    return [x, np.ones(x.shape, bool)]


@each("Cast", into=True)
def _cast(inputs, attributes, out=None):
    y = result(out, inputs[0].shape, attributes["to"])
    with np.errstate(all="ignore"):
        np.copyto(y, inputs[0], casting="unsafe")
    return [y]


def _as_second(node, inputs):
    return [(required(inputs[1]).dtype, required(inputs[0]).shape)]


@operator("CastLike", shape=_as_second)
def _cast_like(inputs, attributes):
    return _cast(inputs[:1], {"to": inputs[1].dtype})


@each("IsInf", into=True)
def _is_inf(inputs, attributes, out=None):
    x, y = inputs[0], out and out[0]
    above, below = (attributes.get(f"detect_{sign}", 1) for sign in ("positive", "negative"))
    if above and below:
        return [np.isinf(x, out=y)]
    return [np.equal(x, np.inf if above else -np.inf if below else np.nan, out=y)]


@each("Swish")
def _swish(inputs, attributes):
    x = inputs[0]
    with np.errstate(all="ignore"):
        share = 1 / (1 + np.exp(-x * x.dtype.type(attributes.get("alpha", 1.0))))
        return [_times(x, share).astype(x.dtype)]


@each("Shrink")
def _shrink(inputs, attributes):
    x = inputs[0]
    bias, limit = attributes.get("bias", 0.0), np.float32(attributes.get("lambd", 0.5))  # not rounded to x's type
    return [np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0)).astype(x.dtype)]


@each("Sigmoid")
def _sigmoid(inputs, attributes):
    with np.errstate(all="ignore"):
        return [(1 / (1 + np.exp(-inputs[0]))).astype(inputs[0].dtype)]


@each("LeakyRelu")
def _leaky_relu(inputs, attributes):
    x = inputs[0]
    return [np.where(x < 0, x * x.dtype.type(attributes.get("alpha", 0.01)), x)]


@each("PRelu")
def _prelu(inputs, attributes):
    x, slope = inputs
    return [np.where(x < 0, x * slope, x).astype(x.dtype)]


@each("Elu")
def _elu(inputs, attributes):
    x, alpha = inputs[0], inputs[0].dtype.type(attributes.get("alpha", 1.0))
    return [np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)]


@each("Selu")
def _selu(inputs, attributes):
    x = inputs[0]
    alpha, gamma = (x.dtype.type(attributes.get(*a)) for a in
                    (("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875)))  # fmt: skip
    return [gamma * np.where(x <= 0, alpha * np.expm1(np.minimum(x, 0)), x)]


@each("Celu")
def _celu(inputs, attributes):
    x, alpha = inputs[0], inputs[0].dtype.type(attributes.get("alpha", 1.0))
    return [np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha))]


@each("HardSigmoid")
def _hard_sigmoid(inputs, attributes):
    x = inputs[0]
    alpha, beta = (x.dtype.type(attributes.get(*a)) for a in (("alpha", 0.2), ("beta", 0.5)))
    return [np.clip(alpha * x + beta, 0, 1)]


@each("HardSwish")
def _hard_swish(inputs, attributes):
    x = inputs[0]
    return [_times(x, np.clip(x / x.dtype.type(6) + x.dtype.type(0.5), 0, 1))]


@each("Mish")
def _mish(inputs, attributes):
    x = inputs[0]
    return [_times(x, np.tanh(np.logaddexp(x, x.dtype.type(0))))]


@each("Gelu")
def _gelu(inputs, attributes):
    x = inputs[0]
    with np.errstate(all="ignore"):
        if attributes.get("approximate", "none") == "tanh":
            share = 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        else:
            share = 0.5 * (1 + erf(x / x.dtype.type(math.sqrt(2))))
        return [_times(x, share).astype(x.dtype)]


@each("ThresholdedRelu")
def _thresholded_relu(inputs, attributes):
    x = inputs[0]
    return [np.where(x > np.float32(attributes.get("alpha", 1.0)), x, x.dtype.type(0))]


def _times(x: np.ndarray, share: np.ndarray) -> np.ndarray:
    """``x * share``, with the limit where the share underflows to 0: a 0 with the sign of x, also for infinite x."""
    with np.errstate(all="ignore"):
        return np.where(share == 0, np.copysign(x.dtype.type(0), x), x * share)


def erf(x: np.ndarray) -> np.ndarray:
    """The error function, element by element."""
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x)).astype(x.dtype)  # frompyfunc returns a float for a 0-d array


@each("Affine")
def _affine(inputs, attributes):
    """``x * scale + shift`` per channel: a folded batch normalisation."""
    x, scale, shift = inputs
    return [x * scale + shift]


@each("Requantise")
def _requantise(inputs, attributes):
    """Rounded to the integers of a scale: what lies between two operators of an `Elementwise`."""
    scale = np.float32(attributes["scale"])
    return [np.clip(np.rint(inputs[0] / scale), attributes["low"], attributes["high"]) * scale]


@each("Elementwise")
def _chain(inputs, attributes):
    """Operators one after another, each on the result of the one before, as the input that `links` says."""
    value, *others = inputs
    operands = iter(others)
    for op, of_op, at, count in attributes["links"]:
        arrays = [value if i == at else next(operands) for i in range(count)]
        (value,) = OPERATORS[op].run(arrays, {**of_op, "op": op})
    return [value]
