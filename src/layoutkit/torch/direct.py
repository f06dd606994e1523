"""Calls of users that go straight to what is kept of calls like them; gradients by one lean autograd function."""

from __future__ import annotations

from typing import Any

import torch

from .._core.nests.convolutions.small import Small
from . import kernels, operators
from .memory import is_channels_last
from .small import CONV, CONV_TRANSPOSE, KINDS, PUBLIC, bias_gradient, calls, flops

LAYER = PUBLIC + len(KINDS)  # added to a kind: calls of layers, of which only the tiniest are kept
LAYER_CONV = LAYER + CONV
TINY_FLOPS = 1 << 16  # a microsecond or two: nothing is to be gained by trying which way is faster


class _Conv(torch.autograd.Function):
    """y = conv(x, w) + bias"""

    @staticmethod
    def forward(ctx, x, w, bias, small):
        ctx.save_for_backward(x, w)
        ctx.a = small.attributes
        y = calls.over(small, x, w, bias)
        return kernels.conv(x, w, bias, *ctx.a) if y is None else y

    @staticmethod
    def backward(ctx, dy):
        (x, w), needs, a = ctx.saved_tensors, ctx.needs_input_grad, ctx.a
        if not calls.has_no_gradients(dy, x, w):
            return *operators.conv_gradients(x, w, dy, needs, a), None
        dx = kernels.conv_transpose(dy, w, None, x.shape[2:], *a) if needs[0] else None
        dw = kernels.conv_weight(x, dy, w.shape[2:], *a[:-1], is_channels_last(w)) if needs[1] else None
        return dx, dw, bias_gradient(dy) if needs[2] else None, None


# What `Function.apply` does more is for transforms, under which no call comes here.
differentiable = super(torch.autograd.Function, _Conv).apply


def conv(input: Any, weight: Any, bias: Any, *attributes: Any) -> torch.Tensor | None:
    """The result of `functions.conv`, if a call like this one was kept; of arguments that were not checked."""
    if calls is None or torch.compiler.is_compiling():
        return None
    return calls.call(PUBLIC + CONV, differentiable, input, weight, bias, *attributes)


def keep_layer(given: tuple[Any, ...], *attributes: Any) -> None:
    """Keep the call of a layer on plain tensors that fit, if its work is tiny.

    Parameters
    ----------
    given : tuple
        (input, weight, bias, stride, padding, dilation, groups), as the layer has them.
    *attributes
        As the operator has them.
    """
    x, w, bias = given[:3]
    if calls is None or x.numel() > TINY_FLOPS or w.numel() > TINY_FLOPS:
        return
    with torch.no_grad():
        y = kernels.conv(x, w, bias, *attributes)
    if flops(CONV, x, w, y) <= TINY_FLOPS:
        keep(CONV, given, given[:3], *attributes, offset=LAYER)


def _transposed(y: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, small: Any) -> torch.Tensor:
    size, *a = small.attributes
    return operators.ConvTranspose.apply(None, y, w, bias, size, a)


def conv_transpose(input: Any, weight: Any, bias: Any, *attributes: Any) -> torch.Tensor | None:
    """Likewise, of `functions.conv_transpose`."""
    if calls is None or torch.compiler.is_compiling():
        return None
    return calls.call(PUBLIC + CONV_TRANSPOSE, _transposed, input, weight, bias, *attributes)


def keep(
    kind: int, given: tuple[Any, ...], tensors: tuple[Any, ...], *attributes: Any, offset: int = PUBLIC
) -> None:  # fmt: skip
    """Keep a user's call with what is kept of the operator's.

    Parameters
    ----------
    kind : int
    given : tuple
        What the user gave: three tensors, and attributes in any form.
    tensors : (Tensor, Tensor, Tensor or None)
        What the operator was given: nothing is kept if it was other tensors.
    *attributes
        As the operator has them.
    offset : int
        PUBLIC or LAYER.
    """
    if calls is None or torch.compiler.is_compiling() or any(a is not b for a, b in zip(given, tensors)):
        return
    small = calls.find(kind, *tensors, *attributes)
    if isinstance(small, Small):
        calls.keep(small, offset + kind, *given)
