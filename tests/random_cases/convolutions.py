"""Random convolutions against the reference: any layouts, strides, attributes, algorithm and accuracy."""

from __future__ import annotations

import re
from math import prod
from typing import Any, NamedTuple

import numpy as np
from oracle import reference

import layoutkit as lk
from layoutkit import winograd
from layoutkit.convolutions.algorithms import NAMES
from layoutkit.convolutions.problem import ACCURACIES
from layoutkit.convolutions.types import ConvTypes

from .deciding import any_instruction_set, instruction_set, let_one_decide
from .layouts import activation_layout, any_layout, fitting
from .memory import beside, bits, buffer, held, room
from .numbers import any_types, exact, normal, of_result, of_sums, result

OPERATIONS = {1: lk.Conv1d, 2: lk.Conv2d, 3: lk.Conv3d}
ACTIVATIONS = (
    None, None, None, "relu", "relu6", ("clip", -1.5, 2.5), ("leaky_relu", 0.125), "silu", "gelu", "gelu_tanh",
    "hardswish", ("hardswish", 0.25, 0.5), ("hardsigmoid", 0.25, 0.5), ("elu", 0.75), "tanh", "sigmoid", "softplus",
    "mish", ("swish", 0.875), "abs", ("linear", 0.5, -2.0), ["abs", ("linear", 0.5, 1.0), ("min", 30.0), ("add", -2.0)],
    [("mul", 0.5), "relu", ("max", 1.0)],
)  # fmt: skip
# Of whole numbers, as long as slopes are powers of two.
EXACT = (None, "relu", "relu6", "clip", "leaky_relu", "abs", "linear", "hardsigmoid", "chain")
WORK = 3_000_000  # multiplications of a case
SANE = 100.0  # inputs that share bytes may be anything; those below make sums that can be judged
CANNOT = "cannot do it"  # what the refusal of a forced algorithm says


class Window(NamedTuple):
    """One axis of a convolution."""

    size: int
    kernel: int
    stride: int
    dilation: int
    padding: tuple[int, int]


class Numbers(NamedTuple):
    """Input, filter, bias and what is added, logical."""

    x: np.ndarray
    w: np.ndarray
    bias: np.ndarray | None
    whole: bool  # whole numbers small enough for sums to be exact


def a_window(rng: np.random.Generator, longest: int) -> Window:
    """Such that something comes out."""
    size, kernel = int(rng.integers(1, longest + 1)), int(rng.choice((1, 1, 2, 3, 3, 3, 4, 5, 7)))
    stride, dilation = int(rng.choice((1, 1, 1, 2, 3, 5))), int(rng.choice((1, 1, 1, 2, 3)))
    pads = [int(n) for n in rng.integers(0, 4, 2)] if rng.integers(3) else [0, 0]
    if rng.integers(4) == 0:  # a single result, or two
        size = max(1, min(longest, dilation * (kernel - 1) + 1 - sum(pads) + stride * int(rng.integers(2))))
    pads[1] += max(0, dilation * (kernel - 1) + 1 - size - sum(pads))
    return Window(size, kernel, stride, dilation, (pads[0], pads[1]))


def any_windows(rng: np.random.Generator, rank: int) -> tuple:
    """Sizes, kernels, strides, dilations and padding of the axes; now and then rows are longer than register tiles. In
    a third of the cases all axes have the same windows, as networks have them."""
    longest = [{1: 60, 2: 18, 3: 8}[rank]] * rank
    if rng.integers(4) == 0:
        longest = [*[4] * (rank - 1), 140]
    windows = [a_window(rng, n) for n in longest]
    if rng.integers(3) == 0:
        one = windows[0]
        reach = one.dilation * (one.kernel - 1) + 1 - sum(one.padding)
        windows = [one._replace(size=max(w.size, reach)) for w in windows]
    return tuple(zip(*windows))


def channels(rng: np.random.Generator) -> tuple[int, int, int]:
    """Groups, input and output channels: dense, depthwise or in between."""
    match rng.integers(4):
        case 0 | 1:
            into, out_of = (0, 1, 2, 3, 4, 5, 8, 16, 17, 20, 33, 64), (1, 2, 3, 7, 16, 20, 37, 64)
            return 1, int(rng.choice(into)), int(rng.choice(out_of))
        case 2:
            groups = int(rng.choice((1, 2, 3, 8, 16, 17, 32, 48, 64, 96)))
            return groups, groups, groups * int(rng.choice((1, 1, 1, 2, 3)))
        case _:
            groups = int(rng.choice((2, 3, 4, 8)))
            return groups, groups * int(rng.choice((1, 2, 4, 5, 8, 16))), groups * int(rng.choice((1, 2, 4, 5, 8, 16)))


