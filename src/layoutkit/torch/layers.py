"""Batch normalisation and pooling of torch.nn, computed by layoutkit where it was measured to be faster than torch."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import torch
from torch.compiler import is_compiling
from torch.fx import Proxy
from torch.nn.modules import module as everywhere

from . import functional
from .functional import avg_pool2d, avg_pool3d, batch_norm_by_kernel, max_pool2d, max_pool3d

OfChannels: TypeAlias = "torch.Tensor | None"
RELUS: dict[type, float] = {torch.nn.ReLU: math.inf, torch.nn.ReLU6: 6.0}
HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"


def batch_norm(module: Any, x: torch.Tensor, limit: float) -> torch.Tensor | None:
    """A module's batch normalisation in training, then a ReLU if `limit` is not 0; None where torch's is as fast."""
    if type(x) is torch.Tensor and functional.is_small(x, functional.FROM_PLAIN):
        return None
    if isinstance(x, Proxy) or x.dim() < 2 or x.shape[1] != module.num_features or not moves(module):
        return None
    module._check_input_dim(x)
    y = batch_norm_by_kernel(x, *statistics(module), module.momentum, module.eps, limit)
    return y if y is None else counted(module, y)


def moves(module: Any) -> bool:
    """Whether a module in training normalises by statistics of its input, towards which its own move by a factor."""
    return module.training and not (module.track_running_stats and module.momentum is None)


def statistics(module: Any) -> tuple[OfChannels, OfChannels, OfChannels, OfChannels]:
    """Running mean and variance, if a module has them, weight and bias."""
    tracks = module.track_running_stats
    mean, variance = (module.running_mean, module.running_var) if tracks else (None, None)
    return mean, variance, module.weight, module.bias


def counted(module: Any, y: torch.Tensor) -> torch.Tensor:
    """What was normalised; the module counts it."""
    if module.track_running_stats and module.num_batches_tracked is not None:
        module.num_batches_tracked.add_(1)
    return y


def _recorded(module: torch.nn.Module, traced: Proxy) -> Proxy:
    """A call of a module in the graph that `torch.fx.symbolic_trace` makes, as it records those of torch.nn."""
    tracer: Any = traced.tracer
    return tracer.create_proxy("call_module", tracer.path_of_module(module), (traced,), {})


class _BatchNorm:
    """A batch normalisation of torch.nn, computed by layoutkit where that is faster."""

    def forward(self, input):
        if isinstance(input, Proxy) and input.tracer.root is not self:
            return _recorded(self, input)
        if self.training and type(input) is torch.Tensor and functional.is_small(input, functional.FROM_PLAIN):
            return self._small(input)
        y = batch_norm(self, input, 0.0) if self.training else None
        return super().forward(input) if y is None else y

    def _small(self, x):
        """What torch's module does in training, with less around it."""
        counted, momentum = self.num_batches_tracked, self.momentum
        if (
            momentum is None
            or counted is None
            or not self.track_running_stats
            or not functional.is_verified(x, self.eps)
        ):
            return super().forward(x)
        self._check_input_dim(x)
        counted.add_(1)
        return torch.batch_norm(
            x, self.weight, self.bias, self.running_mean, self.running_var, True, momentum, self.eps, False
        )


class BatchNorm1d(_BatchNorm, torch.nn.BatchNorm1d):
    """`torch.nn.BatchNorm1d`, computed by layoutkit where that is faster."""


class BatchNorm2d(_BatchNorm, torch.nn.BatchNorm2d):
    """`torch.nn.BatchNorm2d`, computed by layoutkit where that is faster."""


class BatchNorm3d(_BatchNorm, torch.nn.BatchNorm3d):
    """`torch.nn.BatchNorm3d`, computed by layoutkit where that is faster."""


def is_bare(module: Any) -> bool:
    """Whether calling a module is calling its `forward`: nothing hooks into it, or into all modules."""
    if "forward" in module.__dict__ or any(getattr(module, hooks, None) for hooks in HOOKS):
        return False
    return not any(getattr(everywhere, f"_global{hooks}", None) for hooks in HOOKS)


class _MaxPool:
    """A maximum pooling of torch.nn, computed by layoutkit where that is faster."""

    def forward(self, input):
        if self.return_indices:
            return super().forward(input)
        return self._pool(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)


class _AvgPool:
    """A mean pooling of torch.nn, computed by layoutkit where that is faster."""

    def forward(self, input):
        small = type(input) is torch.Tensor and not is_compiling() and input.numel() < functional.FROM_POOLED
        return (self._of_torch if small else self._pool)(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip


class MaxPool2d(_MaxPool, torch.nn.MaxPool2d):
    """`torch.nn.MaxPool2d`, computed by layoutkit where that is faster."""

    _pool = staticmethod(max_pool2d)


class MaxPool3d(_MaxPool, torch.nn.MaxPool3d):
    """`torch.nn.MaxPool3d`, computed by layoutkit where that is faster."""

    _pool = staticmethod(max_pool3d)


class AvgPool2d(_AvgPool, torch.nn.AvgPool2d):
    """`torch.nn.AvgPool2d`, computed by layoutkit where that is faster."""

    _pool, _of_torch = staticmethod(avg_pool2d), staticmethod(functional.avg_pool2d_of_torch)


class AvgPool3d(_AvgPool, torch.nn.AvgPool3d):
    """`torch.nn.AvgPool3d`, computed by layoutkit where that is faster."""

    _pool, _of_torch = staticmethod(avg_pool3d), staticmethod(functional.avg_pool3d_of_torch)


LAYERS: dict[type, type] = {
    getattr(torch.nn, cls.__name__): cls
    for cls in (BatchNorm1d, BatchNorm2d, BatchNorm3d, MaxPool2d, MaxPool3d, AvgPool2d, AvgPool3d)
}
