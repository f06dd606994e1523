"""What networks of integers compute: the operators of ONNX and of com.microsoft by their definitions, in float64.

Each takes the numbers that its integers stand for, ``scale * (q - zero)``, and rounds its result to the nearest number
that an integer of the result's type and scale stands for, halves to even.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from . import reference


def meant(q: np.ndarray, scale: np.ndarray, zero: np.ndarray | None, axis: int = 1) -> np.ndarray:
    """The numbers that integers stand for, by one scale or by those along an axis."""
    scale, zero = (np.asarray(0 if v is None else v, np.float64) for v in (scale, zero))
    ones = [1] * (q.ndim - 1 - axis % max(q.ndim, 1))
    scale, zero = (v.reshape(-1, *ones) if v.size > 1 else v.reshape(()) for v in (scale, zero))
    return (q.astype(np.float64) - zero) * scale


def rounded(x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """The integers that stand for the nearest numbers."""
    limits = np.iinfo(zero.dtype)
    whole = np.rint(x / scale.astype(np.float64).reshape(())) + int(zero.reshape(()))
    return np.clip(whole, limits.min, limits.max).astype(zero.dtype)


def _windows(x: np.ndarray, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int]) -> np.ndarray:
    """The pixels of each window along the last axis, those of the padding as NaN."""
    rank = len(kernel)
    around = np.pad(x, [(0, 0)] * 2 + list(zip(pads, pads[rank:])), constant_values=np.nan)
    out = [(n - k) // s + 1 for n, k, s in zip(around.shape[2:], kernel, strides)]
    taps = [around[(..., *(slice(t, t + s * m, s) for t, s, m in zip(tap, strides, out)))]
            for tap in itertools.product(*map(range, kernel))]  # fmt: skip
    return np.stack([tap[(..., *map(slice, out))] for tap in taps], -1)


def _pool(of: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def pool(x: np.ndarray, a: dict) -> np.ndarray:
        ones = [1] * (x.ndim - 2)
        return of(_windows(x, a["kernel_shape"], a.get("strides", ones), a.get("pads", 2 * [0 for _ in ones])), -1)

    return pool


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


UNARY: dict[str, Callable[[np.ndarray, dict], np.ndarray]] = {
    "QLinearSigmoid": lambda x, a: 1 / (1 + np.exp(-x)),
    "QLinearLeakyRelu": lambda x, a: np.where(x < 0, x * a.get("alpha", 0.01), x),
    "QLinearSoftmax": lambda x, a: _softmax(x, a["axis"]),
    "QLinearAveragePool": _pool(np.nanmean),
    "QLinearGlobalAveragePool": lambda x, a: x.mean(tuple(range(2, x.ndim)), keepdims=True),
}
PLAIN = {"Greater": np.greater, "Neg": np.negative}
BINARY = {"QLinearAdd": np.add, "QLinearMul": np.multiply}


def _convolution(x: np.ndarray, w: np.ndarray, a: dict) -> np.ndarray:
    rank = x.ndim - 2
    pads, ones = a.get("pads", [0] * 2 * rank), [1] * rank
    around = list(zip(pads, pads[rank:]))
    return reference.conv(x, w, None, a.get("strides", ones), around, a.get("dilations", ones), a.get("group", 1))


def run(op: str, inputs: Sequence[np.ndarray | None], a: dict) -> np.ndarray:
    """The result of an operator."""
    if op == "QuantizeLinear":
        return rounded(inputs[0], *inputs[1:3])
    if op == "DequantizeLinear":
        return meant(*inputs[:3])
    if op == "Flatten":
        return inputs[0].reshape(len(inputs[0]), -1)
    if op == "MaxPool":
        return _pool(np.nanmax)(inputs[0].astype(np.float64), a).astype(inputs[0].dtype)
    if op in UNARY:
        return rounded(UNARY[op](meant(*inputs[:3]), a), *inputs[3:5])
    if op in BINARY:
        return rounded(BINARY[op](meant(*inputs[:3]), meant(*inputs[3:6])), *inputs[6:8])
    if op in PLAIN:
        return PLAIN[op](*inputs)
    if op == "QLinearWhere":
        return rounded(np.where(inputs[0], meant(*inputs[1:4]), meant(*inputs[4:7])), *inputs[7:9])
    if op == "QLinearConcat":
        parts = [meant(*inputs[i : i + 3]) for i in range(2, len(inputs), 3)]
        return rounded(np.concatenate(parts, a["axis"]), *inputs[:2])
    x, w, bias = meant(*inputs[:3]), meant(*inputs[3:6], axis=0 if op == "QLinearConv" else 1), (*inputs, None)[8]
    if op == "QLinearConv":
        y = _convolution(x, w, a)
        scale = (np.float64(inputs[1]) * np.float64(inputs[4])).reshape(-1, *[1] * (x.ndim - 2))
        return rounded(y if bias is None else y + bias.reshape(-1, *[1] * (x.ndim - 2)) * scale, *inputs[6:8])
    if op == "QLinearMatMul":
        return rounded(x @ w, *inputs[6:8])
    assert op == "QGemm" and a.get("alpha", 1) == 1 and not a.get("transA") and not a.get("transB"), op
    y = x @ w if inputs[6] is None else x @ w + inputs[6] * (np.float64(inputs[1]) * np.float64(inputs[4]))
    return rounded(y, *inputs[7:9])


def evaluate(model, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The first output of a model of onnx whose nodes are such operators."""
    from onnx import helper, numpy_helper

    values = {"": None, **inputs, **{t.name: numpy_helper.to_array(t) for t in model.graph.initializer}}
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        values[node.output[0]] = run(node.op_type, [values[name] for name in node.input], attributes)
    return np.asarray(values[model.graph.output[0].name])
