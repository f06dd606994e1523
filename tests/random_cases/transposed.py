"""Random transposed convolutions against the reference, of integers to the bit."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from oracle import reference

import layoutkit as lk

from . import integers
from .convolutions import SANE, numbers
from .deciding import any_instruction_set, instruction_set
from .layouts import activation_layout, fitting
from .memory import beside, held, room
from .numbers import any_types, exact, of_result, of_sums, result

OPERATIONS = {1: lk.ConvTranspose1d, 2: lk.ConvTranspose2d, 3: lk.ConvTranspose3d}
WORK = 2_000_000  # multiplications of a case


def an_axis(rng: np.random.Generator, longest: int) -> tuple[int, ...]:
    """Size, kernel, stride, dilation, padding before and after, output padding; something comes out."""
    size, kernel = int(rng.integers(1, longest + 1)), int(rng.choice((1, 2, 3, 3, 4, 5)))
    stride, dilation = int(rng.choice((1, 2, 2, 3, 4))), int(rng.choice((1, 1, 2, 3)))
    extra = int(rng.integers(max(stride, dilation)))
    whole = (size - 1) * stride + dilation * (kernel - 1) + extra + 1
    before = int(rng.integers(min(whole, 4)))
    after = int(rng.integers(min(whole - before, 4)))
    return size, kernel, stride, dilation, before, after, extra


def case(seed: int, index: int) -> str | None:
    """One transposed convolution; None or what is wrong with it."""
    rng = np.random.default_rng((seed, 2, index))
    rank = int(rng.choice((1, 2, 2, 3)))
    axes = [an_axis(rng, {1: 30, 2: 9, 3: 5}[rank]) for _ in range(rank)]
    size, kernel, stride, dilation, before, after, extra = zip(*axes)
    groups = int(rng.choice((1, 1, 2, 3, 16)))
    ic, oc = (groups * int(rng.choice((1, 2, 3, 8, 16, 17))) for _ in range(2))
    n = int(rng.integers(1, 3))
    while n * ic * oc // groups * prod(size) * prod(kernel) > WORK and ic > groups:
        ic = groups * max(1, ic // groups // 2)
    x_shape, w_shape = (n, ic, *size), (ic, oc // groups, *kernel)
    attributes: dict[str, Any] = dict(
        stride=stride, padding=tuple(zip(before, after)), output_padding=extra, dilation=dilation, groups=groups
    )
    if rng.integers(2):
        algorithm = str(rng.choice(integers.ALGORITHMS))
        return integers.judged(
            rng, OPERATIONS[rank], reference.conv_transpose, x_shape, w_shape, oc, attributes, algorithm
        )
    types = any_types(rng)
    given = numbers(rng, x_shape, w_shape, types)
    bias = None if given.bias is None else rng.integers(-8, 9, oc).astype(types.sum)
    src = fitting(activation_layout(rng, rank + 2), given.x.shape)
    x = held(rng, reference.to_physical(given.x, src, pad_value=np.nan), shared=rng.integers(4) == 0)
    stored = exact(reference.to_logical(x.array, src, given.x.shape))
    if not np.array_equal(stored, exact(given.x), equal_nan=True) and not (abs(stored) < SANE).all():
        return None
    whole = given.whole and bool((stored == np.rint(stored)).all())
    sane = [np.nan_to_num(abs(a), nan=1, posinf=1) for a in (stored, exact(given.w))]
    with np.errstate(all="ignore"):
        want = reference.conv_transpose(stored, exact(given.w), bias, **attributes)
    sizes = reference.conv_transpose(*sane, None if bias is None else abs(bias), **attributes)
    dst = fitting(activation_layout(rng, rank + 2), want.shape) if rng.integers(2) else fitting(src, want.shape)
    out = room(rng, dst.physical_shape(want.shape), types.dst) if rng.integers(3) else None
    threads, isa = int(rng.integers(1, 3)), any_instruction_set(rng)
    what = f"{types.name} {stored.shape} {given.w.shape} {attributes} {src} -> {dst} {x.array.strides} {isa} t{threads}"
    with instruction_set(isa):
        attributes |= dict(layout=src, out_layout=dst, accuracy="strict", threads=threads, dtype=types.dst)
        op = OPERATIONS[rank](given.w, bias, **attributes)
        got = op(lk.Tensor(x.array, src, stored.shape), None if out is None else out.array)
    logical = exact(reference.to_logical(got.array, dst, want.shape))
    bound = 0.0 if whole else of_sums(types) * (ic // groups * prod(kernel) + 3) * sizes + 1e-30
    odd = ~np.isfinite(want)
    if whole:
        want = np.where(odd, want, result(want, types))
    else:
        bound = bound + of_result(types, np.where(odd, 0, want))
    if not np.array_equal(logical[odd], want[odd], equal_nan=True):
        return f"an Inf or a NaN is not where it should be: {what}"
    off = np.where(odd, 0, logical) - np.where(odd, 0, want)
    if not (abs(off) <= bound).all():
        return f"off by {abs(off).max()}: {what}"
    return beside(got.array, logical, dst, out, what)
