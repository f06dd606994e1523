"""Convolutions, torch's and ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...convolutions.problem import in_sizes
from ..operators import pairs
from .base import Builder, Result, Value, require, translates

aten, ours = torch.ops.aten, torch.ops.layoutkit


def _convolved(b: Builder, op: str, y: Result, x: Value, w: Value, bias: Value | None, **attributes: Any) -> Value:
    inputs = [x, w] if bias is None else [x, w, bias]
    return b.add(op, inputs, y.shape, y.dtype, kernel_shape=w.shape[2:], **attributes)


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
    attributes = dict(strides=stride, pads=padding * 2, dilations=dilation, group=groups)
    if transposed:
        return _convolved(b, "ConvTranspose", y, x, w, bias, output_padding=output_padding, **attributes)
    return _convolved(b, "Conv", y, x, w, bias, **attributes)


def _attributes(stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int) -> dict[str, Any]:
    """The attributes of our operators, whose padding has both sides of an axis."""
    pads = (*padding[::2], *padding[1::2])
    return dict(strides=tuple(stride), pads=pads, dilations=tuple(dilation), group=groups)


@translates(ours.conv.default)
def conv(
    b: Builder, y: Result, x: Value, w: Value, bias: Value | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int, channels_last: bool,
) -> Value:  # fmt: skip
    return _convolved(b, "Conv", y, x, w, bias, **_attributes(stride, padding, dilation, groups))


@translates(ours.conv_transpose.default)
def conv_transpose(
    b: Builder, y: Result, x: Value, w: Value, bias: Value | None, size: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], groups: int, channels_last: bool,
) -> Value:  # fmt: skip
    minimal = in_sizes(x.shape[2:], w.shape[2:], stride, pairs(padding), dilation)
    extra = tuple(n - m for n, m in zip(size, minimal))
    attributes = _attributes(stride, padding, dilation, groups)
    return _convolved(b, "ConvTranspose", y, x, w, bias, output_padding=extra, **attributes)
