"""Convolutions as functions of torch, which check their arguments and cast tensors under autocast."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function

from ..convolutions.problem import MAX_SIZE, in_sizes
from . import direct, operators
from .memory import gives_channels_last
from .small import CONV, CONV_TRANSPOSE

TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def _rank(name: str, weight: Any) -> int:
    """The number of spatial axes of a convolution by `weight`."""
    if not isinstance(weight, torch.Tensor):
        raise TypeError(f"layoutkit.torch.{name}: weight: expected a tensor, got {type(weight).__name__}")
    if weight.dim() not in (3, 4, 5):
        raise ValueError(f"layoutkit.torch.{name}: weight of shape {tuple(weight.shape)}: expected 3, 4 or 5 axes")
    return weight.dim() - 2


def _ints(what: str, name: str, value: Any, rank: int, least: int) -> tuple[int, ...]:
    """An attribute, one number for each axis, from an int or a tuple or list of 1 or `rank` of them."""
    if type(value) is int and least <= value <= MAX_SIZE:  # the usual case
        return (value,) * rank
    try:
        values = tuple([_int(v) for v in (value if isinstance(value, (tuple, list)) else (value,))])
    except TypeError:
        raise TypeError(f"{what}: {name}: expected an int or a tuple of {rank}, got {value!r}") from None
    if len(values) == 1:
        values *= rank
    if len(values) != rank or min(values) < least or max(values) > MAX_SIZE:
        several = f", or {rank} of them" * (rank > 1)
        raise ValueError(f"{what}: {name}: expected an int of {least} to {MAX_SIZE}{several}, got {value!r}")
    return values


def _int(value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, bool):
        raise TypeError
    return index(value)


def _groups(what: str, groups: Any) -> int:
    try:
        number = _int(groups)
    except TypeError:
        raise TypeError(f"{what}: groups: expected an int, got {groups!r}") from None
    if not 1 <= number <= MAX_SIZE:
        raise ValueError(f"{what}: groups: expected an int of 1 to {MAX_SIZE}, got {groups!r}")
    return number


def _same(what: str, stride: Sequence[int], dilation: Sequence[int], kernel: Sequence[int]) -> list[int]:
    """The padding that keeps the size; the larger side is after."""
    if set(stride) != {1}:
        raise ValueError(f"{what}: padding 'same' with stride {stride}: expected a stride of 1")
    reach = [d * (k - 1) for d, k in zip(dilation, kernel)]
    return [n for r in reach for n in (r // 2, r - r // 2)]


def attributes_of(what: str, weight: torch.Tensor, stride: Any, padding: Any, dilation: Any, groups: Any) -> tuple:
    """Check the attributes; returns them in the form that the operators take."""
    rank = weight.dim() - 2
    stride, dilation = _ints(what, "stride", stride, rank, 1), _ints(what, "dilation", dilation, rank, 1)
    groups = _groups(what, groups)
    if not isinstance(padding, str):
        pads = [n for n in _ints(what, "padding", padding, rank, 0) for _ in range(2)]
    elif padding == "same":
        pads = _same(what, stride, dilation, weight.shape[2:])
    elif padding == "valid":
        pads = [0] * (2 * rank)
    else:
        raise ValueError(f"{what}: padding: expected 'same', 'valid' or numbers, got {padding!r}")
    return stride, pads, dilation, groups


def _tensors(
    what: str, input: Any, weight: torch.Tensor, bias: Any, inputs: int, outputs: int, groups: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Check the tensors; returns them cast, the input with a batch axis."""
    if not isinstance(input, torch.Tensor):
        raise TypeError(f"{what}: input: expected a tensor, got {type(input).__name__}")
    if bias is not None and not isinstance(bias, torch.Tensor):
        raise TypeError(f"{what}: bias: expected a tensor, got {type(bias).__name__}")
    if torch.is_autocast_enabled("cpu"):
        input, weight, bias = _autocast(input), _autocast(weight), _autocast(bias)
    for name, tensor in (("input", input), ("weight", weight), ("bias", bias)):
        if tensor is not None and not _is_supported(tensor):
            got = f"{tensor.dtype} on {tensor.device}, {tensor.layout}"
            raise TypeError(f"{what}: {name}: expected floats on the CPU, got {got}")
        if tensor is not None and tensor.dtype != input.dtype:
            raise TypeError(f"{what}: {name} is of {tensor.dtype}, input of {input.dtype}")
    shape, taps = input.shape, weight.shape[2:]
    if len(shape) == len(taps) + 1:
        input = input.unsqueeze(0)
    elif len(shape) != len(taps) + 2:
        raise ValueError(f"{what}: input of shape {tuple(shape)}: expected {len(taps) + 1} or {len(taps) + 2} axes")
    n, channels, *size = input.shape
    if weight.shape[0] % groups:
        raise ValueError(f"{what}: weight of shape {tuple(weight.shape)} does not divide into {groups} groups")
    if not outputs or 0 in taps:
        raise ValueError(f"{what}: weight of shape {tuple(weight.shape)} has no outputs or no taps")
    if channels != inputs:
        raise ValueError(f"{what}: input of shape {tuple(shape)} has {channels} channels, expected {inputs}")
    if n and 0 in size:
        raise ValueError(f"{what}: input of shape {tuple(shape)} has no pixels")
    if bias is not None and bias.shape != (outputs,):
        raise ValueError(f"{what}: bias of shape {tuple(bias.shape)}: expected ({outputs},)")
    return input, weight, bias


