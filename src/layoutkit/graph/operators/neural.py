"""Convolutions, and quantisation to integers and back."""

from __future__ import annotations

from math import prod

import numpy as np

from ...convolutions import conv, transposed
from .base import Follows, Unsupported, normal, operator, required
from .windows import pads_of, per_axis, window

FUNCTIONS = {1: conv.conv1d, 2: conv.conv2d, 3: conv.conv3d}
TRANSPOSED = {1: transposed.conv_transpose1d, 2: transposed.conv_transpose2d, 3: transposed.conv_transpose3d}


def _no_more_axes(rank, op):
    if rank not in FUNCTIONS:
        raise Unsupported(f"{op}: {rank} spatial axes; 1, 2 or 3 are supported")


def geometry(attributes, size, kernel):
    """Arguments of a convolution over an input of this spatial size."""
    rank = len(kernel)
    stride, dilation = (per_axis(attributes, name, rank) for name in ("strides", "dilations"))
    pads = pads_of(attributes, size, kernel, stride, dilation)
    return dict(stride=stride, dilation=dilation, padding=pads, groups=attributes.get("group", 1))


def asked(attributes):
    """The accuracy and the threads that the model asks of its convolutions."""
    return {"accuracy": attributes.get("accuracy", "standard"), "threads": attributes.get("threads")}


def _conv_shape(node, inputs):
    x, w = required(inputs[0]), required(inputs[3 if node.op == "QLinearConv" else 1])
    if x.shape[1] != w.shape[1] * node.attributes.get("group", 1):
        raise ValueError(f"{x.shape[1]} channels, the filter takes {w.shape[1]} a group")
    dtype = {"Conv": x.dtype, "ConvInteger": np.int32}.get(node.op) or required(inputs[7]).dtype
    return [(dtype, (x.shape[0], w.shape[0], *window(node.attributes, x.shape[2:], w.shape[2:]).out))]


@operator("Conv", kind=Follows.FIXED, shape=_conv_shape)
def _conv(inputs, attributes):
    x, w, b = (*inputs, None)[:3]
    _no_more_axes(x.ndim - 2, "Conv")
    letters = "DHW"[5 - x.ndim :]
    result = FUNCTIONS[x.ndim - 2](
        x, w, b, layout=f"NC{letters}", filter_layout=f"OI{letters}", **asked(attributes),
        **geometry(attributes, x.shape[2:], w.shape[2:]),
    )  # fmt: skip
    return [result]


