"""torch.ops.layoutkit.batch_norm and its gradient, with a sum and a ReLU behind it or not.

    y = relu(weight * (x - mean) / sqrt(variance + eps) + bias + add)

`limit` is that of the ReLU: 0 for none, infinite for an ordinary one, 6 for ReLU6. Statistics are of float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from .._core.nests.norms import batch_norm as nest
from .dispatching import applied, dispatches_to_kernel
from .memory import is_channels_last, memory, new
from .operators import LIBRARY
from .threads import on_torch_threads

ELEMENTS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def gives_format(x: torch.Tensor) -> bool:
    """Whether results are in channels_last; in one dimension torch has none."""
    return x.dim() > 3 and is_channels_last(x)


def _axes(tensor: torch.Tensor, last: bool) -> np.ndarray:
    """Memory in that format as axes image, group, pixel, channel of the group, see the nest."""
    array, (n, c, *spatial) = memory(tensor), tensor.shape
    if last:
        return array.transpose(0, *range(2, array.ndim), 1).reshape(1, 1, n * math.prod(spatial), c)
    return array.reshape(n, c, math.prod(spatial), 1)


def in_format(tensor: torch.Tensor, last: bool) -> torch.Tensor:
    """The tensor, or a copy, in channels_last or contiguous."""
    if not last:
        return tensor.contiguous()
    return tensor.contiguous(memory_format=torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d)


def wide(tensor: torch.Tensor | None) -> np.ndarray | None:
    return None if tensor is None else tensor.detach().to(torch.float64).contiguous().numpy()


def _new_batch_norm(x, weight, bias, mean, variance, eps, limit, add=None) -> tuple[torch.Tensor, ...]:
    statistics = [x.new_empty(x.shape[1], dtype=torch.float64) for _ in range(2)]
    return new(x, x.shape, gives_format(x)), *statistics


@on_torch_threads
def forward(x, weight, bias, mean, variance, eps, limit, add=None) -> tuple[torch.Tensor, ...]:
    if x.dtype not in ELEMENTS or x.dim() < 2:
        raise TypeError(f"layoutkit::batch_norm: input of {x.dtype} and shape {tuple(x.shape)}, expected float32, "
                        "bfloat16 or float16 of images and channels at least")  # fmt: skip
    if (mean is None) != (variance is None):
        raise TypeError("layoutkit::batch_norm: mean and variance, expected both or neither")
    if add is not None and (add.shape != x.shape or add.dtype != x.dtype):
        raise TypeError(f"layoutkit::batch_norm: add of {add.dtype} and shape {tuple(add.shape)}, expected {x.dtype} "
                        f"and {tuple(x.shape)}, as of the input")  # fmt: skip
    last = gives_format(x)
    y, average, spread = _new_batch_norm(x, weight, bias, mean, variance, eps, limit)
    given = mean is not None
    if given:
        average.copy_(mean)
        spread.copy_(variance)
    nest.batch_norm(
        ELEMENTS[x.dtype], _axes(in_format(x, last), last), _axes(y, last), wide(weight), wide(bias),
        average.numpy(), spread.numpy(), eps, torch.get_num_threads(), given=given, limit=limit,
        add=None if add is None else _axes(in_format(add, last), last),
    )  # fmt: skip
    return y, average, spread


def _new_backward(dy, x, weight, bias, mean, variance, eps, limit, given, result=None) -> tuple[torch.Tensor, ...]:
    last = gives_format(x)
    more = x.new_empty(0) if result is None else new(x, x.shape, last)
    return new(x, x.shape, last), torch.empty_like(mean), torch.empty_like(mean), more


@on_torch_threads
def backward(dy, x, weight, bias, mean, variance, eps, limit, given, result=None) -> tuple[torch.Tensor, ...]:
    last = gives_format(x)
    dx, products, sums, more = _new_backward(dy, x, weight, bias, mean, variance, eps, limit, given, result)
    summed = {}
    if result is not None:
        summed = {"add": _axes(more, last), "result": _axes(in_format(result, last), last)}
    nest.batch_norm(
        ELEMENTS[x.dtype], _axes(in_format(x, last), last), _axes(dx, last), wide(weight), wide(bias),
        memory(mean), memory(variance), eps, torch.get_num_threads(), dy=_axes(in_format(dy, last), last),
        sums=sums.numpy(), products=products.numpy(), given=given, limit=limit, **summed,
    )  # fmt: skip
    return dx, products, sums, more


def by_torch(x, weight, bias, mean, variance, eps, limit, add=None) -> torch.Tensor:
    """The same by torch: what it has more, gradients of gradients and transforms, is torch's."""
    y = functional.batch_norm(x, mean, variance, weight, bias, mean is None, 0.0, eps)
    if add is not None:
        y = y + add
    if not limit:
        return y
    return functional.relu(y) if math.isinf(limit) else functional.hardtanh(y, 0.0, limit)


