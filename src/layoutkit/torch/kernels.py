"""What `torch.ops.layoutkit` computes: a convolution, the transposed one, and the gradient of a filter.

Padding is two numbers for each axis, (before, after). Of a call that succeeded what does not depend on the numbers is
kept, for calls on tensors of the same shapes, strides and types, see `small.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import grad
from .._core.nests.convolutions.small_calls import Large
from .._core.runtime import team
from ..convolutions import conv as convolutions
from ..convolutions import transposed
from ..convolutions.order import reproducible
from ..convolutions.problem import Pairs, in_sizes
from ..grad.arguments import outputs
from ..grad.weight import repeatable
from . import small
from .memory import Form, View, filter_view, memory, new, view
from .threads import on_torch_threads

CONVOLUTIONS = {1: convolutions.conv1d, 2: convolutions.conv2d, 3: convolutions.conv3d}
TRANSPOSED = {1: transposed.conv_transpose1d, 2: transposed.conv_transpose2d, 3: transposed.conv_transpose3d}
WEIGHTS = {1: grad.conv1d_weight, 2: grad.conv2d_weight, 3: grad.conv3d_weight}


def large(attributes: tuple[Any, ...], result: torch.Tensor, views: Sequence[View], run: Any) -> Large:
    """Calls on tensors like those of a call that has succeeded, while threads and order of sums stay as they are.

    Parameters
    ----------
    attributes : tuple
        Of the call; the last one is the format of the result.
    result : Tensor
    views : sequence of View
        Of the two tensors and the result.
    run : callable
        Of their arrays, in its place between the second and the third the bias or None.
    """
    threads, strict, shape, channels_last = torch.get_num_threads(), reproducible(), tuple(result.shape), attributes[-1]
    first, second, third = (Form.of(of.array) for of in views)

    def compute(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor | None:
        if torch.get_num_threads() != threads or reproducible() != strict:
            return None
        y = new(x, shape, channels_last)
        team.borrow(True)
        try:
            run(first.array(x), second.array(w), None if bias is None else memory(bias), third.array(y))
        finally:
            team.borrow(False)
        return y

    return Large(attributes, compute)


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
    y = small.run(small.CONV, x, w, bias, *attributes)
    return _conv(x, w, bias, *attributes) if y is None else y


@on_torch_threads
def _conv(x, w, bias, *attributes) -> torch.Tensor:
    y = new_conv(x, w, bias, *attributes)
    if y.numel():
        src, filters, dst, options = view(x), filter_view(w), view(y), _options(x, *attributes[:-1])
        options |= {"layout": src.layout, "out_layout": dst.layout, "filter_layout": filters.layout}
        rank, biases = x.dim() - 2, None if bias is None else memory(bias)
        CONVOLUTIONS[rank](src.array, filters.array, biases, out=dst.array, **options)

        def repeated(kept: tuple[Any, ...]) -> Large:
            op = convolutions.CLASSES[rank].once(filters.array, **options).emptied()
            return large(kept, y, (src, filters, dst), op.repeatable(src.array, dst.array))

        small.keep(small.CONV, x, w, bias, y, None, repeated, *attributes)
    return y


def new_conv_transpose(x, w, bias, size, stride, padding, dilation, groups, channels_last) -> torch.Tensor:
    """The result of `conv_transpose`, with nothing in it."""
    return new(x, (x.shape[0], w.shape[1] * groups, *size), channels_last)


def conv_transpose(x, w, bias, size, *attributes) -> torch.Tensor:
    y = small.run(small.CONV_TRANSPOSE, x, w, bias, size, *attributes)
    return _conv_transpose(x, w, bias, size, *attributes) if y is None else y


@on_torch_threads
def _conv_transpose(x, w, bias, size, *attributes) -> torch.Tensor:
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

        def repeated(kept: tuple[Any, ...]) -> Large:
            op = transposed.CLASSES[rank].once(filters.array, **options).emptied()
            return large(kept, y, (src, filters, dst), op.repeatable(src.array, dst.array))

        small.keep(small.CONV_TRANSPOSE, x, w, bias, y, size, repeated, *attributes)
    return y


def new_conv_weight(x, dy, kernel, stride, padding, dilation, groups, channels_last) -> torch.Tensor:
    """The result of `conv_weight`, with nothing in it."""
    return new(x, (dy.shape[1], x.shape[1] // groups, *kernel), channels_last)


def conv_weight(x, dy, kernel, *attributes) -> torch.Tensor:
    w = small.run(small.CONV_WEIGHT, x, dy, None, kernel, *attributes)
    return _conv_weight(x, dy, kernel, *attributes) if w is None else w


@on_torch_threads
def _conv_weight(x, dy, kernel, *attributes) -> torch.Tensor:
    w = new_conv_weight(x, dy, kernel, *attributes)
    if w.numel():
        src, after, dst, options = view(x), view(dy), filter_view(w), _options(x, *attributes[:-1])
        options |= {"layout": src.layout, "grad_layout": after.layout, "filter_layout": dst.layout}
        rank, size = x.dim() - 2, tuple(w.shape)
        WEIGHTS[rank](src.array, size, after.array, out=dst.array, **options)

        def repeated(kept: tuple[Any, ...]) -> Large:
            sums = repeatable(f"grad.conv{rank}d_weight", rank, src.array, size, after.array, **options)
            return large(kept, w, (src, after, dst), lambda x, dy, _, w: sums(x, dy, w))

        small.keep(small.CONV_WEIGHT, x, dy, None, w, kernel, repeated, *attributes)
    return w
