"""Convolutions of layoutkit in torch: functions with gradients, modules, and `convert` for existing models.

    import layoutkit.torch
    layoutkit.torch.convert(model)  # the convolutions of a model run here from now on

Tensors are read and written where they lie, those in channels_last too; results have the memory format that torch's own
convolutions would give them. There are gradients of any order: the three operations that the gradients of a convolution
consist of are the gradients of one another.

Tensors are of the CPU, of float32, float64, float16 or bfloat16. `torch.compile` leaves its graph for each of these
operations and goes on behind it. There is no `torch.vmap`, no forward mode and no `torch.export`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from . import grad
from .convolutions import conv as convolutions
from .convolutions import transposed
from .convolutions.problem import in_sizes, pad_pairs
from .grad.layouts import outputs

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "conv", "conv_transpose",
    "convert",
]  # fmt: skip

LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}  # plain, channels last
FORMATS = {2: torch.channels_last, 3: torch.channels_last_3d}
CONVOLUTIONS = {1: convolutions.conv1d, 2: convolutions.conv2d, 3: convolutions.conv3d}
TRANSPOSED = {1: transposed.conv_transpose1d, 2: transposed.conv_transpose2d, 3: transposed.conv_transpose3d}
WEIGHTS = {1: grad.conv1d_weight, 2: grad.conv2d_weight, 3: grad.conv3d_weight}
TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


class Attributes(NamedTuple):
    """What a convolution is, but for its tensors."""

    stride: tuple[int, ...]
    padding: tuple[int, ...] | str
    dilation: tuple[int, ...]
    groups: int


class View(NamedTuple):
    """A tensor as an array of the same memory."""

    array: np.ndarray
    layout: str


def _memory(tensor: torch.Tensor) -> np.ndarray:
    """The memory of a tensor; of bfloat16, which numpy does not have, the bits."""
    tensor = tensor.detach().resolve_neg()
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def _channels_first(tensor: torch.Tensor) -> bool:
    return tensor.stride(1) != 1 or tensor.shape[1] == 1


def _view(tensor: torch.Tensor) -> View:
    """A tensor (N, C, ..) of any strides in the layout that they are of."""
    plain, last = LAYOUTS[tensor.dim() - 2]
    array = _memory(tensor)
    if _channels_first(tensor):
        return View(array, plain)
    return View(array.transpose(0, *range(2, array.ndim), 1), last)


def _filter_view(w: torch.Tensor) -> View:
    """A filter (O, I, ..) likewise, "OIHW" or "OHWI"."""
    held = _view(w)
    return View(held.array, held.layout.replace("N", "O").replace("C", "I"))


def _check(what: str, tensors: dict[str, torch.Tensor | None]) -> None:
    """Raise unless all tensors are such as we take, of one type."""
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    first = next(iter(given.values()))
    for name, tensor in given.items():
        if tensor.device.type != "cpu" or tensor.dtype not in TYPES:
            raise TypeError(f"{what}: {name}: expected floats on the CPU, got {tensor.dtype} on {tensor.device}")
        if tensor.dtype != first.dtype:
            raise TypeError(f"{what}: {name} is of {tensor.dtype}, {next(iter(given))} of {first.dtype}")


def _empty(x: torch.Tensor, w: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """A result of `shape`: in channels_last if a tensor that it is computed from is, as of torch."""
    form = FORMATS.get(x.dim() - 2)
    last = form is not None and any(
        t.is_contiguous(memory_format=form) and not t.is_contiguous() for t in (x, w) if t.dim() == x.dim()
    )
    return torch.empty(tuple(shape), dtype=x.dtype, memory_format=form if last else torch.contiguous_format)


def _given(tensor: torch.Tensor, a: Attributes) -> dict[str, Any]:
    """What the operations of layoutkit are told besides their arrays."""
    bits = ("bfloat16", "bfloat16") if tensor.dtype == torch.bfloat16 else None
    return dict(a._asdict(), dtype=bits, threads=torch.get_num_threads())


def _result_shape(x: torch.Tensor, w: torch.Tensor, a: Attributes) -> tuple[int, ...]:
    return x.shape[0], w.shape[0], *_out(tuple(x.shape[2:]), tuple(w.shape[2:]), a)


@lru_cache(1024)
def _out(size: tuple[int, ...], kernel: tuple[int, ...], a: Attributes) -> tuple[int, ...]:
    pads = pad_pairs(a.padding, size, kernel, a.stride, a.dilation)
    return outputs(size, kernel, a.stride, pads, a.dilation, f"conv{len(size)}d")


def _convolve(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, a: Attributes) -> torch.Tensor:
    _check(f"conv{x.dim() - 2}d", {"input": x, "weight": w, "bias": bias})
    y = _empty(x, w, _result_shape(x, w, a))
    read, filters, to = _view(x), _filter_view(w), _view(y)
    CONVOLUTIONS[x.dim() - 2](
        read.array, filters.array, None if bias is None else _memory(bias), layout=read.layout, out_layout=to.layout,
        filter_layout=filters.layout, out=to.array, **_given(x, a),
    )  # fmt: skip
    return y


def _convolve_back(y: torch.Tensor, w: torch.Tensor, size: tuple[int, ...], a: Attributes) -> torch.Tensor:
    _check(f"conv{y.dim() - 2}d", {"gradient": y, "weight": w})
    x = _empty(y, w, size)
    read, filters, to = _view(y), _filter_view(w), _view(x)
    kernel = tuple(w.shape[2:])
    pads = pad_pairs(a.padding, size[2:], kernel, a.stride, a.dilation)
    more = tuple(n - m for n, m in zip(size[2:], in_sizes(y.shape[2:], kernel, a.stride, pads, a.dilation)))
    # The outputs of the convolution are the inputs of this.
    names = filters.layout.translate(str.maketrans("OI", "IO"))
    TRANSPOSED[y.dim() - 2](
        read.array, filters.array, layout=read.layout, out_layout=to.layout, filter_layout=names, out=to.array,
        output_padding=more, **(_given(y, a) | {"padding": pads}),
    )  # fmt: skip
    return x


def _filter_of(x: torch.Tensor, y: torch.Tensor, like: torch.Tensor, a: Attributes) -> torch.Tensor:
    _check(f"conv{x.dim() - 2}d", {"input": x, "gradient": y})
    w = torch.empty_like(like)
    read, given, to = _view(x), _view(y), _filter_view(w)
    WEIGHTS[x.dim() - 2](
        read.array, tuple(w.shape), given.array, layout=read.layout, grad_layout=given.layout, filter_layout=to.layout,
        out=to.array, **_given(x, a),
    )  # fmt: skip
    return w


class _Conv(torch.autograd.Function):
    """y = conv(x, w) + bias"""

    @staticmethod
    def forward(ctx, x, w, bias, a):
        ctx.save_for_backward(x, w)
        ctx.a = a
        return _convolve(x, w, bias, a)

    @staticmethod
    def backward(ctx, dy):
        (x, w), needs = ctx.saved_tensors, ctx.needs_input_grad
        dx = _Input.apply(dy, w, tuple(x.shape), ctx.a) if needs[0] else None
        dw = _Weight.apply(x, dy, w.detach(), ctx.a) if needs[1] else None
        return dx, dw, dy.sum((0, *range(2, dy.dim()))) if needs[2] else None, None


class _Input(torch.autograd.Function):
    """The gradient of x of conv(x, w), given that of the result y: a transposed convolution of it"""

    @staticmethod
    def forward(ctx, dy, w, size, a):
        ctx.save_for_backward(dy, w)
        ctx.a = a
        return _convolve_back(dy, w, size, a)

    @staticmethod
    def backward(ctx, x):
        (dy, w), needs = ctx.saved_tensors, ctx.needs_input_grad
        # With dilation, an output_padding of more than a stride makes room for more than `dy`.
        more = [n - m for n, m in zip(_result_shape(x, w, ctx.a)[2:], dy.shape[2:])]
        y = dw = None
        if needs[0]:
            y = _Conv.apply(x, w, None, ctx.a)[(..., *(slice(n) for n in dy.shape[2:]))]
        if needs[1]:
            full = functional.pad(dy, [n for extra in reversed(more) for n in (0, extra)]) if any(more) else dy
            dw = _Weight.apply(x, full, w.detach(), ctx.a)
        return y, dw, None, None


class _Weight(torch.autograd.Function):
    """The gradient of w of conv(x, w), given that of the result y; it lies as the tensor `like` does"""

    @staticmethod
    def forward(ctx, x, dy, like, a):
        ctx.save_for_backward(x, dy)
        ctx.a = a
        return _filter_of(x, dy, like, a)

    @staticmethod
    def backward(ctx, w):
        (x, dy), needs = ctx.saved_tensors, ctx.needs_input_grad
        dx = _Input.apply(dy, w, tuple(x.shape), ctx.a) if needs[0] else None
        return dx, _Conv.apply(x, w, None, ctx.a) if needs[1] else None, None, None


def _each(value, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value)


def _batched(x: torch.Tensor, rank: int, what: str) -> tuple[torch.Tensor, bool]:
    """`x` with an axis of images, and whether that was added; TypeError if it is no tensor."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{what}: input: expected a tensor, got {type(x).__name__}")
    if x.dim() not in (rank + 1, rank + 2):
        raise ValueError(f"{what}: input of shape {tuple(x.shape)}: expected {rank + 1} or {rank + 2} axes")
    return (x, False) if x.dim() == rank + 2 else (x.unsqueeze(0), True)


