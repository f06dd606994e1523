"""Products of matrices, and attention."""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch

from .base import Builder, Result, Value, require, translates

aten = torch.ops.aten


@translates(aten.mm.default, aten.bmm.default, aten.matmul.default, aten.mv.default, aten.dot.default)
def matmul(b: Builder, y: Result, x: Value, z: Value) -> Value:
    return b.add("MatMul", [x, z], y.shape, y.dtype)


@translates(aten.addmm.default)
def addmm(b: Builder, y: Result, bias: Value, x: Value, z: Value, beta: float = 1, alpha: float = 1) -> Value:
    if beta == 0:  # the bias may be NaN
        require(alpha == 1, "addmm with a factor and no bias")
        return b.add("MatMul", [x, z], y.shape, y.dtype)
    return b.add("Gemm", [x, z, bias], y.shape, y.dtype, alpha=float(alpha), beta=float(beta))


@translates(aten.baddbmm.default)
def baddbmm(b: Builder, y: Result, bias: Value, x: Value, z: Value, beta: float = 1, alpha: float = 1) -> Value:
    require(beta == 1 and alpha == 1, "baddbmm with factors")
    return b.add("Add", [b.add("MatMul", [x, z], y.shape, y.dtype), bias], y.shape, y.dtype)


@translates(aten.linear.default)
def linear(b: Builder, y: Result, x: Value, w: Value, bias: Value | None = None) -> Value:
    require(w.rank == 2 and x.rank > 0, f"a weight of {w.rank} axes")
    if x.rank == 2 and bias is not None:
        return b.add("Gemm", [x, w, bias], y.shape, y.dtype, transB=1)
    product = b.add("MatMul", [x, b.permuted(w, (1, 0))], y.shape, y.dtype)
    return product if bias is None else b.add("Add", [product, bias], y.shape, y.dtype)


def attention(
    b: Builder, y: Result, q: Value, k: Value, v: Value, mask: Value | None, causal: bool, scale: float | None,
    grouped: bool = False,
) -> Value:  # fmt: skip
    """softmax(scale q k^T + mask) v."""
    require(not causal and not grouped, "attention that is causal or whose keys are shared")
    rank, dtype = k.rank, y.dtype
    axes = (*range(rank - 2), rank - 1, rank - 2)
    scaled = b.add("Mul", [q, b.number(1 / sqrt(q.shape[-1]) if scale is None else scale, dtype)], q.shape, dtype)
    shape = (*y.shape[:-1], k.shape[-2])
    scores = b.add("MatMul", [scaled, b.permuted(k, axes)], shape, dtype)
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = b.add("Where", [mask, b.number(0, dtype), b.number(-float("inf"), dtype)], mask.shape, dtype)
        scores = b.add("Add", [scores, mask], shape, dtype)
    weights = b.add("Softmax", [scores], shape, dtype, axis=-1)
    found = b.add("MatMul", [weights, v], y.shape, dtype)
    if mask is None or not mask.rank or not mask.shape[-1]:
        return found
    rows = (*mask.shape[:-1], 1)
    most = b.add("ReduceMax", [mask, b.ints(mask.rank - 1)], rows, dtype, keepdims=1)
    is_masked = b.add("Equal", [most, b.number(-float("inf"), dtype)], rows, torch.bool)
    return b.add("Where", [is_masked, b.number(0, dtype), found], y.shape, dtype)  # where no key is left, not NaN


@translates(aten.scaled_dot_product_attention.default)
def scaled_dot_product_attention(
    b: Builder, y: Result, q: Value, k: Value, v: Value, attn_mask: Value | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    require(dropout_p == 0, "attention with dropout")
    return attention(b, y, q, k, v, attn_mask, is_causal, scale, enable_gqa)


@translates(aten._scaled_dot_product_flash_attention_for_cpu.default)
def flash_attention(
    b: Builder, y: Result, q: Value, k: Value, v: Value, dropout_p: float = 0.0, is_causal: bool = False,
    attn_mask: Value | None = None, scale: float | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    require(dropout_p == 0, "attention with dropout")
    return attention(b, y, q, k, v, attn_mask, is_causal, scale), None
