"""Random convolutions of integers, equal to the bit: any layouts, types, zero points, scales, residuals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from oracle import reference

from layoutkit.convolutions.types import TYPES

from .convolutions import OPERATIONS, WORK, any_windows, channels, needed, refuses
from .deciding import any_costs, any_instruction_set, instruction_set
from .layouts import activation_layout, fitting
from .memory import beside, buffer, held, room

KINDS = [types for types in TYPES.values() if types.integers]
ACTIVATIONS = (None, None, "relu", ("clip", -3.0, 40.5), ("leaky_relu", 0.125))  # what rounds at most once
ALGORITHMS = ("auto", "auto", "direct", "im2col", "folded", "depthwise")


def any_of(rng: np.random.Generator, dtype: np.dtype, shape=()) -> Any:
    """Numbers of all that the type holds, its ends often."""
    limits = np.iinfo(dtype)
    found = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    ends = rng.random(shape) < rng.choice((0.0, 0.1, 1.0))
    return np.where(ends, rng.choice(np.array((limits.min, limits.max), dtype), shape), found).astype(dtype)


def case(seed: int, index: int) -> str | None:
    """One convolution; None or what is wrong with it."""
    rng = np.random.default_rng((seed, 5, index))
    rank = int(rng.choice((1, 2, 2, 2, 3)))
    size, kernel, stride, dilation, padding = any_windows(rng, rank)
    groups, ic, oc = channels(rng)
    n = int(rng.integers(1, 4))
    while np.prod(size) * n * oc * (ic // groups) * np.prod(kernel) > WORK and oc > groups:
        oc, ic = max(1, oc // groups // 2) * groups, max(1, ic // groups // 2) * groups
    geometry: dict[str, Any] = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    return judged(
        rng, OPERATIONS[rank], reference.conv, (n, ic, *size), (oc, ic // groups, *kernel), oc, geometry,
        str(rng.choice(ALGORITHMS)),
    )  # fmt: skip


def judged(
    rng: np.random.Generator, operation: type, sums_of: Callable[..., np.ndarray], shape: tuple[int, ...],
    w_shape: tuple[int, ...], oc: int, geometry: dict[str, Any], algorithm: str,
) -> str | None:  # fmt: skip
    """One convolution of any numbers in such shapes, whose exact sums a function of the reference tells."""
    types = KINDS[rng.integers(len(KINDS))]
    dst_type, kind = types.dst, types.elements[3]
    x, w = any_of(rng, types.src, shape), any_of(rng, types.filter, w_shape)
    zero = int(any_of(rng, types.src))
    finish: dict[str, Any] = {}
    bias = None
    if rng.integers(2):
        bias = rng.integers(-(2**20), 2**20, oc).astype(np.int32)
        if kind != "s32" and rng.integers(2):
            bias = rng.standard_normal(oc).astype(np.float32)
    if kind != "s32":
        finish["activation"] = ACTIVATIONS[rng.integers(len(ACTIVATIONS))]
        if rng.integers(4):
            scale = np.float32(2.0 ** rng.uniform(-20, 0, oc))
            finish["scale"] = scale if rng.integers(2) else scale[0]
    if kind in ("u8", "s8"):
        finish["out_zero_point"] = int(any_of(rng, dst_type))
        finish["out_scale"] = float(np.float32(rng.choice((1.0, 0.5, 2.0 ** rng.uniform(-6, 6)))))
    src = fitting(activation_layout(rng, len(shape)), shape)
    stored = held(rng, reference.to_physical(x, src, pad_value=77), shared=rng.integers(6) == 0)
    x = reference.to_logical(stored.array, src, shape)
    sums = sums_of(x.astype(np.int64) - zero, w, None, **geometry)
    out_shape = sums.shape
    add = any_of(rng, dst_type, out_shape) if kind in ("u8", "s8") and rng.integers(3) == 0 else None
    if kind == "f32" and rng.integers(3) == 0:
        add = rng.integers(-99, 99, out_shape).astype(np.float32)
    dst = fitting(activation_layout(rng, len(shape)), out_shape) if rng.integers(2) else fitting(src, out_shape)
    want = reference.requantized(sums, bias, dst_type, add=add, **finish)
    threads, isa = int(rng.integers(1, 4)), any_instruction_set(rng)
    costs = int(rng.integers(2**31)) if rng.integers(4) else None
    out = room(rng, dst.physical_shape(out_shape), dst_type) if rng.integers(3) else None
    residual = None if add is None else reference.to_physical(add, dst)
    if residual is not None and out is not None and rng.integers(2):
        out.array[...] = residual
        residual = out.array
    what = (
        f"{operation.__name__} {types.name} {shape} {w.shape} {geometry} zero point {zero} {finish} bias "
        f"{None if bias is None else bias.dtype} add {add is not None} {src} -> {dst} strides {stored.array.strides} "
        f"{None if out is None else out.array.strides} {algorithm} {isa} t{threads} costs {costs}"
    )
    with instruction_set(isa), any_costs(costs):
        op = operation(
            w, bias, layout=src, out_layout=dst, dtype=(types.src, dst_type), zero_point=zero, threads=threads,
            algorithm=algorithm, **finish, **geometry,
        )  # fmt: skip
        try:
            what += f" {op.plan(shape).choices[0].candidate.name}"
        except ValueError as error:
            return None if algorithm != "auto" and refuses(error) else f"{error}: {what}"
        space = None
        if out is not None and rng.integers(2):
            space, _ = buffer(rng, needed(op, stored.array, out, residual, shape))
        got = op(stored.array, None if out is None else out.array, residual, space, shape=shape)
    logical = reference.to_logical(got, dst, out_shape)
    if not np.array_equal(logical, want):
        off = abs(logical - want.astype(np.float64))
        return f"{(off > 0).sum()} of {want.size} differ, by {off.max()}: {what}"
    return beside(got, want, dst, out, what)