@torch.compiler.disable
def conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1) -> torch.Tensor:
    """`torch.nn.functional.conv1d`, `conv2d` or `conv3d`, by the number of axes that `weight` has.

    Parameters
    ----------
    input : Tensor
        (N, C, ..) or (C, ..), contiguous, channels_last or of any other strides.
    weight : Tensor
        (O, C/groups, ..)
    bias : Tensor, optional
        (O,)
    stride, padding, dilation, groups
        As of torch.

    Returns
    -------
    Tensor
        In channels_last if `input` or `weight` is.
    """
    rank = weight.dim() - 2
    x, added = _batched(input, rank, f"layoutkit.torch.conv{rank}d")
    padding = padding if isinstance(padding, str) else _each(padding, rank)
    y = _Conv.apply(x, weight, bias, Attributes(_each(stride, rank), padding, _each(dilation, rank), groups))
    return y.squeeze(0) if added else y


@torch.compiler.disable
def conv_transpose(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
) -> torch.Tensor:
    """`torch.nn.functional.conv_transpose1d`, `2d` or `3d`, by the number of axes that `weight` has.

    Parameters
    ----------
    input : Tensor
        (N, C, ..) or (C, ..), contiguous, channels_last or of any other strides.
    weight : Tensor
        (C, O/groups, ..)
    bias : Tensor, optional
        (O,)
    stride, padding, output_padding, groups, dilation
        As of torch.

    Returns
    -------
    Tensor
        In channels_last if `input` or `weight` is.
    """
    rank = weight.dim() - 2
    what = f"layoutkit.torch.conv_transpose{rank}d"
    x, added = _batched(input, rank, what)
    a = Attributes(_each(stride, rank), _each(padding, rank), _each(dilation, rank), groups)
    more = _each(output_padding, rank)
    if any(extra >= max(s, d) for extra, s, d in zip(more, a.stride, a.dilation)):
        raise ValueError(f"{what}: output_padding {more} is not below stride {a.stride} or dilation {a.dilation}")
    pads = pad_pairs(a.padding, x.shape[2:], weight.shape[2:], a.stride, a.dilation)
    least = in_sizes(x.shape[2:], weight.shape[2:], a.stride, pads, a.dilation)
    size = tuple(n + extra for n, extra in zip(least, more))
    if min(size) < 1:
        raise ValueError(f"{what}: an input of {tuple(x.shape[2:])} padded by {a.padding} has no output")
    y = _Input.apply(x, weight, (x.shape[0], weight.shape[1] * groups, *size), a)
    if bias is not None:
        y = y + bias.reshape(-1, *[1] * rank)
    return y.squeeze(0) if added else y


