"""Random problems, each a function of (seed, index) alone, run and held against the reference.

What a caller may vary is drawn: shape, layouts, element type, strides of both sides, pads, threads, instruction set,
and which of the candidates decides. A function returns None or says what is wrong.
"""

from __future__ import annotations

from contextlib import contextmanager
from math import prod

import numpy as np

import layoutkit as lk
from layoutkit import reference
from layoutkit._core import registry
from layoutkit.choosing.costfile import Cost
from layoutkit.cost import cost_table

TYPES = ("u1", "i2", "f4", "f8", "c16")
BLOCKS = (2, 3, 4, 8, 12, 16, 32)
STEPS = (1, 1, 1, 2, -1, -3)
TOP = {1: 2000, 2: 70, 3: 24, 4: 12, 5: 7, 6: 5}  # longest axis by rank
CANARY = 0xA5
CONV_LAYOUTS = {
    1: ("NCW", "NWC", "nCw16c", "nCw8c"),
    2: ("NCHW", "NHWC", "nChw16c", "nChw8c", "nChw4c", "CHWN"),
    3: ("NCDHW", "NDHWC", "nCdhw16c", "nCdhw8c"),
}
OPERATIONS = {1: lk.Conv1d, 2: lk.Conv2d, 3: lk.Conv3d}
EPS = 2.0**-24
LOOSE = 100  # a Winograd route may be off by so many times what a sum of its length may


@contextmanager
def instruction_set(name: str):
    """Plans made inside use it."""
    before = registry.use_isa(name)
    try:
        yield
    finally:
        registry.use_isa(before)


def let_one_decide(rng: np.random.Generator, plan) -> str:
    """Make the cost table believe that a random candidate of `plan` is the fastest; returns its name."""
    candidate = plan.choices[rng.integers(len(plan.choices))].candidate
    cost_table.record(plan.title, candidate.name, Cost(1e-9, 1e-9, 0.0, 1))
    for step in candidate.steps:
        cost_table.record(step.key, step.name, Cost(1e-12, 1e-12, 0.0, 1))
    return candidate.name


def a_layout(rng: np.random.Generator, rank: int) -> lk.Layout:
    """Any order of dimensions, up to three blocks of any of them anywhere inside."""
    factors = [(int(d), 0) for d in rng.permutation(rank)]
    for _ in range(rng.integers(4)):
        dim = int(rng.integers(rank))
        first = factors.index((dim, 0)) + 1
        factors.insert(int(rng.integers(first, len(factors) + 1)), (dim, int(rng.choice(BLOCKS))))
    return lk.Layout.from_factors(factors)


def a_view(rng: np.random.Generator, shape, dtype) -> tuple[np.ndarray, np.ndarray]:
    """A room full of canaries, and a view of `shape` into it with some steps and edges."""
    steps = [int(rng.choice(STEPS)) if rng.integers(2) else 1 for _ in shape]
    edges = [int(rng.integers(2)) for _ in shape]
    room = np.empty([n * abs(k) + 2 * e for n, k, e in zip(shape, steps, edges)], dtype)
    room.reshape(-1).view(np.uint8)[...] = CANARY
    inner = room[tuple(slice(e, n * abs(k) + e) for n, k, e in zip(shape, steps, edges))]
    return room, inner[tuple(slice(None, None, k) for k in steps)]


def untouched(room: np.ndarray, view: np.ndarray) -> bool:
    """Whether `room` holds canaries only, but for `view` (which is overwritten with them)."""
    view[...] = np.frombuffer(bytes([CANARY]) * room.itemsize, room.dtype)[0]
    return bool((room.reshape(-1).view(np.uint8) == CANARY).all())