def passed(dy: torch.Tensor, result: torch.Tensor, limit: float) -> torch.Tensor:
    """What a ReLU with this result passes of a gradient."""
    flat = result <= 0 if math.isinf(limit) else (result <= 0) | (result >= limit)
    return torch.where(flat, 0, dy)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    x, weight, bias, mean, variance, ctx.eps, ctx.limit, *add = inputs  # those of an operator without its defaults
    ctx.given = mean is not None
    ctx.summed = any(t is not None for t in add)
    result = output[0] if ctx.summed and ctx.limit else None  # where the ReLU was flat
    ctx.save_for_backward(x, weight, bias, mean, variance, result, *output[1:])
    ctx.mark_non_differentiable(*output[1:])


def _gradients(ctx: Any, dy: torch.Tensor, *_: Any) -> tuple[torch.Tensor | None, ...]:
    x, weight, bias, running_mean, running_variance, result, mean, variance = ctx.saved_tensors
    nothing = (None,) * 4
    if torch.is_grad_enabled():
        limit = ctx.limit
        if result is not None:
            dy, limit = passed(dy, result, limit), 0.0
        inputs, needs = (x, weight, bias), ctx.needs_input_grad
        wanted = [t for t, needed in zip(inputs, needs) if needed]
        y = by_torch(x, weight, bias, running_mean, running_variance, ctx.eps, limit)
        found = iter(torch.autograd.grad(y, wanted, dy, create_graph=True) if wanted else ())
        return (
            *(next(found) if needed else None for needed in needs[:3]),
            *nothing,
            *(dy if needed else None for needed in needs[7:]),
        )
    direct = dispatches_to_kernel(dy, x)
    gradients = backward if direct else torch.ops.layoutkit.batch_norm_backward.default
    dx, dw, db, d = gradients(dy, x, weight, bias, mean, variance, ctx.eps, ctx.limit, ctx.given, result)
    if result is None:
        d = dy if ctx.summed else None
    dw, db = None if weight is None else dw.to(weight.dtype), None if bias is None else db.to(bias.dtype)
    return dx, dw, db, *nothing, *(d for _ in ctx.needs_input_grad[7:])


_TENSORS = "Tensor input, Tensor? weight, Tensor? bias, Tensor{0} mean, Tensor{0} variance, float eps, float limit"
LIBRARY.define(
    f"batch_norm({_TENSORS.format('?')}, Tensor? add=None) -> (Tensor, Tensor, Tensor)",
    tags=torch.Tag.pt2_compliant_tag,
)
LIBRARY.define(
    f"batch_norm_backward(Tensor grad_output, {_TENSORS.format('')}, bool given, Tensor? result=None)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    tags=torch.Tag.pt2_compliant_tag,
)
LIBRARY.impl("batch_norm", forward, "CPU")
LIBRARY.impl("batch_norm_backward", backward, "CPU")
torch.library.register_fake("layoutkit::batch_norm", _new_batch_norm, lib=LIBRARY)
torch.library.register_fake("layoutkit::batch_norm_backward", _new_backward, lib=LIBRARY)
torch.library.register_autograd("layoutkit::batch_norm", _gradients, setup_context=_setup, lib=LIBRARY)


class _BatchNorm(torch.autograd.Function):
    """Of what autograd of the operator does, what is needed where nothing traces."""

    @staticmethod
    def forward(ctx, *inputs):
        output = forward(*inputs)
        _setup(ctx, inputs, output)
        return output

    backward = staticmethod(_gradients)


def batch_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, mean: torch.Tensor | None,
    variance: torch.Tensor | None, eps: float, limit: float, add: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """The result of `torch.ops.layoutkit.batch_norm`, with less around it where that is possible."""
    operator, tensors = torch.ops.layoutkit.batch_norm.default, (x, weight, bias, mean, variance, add)
    return applied(_BatchNorm, forward, operator, tensors, *tensors[:5], eps, limit, add)


def normalised(
    x: torch.Tensor, mean: torch.Tensor | None, variance: torch.Tensor | None, weight: torch.Tensor | None,
    bias: torch.Tensor | None, momentum: float, eps: float, limit: float, add: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    """`x` normalised by its own statistics, which running ones, if there are any, move towards."""
    y, own_mean, own_variance = batch_norm(x, weight, bias, None, None, eps, limit, add)
    move(mean, variance, own_mean, own_variance, x.numel() // x.shape[1], momentum)
    return y


def move(
    mean: torch.Tensor | None, variance: torch.Tensor | None, own_mean: torch.Tensor, own_variance: torch.Tensor,
    count: int, momentum: float,
) -> None:  # fmt: skip
    """Move running statistics, if there are any, towards those of `count` numbers by channel."""
    if mean is not None and variance is not None:
        with torch.no_grad():
            mean.lerp_(own_mean.to(mean.dtype), momentum)
            variance.lerp_((own_variance * (count / (count - 1))).to(variance.dtype), momentum)
