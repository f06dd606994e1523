"""Random convolutions of accuracy "reproducible", each carried out in several ways: all have the same bits.

Ways differ in the instruction set (those that fuse multiplications with additions), the layouts, the number of threads
and the costs that decide, which are made up. Where nothing but sums is asked for, the bits are also those of the
reference. The portable instruction set does not fuse on x86: there it has to agree with itself.
"""

from __future__ import annotations

import platform
from math import prod
from typing import Any, NamedTuple

import numpy as np
from oracle import reference

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.convolutions import order
from layoutkit.convolutions.epilogue import ACTIVATIONS
from layoutkit.convolutions.problem import ConvProblem

from .convolutions import a_window, channels
from .deciding import any_costs, instruction_set
from .layouts import activation_layout, fitting
from .memory import bits, held
from .numbers import any_types, exact

CONVOLUTIONS = {1: lk.Conv1d, 2: lk.Conv2d, 3: lk.Conv3d}
TRANSPOSED = {1: lk.ConvTranspose1d, 2: lk.ConvTranspose2d, 3: lk.ConvTranspose3d}
WAYS = 3
WORK = 1_000_000  # multiplications of a case
LONGEST = {1: 60, 2: 20, 3: 8}
PARAMETERS = {
    "clip": (-0.5, 0.7), "leaky_relu": (0.1,), "elu": (0.7,), "swish": (1.3,), "hardsigmoid": (0.2, 0.5),
    "linear": (0.3, -1.0), "pow": (0.5, 3), "selu": (1.7, 1.05), "celu": (0.7,), "thresholded_relu": (0.4,),
    "shrink": (0.1, 0.4),
}  # fmt: skip


class Way(NamedTuple):
    """How a problem is carried out."""

    isa: str
    threads: int
    costs: int | None  # seed of the costs that decide; None: as without any table
    src: lk.Layout
    dst: lk.Layout


