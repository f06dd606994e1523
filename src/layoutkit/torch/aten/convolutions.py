"""Convolutions, torch's and ours."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .base import Builder, Result, Value, require, translates

aten, ours = torch.ops.aten, torch.ops.layoutkit


@translates(aten.convolution.default)
def convolution(
    b: Builder, y: Result, x: Value, w: Value, bias: Value | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Value:  # fmt: skip
    require(y.dtype.is_floating_point, f"a convolution of {y.dtype}")
    rank = x.rank - 2
    stride, padding, dilation, output_padding = (
        tuple(v) * (rank if len(v) == 1 else 1) for v in (stride, padding, dilation, output_padding)
    )
    attributes = dict(strides=stride, pads=padding * 2, dilations=dilation, group=groups, kernel_shape=w.shape[2:])
    inputs = [x, w] if bias is None else [x, w, bias]
    if transposed:
        return b.add("ConvTranspose", inputs, y.shape, y.dtype, output_padding=output_padding, **attributes)
    return b.add("Conv", inputs, y.shape, y.dtype, **attributes)


@translates(ours.conv.default)
def conv(
    b: Builder, y: Result, x: Value, w: Value, bias: Value | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int, channels_last: bool,
) -> Value:  # fmt: skip
    pads = (*padding[::2], *padding[1::2])
    inputs = [x, w] if bias is None else [x, w, bias]
    return b.add(
        "Conv", inputs, y.shape, y.dtype, strides=tuple(stride), pads=pads, dilations=tuple(dilation), group=groups,
        kernel_shape=w.shape[2:],
    )  # fmt: skip


@translates(ours.conv_transpose.default)
def conv_transpose(
    b: Builder, y: Result, x: Value, w: Value, bias: Value | None, size: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], groups: int, channels_last: bool,
) -> Value:  # fmt: skip
    pads = (*padding[::2], *padding[1::2])
    minimal = [
        (n - 1) * s - before - after + d * (k - 1) + 1
        for n, s, before, after, d, k in zip(x.shape[2:], stride, padding[::2], padding[1::2], dilation, w.shape[2:])
    ]
    inputs = [x, w] if bias is None else [x, w, bias]
    return b.add(
        "ConvTranspose", inputs, y.shape, y.dtype, strides=tuple(stride), pads=pads, dilations=tuple(dilation),
        group=groups, kernel_shape=w.shape[2:], output_padding=tuple(n - m for n, m in zip(size, minimal)),
    )  # fmt: skip
