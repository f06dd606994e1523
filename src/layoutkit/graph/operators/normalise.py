"""Normalisations. BatchNormalization is folded into a convolution or becomes an `Affine`."""

from __future__ import annotations

from math import prod

import numpy as np

from .base import Follows, by_kernel, mean, normal, operator, physical_axes, required, same_shape


def _per_channel(values, rank):
    return values.reshape(-1, *[1] * (rank - 2))


@operator("BatchNormalization", shape=same_shape)
def _batch_normalization(inputs, attributes):
    x = inputs[0]
    scale, shift = affine_of(*inputs[1:], attributes.get("epsilon", 1e-5))
    return [x * _per_channel(scale, x.ndim).astype(x.dtype) + _per_channel(shift, x.ndim).astype(x.dtype)]


def affine_of(scale, bias, mean, variance, epsilon):
    """The scale and the shift per channel that a batch normalisation amounts to, in float64."""
    scale = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
    return scale, bias - mean * scale


@operator("InstanceNormalization", kind=Follows.FIXED, shape=same_shape, follow=by_kernel)
def _instance_normalization(inputs, attributes):
    x, scale, bias = inputs
    axes = tuple(range(2, x.ndim))
    return [
        _normalised(x, axes, attributes.get("epsilon", 1e-5)) * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim)
    ]


def _normalised(x, axes, epsilon):
    apart = x - mean(x, axes)
    return apart / np.sqrt(mean(np.square(apart), axes) + x.dtype.type(epsilon))


@operator("GroupNormalization", kind=Follows.FIXED, shape=same_shape, follow=by_kernel)
def _group_normalization(inputs, attributes):
    x, scale, bias = inputs
    if attributes.get("per_group"):
        scale, bias = (np.repeat(v, x.shape[1] // attributes["num_groups"]) for v in (scale, bias))
    each = prod(x.shape[1:]) // attributes["num_groups"]
    grouped = x.reshape(x.shape[0], attributes["num_groups"], each)
    y = _normalised(grouped, (2,), attributes.get("epsilon", 1e-5)).reshape(x.shape)
    return [y * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim)]


def normalised_axes(attributes, rank, op):
    """Those of a LayerNormalization: from `axis` on, or with `channels`, which is not of ONNX, axis 1 alone."""
    if attributes.get("channels"):
        return (normal(1, rank, op),)
    return tuple(range(normal(attributes.get("axis", -1), rank, op), rank))


def _along(axes, rank, parameter):
    """A parameter as it is broadcast: that of channels lies along axis 1."""
    if parameter is None or axes[-1] == rank - 1:
        return parameter
    return parameter.reshape(-1, *[1] * (rank - 2))


def _with_statistics(node, inputs):
    """LayerNormalization also returns mean and inverse deviation, of size 1 along the normalised axes."""
    x = required(inputs[0])
    axes = normalised_axes(node.attributes, len(x.shape), node.op)
    statistics = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    return [(x.dtype, x.shape), (np.float32, statistics), (np.float32, statistics)]


@operator("LayerNormalization", kind=Follows.FIXED, shape=_with_statistics, follow=by_kernel)
def _layer_normalization(inputs, attributes):
    x, scale, bias = (*inputs, None)[:3]
    axes = normalised_axes(attributes, x.ndim, "LayerNormalization")
    epsilon, wide = attributes.get("epsilon", 1e-5), _wide(x)
    scale, bias = (_along(axes, x.ndim, parameter) for parameter in (scale, bias))
    y = _normalised(wide, axes, epsilon).astype(x.dtype) * scale
    means = mean(wide, axes)
    variance = wide.var(axes, keepdims=True) if wide.size else means
    inverse = 1 / np.sqrt(variance + wide.dtype.type(epsilon))
    return [y if bias is None else y + bias, means.astype(np.float32), inverse.astype(np.float32)]


def _wide(x):
    """The input in float32 at least, as ONNX's `stash_type` asks for half precision."""
    return np.asarray(x, np.promote_types(x.dtype, np.float32))


@operator("RMSNormalization", kind=Follows.FIXED, shape=same_shape, follow=by_kernel)
def _rms_normalization(inputs, attributes):
    x, scale = inputs
    axes, wide = normalised_axes(attributes, x.ndim, "RMSNormalization"), _wide(x)
    scale = _along(axes, x.ndim, scale)
    squares = mean(np.square(wide), axes)
    return [(wide / np.sqrt(squares + wide.dtype.type(attributes.get("epsilon", 1e-5)))).astype(x.dtype) * scale]


@operator("MeanVarianceNormalization", shape=same_shape)
def _mean_variance_normalization(inputs, attributes):
    return [_normalised(inputs[0], tuple(attributes.get("axes", (0, 2, 3))), 1e-9)]


def _follow_lrn(attributes, layout, shapes):
    place = physical_axes(layout)[1]
    return None if place is None else {**attributes, "axis": place}


def _follow_axis(attributes, layout, shapes):
    place = physical_axes(layout)[normal(attributes.get("axis", -1), layout.rank, attributes["op"])]
    return None if place is None else {**attributes, "axis": place}


@operator("LRN", kind=Follows.FOLLOWS, shape=same_shape, follow=_follow_lrn)
def _lrn(inputs, attributes):
    """``x / (bias + alpha / size * sum of squares of size channels around)**beta``."""
    x, size, axis = inputs[0], attributes["size"], attributes.get("axis", 1)
    n = x.shape[axis]
    if size < 1:
        raise ValueError(f"size {size}: expected a positive number")
    below, above = (size - 1) // 2, size - 1 - (size - 1) // 2
    sums = np.zeros_like(x)
    squares = np.square(x)
    for shift in range(max(-below, 1 - n), min(above, n - 1) + 1):
        at, of = slice(max(0, -shift), min(n, n - shift)), slice(max(0, shift), min(n, n + shift))
        lead = (slice(None),) * axis
        if at.start < at.stop:
            sums[(*lead, at)] += squares[(*lead, of)]
    beta = attributes.get("beta", 0.75)
    base = sums * x.dtype.type(attributes.get("alpha", 1e-4) / size) + x.dtype.type(attributes.get("bias", 1.0))
    if beta == 0.75:
        root = np.sqrt(base)
        return [x / (root * np.sqrt(root))]
    return [x / np.power(base, x.dtype.type(beta))]


@operator("LpNormalization", kind=Follows.FOLLOWS, shape=same_shape, follow=_follow_axis)
def _lp_normalization(inputs, attributes):
    x, axis = inputs[0], normal(attributes.get("axis", -1), inputs[0].ndim, "LpNormalization")
    norm = (
        np.abs(x).sum(axis, keepdims=True)
        if attributes.get("p", 2) == 1
        else np.sqrt(np.square(x).sum(axis, keepdims=True))
    )
    return [np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm)).astype(x.dtype)]
