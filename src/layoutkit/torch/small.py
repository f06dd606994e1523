"""Calls like others before them, in which what Python does around the work would be much of the time.

Of a call of little work everything but the numbers is kept: from then on one like it goes from its tensors to the
kernel in compiled code, through no dispatcher. Of others what was checked and planned is kept. Where gradients are
needed one small function of autograd is around both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _disable_current_modes

from .._core.nests.convolutions.small import Small, SmallConvolution, SmallSums, SmallTotals
from .._core.nests.convolutions.small_calls import Large, SmallCalls
from ..choosing.table import cost_table
from ..choosing.watching import watchers
from ..convolutions.problem import Pairs, in_sizes
from ..convolutions.small import SMALL_FILTER, SMALL_FLOPS, small_convolution
from ..grad.small import small_sums
from .dispatching import THREADS
from .memory import filter_view, view

CONV, CONV_TRANSPOSE, CONV_WEIGHT, BIAS = KINDS = range(4)
PUBLIC = len(KINDS)  # added to a kind: calls of users, whose attributes are as they were given
MAX_KEPT = 1024  # small ones have a workspace
MAX_RESULT = 1 << 16  # elements
MAX_TOTALS = 1 << 11  # elements whose totals are summed one after another
MAX_OFFSET = 2**31 - 1  # of an element of a filter
TYPES = torch.float32, torch.float64
with _disable_current_modes():  # torch may be in one when this is imported
    # whose memory those to be copied share
    _results = {dtype: torch.empty(MAX_RESULT, dtype=dtype, device="cpu") for dtype in TYPES}


def _calls() -> SmallCalls | None:
    """None where torch is too old to describe tensors in C."""
    try:
        return SmallCalls(torch, forward_ad, THREADS, cost_table, watchers, MAX_KEPT)
    except (AttributeError, ValueError):
        return None


calls = _calls()


def run(
    kind: int, first: torch.Tensor, second: torch.Tensor | None, third: torch.Tensor | None, *attributes: Any
) -> Any:  # fmt: skip
    """The result of a call like one that was kept, below autograd; None if there was none."""
    return None if calls is None else calls.run(kind, first, second, third, *attributes)


def keep(
    kind: int, first: torch.Tensor, second: torch.Tensor, third: torch.Tensor | None, result: torch.Tensor,
    size: Sequence[int] | None, large: Callable[[tuple[Any, ...]], Large], *attributes: Any,
) -> None:  # fmt: skip
    """Keep a call that has succeeded.

    Parameters
    ----------
    kind : int
        CONV, of (input, weight, bias), CONV_TRANSPOSE, likewise, or CONV_WEIGHT, of (input, gradient of the output,
        None).
    first, second, third : Tensor
    result : Tensor
        Not empty.
    size : sequence of int or None
        Spatial, of the result, of kinds whose operator has it.
    large : callable
        What is kept if the call is not small, given the attributes.
    *attributes
        As the operators have them.
    """
    arguments = kind, first, second, third, *(() if size is None else (size,)), *attributes
    if calls is None:
        return
    found = calls.find(*arguments)
    if found is not False and type(found) is not Large:
        return
    stride, padding, dilation, groups, channels_last = attributes
    kept: tuple[Any, ...] = tuple(stride), tuple(padding), tuple(dilation), groups, channels_last
    kept = kept if size is None else (tuple(size), *kept)
    small: Small | None = None
    if first.dtype in TYPES and all(t is None or t.dtype == first.dtype for t in (second, third)):
        if result.numel() <= MAX_RESULT and flops(kind, first, second, result) <= SMALL_FLOPS:
            small = _small(kind, first, second, third, result, size, kept)
    calls.keep(large(kept) if small is None else small, *arguments)


def flops(kind: int, first: torch.Tensor, second: torch.Tensor, result: torch.Tensor) -> int:
    """Multiplications and additions of a call."""
    w, pixels = (result, second) if kind == CONV_WEIGHT else (second, first if kind == CONV_TRANSPOSE else result)
    return 2 * w.numel() * pixels.shape[0] * prod(pixels.shape[2:])


def _small(kind, first, second, third, result, size, kept) -> Small | None:
    rank, x, item = first.dim() - 2, view(first), first.element_size()
    like = _results[first.dtype].as_strided(result.shape, result.stride())
    if torch.empty_like(like).stride() != result.stride():
        return None
    stride, padding, dilation, groups, _ = kept[-5:]
    pads: Pairs = tuple(zip(padding[::2], padding[1::2]))
    options: dict[str, Any] = {"stride": stride, "padding": pads, "dilation": dilation, "groups": groups}
    if kind == CONV_WEIGHT:
        after, dw = view(second), filter_view(result)
        options |= {"layout": x.layout, "grad_layout": after.layout, "filter_layout": dw.layout}
        found = small_sums(rank, x.array, tuple(result.shape), after.array, dw.array, **options)
        return None if found is None else SmallSums(like, kept, item, *found)
    if second.numel() > SMALL_FILTER:
        return None
    y = view(result)
    options |= {"layout": x.layout, "out_layout": y.layout}
    if kind == CONV_TRANSPOSE:
        minimal = in_sizes(first.shape[2:], second.shape[2:], options["stride"], pads, options["dilation"])
        options["output_padding"] = tuple(n - m for n, m in zip(size, minimal))
    operation = small_convolution(
        rank, kind == CONV_TRANSPOSE, x.array, tuple(first.shape), y.array, tuple(second.shape), third is not None,
        **options,
    )  # fmt: skip
    if operation is None:
        return None
    run, fills = operation
    places = {tensor: _places(of) for tensor, of in ((1, second), (2, third)) if of is not None}
    if max(offsets.max() for offsets in places.values()) > MAX_OFFSET:
        return None
    moves = [fill._replace(sources=places[fill.tensor][fill.sources].astype(np.int32)) for fill in fills]
    return SmallConvolution(like, kept, item, run, moves)


def _places(tensor: torch.Tensor) -> np.ndarray:
    """Where in memory elements are, in C order."""
    axes = np.ix_(*(np.arange(n) * stride for n, stride in zip(tensor.shape, tensor.stride())))
    return sum(axes, np.zeros((1,) * tensor.dim(), np.int64)).ravel()


def bias_gradient(dy: torch.Tensor) -> torch.Tensor:
    """The gradient of a bias, of that of a result, below autograd."""
    result = run(BIAS, dy, None, None)
    if result is None:
        result = dy.sum((0, *range(2, dy.dim())))
        if calls is not None and 0 < dy.numel() <= MAX_TOTALS and dy.dtype in TYPES and type(dy) is torch.Tensor:
            like = _results[dy.dtype].as_strided(result.shape, result.stride())
            item, form = dy.element_size(), (tuple(dy.shape), dy.stride())
            calls.keep(SmallTotals(like, (), item, *form), BIAS, dy, None, None)
    return result
