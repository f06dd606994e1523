"""Batch normalisation and pooling of torch.nn, computed by layoutkit where it was measured to be faster than torch.

Anything else is torch's own: small tensors, other types than float32, channels_last where torch's are as fast, tensors
under transforms, subclasses. What was measured: docs/training.md.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import _C
from torch.autograd import forward_ad

from .functions import _ints
from .memory import is_channels_last
from .norms import batch_norm
from .pools import avg_pool, max_pool

FROM_PLAIN = 1 << 18  # elements: the least for batch norm of contiguous tensors,
FROM_LAST = 1 << 20  # of those in channels_last, with a ReLU behind it,
FROM_POOLED = 1 << 17  # and for pooling
RELUS: dict[type, float] = {torch.nn.ReLU: math.inf, torch.nn.ReLU6: 6.0}
HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"


def _is_plain(x: Any, spatial: tuple[int, ...], least: int) -> bool:
    """Whether the operators take a tensor, of so many elements at least."""
    if type(x) is not torch.Tensor and type(x) is not torch.nn.Parameter and not torch.compiler.is_compiling():
        return False
    if x.numel() < least:
        return False
    if (
        x.dim() - 2 not in spatial
        or x.dtype != torch.float32
        or not (x.is_cpu or x.is_meta)
        or x.layout != torch.strided
    ):
        return False
    return not _C._are_functorch_transforms_active() and forward_ad._current_level < 0


def _batch_norm(module: Any, x: torch.Tensor, limit: float) -> torch.Tensor | None:
    """A module's batch normalisation in training, then a ReLU if `limit` is not 0; None where torch's is as fast."""
    if not module.training or not _is_plain(x, (1, 2, 3), FROM_PLAIN) or x.shape[1] != module.num_features:
        return None
    given = [t for t in (module.weight, module.bias, module.running_mean, module.running_var) if t is not None]
    if x.dim() > 3 and is_channels_last(x) and (not limit or x.numel() < FROM_LAST):
        return None
    if any(t.dtype != torch.float32 or t.device != x.device for t in given):
        return None
    count = x.numel() // x.shape[1]
    if count < 2 or (module.track_running_stats and module.momentum is None):
        return None
    if module.track_running_stats and module.num_batches_tracked is not None:
        module.num_batches_tracked.add_(1)
    y, mean, variance = batch_norm(x, module.weight, module.bias, None, None, module.eps, limit)
    if module.track_running_stats and module.running_mean is not None:
        with torch.no_grad():
            module.running_mean.lerp_(mean.to(torch.float32), module.momentum)
            module.running_var.lerp_((variance * (count / (count - 1))).to(torch.float32), module.momentum)
    return y


class _BatchNorm:
    """A batch normalisation of torch.nn, computed by layoutkit where that is faster."""

    def forward(self, input):
        y = _batch_norm(self, input, 0.0) if self.training else None
        return super().forward(input) if y is None else y


class BatchNorm1d(_BatchNorm, torch.nn.BatchNorm1d):
    """`torch.nn.BatchNorm1d`, computed by layoutkit where that is faster."""


class BatchNorm2d(_BatchNorm, torch.nn.BatchNorm2d):
    """`torch.nn.BatchNorm2d`, computed by layoutkit where that is faster."""


class BatchNorm3d(_BatchNorm, torch.nn.BatchNorm3d):
    """`torch.nn.BatchNorm3d`, computed by layoutkit where that is faster."""


def _is_bare(module: Any) -> bool:
    """Whether calling a module is calling its `forward`: nothing hooks into it."""
    return "forward" not in module.__dict__ and not any(getattr(module, hooks, None) for hooks in HOOKS)


class Sequential(torch.nn.Sequential):
    """`torch.nn.Sequential`, in which a batch normalisation and the ReLU behind it are one operation.

    In training, and where it is faster; both modules are called as ever if one of them has hooks.
    """

    def forward(self, input):
        if not self.training:
            return super().forward(input)
        modules = list(self._modules.values())
        at = 0
        while at < len(modules):
            module, y = modules[at], None
            after = modules[at + 1] if at + 1 < len(modules) else None
            if isinstance(module, _BatchNorm) and module.training and type(after) in RELUS:
                if _is_bare(module) and _is_bare(after):
                    y = _batch_norm(module, input, RELUS[type(after)])
            if y is None:
                input, at = module(input), at + 1
            else:
                input, at = y, at + 2
        return input


def _suits_pooling(x: Any) -> bool:
    return _is_plain(x, (2, 3), FROM_POOLED) and not is_channels_last(x)


def _windows(rank: int, kernel: Any, stride: Any, padding: Any) -> tuple[Any, ...] | None:
    """The attributes of windows, by axis; None where torch has to say what is wrong with them."""
    try:
        windows = [_ints("", "", value, rank, least) for value, least in ((kernel, 1), (stride, 1), (padding, 0))]
    except (TypeError, ValueError):
        return None
    return tuple(windows) if all(2 * p <= k for k, p in zip(windows[0], windows[2])) else None


class _MaxPool:
    """A maximum pooling of torch.nn, computed by layoutkit where that is faster."""

    def forward(self, input):
        if not self.return_indices and _suits_pooling(input):
            rank = input.dim() - 2
            windows = _windows(rank, self.kernel_size, self.stride, self.padding)
            dilation = (self.dilation,) * rank if isinstance(self.dilation, int) else tuple(self.dilation)
            if windows is not None and len(dilation) == rank and _has_outputs(input, *windows, dilation):
                return max_pool(input, *windows, dilation, self.ceil_mode)
        return super().forward(input)


class _AvgPool:
    """A mean pooling of torch.nn, computed by layoutkit where that is faster."""

    def forward(self, input):
        if self.divisor_override is None and _suits_pooling(input):
            rank = input.dim() - 2
            windows = _windows(rank, self.kernel_size, self.stride, self.padding)
            if windows is not None and _has_outputs(input, *windows, (1,) * rank):
                return avg_pool(input, *windows, self.ceil_mode, self.count_include_pad)
        return super().forward(input)


def _has_outputs(x: torch.Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any) -> bool:
    """Whether a window fits along each axis."""
    return all(n + 2 * p > d * (k - 1) for n, k, p, d in zip(x.shape[2:], kernel, padding, dilation))


class MaxPool2d(_MaxPool, torch.nn.MaxPool2d):
    """`torch.nn.MaxPool2d`, computed by layoutkit where that is faster."""


class MaxPool3d(_MaxPool, torch.nn.MaxPool3d):
    """`torch.nn.MaxPool3d`, computed by layoutkit where that is faster."""


class AvgPool2d(_AvgPool, torch.nn.AvgPool2d):
    """`torch.nn.AvgPool2d`, computed by layoutkit where that is faster."""


class AvgPool3d(_AvgPool, torch.nn.AvgPool3d):
    """`torch.nn.AvgPool3d`, computed by layoutkit where that is faster."""


LAYERS: dict[type, type] = {
    getattr(torch.nn, cls.__name__): cls
    for cls in (BatchNorm1d, BatchNorm2d, BatchNorm3d, Sequential, MaxPool2d, MaxPool3d, AvgPool2d, AvgPool3d)
}
