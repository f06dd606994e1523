"""What `torch.ops.layoutkit` computes: a convolution, the transposed one, and the gradient of a filter.

Padding is two numbers for each axis, (before, after). Of a call that succeeded what does not depend on the numbers is
kept, for calls on tensors of the same shapes, strides and types: of a small one it is most of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from .. import grad
from ..choosing.cache import Cache
from ..convolutions import conv as convolutions
from ..convolutions import transposed
from ..convolutions.order import reproducible
from ..convolutions.problem import Pairs, in_sizes
from ..grad.arguments import outputs
from ..grad.weight import repeatable
from . import small
from .memory import Form, filter_view, memory, new, view
from .threads import on_torch_threads

CONVOLUTIONS = {1: convolutions.conv1d, 2: convolutions.conv2d, 3: convolutions.conv3d}
TRANSPOSED = {1: transposed.conv_transpose1d, 2: transposed.conv_transpose2d, 3: transposed.conv_transpose3d}
WEIGHTS = {1: grad.conv1d_weight, 2: grad.conv2d_weight, 3: grad.conv3d_weight}
MAX_KEPT = 1024  # calls


class Repeatable(NamedTuple):
    """A call on tensors of some forms."""

    shape: tuple[int, ...]  # of the result
    forms: tuple[Form, Form, Form]  # of the two tensors and the result
    run: Any


_kept = Cache(MAX_KEPT)


def _key(what: str, first: torch.Tensor, second: torch.Tensor, size: Sequence[int], attributes: Sequence[Any]) -> tuple:
    stride, padding, dilation, groups, channels_last = attributes
    return (
        what, first.dtype, first.shape, first.stride(), second.dtype, second.shape, second.stride(), *size, *stride,
        *padding, *dilation, groups, channels_last, torch.get_num_threads(), reproducible(),
    )  # fmt: skip


def pairs(padding: Sequence[int]) -> Pairs:
    """Padding by axis."""
    return tuple(zip(padding[::2], padding[1::2]))


def _options(tensor: torch.Tensor, stride, padding, dilation, groups) -> dict[str, Any]:
    """Attributes as keyword arguments of the operations of layoutkit."""
    return {
        "stride": tuple(stride), "padding": pairs(padding), "dilation": tuple(dilation), "groups": groups,
        "dtype": ("bfloat16", "bfloat16") if tensor.dtype == torch.bfloat16 else None,
        "threads": torch.get_num_threads(),
    }  # fmt: skip


def new_conv(x, w, bias, stride, padding, dilation, groups, channels_last) -> torch.Tensor:
    """The result of `conv`, with nothing in it."""
    size, kernel = tuple(x.shape[2:]), tuple(w.shape[2:])
    out_size = outputs(size, kernel, stride, pairs(padding), dilation, f"layoutkit.torch.conv{len(size)}d")
    return new(x, (x.shape[0], w.shape[0], *out_size), channels_last)


def conv(x, w, bias, *attributes) -> torch.Tensor:
    result = small.run(small.CONV, x, w, bias, *attributes)
    if result is None:
        result = _conv(x, w, bias, *attributes)
        small.keep(small.CONV, x, w, bias, result, None, *attributes)
    return result


@on_torch_threads
def _conv(x, w, bias, *attributes) -> torch.Tensor:
    key = _key("conv", x, w, (), attributes)
    kept = _kept.get(key)
    if kept is not None:
        return _convolved(kept, x, w, bias, attributes[-1])
    y = new_conv(x, w, bias, *attributes)
    if y.numel():
        src, filters, dst, options = view(x), filter_view(w), view(y), _options(x, *attributes[:-1])
        options |= {"layout": src.layout, "out_layout": dst.layout, "filter_layout": filters.layout}
        rank, biases = x.dim() - 2, None if bias is None else memory(bias)
        CONVOLUTIONS[rank](src.array, filters.array, biases, out=dst.array, **options)
        op = convolutions.CLASSES[rank].once(filters.array, **options).emptied()
        _keep(key, op.repeatable(src.array, dst.array), y, src, filters, dst)
    return y


def _keep(key: tuple, run: Any, result: torch.Tensor, *views: Any) -> None:
    first, second, third = (Form.of(of.array) for of in views)
    _kept.put(key, Repeatable(tuple(result.shape), (first, second, third), run))


def _convolved(kept: Repeatable, x, w, bias, channels_last: bool) -> torch.Tensor:
    y, (src, filters, dst) = new(x, kept.shape, channels_last), kept.forms
    kept.run(src.array(x), filters.array(w), None if bias is None else memory(bias), dst.array(y))
    return y


def new_conv_transpose(x, w, bias, size, stride, padding, dilation, groups, channels_last) -> torch.Tensor:
    """The result of `conv_transpose`, with nothing in it."""
    return new(x, (x.shape[0], w.shape[1] * groups, *size), channels_last)


def conv_transpose(x, w, bias, size, *attributes) -> torch.Tensor:
    result = small.run(small.CONV_TRANSPOSE, x, w, bias, size, *attributes)
    if result is None:
        result = _conv_transpose(x, w, bias, size, *attributes)
        small.keep(small.CONV_TRANSPOSE, x, w, bias, result, size, *attributes)
    return result


@on_torch_threads
def _conv_transpose(x, w, bias, size, *attributes) -> torch.Tensor:
    key = _key("conv_transpose", x, w, size, attributes)
    kept = _kept.get(key)
    if kept is not None:
        return _convolved(kept, x, w, bias, attributes[-1])
    y = new_conv_transpose(x, w, bias, size, *attributes)
    if y.numel():
        src, filters, dst, options = view(x), filter_view(w), view(y), _options(x, *attributes[:-1])
        minimal = in_sizes(x.shape[2:], w.shape[2:], options["stride"], options["padding"], options["dilation"])
        # The outputs of the convolution whose gradient this is are inputs here.
        names = filters.layout.translate(str.maketrans("OI", "IO"))
        options |= {"layout": src.layout, "out_layout": dst.layout, "filter_layout": names,
                    "output_padding": tuple(n - m for n, m in zip(size, minimal))}  # fmt: skip
        rank, biases = x.dim() - 2, None if bias is None else memory(bias)
        TRANSPOSED[rank](src.array, filters.array, biases, out=dst.array, **options)
        op = transposed.CLASSES[rank].once(filters.array, **options).emptied()
        _keep(key, op.repeatable(src.array, dst.array), y, src, filters, dst)
    return y


def new_conv_weight(x, dy, kernel, stride, padding, dilation, groups, channels_last) -> torch.Tensor:
    """The result of `conv_weight`, with nothing in it."""
    return new(x, (dy.shape[1], x.shape[1] // groups, *kernel), channels_last)


def conv_weight(x, dy, kernel, *attributes) -> torch.Tensor:
    result = small.run(small.CONV_WEIGHT, x, dy, None, kernel, *attributes)
    if result is None:
        result = _conv_weight(x, dy, kernel, *attributes)
        small.keep(small.CONV_WEIGHT, x, dy, None, result, kernel, *attributes)
    return result


@on_torch_threads
def _conv_weight(x, dy, kernel, *attributes) -> torch.Tensor:
    key = _key("conv_weight", x, dy, kernel, attributes)
    kept = _kept.get(key)
    if kept is not None:
        w, (src, after, dst) = new(x, kept.shape, attributes[-1]), kept.forms
        kept.run(src.array(x), after.array(dy), dst.array(w))
        return w
    w = new_conv_weight(x, dy, kernel, *attributes)
    if w.numel():
        src, after, dst, options = view(x), view(dy), filter_view(w), _options(x, *attributes[:-1])
        options |= {"layout": src.layout, "grad_layout": after.layout, "filter_layout": dst.layout}
        rank, size = x.dim() - 2, tuple(w.shape)
        WEIGHTS[rank](src.array, size, after.array, out=dst.array, **options)
        run = repeatable(f"grad.conv{rank}d_weight", rank, src.array, size, after.array, **options)
        _keep(key, run, w, src, after, dst)
    return w