def _is_supported(tensor: torch.Tensor) -> bool:
    """Whether the operators take tensors of this device, type and layout."""
    return (tensor.is_cpu or tensor.is_meta) and tensor.dtype in TYPES and tensor.layout == torch.strided


def _autocast(tensor: Any) -> Any:
    """A tensor cast as autocast casts the arguments of torch's convolutions: to its type, unless float64."""
    if tensor is None or not tensor.is_cpu or not tensor.is_floating_point() or tensor.dtype == torch.float64:
        return tensor
    return tensor.to(torch.get_autocast_dtype("cpu"))


def conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1) -> torch.Tensor:
    """`torch.nn.functional.conv1d`, `conv2d` or `conv3d`, by the number of axes that `weight` has.

    Parameters
    ----------
    input : Tensor
        (N, C, ..) or (C, ..), contiguous, channels_last or of any other strides.
    weight : Tensor
        (O, C/groups, ..)
    bias : Tensor, optional
        (O,)
    stride, padding, dilation, groups
        As of torch.

    Returns
    -------
    Tensor
        In channels_last if `input` or `weight` is.

    Raises
    ------
    TypeError, ValueError
        Types, shapes or attributes do not fit.
    """
    if (y := direct.conv(input, weight, bias, stride, padding, dilation, groups)) is not None:
        return y
    if has_torch_function((input, weight, bias)):
        attributes = stride, padding, dilation, groups
        return handle_torch_function(conv, (input, weight, bias), input, weight, bias, *attributes)
    given = input, weight, bias, stride, padding, dilation, groups
    what = f"layoutkit.torch.conv{_rank('conv', weight)}d"
    stride, pads, dilation, groups = attributes_of(what, weight, stride, padding, dilation, groups)
    outputs, inputs = weight.shape[:2]
    x, w, bias = _tensors(what, input, weight, bias, inputs * groups, outputs, groups)
    a = stride, pads, dilation, groups, gives_channels_last(x, w)
    y = operators.conv(x, w, bias, *a)
    direct.keep(CONV, given, (x, w, bias), *a)
    return y if x.dim() == input.dim() else y.squeeze(0)


def conv_transpose(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
) -> torch.Tensor:
    """`torch.nn.functional.conv_transpose1d`, `2d` or `3d`, by the number of axes that `weight` has.

    Parameters
    ----------
    input : Tensor
        (N, C, ..) or (C, ..), contiguous, channels_last or of any other strides.
    weight : Tensor
        (C, O/groups, ..)
    bias : Tensor, optional
        (O,)
    stride, padding, output_padding, groups, dilation
        As of torch.

    Returns
    -------
    Tensor
        In channels_last if `input` or `weight` is.

    Raises
    ------
    TypeError, ValueError
        Types, shapes or attributes do not fit.
    """
    y = direct.conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation)
    if y is not None:
        return y
    if has_torch_function((input, weight, bias)):
        attributes = stride, padding, output_padding, groups, dilation
        return handle_torch_function(conv_transpose, (input, weight, bias), input, weight, bias, *attributes)
    given = input, weight, bias, stride, padding, output_padding, groups, dilation
    rank = _rank("conv_transpose", weight)
    what = f"layoutkit.torch.conv_transpose{rank}d"
    if isinstance(padding, str):
        raise TypeError(f"{what}: padding {padding!r}: expected numbers")
    stride, pads, dilation, groups = attributes_of(what, weight, stride, padding, dilation, groups)
    output_padding = _ints(what, "output_padding", output_padding, rank, 0)
    if any([extra >= max(s, d) for extra, s, d in zip(output_padding, stride, dilation)]):
        raise ValueError(f"{what}: output_padding {output_padding} is not below stride {stride} or dilation {dilation}")
    inputs, outputs = weight.shape[:2]
    x, w, bias = _tensors(what, input, weight, bias, inputs, outputs * groups, groups)
    minimal = in_sizes(x.shape[2:], w.shape[2:], stride, operators.pairs(pads), dilation)
    size = [n + extra for n, extra in zip(minimal, output_padding)]
    if min(size) < 1:
        raise ValueError(f"{what}: an input of {tuple(x.shape[2:])} padded by {padding} has no output")
    a = size, stride, pads, dilation, groups, gives_channels_last(x, w)
    y = operators.conv_transpose(x, w, bias, *a)
    direct.keep(CONV_TRANSPOSE, given, (x, w, bias), *a)
    return y if x.dim() == input.dim() else y.squeeze(0)
