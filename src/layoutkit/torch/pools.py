"""torch.ops.layoutkit.max_pool, avg_pool and their gradients, in one to three dimensions.

Attributes are one number for each axis, as torch's pooling has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from ..choosing.cache import Cache
from ..grad.arguments import activations
from ..grad.pool import Pooling, checked, pooled, pooled_back
from .dispatching import applied, dispatches_to_kernel
from .memory import LAYOUTS, Form, memory, new
from .norms import gives_format, in_format
from .operators import LIBRARY
from .threads import on_torch_threads

MAXIMA = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
MEANS = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}
MAX_KEPT = 1024  # calls


def max_by_torch(x, kernel, stride, padding, dilation, ceil_mode) -> torch.Tensor:
    return MAXIMA[x.dim() - 2](x, kernel, stride, padding, dilation, ceil_mode)


def avg_by_torch(x, kernel, stride, padding, ceil_mode, count_include_pad) -> torch.Tensor:
    return MEANS[x.dim() - 2](x, kernel, stride, padding, ceil_mode, count_include_pad)


_kept = Cache(MAX_KEPT)  # what was checked, without the array, and the form of that


def _physical(tensor: torch.Tensor, last: bool) -> Any:
    array = memory(tensor)
    return array.transpose(0, *range(2, array.ndim), 1) if last else array


def _checked(
    mean: bool, x: torch.Tensor, last: bool, kernel: Sequence[int], stride, padding, ceil_mode: bool, **more: Any
) -> Pooling:
    """The checked call on a tensor in channels_last, or contiguous."""
    rank, threads = x.dim() - 2, torch.get_num_threads()
    key = mean, x.dtype, x.shape, last, *kernel, *stride, *padding, ceil_mode, *more.values(), threads
    kept = _kept.get(key)
    if kept is not None:
        p, form = kept
        return p._replace(source=p.source._replace(array=form.array(x)))
    array = _physical(x, last)
    p = checked(
        f"layoutkit.torch.{'avg' if mean else 'max'}_pool{rank}d", rank, mean, array, tuple(kernel),
        layout=LAYOUTS[rank][last], stride=tuple(stride), padding=tuple(padding), ceil_mode=ceil_mode,
        dtype=("bfloat16", "bfloat16") if x.dtype == torch.bfloat16 else None, threads=threads, **more,
    )  # fmt: skip
    _kept.put(key, (p._replace(source=p.source._replace(array=np.empty(0, array.dtype))), Form.of(array)))
    return p


@on_torch_threads
def _forward(mean: bool, x: torch.Tensor, *attributes: Any, **more: Any) -> torch.Tensor:
    last = gives_format(x)
    x = in_format(x, last)
    p = _checked(mean, x, last, *attributes, **more)
    y = new(x, p.shape, last)
    if y.numel():
        pooled(p, _physical(y, last))
    return y


@on_torch_threads
def _backward(mean: bool, dy: torch.Tensor, x: torch.Tensor, *attributes: Any, **more: Any) -> torch.Tensor:
    last = gives_format(x)
    x = in_format(x, last)
    p = _checked(mean, x, last, *attributes, **more)
    dx = new(x, x.shape, last)
    if dx.numel():
        array = _physical(in_format(dy, last), last)
        names = "grad_output", "grad_layout"
        gradient = activations(array, p.layout, p.shape, x.dim() - 2, p.what, names)
        pooled_back(p, mean, gradient, _physical(dx, last))
    return dx


def _max_pool(x, kernel, stride, padding, dilation, ceil_mode) -> torch.Tensor:
    return _forward(False, x, kernel, stride, padding, ceil_mode, dilation=tuple(dilation))


def _max_pool_backward(dy, x, kernel, stride, padding, dilation, ceil_mode) -> torch.Tensor:
    return _backward(False, dy, x, kernel, stride, padding, ceil_mode, dilation=tuple(dilation))


def _avg_pool(x, kernel, stride, padding, ceil_mode, count_include_pad) -> torch.Tensor:
    return _forward(True, x, kernel, stride, padding, ceil_mode, count_include_pad=count_include_pad)


def _avg_pool_backward(dy, x, kernel, stride, padding, ceil_mode, count_include_pad) -> torch.Tensor:
    return _backward(True, dy, x, kernel, stride, padding, ceil_mode, count_include_pad=count_include_pad)


def _new_gradient(dy, x, *attributes) -> torch.Tensor:
    return new(x, x.shape, gives_format(x))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.attributes = inputs[1:]


def _define(name: str, attributes: str, forward: Any, backward: Any, by_torch: Any) -> Callable[..., torch.Tensor]:
    """An operator and its gradient; gradients of gradients are torch's.

    Returns a function that calls it, with less around it than torch has where that is possible.
    """
    tags = torch.Tag.pt2_compliant_tag
    LIBRARY.define(f"{name}(Tensor input, {attributes}) -> Tensor", tags=tags)
    LIBRARY.define(f"{name}_backward(Tensor grad_output, Tensor input, {attributes}) -> Tensor", tags=tags)
    operator = getattr(torch.ops.layoutkit, f"{name}_backward").default

    def gradients(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            (dx,) = torch.autograd.grad(by_torch(x, *ctx.attributes), x, dy, create_graph=True)
        else:
            dx = (backward if dispatches_to_kernel(dy, x) else operator)(dy, x, *ctx.attributes)
        return dx, *(None,) * len(ctx.attributes)

    def fake(x: torch.Tensor, *attributes: Any) -> torch.Tensor:
        return new(x, by_torch(x, *attributes).shape, gives_format(x))  # torch's own avg_pool3d loses channels_last_3d

    LIBRARY.impl(name, forward, "CPU")
    LIBRARY.impl(f"{name}_backward", backward, "CPU")
    torch.library.register_fake(f"layoutkit::{name}", fake, lib=LIBRARY)
    torch.library.register_fake(f"layoutkit::{name}_backward", _new_gradient, lib=LIBRARY)
    torch.library.register_autograd(f"layoutkit::{name}", gradients, setup_context=_setup, lib=LIBRARY)
    pooling = getattr(torch.ops.layoutkit, name).default

    class Pooling(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            _setup(ctx, inputs, (y := forward(*inputs)))
            return y

        backward = staticmethod(gradients)

    def call(x: torch.Tensor, *attributes: Any) -> torch.Tensor:
        return applied(Pooling, forward, pooling, (x,), x, *attributes)

    return call


_WINDOWS = "SymInt[] kernel, SymInt[] stride, SymInt[] padding"
max_pool = _define(
    "max_pool", f"{_WINDOWS}, SymInt[] dilation, bool ceil_mode", _max_pool, _max_pool_backward, max_by_torch
)
avg_pool = _define(
    "avg_pool", f"{_WINDOWS}, bool ceil_mode, bool count_include_pad", _avg_pool, _avg_pool_backward, avg_by_torch
)
