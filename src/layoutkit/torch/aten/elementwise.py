"""Elementwise operators, and conversions of types."""

from __future__ import annotations

from typing import Any

import torch

from .base import TABLE, Builder, Result, Value, require, translates

aten = torch.ops.aten

UNARY = {
    aten.abs: "Abs", aten.acos: "Acos", aten.acosh: "Acosh", aten.asin: "Asin", aten.asinh: "Asinh", aten.atan: "Atan",
    aten.atanh: "Atanh", aten.ceil: "Ceil", aten.cos: "Cos", aten.cosh: "Cosh", aten.erf: "Erf", aten.exp: "Exp",
    aten.floor: "Floor", aten.hardswish: "HardSwish", aten.log: "Log", aten.mish: "Mish", aten.neg: "Neg",
    aten.reciprocal: "Reciprocal", aten.relu: "Relu", aten.round: "Round", aten.sigmoid: "Sigmoid", aten.sign: "Sign",
    aten.silu: "Swish", aten.sin: "Sin", aten.sinh: "Sinh", aten.sqrt: "Sqrt", aten.tan: "Tan", aten.tanh: "Tanh",
}  # fmt: skip
BINARY = {
    aten.add: "Add", aten.sub: "Sub", aten.mul: "Mul", aten.div: "Div", aten.maximum: "Max", aten.minimum: "Min",
    aten.pow: "Pow",
}  # fmt: skip
COMPARISONS = {
    aten.eq: "Equal", aten.lt: "Less", aten.le: "LessOrEqual", aten.gt: "Greater", aten.ge: "GreaterOrEqual",
}  # fmt: skip
LOGICAL = {aten.logical_and.default: "And", aten.logical_or.default: "Or", aten.logical_xor.default: "Xor"}
BITWISE = {aten.bitwise_and.Tensor: "And", aten.bitwise_or.Tensor: "Or", aten.bitwise_xor.Tensor: "Xor"}
FLOATS = torch.float32, torch.float64, torch.float16


def _operand(b: Builder, x: Value | float, dtype: torch.dtype) -> Value:
    """A tensor or number as a tensor of this type."""
    return b.cast(x, dtype) if isinstance(x, Value) else b.number(x, dtype)


def _unary(op: str):
    def translate(b: Builder, y: Result, x: Value, decimals: int = 0) -> Value:
        require(decimals == 0, "rounding to decimals")
        require(y.dtype != torch.bool, f"{op} of bool")
        if op == "Round" and y.dtype not in FLOATS:
            return x
        return b.add(op, [b.cast(x, y.dtype)], y.shape, y.dtype)

    return translate


def _binary(op: str):
    def translate(b: Builder, y: Result, x: Any, z: Any, alpha: float = 1, rounding_mode: str | None = None) -> Value:
        require(rounding_mode is None, f"division rounded by {rounding_mode}")
        x, z = _operand(b, x, y.dtype), _operand(b, z, y.dtype)
        if alpha != 1:
            z = b.add("Mul", [z, b.number(alpha, y.dtype)], z.shape, y.dtype)
        return b.add(op, [x, z], y.shape, y.dtype)

    return translate


def _common(*values: Value | float) -> torch.dtype:
    """The type in which operands are compared."""
    examples = [torch.empty((1,) * v.rank, dtype=v.dtype) if isinstance(v, Value) else v for v in values]
    first, second = examples
    return torch.result_type(first, second)  # type: ignore[arg-type]


def _comparison(op: str, inverted: bool = False):
    def translate(b: Builder, y: Result, x: Any, z: Any) -> Value:
        dtype = _common(x, z)
        found = b.add(op, [_operand(b, x, dtype), _operand(b, z, dtype)], y.shape, torch.bool)
        return b.add("Not", [found], y.shape, torch.bool) if inverted else found

    return translate


def _logical(op: str):
    def translate(b: Builder, y: Result, x: Value, z: Value) -> Value:
        require(y.dtype == torch.bool, "operators on bits")
        return b.add(op, [b.cast(x, torch.bool), b.cast(z, torch.bool)], y.shape, torch.bool)

    return translate


for _of, _op in UNARY.items():
    TABLE[_of.default] = _unary(_op)
TABLE[aten.round.decimals] = _unary("Round")
for _of, _op in BINARY.items():
    for _name in _of.overloads():
        if _name in ("Tensor", "Scalar", "default", "Tensor_Tensor", "Tensor_Scalar", "Tensor_mode"):
            TABLE[getattr(_of, _name)] = _binary(_op)
for _of, _op in COMPARISONS.items():
    TABLE[_of.Tensor] = TABLE[_of.Scalar] = _comparison(_op)
TABLE[aten.ne.Tensor] = TABLE[aten.ne.Scalar] = _comparison("Equal", inverted=True)
for _overload, _op in (LOGICAL | BITWISE).items():
    TABLE[_overload] = _logical(_op)