def fused() -> list[str]:
    """The instruction sets that have to agree with each other."""
    unfused = {"portable"} if platform.machine() == "x86_64" else set()
    return [isa for isa in registry.isas() if isa not in unfused]


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether the floats have the same bits; those of NaNs do not matter."""
    return bool(((bits(a) == bits(b)) | (np.isnan(a) & np.isnan(b))).all())


def numbers(rng: np.random.Generator, dtype: np.dtype, kind: str, *shape: int) -> np.ndarray:
    """Numbers of a kind: normal ones; such whose products underflow, with zeros of either sign; with Inf and NaN."""
    if dtype.itemsize < 4:
        with np.errstate(over="ignore"):
            return numbers(rng, np.dtype(np.float32), kind, *shape).astype(dtype)
    x = rng.standard_normal(shape, dtype)
    if kind == "tiny":
        x *= dtype.type(2.0 ** -rng.integers(60, 80))
        x[rng.random(shape) < 0.4] = 0
        np.copysign(x, rng.choice((-1.0, 1.0), shape), out=x)
    if kind == "wild":
        x *= np.exp2(rng.integers(-30, 30, shape)).astype(dtype)
        x[rng.random(shape) < 0.01] = np.inf
        x[rng.random(shape) < 0.01] = np.nan
    return x


def _way(rng: np.random.Generator, isa: str, x_shape, y_shape) -> Way:
    src, dst = (fitting(activation_layout(rng, len(x_shape)), shape) for shape in (x_shape, y_shape))
    if rng.integers(3):
        dst = fitting(src, y_shape)
    costs = None if rng.integers(4) == 0 else int(rng.integers(2**31))
    return Way(isa, int(rng.integers(1, 5)), costs, src, dst)


def _run(rng: np.random.Generator, way: Way, cls, x, w, bias, add, y_shape, attributes) -> np.ndarray:
    """The logical result, of `y_shape`."""
    with instruction_set(way.isa), any_costs(way.costs):
        op = cls(w, bias, layout=way.src, out_layout=way.dst, threads=way.threads, accuracy="reproducible",
                 **attributes)  # fmt: skip
        given = held(rng, reference.to_physical(x, way.src, pad_value=np.nan)).array
        if add is None:
            y = op(given, shape=x.shape)
        else:
            y = residual = reference.to_physical(add, way.dst)
            if rng.integers(2):  # not onto the residual
                y = np.full_like(residual, np.nan)
            op(given, y, residual, shape=x.shape)
    return reference.to_logical(y, way.dst, y_shape)


def case(seed: int, index: int) -> str | None:
    """One convolution in several ways; None or what differs."""
    rng = np.random.default_rng((seed, 4, index))
    rank = int(rng.choice((1, 2, 2, 2, 3)))
    transposed = rng.integers(6) == 0
    size, kernel, stride, dilation, padding = zip(*(a_window(rng, LONGEST[rank]) for _ in range(rank)))
    if rng.integers(3) == 0:  # what the special ways take
        kernel, dilation, padding = (3,) * rank, (1,) * rank, ((1, 1),) * rank
        stride = (int(rng.integers(1, 3)),) * rank
    groups, ic, oc = channels(rng)
    ic = max(ic, groups)
    while prod(size) * oc * (ic // groups) * prod(kernel) > WORK and oc > groups:
        oc, ic = max(1, oc // groups // 2) * groups, max(1, ic // groups // 2) * groups
    attributes: dict[str, Any] = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    x_shape = (int(rng.integers(1, 3)), ic, *size)
    if transposed:
        attributes["padding"] = tuple((min(a, d * (k - 1)), 0) for (a, _), k, d in zip(padding, kernel, dilation))
        out = [(m - 1) * s - a + d * (k - 1) + 1
               for m, s, (a, _), d, k in zip(size, stride, attributes["padding"], dilation, kernel)]  # fmt: skip
    else:
        out = [(m + sum(p) - d * (k - 1) - 1) // s + 1
               for m, p, d, k, s in zip(size, padding, dilation, kernel, stride)]  # fmt: skip
    y_shape = (x_shape[0], oc, *out)
    kind = str(rng.choice(("normal", "normal", "tiny", "wild")))
    types = any_types(rng)
    dtype = types.src
    x = numbers(rng, dtype, kind, *x_shape)
    w_shape = (ic, oc // groups) if transposed else (oc, ic // groups)
    w = numbers(rng, dtype, "tiny" if kind == "tiny" else "normal", *w_shape, *kernel)
    bias = numbers(rng, types.sum, kind, oc) if rng.integers(2) else None
    add = numbers(rng, types.dst, kind, *y_shape) if rng.integers(3) == 0 else None
    finish: dict[str, Any] = dict(dtype=types.dst)
    if rng.integers(2):
        name = str(rng.choice([name for name, (row, *_) in ACTIVATIONS.items() if row.operand in ("", "number")]))
        finish["activation"] = (name, *PARAMETERS.get(name, ()))
    if rng.integers(4) == 0:
        finish["scale"] = rng.standard_normal(oc, types.sum)
    cls = (TRANSPOSED if transposed else CONVOLUTIONS)[rank]
    what = (
        f"{cls.__name__} {types.name} {x_shape} {w.shape} {attributes} bias {bias is not None} add {add is not None} "
        f"{finish} {kind}"
    )
    everything = attributes | finish
    for isas in (fused(), [isa for isa in registry.isas() if isa not in fused()]):
        first = None
        for way in [_way(rng, isa, x_shape, y_shape) for isa in isas for _ in range(WAYS)]:
            got = _run(rng, way, cls, x, w, bias, add, y_shape, everything)
            if first is None:
                first, by = got, way
            elif not same(got, first):
                return f"{by} and {way} differ: {what}"
        if first is not None and not transposed and add is None and len(finish) == 1 and isas == fused():
            nchw = lk.Layout("abcde"[: rank + 2])
            numbers_of = x_shape[0], ic, oc, size, kernel, stride, padding, dilation, groups
            p = ConvProblem(*numbers_of, nchw, nchw, types=types)
            how = dict(by_channel=order.by_channel(p), chunks=order.chunks(p))
            sums = reference.conv_in_order(exact(x), exact(w), bias, **attributes, **how)
            with np.errstate(over="ignore"):
                want = sums.astype(types.dst)
            if not same(first, want):
                return f"{by} differs from the reference: {what}"
    return None
