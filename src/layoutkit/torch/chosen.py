"""Convolutions of modules that are trained: of forwards and each gradient the faster of torch's way and ours.

For each shape both take turns in the first calls. Where torch wins all three, later calls are torch's alone: of a tiny
layer what Python adds around the work is most of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import _C
from torch.autograd import forward_ad
from torch.nn import functional

from ..choosing.cache import Cache
from ..convolutions.order import reproducible
from . import direct, kernels, operators, small
from .dispatching import THREADS, dispatches_to_kernel
from .functions import attributes_of
from .memory import gives_channels_last, is_channels_last
from .trials import ROUNDS, Trial

TORCHS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
TENSORS = torch.Tensor, torch.nn.Parameter
MAX_KEPT = 1024
PATIENCE = 4 * ROUNDS  # calls in which no gradient comes: after them, those that are wanted decide nothing


class Choice:
    """What was found for tensors of some shapes and strides.

    Parameters
    ----------
    needs : (bool, bool)
        Whether gradients of the input and of the weight are wanted.
    attributes : tuple
        Of the convolution, as the operators take them.

    Attributes
    ----------
    forward, input, weight : Trial
        Of the convolution and its gradients.
    strides : tuple of int, optional
        Those of our result, once there was one; torch's way must give the same.
    torchs : bool
        What `is_torchs` said last.
    waited : int
        Calls since a gradient came.
    """

    def __init__(self, needs: tuple[bool, bool], attributes: tuple[Any, ...]) -> None:
        self.attributes = attributes
        self.forward, self.input, self.weight = Trial(), Trial(), Trial()
        self.strides: tuple[int, ...] | None = None
        self.waited = 0
        self._gradients = [t for t, needed in zip((self.input, self.weight), needs) if needed]
        self.torchs = False

    def is_torchs(self) -> bool:
        """Whether torch is faster in all that is wanted, and comes."""
        if not self.torchs and self.forward.winner:
            self.waited += 1
            undecided = [t for t in self._gradients if t.winner is None]
            lost = all(t.winner for t in self._gradients if t.winner is not None)
            self.torchs = lost and (not undecided or self.waited > PATIENCE)
        return self.torchs


_choices = Cache(MAX_KEPT)


class _Chosen(torch.autograd.Function):
    """y = conv(x, w) + bias, whichever way is faster."""

    @staticmethod
    def forward(ctx, x, w, bias, choice, a):
        ctx.save_for_backward(x, w)
        ctx.choice, ctx.a = choice, a
        return convolved(choice, x, w, bias, a)

    @staticmethod
    def backward(ctx, dy):
        (x, w), needs, a, choice = ctx.saved_tensors, ctx.needs_input_grad, ctx.a, ctx.choice
        choice.waited = 0
        if torch.is_grad_enabled() or reproducible() or not dispatches_to_kernel(dy, x, w):
            return *operators.conv_gradients(x, w, dy, needs[:3], a), None, None
        dx = input_gradient(choice, dy, x, w, a) if needs[0] else None
        dw = weight_gradient(choice, dy, x, w, a) if needs[1] else None
        return dx, dw, small.bias_gradient(dy) if needs[2] else None, None, None


def convolved(
    choice: Choice, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, a: Sequence[Any]
) -> torch.Tensor:
    """The convolution, whichever way is faster."""

    def ours() -> torch.Tensor:
        y = kernels.conv(x, w, bias, *a)
        choice.strides = y.stride()
        return y

    def torchs() -> torch.Tensor:
        stride, pads, dilation, groups, _ = a
        y = TORCHS[x.dim() - 2](x, w, bias, stride, pads[::2], dilation, groups)
        if y.stride() != choice.strides:
            raise RuntimeError(f"torch gives strides {y.stride()}, expected {choice.strides}")
        return y

    return choice.forward.call(ours, torchs)


def input_gradient(
    choice: Choice, dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, a: Sequence[Any]
) -> torch.Tensor:
    """That of the input, whichever way is faster."""
    return choice.input.call(
        lambda: kernels.conv_transpose(dy, w, None, x.shape[2:], *a), lambda: _torchs(dy, x, w, a, 0)
    )


def weight_gradient(
    choice: Choice, dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, a: Sequence[Any]
) -> torch.Tensor:
    """That of the weight, whichever way is faster."""
    kernel, form = w.shape[2:], (*a[:-1], is_channels_last(w))
    return choice.weight.call(lambda: kernels.conv_weight(x, dy, kernel, *form), lambda: _torchs(dy, x, w, a, 1))


def _torchs(dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, a: Sequence[Any], which: int) -> torch.Tensor:
    """Torch's gradient of the input, 0, or of the weight, 1."""
    stride, pads, dilation, groups, _ = a
    mask = [which == 0, which == 1, False]
    zeros = [0] * len(stride)
    return torch.ops.aten.convolution_backward.default(
        dy, x, w, None, stride, pads[::2], dilation, False, zeros, groups, mask
    )[which]


def chosen_convolution(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, attributes: tuple[Any, ...]
) -> torch.Tensor | None:
    """The convolution of a module with gradients; None where there is no choice, or of arguments that do not fit.

    Parameters
    ----------
    x : Tensor
        (N, C, ..)
    weight, bias : Tensor
    attributes : (stride, padding, dilation, groups)
        Those of the module.
    """
    choice = choice_of(x, weight, bias, attributes)
    if choice is None:
        return None
    if choice.torchs:
        return TORCHS[x.dim() - 2](x, weight, bias, *attributes)
    return _Chosen.apply(x, weight, bias, choice, choice.attributes)


def choice_of(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, attributes: tuple[Any, ...]
) -> Choice | None:
    """What was found for such tensors; None where there is no choice, or of arguments that do not fit.

    Parameters
    ----------
    x, weight, bias, attributes
        As of `chosen_convolution`.
    """
    if torch.compiler.is_compiling() or not torch.is_grad_enabled() or type(x) not in TENSORS:
        return None
    if reproducible() or torch.are_deterministic_algorithms_enabled() or x.dtype != torch.float32:
        return None
    needs = x.requires_grad, weight.requires_grad
    forms = x.shape, x.stride(), weight.shape, weight.stride()
    key = *forms, bias is None, *attributes, *needs, torch.get_num_threads()
    try:
        choice = _choices.get(key)
    except TypeError:  # attributes in lists
        return None
    if _C._dispatch_tls_local_include_set() not in THREADS or torch.is_autocast_enabled("cpu"):
        return None
    if choice is not None and choice.is_torchs():
        return choice
    if _C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return None
    if not dispatches_to_kernel(x, weight, bias) or not _fits(x, weight, bias, attributes[-1]):
        return None
    if choice is None:
        stride, pads, dilation, groups = attributes_of("layoutkit.torch.conv", weight, *attributes)
        if pads[::2] != pads[1::2]:
            return None
        a = stride, pads, dilation, groups, gives_channels_last(x, weight)
        choice = _choices.put(key, Choice(needs, a))
        direct.keep_layer((x, weight, bias, *attributes), *a)
    return choice


def _fits(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, groups: int) -> bool:
    """Whether there is no error to be raised."""
    if any(t.dtype != torch.float32 for t in (weight, bias) if t is not None):
        return False
    shape = x.shape[1] == weight.shape[1] * groups if x.dim() == weight.dim() else False
    return shape and x.numel() > 0 and weight.numel() > 0
