"""A convolution, the batch normalisation behind it, a sum and a ReLU as one operation in training, by parts of a batch.

    z = conv(x, w)      y = relu(weight * (z - mean) / sqrt(variance + eps) + bias + add)

Forwards the statistics of a part are taken when its convolution has just been stored, backwards its gradient goes to
both gradients of the convolution: each part is in the caches then, and the gradient of z never is in memory as a whole.
Both ways are measured against the operations one after another in the first calls of a layer, and the faster one stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .. import grad
from .._core.nests.norms.batch_norm import BatchNorm, images_of_unit
from ..choosing.cache import Cache
from ..choosing.machine import last_level_cache
from ..choosing.plan import SlowPathWarning
from ..choosing.warn import without
from ..convolutions import conv as convolutions
from ..convolutions import transposed
from ..convolutions.order import reproducible
from ..convolutions.problem import in_sizes
from . import kernels, norms, operators
from .chosen import MAX_KEPT, TENSORS, Choice, choice_of, convolved, input_gradient, weight_gradient
from .dispatching import dispatches_to_kernel
from .functional import LIMITS, batch_norm, has_plain_statistics
from .functions import conv
from .kernels import pairs
from .memory import filter_view, is_channels_last, memory, new, view
from .threads import on_torch_threads
from .trials import Trial

WEIGHTS = {1: grad.conv1d_weight, 2: grad.conv2d_weight, 3: grad.conv3d_weight}
CACHE_PARTS = 4  # of the last cache, one of which a part of z may take
FILTER_PARTS = 4  # parts of z have so many times as many elements as the filter, which is read and written for each


class _Ways:
    """Of a layer: the shape of z, the images of each part, and what was faster: the whole, 0, or parts, 1."""

    def __init__(self, shape: torch.Size, steps: list[tuple[int, int]]) -> None:
        self.shape, self.steps = shape, steps
        self.forward, self.backward = Trial(), Trial()


_ways = Cache(MAX_KEPT)


def is_large(x: Tensor, outputs: int, stride: Sequence[int]) -> bool:
    """Whether z, of images or volumes of so many channels, takes half of the last cache, or more."""
    pixels = math.prod(x.shape[2:]) // math.prod(stride)
    return x.dim() > 3 and 2 * x.shape[0] * outputs * pixels * x.element_size() >= last_level_cache()


def _ways_of(choice: Choice, x: Tensor, w: Tensor, a: Sequence[Any], more: tuple[Any, ...]) -> _Ways | None:
    """None where there is nothing to gain."""
    key = choice, *more
    try:
        return _ways[key]
    except KeyError:
        with torch.no_grad():
            shape = kernels.new_conv(x.to("meta"), w.to("meta"), None, *a).shape
        steps = _steps(shape, w.numel() * w.element_size(), x.element_size(), bool(a[-1]))
        return _ways.put(key, _Ways(shape, steps) if len(steps) > 1 else None)


def _steps(shape: Sequence[int], filter_bytes: int, item: int, last: bool) -> list[tuple[int, int]]:
    """The images of each part of z."""
    images, image_bytes = shape[0], math.prod(shape[1:]) * item
    block = 1 if last and shape[1] > 1 else images_of_unit(math.prod(shape[2:]), images)
    most = last_level_cache() // CACHE_PARTS
    each = max(block, most // max(1, image_bytes) // block * block)
    if FILTER_PARTS * filter_bytes > each * image_bytes:
        return []
    return [(first, min(images, first + each)) for first in range(0, images, each)]


class _ConvNorm(torch.autograd.Function):
    """y, mean and variance."""

    @staticmethod
    def forward(ctx, x, w, weight, bias, add, choice, ways, a, eps, limit):
        def whole() -> tuple[Tensor, ...]:
            z = convolved(choice, x, w, None, a)
            return z, *norms.forward(z, weight, bias, None, None, eps, limit, add)

        def parts() -> tuple[Tensor, ...]:
            with without(SlowPathWarning):  # of the whole there is one, if any
                return _forward(x, w, weight, bias, add, ways, a, eps, limit)

        z, y, mean, variance = ways.forward.call(whole, parts)
        ctx.save_for_backward(x, w, z, weight, bias, mean, variance, y if add is not None and limit else None)
        ctx.choice, ctx.ways, ctx.a, ctx.eps, ctx.limit, ctx.summed = choice, ways, a, eps, limit, add is not None
        ctx.mark_non_differentiable(mean, variance)
        return y, mean, variance

    @staticmethod
    def backward(ctx, dy, *_):
        x, w, z, weight, bias, mean, variance, result = ctx.saved_tensors
        choice, a, eps, limit, needs = ctx.choice, ctx.a, ctx.eps, ctx.limit, ctx.needs_input_grad
        choice.waited = 0
        if torch.is_grad_enabled() or reproducible() or not dispatches_to_kernel(dy, x, w):
            return *_by_torch(ctx, dy), *(None,) * 5

        def whole() -> tuple[Tensor | None, ...]:
            dz, *sums, d = norms.backward(dy, z, weight, bias, mean, variance, eps, limit, False, result)
            dx = input_gradient(choice, dz, x, w, a) if needs[0] else None
            dw = weight_gradient(choice, dz, x, w, a) if needs[1] else None
            return dx, dw, *sums, d

        def parts() -> tuple[Tensor | None, ...]:
            with without(SlowPathWarning):
                return _backward(ctx, dy)

        dx, dw, products, sums, d = ctx.ways.backward.call(whole, parts)
        if result is None:
            d = dy if ctx.summed else None
        of_weight = None if weight is None else products.to(weight.dtype)
        of_bias = None if bias is None else sums.to(bias.dtype)
        return dx, dw, of_weight, of_bias, d, *(None,) * 5


def _by_torch(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients where they need gradients themselves."""
    x, w, _, weight, bias, _, _, result = ctx.saved_tensors
    limit = ctx.limit
    if result is not None:
        dy, limit = norms.passed(dy, result, limit), 0.0
    inputs, needs = (x, w, weight, bias), ctx.needs_input_grad
    wanted = [t for t, needed in zip(inputs, needs) if needed]
    with torch.enable_grad():
        z = operators.conv(x, w, None, *ctx.a)
        y = norms.by_torch(z, weight, bias, None, None, ctx.eps, limit)
    more = torch.is_grad_enabled()
    found = iter(torch.autograd.grad(y, wanted, dy, create_graph=more) if wanted else ())
    return *(next(found) if needed else None for needed in needs[:4]), dy if needs[4] else None


