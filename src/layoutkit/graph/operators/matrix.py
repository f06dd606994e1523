"""Matrix products, by numpy and its BLAS; those of integers see `integers.py`."""

from __future__ import annotations

from math import prod

import numpy as np

from .base import operator, required
from .integers import products


def _gemm_shape(node, inputs):
    a, b = required(inputs[0]), required(inputs[1])
    m, k = a.shape[::-1] if node.attributes.get("transA") else a.shape
    l, n = b.shape[::-1] if node.attributes.get("transB") else b.shape
    if k != l:
        raise ValueError(f"rows of {k} times columns of {l}")
    return [(a.dtype, (m, n))]


@operator("Gemm", shape=_gemm_shape)
def _gemm(inputs, attributes):
    a, b, c = (*inputs, None)[:3]
    a, b = (x.T if attributes.get(key) else x for x, key in ((a, "transA"), (b, "transB")))
    y = a @ b
    alpha, beta = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)
    if alpha != 1:
        y *= y.dtype.type(alpha)
    if c is not None:
        y += c if beta == 1 else c * c.dtype.type(beta)
    return [y.astype(a.dtype, copy=False)]


def _matmul_shape(node, inputs):
    a, b = required(inputs[0]), required(inputs[1])
    dtype = np.int32 if node.op == "MatMulInteger" else a.dtype
    left, right = a.shape, b.shape
    if len(left) == 1 or len(right) == 1:
        probe = np.matmul(np.broadcast_to(np.int8(0), left), np.broadcast_to(np.int8(0), right))
        return [(dtype, probe.shape)]
    if left[-1] != right[-2]:
        raise ValueError(f"rows of {left[-1]} times columns of {right[-2]}")
    return [(dtype, (*np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-1]))]


@operator("MatMul", shape=_matmul_shape)
def _matmul(inputs, attributes):
    return [np.asarray(np.matmul(*inputs)).astype(inputs[0].dtype, copy=False)]


@operator("TiledAttention")
def _attention(inputs, attributes):
    q, k, v = (view.of(np.ascontiguousarray(x)) for view, x in zip(attributes["views"], inputs))
    x = np.matmul(q, k.swapaxes(-1, -2)) * q.dtype.type(attributes["scale"])
    x = x + inputs[3] if len(inputs) > 3 else x
    w = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    into = attributes["into"]
    y = np.empty(prod(into.shape), q.dtype)
    into.of(y)[...] = np.matmul(w / w.sum(-1, keepdims=True), v)
    return [y]


@operator("MatMulInteger", shape=_matmul_shape)
def _matmul_integer(inputs, attributes):
    a, b, a_zero, b_zero = (*inputs, None, None)[:4]
    zeros = (0 if zero is None else zero for zero in (a_zero, b_zero))
    return [products(a, b, *zeros, attributes.get("threads"))]