class _Convolution:
    """A convolution of torch.nn whose arithmetic is ours."""

    @torch.compiler.disable
    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode != "zeros":
            input = functional.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return conv(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Convolution, torch.nn.Conv1d):
    """`torch.nn.Conv1d`, computed here."""


class Conv2d(_Convolution, torch.nn.Conv2d):
    """`torch.nn.Conv2d`, computed here."""


class Conv3d(_Convolution, torch.nn.Conv3d):
    """`torch.nn.Conv3d`, computed here."""


class _Transposed:
    """A transposed convolution of torch.nn whose arithmetic is ours."""

    @torch.compiler.disable
    def forward(self, input, output_size=None):
        rank = self.weight.dim() - 2
        more = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, rank, self.dilation
        )  # fmt: skip
        return conv_transpose(
            input, self.weight, self.bias, self.stride, self.padding, tuple(more), self.groups, self.dilation
        )


class ConvTranspose1d(_Transposed, torch.nn.ConvTranspose1d):
    """`torch.nn.ConvTranspose1d`, computed here."""


class ConvTranspose2d(_Transposed, torch.nn.ConvTranspose2d):
    """`torch.nn.ConvTranspose2d`, computed here."""


class ConvTranspose3d(_Transposed, torch.nn.ConvTranspose3d):
    """`torch.nn.ConvTranspose3d`, computed here."""


OURS: dict[type, type] = {
    getattr(torch.nn, cls.__name__): cls
    for cls in (Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
}


def convert(model: torch.nn.Module) -> torch.nn.Module:
    """Let the convolutions of a model run here from now on; returns the model.

    Modules that are exactly `torch.nn.Conv2d`, and so on, become `layoutkit.torch.Conv2d` where they are: parameters,
    hooks, names in a `state_dict` and references from elsewhere stay. Subclasses, whose `forward` may be another one,
    stay as they are.

    Parameters
    ----------
    model : torch.nn.Module
        It is changed.

    Examples
    --------
    >>> import torch, layoutkit.torch
    >>> model = layoutkit.torch.convert(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()))
    >>> model(torch.zeros(1, 3, 8, 8)).shape
    torch.Size([1, 8, 6, 6])
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"convert: expected a torch.nn.Module, got {type(model).__name__}")
    for module in model.modules():
        ours = OURS.get(type(module))
        if ours is not None:
            module.__class__ = ours
    return model
