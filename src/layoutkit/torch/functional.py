"""Batch normalisation and pooling as functions of torch, by our kernels where they were measured to be faster.

Anything else is torch's own: small tensors, those of sizes that are not known while a graph is made, other types than
float32, channels_last where torch's are as fast, tensors under transforms, subclasses. What was measured:
docs/training.md.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import _C, Tensor
from torch.autograd import forward_ad
from torch.compiler import is_compiling
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.nn import functional
from torch.nn.functional import avg_pool2d as avg_pool2d_of_torch
from torch.nn.functional import avg_pool3d as avg_pool3d_of_torch

from ..signatures import of_rank
from .functions import _ints
from .memory import is_channels_last
from .norms import normalised
from .pools import avg_pool, max_pool

FROM_PLAIN = 1 << 18  # elements: the least for batch norm, in channels_last with a ReLU behind it,
FROM_POOLED = 1 << 17  # and for pooling of contiguous tensors
LIMITS = {None: 0.0, "relu": math.inf, "relu6": 6.0}  # of the activations of batch norm


def is_small(x: Tensor, least: int) -> bool:
    """Whether a tensor has fewer elements; in graphs of any batch, whether it may have: a guard would be a limit."""
    if is_compiling():
        return not statically_known_true(x.numel() >= least)
    return x.numel() < least


def _is_plain(x: Any, spatial: tuple[int, ...], least: int) -> bool:
    """Whether the operators take a tensor, of so many elements at least."""
    if type(x) is not Tensor and type(x) is not torch.nn.Parameter and not is_compiling():
        return False
    if is_small(x, least):
        return False
    if (
        x.dim() - 2 not in spatial
        or x.dtype != torch.float32
        or not (x.is_cpu or x.is_meta)
        or x.layout != torch.strided
    ):
        return False
    return not _C._are_functorch_transforms_active() and forward_ad._current_level < 0


def _can_move(statistics: Tensor) -> bool:
    """Whether running statistics can be changed in place as torch changes them."""
    if statistics.requires_grad or not statistics.is_contiguous():  # a stride of 0: one number for all channels
        return False
    return is_compiling() or not statistics.is_inference() or torch.is_inference_mode_enabled()


def batch_norm_by_kernel(
    x: Tensor, mean: Tensor | None, variance: Tensor | None, weight: Tensor | None,
    bias: Tensor | None, momentum: float, eps: float, limit: float = 0.0, add: Tensor | None = None,
) -> Tensor | None:  # fmt: skip
    """`batch_norm` in training, plus `add`, then a ReLU if `limit` is not 0; None where torch's is as fast, and nothing
    was done.

    Parameters
    ----------
    x, mean, variance, weight, bias, momentum, eps
        As `batch_norm` takes them.
    limit : float, optional
        That of the ReLU, which may be infinite.
    add : Tensor, optional
        Of the shape and type of `x`, or nothing is done.
    """
    if not _is_plain(x, (1, 2, 3), FROM_PLAIN):
        return None
    if x.dim() > 3 and not limit and is_channels_last(x):
        return None
    if not is_verified(x, eps):
        return None
    if not has_plain_statistics(x.shape[1], x.device, mean, variance, weight, bias, momentum):
        return None
    if add is not None and (type(add) is not Tensor or add.shape != x.shape or add.dtype != x.dtype or not add.is_cpu):
        return None
    return normalised(x, mean, variance, weight, bias, momentum, eps, limit, add)


def has_plain_statistics(
    channels: int, device: torch.device, mean: Tensor | None, variance: Tensor | None, weight: Tensor | None,
    bias: Tensor | None, momentum: Any,
) -> bool:  # fmt: skip
    """Whether what batch norm takes by channel is float32 that can be moved."""
    for t in (weight, bias, mean, variance):
        if t is not None and (t.dtype != torch.float32 or t.device != device or t.shape != (channels,)):
            return False
    if (mean is None) != (variance is None) or type(momentum) is not float:
        return False
    return all(t is None or _can_move(t) for t in (mean, variance))


def is_verified(x: Tensor, eps: Any) -> bool:
    """Whether what `torch.nn.functional.batch_norm` does first can be left out: its checks, the question for cuDNN."""
    return type(eps) is float and eps > 0 and x.dim() > 1 and x.numel() >= 2 * x.shape[1] > 0 and not x.is_cuda


def batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5, *, add=None,
    activation=None,
) -> Tensor:  # fmt: skip
    """`torch.nn.functional.batch_norm`, computed by layoutkit where that is faster: large tensors in training.

    Parameters
    ----------
    input : Tensor
        (N, C, ..)
    running_mean, running_var : Tensor or None
        (C,), changed in training.
    weight, bias : Tensor, optional
        (C,)
    training : bool, optional
        Whether to normalise by the statistics of `input`.
    momentum, eps : float, optional
        As of torch.
    add : Tensor, optional
        A summand of the result, as a residual is. Of the shape and type of `input` it is part of the same operation.
    activation : {None, "relu", "relu6"}, optional
        What follows, in the same operation.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        `activation` is another one.
    """
    if add is None and activation is None:
        if type(input) is Tensor and is_small(input, FROM_PLAIN) and is_verified(input, eps):
            return torch.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, False)
        limit = 0.0
    elif activation not in tuple(LIMITS):  # a tuple: what is given may not be hashable
        raise ValueError(f"batch_norm: activation {activation!r}: expected None, 'relu' or 'relu6'")
    else:
        limit = LIMITS[activation]
    if training is True:
        y = batch_norm_by_kernel(input, running_mean, running_var, weight, bias, momentum, eps, limit, add)
        if y is not None:
            return y
    y = functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if add is not None:
        y = y + add
    return y if activation is None else getattr(functional, activation)(y)


def _suits_pooling(x: Any, rank: int) -> bool:
    return _is_plain(x, (rank,), FROM_POOLED) and not is_channels_last(x)


def _windows(rank: int, x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """The attributes of windows, by axis; None where torch has to say what is wrong with them."""
    stride = kernel if stride is None else stride
    given = (kernel, 1), (stride, 1), (padding, 0), (dilation, 1)
    try:
        kernel, stride, padding, dilation = (_ints("", "", value, rank, least) for value, least in given)
    except (TypeError, ValueError):
        return None
    if any(2 * p > k for k, p in zip(kernel, padding)):
        return None
    if any(n + 2 * p <= d * (k - 1) for n, k, p, d in zip(x.shape[2:], kernel, padding, dilation)):
        return None  # no window fits
    return kernel, stride, padding, dilation


def _max_pool(rank: int, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    """By our kernel; None where torch's is as fast."""
    if type(ceil_mode) is not bool or not _suits_pooling(x, rank):
        return None
    windows = _windows(rank, x, kernel, stride, padding, dilation)
    return None if windows is None else max_pool(x, *windows, ceil_mode)