def reorder(seed: int, index: int) -> str | None:
    """One reorder."""
    rng = np.random.default_rng((seed, 0, index))
    rank = int(rng.integers(1, 7))
    least = 0 if rng.integers(20) == 0 else 1
    shape = tuple(int(n) for n in rng.integers(least, TOP[rank] + 1, rank))
    src, dst = a_layout(rng, rank), a_layout(rng, rank)
    while prod(src.physical_shape(shape)) + prod(dst.physical_shape(shape)) > 100_000:
        shape = tuple((n + 1) // 2 for n in shape)
        if max(shape) <= 1:
            src = dst = lk.Layout("abcdef"[:rank])
    dtype = np.dtype(rng.choice(TYPES))
    pad, threads, isa = int(rng.integers(100)), int(rng.integers(1, 4)), str(rng.choice(registry.isas()))
    tensor = rng.integers(0, 256, prod(shape) * dtype.itemsize, np.uint8).view(dtype).reshape(shape)
    stored = reference.to_physical(tensor, src, pad_value=7)
    want = reference.to_physical(tensor, dst, pad_value=np.asarray(pad).astype(dtype))
    _, given = a_view(rng, stored.shape, dtype)
    given.view(_bits(dtype))[...] = stored.view(_bits(dtype))
    room, out = a_view(rng, want.shape, dtype) if rng.integers(4) else (None, None)
    strides = given.strides, None if out is None else out.strides
    what = f"{shape} {dtype} {src} -> {dst} strides {strides} {isa} t{threads}"
    with instruction_set(isa):
        if prod(shape):
            what += " " + let_one_decide(rng, lk.plan(lk.reorder, given, src, dst, shape=shape, threads=threads))
        got = lk.reorder(given, src, dst, shape=shape, out=out, pad_value=pad, threads=threads)
    if not np.array_equal(got.view(_bits(dtype)), want.view(_bits(dtype))):
        return f"wrong values: {what}"
    if out is not None and (got is not out or not untouched(room, out)):
        return f"written outside out: {what}"
    return None


def _bits(dtype: np.dtype) -> str:
    """A type of the same width that compares bit for bit."""
    return {16: "V16"}.get(dtype.itemsize, f"u{dtype.itemsize}")


def a_window(rng: np.random.Generator) -> tuple[int, int, int, int, tuple[int, int]]:
    """Size, kernel, stride, dilation and padding of one axis, such that something comes out."""
    size, kernel, stride = int(rng.integers(1, 15)), int(rng.choice((1, 1, 2, 3, 3, 5))), int(rng.choice((1, 1, 2, 3)))
    dilation = int(rng.choice((1, 1, 1, 2)))
    pads = [int(n) for n in rng.integers(0, 4, 2)] if rng.integers(3) else [0, 0]
    pads[1] += max(0, dilation * (kernel - 1) + 1 - size - sum(pads))
    return size, kernel, stride, dilation, (pads[0], pads[1])


def convolution(seed: int, index: int) -> str | None:
    """One convolution."""
    rng = np.random.default_rng((seed, 1, index))
    rank = int(rng.choice((1, 2, 2, 2, 3)))
    size, kernel, stride, dilation, padding = zip(*(a_window(rng) for _ in range(rank)))
    groups = int(rng.choice((1, 1, 1, 2, 3, 8)))
    ic, oc = groups * int(rng.choice((0, 1, 1, 2, 3, 5, 16, 20, 33))), groups * int(rng.choice((1, 1, 2, 4, 7, 16, 37)))
    n, threads = int(rng.integers(0 if rng.integers(30) == 0 else 1, 3)), int(rng.integers(1, 4))
    src, dst = (lk.Layout(str(rng.choice(CONV_LAYOUTS[rank]))) for _ in range(2))
    isa = str(rng.choice(registry.isas()))
    x = rng.standard_normal((n, ic, *size), np.float32)
    w = rng.standard_normal((oc, ic // groups, *kernel), np.float32)
    bias = rng.standard_normal(oc, np.float32) if rng.integers(2) else None
    attributes = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    stored = reference.to_physical(x, src, pad_value=np.nan)  # what pads hold must not matter
    _, given = a_view(rng, stored.shape, np.dtype("f4"))
    given[...] = stored
    want = reference.conv(x, w, bias, **attributes)
    room, out = a_view(rng, dst.physical_shape(want.shape), np.dtype("f4")) if rng.integers(3) else (None, None)
    what = f"{x.shape} {w.shape} {attributes} bias {bias is not None} {src} -> {dst} {isa} t{threads}"
    with instruction_set(isa):
        op = OPERATIONS[rank](w, bias, layout=src, out_layout=dst, threads=threads, **attributes)
        name = let_one_decide(rng, op.plan(x.shape))
        got = op(given, out)
    what += f" {name}"
    bound = EPS * (w[0].size + 3) * reference.conv(abs(x), abs(w), None if bias is None else abs(bias), **attributes)
    if name.startswith("winograd"):
        bound = LOOSE * bound.max(initial=0)
    logical = reference.to_logical(got, dst, want.shape)
    if not (abs(logical - want) <= bound + 1e-30).all():
        return f"off by {abs(logical - want).max()}: {what}"
    if not np.array_equal(got, reference.to_physical(logical, dst)):
        return f"pads are not zero: {what}"
    if out is not None and (got is not out or not untouched(room, out)):
        return f"written outside out: {what}"
    return None