def transposed_geometry(attributes, size, kernel):
    """Arguments of a transposed convolution of an input of this spatial size. Pads are negative where the result is
    larger than what the input contributes to."""
    rank = len(kernel)
    stride, dilation = (per_axis(attributes, name, rank) for name in ("strides", "dilations"))
    extra = [int(n) for n in attributes.get("output_padding") or [0] * rank]
    auto, wanted = attributes.get("auto_pad", "NOTSET"), attributes.get("output_shape")
    if auto in ("SAME_UPPER", "SAME_LOWER") and not wanted:
        wanted = [n * s for n, s in zip(size, stride)]
    if wanted:
        whole = [s * (n - 1) + e + d * (k - 1) + 1 for s, n, e, d, k in zip(stride, size, extra, dilation, kernel)]
        total = [n - int(m) for n, m in zip(whole, wanted[-rank:], strict=True)]
        small = [t // 2 for t in total]
        pads = [(s, t - s) if auto == "SAME_UPPER" else (t - s, s) for t, s in zip(total, small)]
    else:
        padding = {**attributes, "auto_pad": "VALID" if auto == "VALID" else "NOTSET"}
        pads = pads_of(padding, size, kernel, stride, dilation)
    pads = [(before, after - e) for (before, after), e in zip(pads, extra, strict=True)]
    return dict(stride=stride, dilation=dilation, padding=pads, groups=attributes.get("group", 1))


def _conv_transpose_shape(node, inputs):
    x, w = required(inputs[0]), required(inputs[1])
    of = transposed_geometry(node.attributes, x.shape[2:], w.shape[2:])
    axes = zip(of["stride"], x.shape[2:], of["dilation"], w.shape[2:], of["padding"], strict=True)
    out = [s * (n - 1) + d * (k - 1) + 1 - sum(p) for s, n, d, k, p in axes]
    return [(x.dtype, (x.shape[0], w.shape[1] * of["groups"], *out))]


@operator("ConvTranspose", kind=Follows.FIXED, shape=_conv_transpose_shape)
def _conv_transpose(inputs, attributes):
    x, w, b = (*inputs, None)[:3]
    rank = x.ndim - 2
    _no_more_axes(rank, "ConvTranspose")
    letters = "DHW"[3 - rank :]
    result = TRANSPOSED[rank](
        x, w, b, layout=f"NC{letters}", filter_layout=f"IO{letters}", **asked(attributes),
        **transposed_geometry(attributes, x.shape[2:], w.shape[2:]),
    )  # fmt: skip
    return [result]


@operator("ConvInteger", shape=_conv_shape)
def _conv_integer(inputs, attributes):
    x, w, x_zero, w_zero = (*inputs, None, None)[:4]
    return [_whole(x, w, x_zero, w_zero, attributes)]


def _whole(x, w, x_zero, w_zero, attributes):
    """The convolution of integers with their zero points subtracted."""
    zero = 0 if x_zero is None else int(x_zero.reshape(-1)[0])
    w = w.astype(np.int32) - (0 if w_zero is None else w_zero.astype(np.int32).reshape(-1, *[1] * (w.ndim - 1)))
    if np.abs(w, dtype=np.int64).max(initial=0) > 127 or w.min(initial=0) < -128:
        return _conv([x.astype(np.float64) - zero, w.astype(np.float64)], attributes)[0].astype(np.int32)
    letters, names = "DHW"[5 - x.ndim :], str(x.dtype)
    arguments = geometry(attributes, x.shape[2:], w.shape[2:])
    return FUNCTIONS[x.ndim - 2](
        x, w.astype(np.int8), layout=f"NC{letters}", filter_layout=f"OI{letters}", dtype=(names, "int32"),
        zero_point=zero, threads=attributes.get("threads"), **arguments,
    )  # fmt: skip


@operator("QLinearConv", shape=_conv_shape)
def _q_linear_conv(inputs, attributes):
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b = (*inputs, None)[:9]
    sums = _whole(x, w, x_zero, w_zero, attributes).astype(np.float64)
    tail = [1] * (x.ndim - 2)
    if b is not None:
        sums += b.reshape(-1, *tail)
    scale = x_scale.astype(np.float64) * w_scale.astype(np.float64).reshape(-1, *tail) / y_scale
    limits = np.iinfo(y_zero.dtype)
    return [np.clip(np.rint(sums * scale) + y_zero, limits.min, limits.max).astype(y_zero.dtype)]


def _along(values, attributes, shape):
    """A single number, numbers along an axis or of blocks of it, shaped to be broadcast."""
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    if values is None or not values.ndim or (values.size == 1 and not block):
        return None if values is None else values.reshape(())
    axis %= len(shape)
    if block:
        return np.repeat(values, min(block, shape[axis]), axis).take(range(shape[axis]), axis)
    return values.reshape(-1, *[1] * (len(shape) - 1 - axis))


def _quantized_shape(node, inputs):
    x, scale, zero = (*inputs, None)[:3]
    x, scale = required(x), required(scale)
    block = node.attributes.get("block_size", 0)
    if block:
        axis = normal(node.attributes.get("axis", 1), len(x.shape), node.op)
        expected = tuple(-(-n // block) if i == axis else n for i, n in enumerate(x.shape)) if block > 0 else None
        for of in (scale, zero):
            if of is not None and of.shape != expected and (of is scale or of.shape):  # one zero point is for all
                given = f"scale or zero point {of.shape} of blocks of {block} of {x.shape}"
                raise ValueError(f"{given}, expected {expected}")
    elif len(scale.shape) < 2:  # others are refused later
        along = prod(scale.shape) != 1
        count = x.shape[normal(node.attributes.get("axis", 1), len(x.shape), node.op)] if along else 1
        for of in (scale, zero):
            if of is not None and prod(of.shape) != count:
                raise ValueError(
                    f"scale {scale.shape}, zero point {zero and zero.shape}: expected {count} numbers each"
                )
    if node.op == "DequantizeLinear":
        return [(scale.dtype, x.shape)]
    return [(np.uint8 if zero is None else zero.dtype, x.shape)]


@operator("QuantizeLinear", shape=_quantized_shape)
def _quantize_linear(inputs, attributes):
    x, scale, zero = (*inputs, None)[:3]
    to = np.dtype(np.uint8) if zero is None else zero.dtype
    if to.kind not in "iu" or (scale.ndim > 1 and not attributes.get("block_size")):
        raise Unsupported(f"QuantizeLinear: to {to}, {scale.ndim} axes of scales")
    scale, zero = _along(scale, attributes, x.shape), _along(zero, attributes, x.shape)
    limits = np.iinfo(to)
    integers = np.rint(x / scale) + (0 if zero is None else zero.astype(np.int32))
    return [np.clip(integers, limits.min, limits.max).astype(to)]


@operator("DequantizeLinear", shape=_quantized_shape)
def _dequantize_linear(inputs, attributes):
    x, scale, zero = (*inputs, None)[:3]
    if x.dtype.kind not in "iu" or (scale.ndim > 1 and not attributes.get("block_size")):
        raise Unsupported(f"DequantizeLinear: of {x.dtype}, {scale.ndim} axes of scales")
    scale, zero = _along(scale, attributes, x.shape), _along(zero, attributes, x.shape)
    if x.itemsize == 1 and (zero is None or not zero.any()):  # often filters: exact without widening to int32 first
        return [np.asarray(x.astype(scale.dtype) * scale)]
    return [((x.astype(np.int32) - (0 if zero is None else zero.astype(np.int32))) * scale).astype(scale.dtype)]