def numbers(rng: np.random.Generator, x_shape, w_shape, types: ConvTypes) -> Numbers:
    """Half of the time whole ones, all of whose sums are exact in float32; of the others some with an Inf or a NaN."""
    biased = rng.integers(2)
    if rng.integers(2):
        x, w, b = (rng.integers(-8, 9, s).astype(types.src) for s in (x_shape, w_shape, w_shape[0]))
        return Numbers(x, w, b if biased else None, True)
    x, w, b = (normal(rng, s, types.src) for s in (x_shape, w_shape, w_shape[0]))
    if rng.integers(2):
        b = b.astype(types.sum)
    if rng.integers(8) == 0:
        for array in (x, w):
            if array.size and rng.integers(2):
                array.reshape(-1)[rng.integers(array.size)] = rng.choice((np.inf, -np.inf, np.nan))
    return Numbers(x, w, b if biased else None, False)


def activated(y: np.ndarray, activation) -> np.ndarray:
    """What follows the sums."""
    return reference.epilogue(y, activation)


def case(seed: int, index: int) -> str | None:
    """One convolution; None or what is wrong with it."""
    rng = np.random.default_rng((seed, 1, index))
    rank = int(rng.choice((1, 2, 2, 2, 3)))
    size, kernel, stride, dilation, padding = any_windows(rng, rank)
    groups, ic, oc = channels(rng)
    n = int(rng.integers(0 if rng.integers(30) == 0 else 1, 4))
    work = prod(kernel) * prod(s + sum(p) for s, p in zip(size, padding))
    while work * n * oc * (ic // groups) > WORK and oc > groups:
        oc, ic = max(1, oc // groups // 2) * groups, max(1, ic // groups // 2) * groups
    types = any_types(rng)
    given = numbers(rng, (n, ic, *size), (oc, ic // groups, *kernel), types)
    geometry: dict[str, Any] = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    attributes = dict(geometry)
    with np.errstate(all="ignore"):
        want = reference.conv(given.x, given.w, given.bias, **geometry)
    src = fitting(activation_layout(rng, rank + 2), given.x.shape)
    dst = fitting(activation_layout(rng, rank + 2), want.shape) if rng.integers(2) else fitting(src, want.shape)
    filter_layout = fitting(any_layout(rng, rank + 2), given.w.shape) if rng.integers(3) == 0 else None
    algorithm = str(rng.choice(NAMES)) if rng.integers(2) else "auto"
    accuracy = str(rng.choice(ACCURACIES))
    activation = ACTIVATIONS[rng.integers(len(ACTIVATIONS))]
    threads, isa = int(rng.integers(1, 3)), any_instruction_set(rng)
    x = held(rng, reference.to_physical(given.x, src, pad_value=np.nan), shared=rng.integers(4) == 0)
    stored = exact(reference.to_logical(x.array, src, given.x.shape))  # not what was given, where places are shared
    if not np.array_equal(stored, exact(given.x), equal_nan=True) and not (abs(stored) < SANE).all():
        return None
    w: Any = given.w
    bias = given.bias
    whole = given.whole and bool((stored == np.rint(stored)).all())
    given = Numbers(stored, exact(given.w), exact(given.bias), whole)
    if filter_layout is not None:
        w = reference.to_physical(w, filter_layout, pad_value=np.nan)
        if rng.integers(2):
            w = lk.Tensor(w, filter_layout, given.w.shape)
        else:
            attributes |= dict(filter_layout=filter_layout, filter_shape=given.w.shape)
    add = rng.integers(-8, 9, want.shape).astype(types.sum) if rng.integers(4) == 0 else None
    with np.errstate(all="ignore"):
        exact_sums = reference.conv(given.x, given.w, given.bias, **geometry)
        want = activated(exact_sums if add is None else exact_sums + add, activation)
    physical = dst.physical_shape(want.shape)
    out = room(rng, physical, types.dst) if rng.integers(3) else None
    residual = None if add is None else reference.to_physical(add.astype(types.dst), dst)
    if add is not None and out is not None and rng.integers(2):
        bits(out.array)[...] = bits(residual)
        residual = out.array
    what = (
        f"{types.name} {given.x.shape} {given.w.shape} {geometry} {src} -> {dst}, filter {filter_layout}, bias "
        f"{given.bias is not None} {activation} add {add is not None} strides {x.array.strides} "
        f"{None if out is None else out.array.strides} {algorithm} {accuracy} {isa} t{threads}"
    )
    attributes |= dict(layout=src, out_layout=dst, algorithm=algorithm, accuracy=accuracy, activation=activation,
                       threads=threads, dtype=types.dst)  # fmt: skip
    tensors = bool(rng.integers(2))
    tensor = lk.Tensor(x.array, src, given.x.shape) if tensors else x.array
    shape = None if tensors else given.x.shape
    with instruction_set(isa):
        op = OPERATIONS[rank](w, bias, **attributes)
        try:
            plan = op.plan(given.x.shape)
        except ValueError as error:
            return None if algorithm != "auto" and refuses(error) else f"{error}: {what}"
        name = let_one_decide(rng, plan)
        what += f" {name}"
        space = None
        if out is not None and rng.integers(2):
            space, _ = buffer(rng, needed(op, tensor, out, residual, shape))
        got = op(tensor, None if out is None else out.array, residual, space, shape=shape)
    if tensors and (got.shape, got.layout) != (want.shape, dst):
        return f"{got.layout} of {got.shape} instead of {want.shape}: {what}"
    got = got.array if tensors else got
    logical = reference.to_logical(got, dst, want.shape)
    with np.errstate(all="ignore"):
        wrong = _wrong(exact(logical), want, exact_sums, given, attributes, name, add, types)
    return f"{wrong}: {what}" if wrong else beside(got, logical, dst, out, what)


def refuses(error: ValueError) -> bool:
    """Whether an algorithm that was forced says that it cannot do a problem."""
    return CANNOT in str(error) or "not for this filter" in str(error)


def needed(op, x, out, add, shape) -> int:
    """Bytes of workspace, which the refusal of too small a one tells, before anything is written."""
    before = out.memory.copy()
    try:
        op(x, out.array, add, np.empty(0, np.uint8), shape=shape)
    except ValueError as error:
        if not np.array_equal(out.memory, before):
            raise ValueError("written although refused") from error
        return int(str(error).rpartition("needs ")[2])
    out.memory[...] = before
    return 0


LEFT_OUT = {"3": 2, "2": 3 * 2**8}  # of products, in 2^-24


def _wrong(got, want, sums, given: Numbers, attributes, name: str, add, types: ConvTypes) -> str | None:
    """What is wrong with the numbers."""
    activation = attributes["activation"]
    kind = activation if isinstance(activation, str) or activation is None else activation[0]
    kind = "chain" if isinstance(activation, list) else kind
    tile = re.match(r"winograd F\((\d),3\)", name)
    if tile and not (np.isfinite(given.x).all() and np.isfinite(want).all()):
        return None  # in its whole tiles, also from inputs that no output reads
    components = re.search(r"bf16x(\d)", name)
    odd = ~(np.isfinite(want) & (np.isfinite(sums) | (not components)))
    if odd.any():
        right = np.array_equal(got[odd], want[odd], equal_nan=True)
        if components:  # make NaN of Inf, also where an activation makes it finite
            with np.errstate(invalid="ignore"):
                right = bool((~np.isfinite(got) | np.isclose(got, want))[odd].all())
        if not right:
            return "an Inf or a NaN is not where it should be"
        got, want, sums = (np.where(odd, 0, a) for a in (got, want, sums))
        given = given._replace(x=np.nan_to_num(given.x, posinf=1, neginf=1, nan=1), w=np.nan_to_num(given.w, posinf=1))
    if given.whole and kind in EXACT and not tile:
        want = result(want, types)
        return None if np.array_equal(got, want) else f"off by {abs(got - want).max()}, whole numbers"
    geometry = {k: attributes[k] for k in ("stride", "padding", "dilation", "groups")}
    sizes = reference.conv(abs(given.x), abs(given.w), None if given.bias is None else abs(given.bias), **geometry)
    eps = of_sums(types)
    bound = eps * (given.w[0].size + 3) * sizes + 4 * eps * (abs(sums) + (0 if add is None else abs(add)))
    if components:
        bound += eps * (28 + LEFT_OUT[components[1]]) * sizes
    if tile:
        narrow = types.narrow and " as " not in name
        allowed = winograd.error_bound(given.x, given.w, int(tile[1]), bias=given.bias, narrow=narrow, **geometry)
        bound += allowed[tuple(map(slice, want.shape))]  # where there is one output, the stride may be any
    bound = 1.2 * bound + 8 * eps * abs(want) + 1e-30 + of_result(types, want)  # no activation is steeper
    return None if (abs(got - want) <= bound).all() else f"off by {abs(got - want).max()}"