@translates(aten.logical_not.default, aten.bitwise_not.default)
def logical_not(b: Builder, y: Result, x: Value) -> Value:
    require(y.dtype == torch.bool, "operators on bits")
    return b.add("Not", [b.cast(x, torch.bool)], y.shape, torch.bool)


@translates(aten.rsub.Scalar, aten.rsub.Tensor)
def rsub(b: Builder, y: Result, x: Value, z: Any, alpha: float = 1) -> Value:
    require(alpha == 1, "rsub with alpha")
    return b.add("Sub", [_operand(b, z, y.dtype), b.cast(x, y.dtype)], y.shape, y.dtype)


@translates(aten.rsqrt.default)
def rsqrt(b: Builder, y: Result, x: Value) -> Value:
    return b.add("Reciprocal", [b.add("Sqrt", [b.cast(x, y.dtype)], y.shape, y.dtype)], y.shape, y.dtype)


@translates(aten.where.self)
def where(b: Builder, y: Result, condition: Value, x: Value, z: Value) -> Value:
    return b.add("Where", [condition, b.cast(x, y.dtype), b.cast(z, y.dtype)], y.shape, y.dtype)


@translates(aten.masked_fill.Scalar)
def masked_fill(b: Builder, y: Result, x: Value, mask: Value, value: float) -> Value:
    return b.add("Where", [mask, b.number(value, y.dtype), x], y.shape, y.dtype)


@translates(aten.gelu.default)
def gelu(b: Builder, y: Result, x: Value, approximate: str = "none") -> Value:
    return b.add("Gelu", [x], y.shape, y.dtype, approximate=approximate)


@translates(aten.leaky_relu.default)
def leaky_relu(b: Builder, y: Result, x: Value, slope: float = 0.01) -> Value:
    return b.add("LeakyRelu", [x], y.shape, y.dtype, alpha=float(slope))


@translates(aten.elu.default)
def elu(b: Builder, y: Result, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    require(input_scale == 1, "elu with a scale of its input")
    found = b.add("Elu", [x], y.shape, y.dtype, alpha=float(alpha))
    return found if scale == 1 else b.add("Mul", [found, b.number(scale, y.dtype)], y.shape, y.dtype)


@translates(aten.celu.default)
def celu(b: Builder, y: Result, x: Value, alpha: float = 1) -> Value:
    return b.add("Celu", [x], y.shape, y.dtype, alpha=float(alpha))


@translates(aten.selu.default)
def selu(b: Builder, y: Result, x: Value) -> Value:
    return b.add("Selu", [x], y.shape, y.dtype)


@translates(aten.hardsigmoid.default)
def hardsigmoid(b: Builder, y: Result, x: Value) -> Value:
    return b.add("HardSigmoid", [x], y.shape, y.dtype, alpha=1 / 6, beta=0.5)


@translates(aten.softplus.default)
def softplus(b: Builder, y: Result, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    require(beta == 1 and threshold >= 20, f"softplus with beta {beta} and threshold {threshold}")
    return b.add("Softplus", [x], y.shape, y.dtype)


@translates(aten._prelu_kernel.default, aten.prelu.default)
def prelu(b: Builder, y: Result, x: Value, slopes: Value) -> Value:
    if slopes.rank == 1:
        slopes = b.reshaped(slopes, (slopes.shape[0], *(1,) * (x.rank - 2))) if x.rank > 1 else slopes
    return b.add("PRelu", [x, slopes], y.shape, y.dtype)


@translates(aten.hardtanh.default, aten.clamp.default, aten.clamp_min.default)
def clamp(b: Builder, y: Result, x: Value, least: float | None = None, most: float | None = None) -> Value:
    return _clip(b, y, x, least, most)


@translates(aten.clamp_max.default)
def clamp_max(b: Builder, y: Result, x: Value, most: float) -> Value:
    return _clip(b, y, x, None, most)


@translates(aten.relu6.default)
def relu6(b: Builder, y: Result, x: Value) -> Value:
    return _clip(b, y, x, 0, 6)


def _clip(b: Builder, y: Result, x: Value, least: float | None, most: float | None) -> Value:
    limits = [None if n is None else b.number(n, y.dtype) for n in (least, most)]
    return b.add("Clip", [b.cast(x, y.dtype), *limits], y.shape, y.dtype)


@translates(aten._to_copy.default)
def to_copy(b: Builder, y: Result, x: Value, **options: Any) -> Value:
    return b.cast(x, y.dtype)


@translates(
    aten.clone.default, aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default,
    aten.contiguous.default, aten.dropout.default,
)  # fmt: skip
def same(b: Builder, y: Result, x: Value, p: float = 0.0, train: bool = False, **options: Any) -> Value:
    require(not train, "dropout in training")
    return x
