"""The operators under the transforms of torch.func: grad, vmap, jvp, and what is built of them.

A transform needs an operator apart from what is saved for its gradients, a rule for batches, and tangents. All three
operators are linear in each of their tensors. A batch of images becomes a larger one of images, one of filters groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Call = Callable[..., torch.Tensor]
Rule = Callable[..., tuple[torch.Tensor, int]]


def transformed(function: type[Any], operator: Any, call: Call, batched: Rule) -> type[torch.autograd.Function]:
    """The autograd function of an operator under transforms.

    Parameters
    ----------
    function
        That without transforms: its gradients are the same. Its arguments are (keys, two tensors, .., attributes).
    operator
        Of `torch.ops`.
    call
        The operator, as transforms take it.
    batched
        What `torch.autograd.Function.vmap` does, without its first argument.
    """

    class Transformed(torch.autograd.Function):
        @staticmethod
        def forward(keys, first, second, *rest):
            *others, a = rest
            return operator(first, second, *others, *a)

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, first, second, *others, a = inputs
            ctx.save_for_backward(first, second)
            ctx.save_for_forward(first, second)
            ctx.a, ctx.others = a, [None if isinstance(o, torch.Tensor) else o for o in others]

        @staticmethod
        def backward(ctx, gradient):
            return function.backward(ctx, gradient)

        @staticmethod
        def jvp(ctx, _, first, second, *rest):
            x, w = ctx.saved_tensors
            if first is None and second is None:
                first = torch.zeros_like(x)
            pairs = [pair for pair in ((first, w), (x, second)) if pair[0] is not None and pair[1] is not None]
            parts = [call(*pair, *ctx.others, *ctx.a) for pair in pairs]
            if rest and isinstance(rest[0], torch.Tensor):  # of the bias
                parts.append(rest[0].reshape(-1, *(1,) * (x.dim() - 2)))
            return sum(parts[1:], parts[0])

        @staticmethod
        def vmap(info, in_dims, keys, *arguments):
            return batched(info.batch_size, in_dims[1:], *arguments)

    return Transformed


def _first(tensor: torch.Tensor, axis: int | None, count: int) -> torch.Tensor:
    """A tensor with the batch as its first axis."""
    return tensor.unsqueeze(0).expand(count, *tensor.shape) if axis is None else tensor.movedim(axis, 0)


def _as_channels(tensor: torch.Tensor) -> torch.Tensor:
    """(B, N, C, ..) as (N, B * C, ..)."""
    return tensor.transpose(0, 1).flatten(1, 2)


def _from_channels(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """(N, B * C, ..) as (B, N, C, ..)."""
    return tensor.unflatten(1, (count, -1)).transpose(0, 1)


def _grouped(a: Sequence[Any], count: int) -> tuple[Any, ...]:
    *others, groups, channels_last = a
    return (*others, groups * count, channels_last)


def by_filter(call: Call) -> Rule:
    """The rule of a convolution or a transposed one, which `call` calls."""

    def rule(count, axes, x, w, bias, *rest):
        *others, a = rest
        in_x, in_w, in_bias = axes[:3]
        if in_w is None and in_bias is None:
            images = x.movedim(in_x, 0)
            y = call(images.flatten(0, 1), w, bias, *others, *a)
            return y.unflatten(0, (count, images.shape[1])), 0
        filters = _first(w, in_w, count).flatten(0, 1)
        biases = None if bias is None else _first(bias, in_bias, count).flatten()
        y = call(_as_channels(_first(x, in_x, count)), filters, biases, *others, *_grouped(a, count))
        return _from_channels(y, count), 0

    return rule


def by_gradient(call: Call) -> Rule:
    """The rule of the gradient of a filter."""

    def rule(count, axes, x, dy, kernel, a):
        tensors = [_as_channels(_first(t, axis, count)) for t, axis in zip((x, dy), axes)]
        return call(*tensors, kernel, *_grouped(a, count)).unflatten(0, (count, -1)), 0

    return rule