def _norm(z: Tensor, y: Tensor | None, statistics: tuple[Any, ...], last: bool, **more: Any) -> BatchNorm:
    weight, bias, mean, variance, eps, limit = statistics
    arrays = {k: _axes(t, last) if isinstance(t, Tensor) and t.dim() > 1 else t for k, t in more.items()}
    return BatchNorm(
        "f32", _axes(z, last), None if y is None else _axes(y, last), norms.wide(weight), norms.wide(bias),
        mean.numpy(), variance.numpy(), eps, torch.get_num_threads(), limit=limit, **arrays,
    )  # fmt: skip


def _axes(tensor: Tensor, last: bool) -> Any:
    """Memory as axes image, group, pixel, channel of the group."""
    array = memory(tensor)
    n, c = array.shape[:2]
    if last:
        return array.transpose(0, *range(2, array.ndim), 1).reshape(n, 1, -1, c)
    return array.reshape(n, c, -1, 1)


def _options(x: Tensor, w: Tensor, result: Tensor, a: Sequence[Any]) -> dict[str, Any]:
    """What operations of layoutkit take to convolve `x`, or its like, by `w`."""
    stride, pads, dilation, groups, _ = a
    return {
        "stride": stride, "padding": pairs(pads), "dilation": dilation, "groups": groups, "layout": view(x).layout,
        "out_layout": view(result).layout, "filter_layout": filter_view(w).layout, "threads": torch.get_num_threads(),
    }  # fmt: skip


@on_torch_threads
def _forward(x, w, weight, bias, add, ways, a, eps, limit) -> tuple[Tensor, ...]:
    """z, y, mean and variance."""
    z = kernels.new_conv(x, w, None, *a)
    last, channels = norms.gives_format(z), z.shape[1]
    y = new(z, z.shape, last)
    mean, variance = (torch.empty(channels, dtype=torch.float64) for _ in range(2))
    more = {} if add is None else {"add": norms.in_format(add, last)}
    norm = _norm(z, y, (weight, bias, mean, variance, eps, limit), last, **more)
    op = convolutions.CLASSES[x.dim() - 2].once(filter_view(w).array, **_options(x, w, z, a))
    inputs, results = view(x).array, view(z).array
    for first, end in ways.steps:
        op(inputs[first:end], results[first:end])
        norm.measure(first, end)
    norm.combine()
    for first, end in reversed(ways.steps):
        norm.apply(first, end)
    return z, y, mean, variance