def _avg_pool(rank: int, x: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, with_pads: bool) -> Any:
    if type(ceil_mode) is not bool or type(with_pads) is not bool or not _suits_pooling(x, rank):
        return None
    windows = _windows(rank, x, kernel, stride, padding, 1)
    if windows is None or (rank == 3 and any(n < k for n, k in zip(x.shape[-rank:], windows[0]))):
        return None  # of volumes that are smaller than the window torch has no mean
    return avg_pool(x, *windows[:3], ceil_mode, with_pads)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False) -> Tensor:
    """`torch.nn.functional.max_pool2d`, computed by layoutkit where that is faster.

    Parameters
    ----------
    input : Tensor
        (N, C, height, width) or (C, height, width)
    kernel_size, stride, padding, dilation, ceil_mode
        As of torch.

    Returns
    -------
    Tensor
    """
    if type(input) is Tensor and not is_compiling() and input.numel() < FROM_POOLED:
        return torch.max_pool2d(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)
    y = _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode)
    return functional.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode) if y is None else y


def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False) -> Tensor:
    if type(input) is Tensor and not is_compiling() and input.numel() < FROM_POOLED:
        return torch.max_pool3d(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)
    y = _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode)
    return functional.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode) if y is None else y


def avg_pool2d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
) -> Tensor:
    """`torch.nn.functional.avg_pool2d`, computed by layoutkit where that is faster.

    Parameters
    ----------
    input : Tensor
        (N, C, height, width) or (C, height, width)
    kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        As of torch.

    Returns
    -------
    Tensor
    """
    if type(input) is Tensor and not is_compiling() and input.numel() < FROM_POOLED:
        return avg_pool2d_of_torch(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    if divisor_override is None:
        y = _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad)
        if y is not None:
            return y
    return avg_pool2d_of_torch(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
) -> Tensor:
    if type(input) is Tensor and not is_compiling() and input.numel() < FROM_POOLED:
        return avg_pool3d_of_torch(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    if divisor_override is None:
        y = _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad)
        if y is not None:
            return y
    return avg_pool3d_of_torch(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


for _function, _of in ((max_pool3d, max_pool2d), (avg_pool3d, avg_pool2d)):
    if _of.__doc__:  # not with python -OO
        _function.__doc__ = of_rank(3, _of.__doc__)
