"""torch.ops.layoutkit: a convolution, the transposed one, and the gradient of a filter, the gradients of one another.

    y = conv(x, w)                  dx = conv_transpose(dy, w)      dw = conv_weight(x, dy)
    x = conv_transpose(y, w)        dy = conv(dx, w)                dw = conv_weight(dx, y)
    w = conv_weight(x, y)           dx = conv_transpose(y, dw)      dy = conv(x, dw)

Attributes are one number for each axis, padding two, (before, after). `channels_last` is the format of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import _C
from torch._C import DispatchKeySet
from torch.autograd import forward_ad
from torch.nn import functional

from ..convolutions.problem import out_sizes
from . import kernels, small
from .dispatching import dispatches_to_kernel
from .kernels import pairs
from .memory import is_channels_last
from .transforms import Rule, by_filter, by_gradient, transformed

ATTRIBUTES = "SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups, bool channels_last"
LIBRARY = torch.library.Library("layoutkit", "DEF")
Kernel = Callable[..., torch.Tensor]


class _Conv(torch.autograd.Function):
    """y = conv(x, w) + bias"""

    @staticmethod
    def forward(ctx, keys, x, w, bias, a):
        ctx.save_for_backward(x, w)
        ctx.a = a
        return _below(torch.ops.layoutkit.conv.default, kernels.conv, keys, x, w, bias, *a)

    @staticmethod
    def backward(ctx, dy):
        return None, *conv_gradients(*ctx.saved_tensors, dy, ctx.needs_input_grad[1:4], ctx.a), None


class ConvTranspose(torch.autograd.Function):
    """x = conv_transpose(y, w) + bias"""

    @staticmethod
    def forward(ctx, keys, y, w, bias, size, a):
        ctx.save_for_backward(y, w)
        ctx.a = a
        return _below(torch.ops.layoutkit.conv_transpose.default, kernels.conv_transpose, keys, y, w, bias, size, *a)

    @staticmethod
    def backward(ctx, dx):
        (y, w), needs, a = ctx.saved_tensors, ctx.needs_input_grad, ctx.a
        size, (stride, padding, dilation, *_) = y.shape[2:], a
        dy = dw = None
        direct = _is_direct(dx, y, w)
        if needs[1]:
            dy = (kernels.conv if direct else conv)(dx, w, None, *a)
            if dy.shape[2:] != size:
                dy = dy[(..., *(slice(n) for n in size))]
        if needs[2]:
            # With dilation, output_padding can exceed the stride, and conv(dx) has more outputs than `y`.
            extra = [
                n - m for n, m in zip(out_sizes(dx.shape[2:], w.shape[2:], stride, pairs(padding), dilation), size)
            ]
            full = functional.pad(y, [n for e in reversed(extra) for n in (0, e)]) if any(extra) else y
            dw = _filter_like(w, dx, full, a, direct)
        return None, dy, dw, bias_gradient(dx, direct) if needs[3] else None, None, None


class _ConvWeight(torch.autograd.Function):
    """w = conv_weight(x, y)"""

    @staticmethod
    def forward(ctx, keys, x, y, kernel, a):
        ctx.save_for_backward(x, y)
        ctx.a = a
        return _below(torch.ops.layoutkit.conv_weight.default, kernels.conv_weight, keys, x, y, kernel, *a)

    @staticmethod
    def backward(ctx, dw):
        (x, y), needs = ctx.saved_tensors, ctx.needs_input_grad
        dx = conv_transpose(y, dw, None, x.shape[2:], *ctx.a) if needs[1] else None
        return None, dx, conv(x, dw, None, *ctx.a) if needs[2] else None, None, None


def _filter_like(
    w: torch.Tensor, x: torch.Tensor, dy: torch.Tensor, a: Sequence[Any], direct: bool = False
) -> torch.Tensor:
    """The gradient of `w`, in its format."""
    sums = kernels.conv_weight if direct else conv_weight
    return sums(x, dy, w.shape[2:], *a[:-1], is_channels_last(w))


def conv_gradients(
    x: torch.Tensor, w: torch.Tensor, dy: torch.Tensor, needs: Sequence[bool], a: Sequence[Any]
) -> tuple[torch.Tensor | None, ...]:
    """Those of the input, the filter and the bias of `conv`, as far as they are needed."""
    direct = _is_direct(dy, x, w)
    dx = (kernels.conv_transpose if direct else conv_transpose)(dy, w, None, x.shape[2:], *a) if needs[0] else None
    dw = _filter_like(w, x, dy, a, direct) if needs[1] else None
    return dx, dw, bias_gradient(dy, direct) if needs[2] else None


def _is_direct(*tensors: torch.Tensor) -> bool:
    """Whether gradients are computed by kernels straight away: they need none themselves, and nothing traces."""
    if torch.is_grad_enabled() or forward_ad._current_level >= 0:
        return False
    return dispatches_to_kernel(*tensors)


def bias_gradient(dy: torch.Tensor, direct: bool = False) -> torch.Tensor:
    """The gradient of a bias."""
    return small.bias_gradient(dy) if direct else dy.sum((0, *range(2, dy.dim())))


# Autograd and dispatch. `keys` are the dispatch keys of a call, or None to call the kernel directly.


def _below(operator: Any, kernel: Kernel, keys: DispatchKeySet | None, *args: Any) -> torch.Tensor:
    """An operator below autograd: the kernel without `keys`, else what torch dispatches to (a trace, a batch, ..)."""
    if keys is None:
        return kernel(*args)
    with _C._AutoDispatchBelowAutograd():
        return operator.redispatch(keys & _C._after_autograd_keyset, *args)


def _operator(
    schema: str, kernel: Kernel, fake: Kernel, function: type[torch.autograd.Function], inputs: int,
    rule: Callable[[Kernel], Rule],
) -> Kernel:  # fmt: skip
    """Define an operator of torch, whose first `inputs` arguments are not attributes; returns a function that calls it.

    Autograd does what `torch.library.register_autograd` would, in a third of the time per call.
    """
    name = schema.partition("(")[0]
    LIBRARY.define(schema, tags=torch.Tag.pt2_compliant_tag)
    operator = getattr(torch.ops.layoutkit, name).default

    def differentiable(keys: DispatchKeySet | None, *args: Any) -> torch.Tensor:
        if forward_ad._current_level >= 0 and _C._is_fwd_grad_enabled():
            return under_transforms.apply(None, *args[:inputs], args[inputs:])
        if torch.is_grad_enabled() and _C._any_requires_grad(*args):
            return function.apply(keys, *args[:inputs], args[inputs:])
        return _below(operator, kernel, keys, *args)

    def call(*args: Any) -> torch.Tensor:
        if _C._are_functorch_transforms_active():
            return under_transforms.apply(None, *args[:inputs], args[inputs:])
        # Through the dispatcher a call takes 10 us more.
        return differentiable(None, *args) if dispatches_to_kernel(*args[:3]) else operator(*args)

    under_transforms = transformed(function, operator, call, rule(call))
    LIBRARY.impl(name, kernel, "CPU")
    LIBRARY.impl(name, differentiable, "Autograd", with_keyset=True)
    torch.library.register_fake(f"layoutkit::{name}", fake, lib=LIBRARY)
    return call


conv = _operator(
    f"conv(Tensor input, Tensor weight, Tensor? bias, {ATTRIBUTES}) -> Tensor",
    kernels.conv, kernels.new_conv, _Conv, 3, by_filter,
)  # fmt: skip
conv_transpose = _operator(
    f"conv_transpose(Tensor input, Tensor weight, Tensor? bias, SymInt[] size, {ATTRIBUTES}) -> Tensor",
    kernels.conv_transpose, kernels.new_conv_transpose, ConvTranspose, 4, by_filter,
)  # fmt: skip
conv_weight = _operator(
    f"conv_weight(Tensor input, Tensor grad_output, SymInt[] kernel, {ATTRIBUTES}) -> Tensor",
    kernels.conv_weight, kernels.new_conv_weight, _ConvWeight, 3, by_gradient,
)  # fmt: skip