@on_torch_threads
def _backward(ctx, dy) -> tuple[Tensor | None, ...]:
    """Gradients of x, w, weight and bias, and of what was added."""
    x, w, z, weight, bias, mean, variance, result = ctx.saved_tensors
    a, last, rank, steps = ctx.a, norms.gives_format(z), x.dim() - 2, ctx.ways.steps
    products, sums = torch.empty_like(mean), torch.empty_like(mean)
    more: dict[str, Any] = {"dy": norms.in_format(dy, last), "sums": sums.numpy(), "products": products.numpy()}
    d = None
    if result is not None:
        d = new(z, z.shape, last)
        more |= {"add": d, "result": norms.in_format(result, last)}
    norm = _norm(z, None, (weight, bias, mean, variance, ctx.eps, ctx.limit), last, **more)
    norm.begin()
    for first, end in steps:
        norm.measure(first, end)
    norm.combine()
    part = new(z, (steps[0][1], *z.shape[1:]), last)  # the gradient of z, of some images at a time
    gradients, inputs = view(part).array, view(x).array
    dx, dw = (new(t, t.shape, is_channels_last(t)) if n else None for t, n in zip((x, w), ctx.needs_input_grad))
    if dx is not None:
        filters, options = filter_view(w), _options(z, w, dx, a)
        kept = in_sizes(z.shape[2:], w.shape[2:], options["stride"], options["padding"], options["dilation"])
        options["filter_layout"] = filters.layout.translate(str.maketrans("OI", "IO"))
        options["output_padding"] = tuple(n - m for n, m in zip(x.shape[2:], kept))
        op, slopes = transposed.CLASSES[rank].once(filters.array, **options), view(dx).array
    for first, end in reversed(steps):
        count = end - first
        norm.apply(first, end, _axes(part[:count], last))
        if dx is not None:
            op(gradients[:count], slopes[first:end])
        if dw is not None:
            options = _options(x, w, z, a)
            options["grad_layout"] = options.pop("out_layout")
            WEIGHTS[rank](
                inputs[first:end], tuple(w.shape), gradients[:count], out=filter_view(dw).array,
                beta=float(end != z.shape[0]), **options,
            )  # fmt: skip
    return dx, dw, products, sums, d


def conv_batch_norm_by_kernel(
    x: Tensor, w: Tensor, mean: Tensor | None, variance: Tensor | None, weight: Tensor | None, bias: Tensor | None,
    momentum: float, eps: float, limit: float, add: Tensor | None, attributes: tuple[Any, ...],
) -> Tensor | None:  # fmt: skip
    """The result of `conv_batch_norm` in training; None where there is nothing to gain, and nothing was done.

    Parameters
    ----------
    x, w : Tensor
    mean, variance, weight, bias, momentum, eps
        As `torch.nn.functional.batch_norm` takes them.
    limit : float
        That of the ReLU, which may be infinite; 0: none.
    add : Tensor or None
    attributes : (stride, padding, dilation, groups)
        Of the convolution.
    """
    choice = choice_of(x, w, None, attributes) if is_large(x, w.shape[0], attributes[0]) else None
    if choice is None or choice.torchs:
        return None
    a = choice.attributes
    if not has_plain_statistics(w.shape[0], x.device, mean, variance, weight, bias, momentum) or type(eps) is not float:
        return None
    forms = () if add is None else (add.shape, add.stride())
    ways = _ways_of(choice, x, w, a, (weight is None, bias is None, limit, forms))
    if ways is None or ways.forward.winner == ways.backward.winner == 0 or eps <= 0:
        return None
    if add is not None and (type(add) is not Tensor or add.dtype != x.dtype or add.shape != ways.shape):
        return None
    if not dispatches_to_kernel(x, w, weight, bias, add):
        return None
    y, own_mean, own_variance = _ConvNorm.apply(x, w, weight, bias, add, choice, ways, a, eps, limit)
    norms.move(mean, variance, own_mean, own_variance, y.numel() // y.shape[1], momentum)
    return y


def conv_batch_norm(
    input, weight, running_mean, running_var, norm_weight=None, norm_bias=None, *, stride=1, padding=0, dilation=1,
    groups=1, training=False, momentum=0.1, eps=1e-5, add=None, activation=None,
) -> Tensor:  # fmt: skip
    """A convolution and the batch normalisation of its result, a sum and a ReLU behind it or not.

    Of large tensors in training one operation, where that is faster: both ways are measured in the first calls.

    Parameters
    ----------
    input, weight, stride, padding, dilation, groups
        Of the convolution: as `conv` takes them.
    running_mean, running_var, norm_weight, norm_bias, training, momentum, eps
        Of the normalisation: as `torch.nn.functional.batch_norm` takes them.
    add : Tensor, optional
        A summand of the result, as a residual is.
    activation : {None, "relu", "relu6"}, optional
        What follows.

    Returns
    -------
    Tensor

    Raises
    ------
    TypeError, ValueError
        Types, shapes or attributes do not fit; `activation` is another one.
    """
    if activation not in tuple(LIMITS):
        raise ValueError(f"conv_batch_norm: activation {activation!r}: expected None, 'relu' or 'relu6'")
    if training is True and type(input) is Tensor and type(weight) in TENSORS and input.dim() == weight.dim():
        rank = weight.dim() - 2
        each = tuple((v,) * rank if type(v) is int else v for v in (stride, padding, dilation))
        if type(each[0]) is tuple and len(each[0]) == rank and all(type(n) is int and n > 0 for n in each[0]):
            of_norm = running_mean, running_var, norm_weight, norm_bias, momentum, eps, LIMITS[activation], add
            y = conv_batch_norm_by_kernel(input, weight, *of_norm, (*each, groups))
            if y is not None:
                return y
    z = conv(input, weight, None, stride, padding, dilation, groups)
    more = norm_weight, norm_bias, training, momentum, eps
    return batch_norm(z, running_mean, running_var, *more, add=add, activation=activation)
