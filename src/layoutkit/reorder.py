"""Reorder: the same tensor in another memory format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ._core import registry
from ._core.reorder import Kept, Program, address
from .arrays import as_array, check_held, check_movable, check_out, empty, new, overlap
from .box import Box, box_of
from .convert import converter, is_dtype, pad_bytes, parameters, token, types
from .cost import cost_table
from .features import reorder_features
from .inplace import reorder_in_place
from .kinds import KINDS, tell
from .layout import Layout
from .leaves import LINE
from .limits import copy_rate
from .machine import last_level_cache
from .measuring import Contest, first_use
from .model import describes
from .nests import copy_nests, fill_nests, regions
from .notation import key
from .plan import Candidate, Choice, Plan, mode, planner, rank
from .slabs import slabs
from .threads import check_threads

SMALL = 1 << 18  # bytes below which a second thread costs more than it brings


def reorder(
    array,
    src: str | Layout,
    dst: str | Layout,
    *,
    shape: Sequence[int] | None = None,
    out: np.ndarray | None = None,
    dtype=None,
    scale=None,
    zero_point=None,
    axis: int = 1,
    alpha: float = 1,
    beta: float = 0,
    region=None,
    at=None,
    pad_value=0,
    threads: int | None = None,
) -> np.ndarray:
    """Move a tensor from memory format `src` to `dst`.

    Parameters
    ----------
    array : array_like
        The tensor as it lies in `src`: one axis per factor of the layout (an NHWC array has shape
        (N, H, W, C), an nChw16c one (N, ceil(C/16), H, W, 16)). Any strides. Elements of 1, 2, 4, 8 or
        16 bytes of any dtype; they are moved as they are, bit for bit.
    src, dst : str or Layout
        Formats of equal rank.
    shape : sequence of int, optional
        The logical shape, in logical order, where blocks of `src` are padded. By default all of `array`.
    out : ndarray, optional
        Where to write: shape ``dst.physical_shape(shape)``, dtype of the result, any strides. It may be a view
        of the memory of `array` where two dimensions of equal size change places, and nothing else does.
    dtype : dtype-like, or pair of them, optional
        Type of the result; by default that of `array`. Other than moves, conversions know float32, float64,
        float16, bfloat16 (of ml_dtypes), int32, int8, uint8. A pair names the type of `array` too:
        ``("bfloat16", "float32")`` reads uint16 as bfloat16, ``"bfloat16"`` without ml_dtypes gives such.
    scale, zero_point : number or sequence of them, optional
        One for all, or one for each index of dimension `axis`. What they do is said below.
    axis : int, optional
        The logical dimension of scales per channel: 1 for activations (the default), 0 or 1 for filters.
    alpha, beta : float, optional
        ``alpha * result + beta * out`` is written; `beta` needs `out`, which is not read where it is 0.
    region : sequence of (start, stop), slice or None, optional
        The box of the source to take, per logical dimension; None takes all of one. It may begin and end
        anywhere in blocks. The result has its shape.
    at : sequence of int, optional
        Where in the tensor that `out` holds to write, per logical dimension: nothing else of `out` is written,
        no pads either.
    pad_value : scalar, optional
        What the pads of `dst` are set to.
    threads : int, optional
        At most this many threads.

    Returns
    -------
    ndarray
        The physical array of `dst`: `out`, or a new one aligned to 64 bytes.

    Raises
    ------
    TypeError, ValueError
        Before anything is written: dtype, shapes, layouts, parameters or `out` do not fit.

    Notes
    -----
    With a `dtype` or a scale, an element q or x becomes

    - integer to float: ``(q - zero_point) * scale``
    - float to integer: ``saturate(round(x / scale) + zero_point)``, as QuantizeLinear of ONNX
    - integer to integer: ``saturate(round(q * scale) + zero_point)``
    - float to float: ``x * scale``

    and with alpha and beta, where ``real`` is that before rounding: ``alpha * real + beta * out`` for floats,
    ``saturate(round(alpha * real + beta * (out - zero_point)) + zero_point)`` for integers.

    All of it is computed in float32, or in float64 where float64 or int32 takes part: parameters are rounded to
    that, each operation is, to nearest even, and none is fused with another; the result is rounded to its type,
    to nearest even, once. Integers saturate; NaN counts as 0 there, and stays NaN in floats. Floats overflow to
    infinity and keep denormals. Pads are not converted: they hold `pad_value`, a value of the result's type.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> image = np.arange(6).reshape(1, 2, 1, 3)        # N H W C
    >>> lk.reorder(image, "NHWC", "NCHW").tolist()
    [[[[0], [3]], [[1], [4]], [[2], [5]]]]
    >>> lk.reorder(image, "NHWC", "NCHW", region=(None, (1, 3), None, None)).tolist()
    [[[[1], [4]], [[2], [5]]]]
    """
    if type(array) is not np.ndarray:
        array = as_array(array, "reorder")
    if not (dtype is scale is zero_point is region is at is None and alpha == 1 and beta == 0):
        numbers = Numbers(dtype, scale, zero_point, axis, alpha, beta)
        return _general(array, src, dst, shape, out, numbers, region, at, pad_value, check_threads(threads))
    out_strides = phase = None
    if type(out) is np.ndarray:
        out_strides, phase = out.strides, address(out) % LINE
    threads = check_threads(threads)
    key: tuple | None
    try:
        key = (
            src, dst, array.shape, array.strides, array.dtype, shape, out_strides, phase,
            pad_value if type(pad_value) is int else None, threads, cost_table.generation, registry.isa(),
        )  # fmt: skip
        bound = _bound.get(key)
    except TypeError:  # something given is no key: a list as shape, say
        key = bound = None
    if bound is None:
        bound = _bind(array, src, dst, shape, out, None, None, pad_value, threads)
        if key is not None and type(pad_value) is int:
            if len(_bound) >= MAX_BOUND:
                _bound.clear()
            _bound[key] = bound
    move, physical, threads, what, pitched = bound
    if out is None:
        out = empty(physical, array.dtype, what) if pitched is None else new(pitched[0], pitched[1], array.dtype, what)
    else:
        check_out(out, physical, array.dtype, (), what)
        if overlap(array, out):
            src, dst = Layout(src), Layout(dst)
            shape = src.padded_shape(array.shape) if shape is None else src.check_shape(shape)
            reorder_in_place(array, out, src, dst, shape, partial(reorder, threads=threads), what)
            return out
    if move is not None:
        move(array, out, threads)
    return out


MAX_BOUND = 4096
_bound: dict = {}  # what a call's arguments look like -> what to run


def _bind(array, src, dst, shape, out, region, at, pad_value, threads: int):
    """The program of arrays like these, the shape of its result, the threads it uses, its name, and layout and
    shape of the result if that has explicit strides."""
    src, dst = Layout(src), Layout(dst)
    check_movable(array, "reorder")
    what = f"reorder {src} -> {dst}"
    box, physical, pitched = _place(array, src, dst, shape, out, region, at, what)
    width, nbytes = array.itemsize, prod(physical) * array.itemsize
    if not nbytes or (0 in box.shape and not box.whole):
        return None, physical, 1, what, pitched
    out_strides = out.strides if type(out) is np.ndarray else None
    if out_strides is None or len(out_strides) != len(physical):  # the latter: not an out that will be used
        out_strides = _strides(dst, box.dst_shape, width)
    pad = np.asarray(pad_value).astype(array.dtype).tobytes()
    threads = useful_threads(prod(box.shape) * width if at else nbytes, threads)
    src, dst = src.dense, dst.dense
    kind = choices(src, dst, box.shape, width, threads)[0].candidate.name
    phase = address(out) % LINE if type(out) is np.ndarray else 0
    move = program(src, dst, box.shape, width, array.strides, out_strides, pad, kind, box, phase)
    return move, physical, threads, what, pitched


def _place(array, src, dst, shape, out, region, at, what):
    """What moves, the physical shape of the result, and its layout and shape if that has explicit strides."""
    box = Box.all_of(check_held(array, src, dst, shape, what))
    if region is not None or at is not None:
        box = box_of(box.shape, dst, region, at, out.shape if isinstance(out, np.ndarray) else None, what)
    return box, dst.physical_shape(box.dst_shape), None if dst.is_dense else (dst, box.dst_shape)


class Numbers(NamedTuple):
    """What the caller says of the numbers, as given."""

    dtype: Any
    scale: Any
    zero_point: Any
    axis: Any
    alpha: Any
    beta: Any

    def change(self, held: np.dtype) -> bool:
        """Whether arrays of dtype `held` are converted, not moved."""
        if self.scale is self.zero_point is None and self.alpha == 1 and self.beta == 0:
            return self.dtype is not None and not is_dtype(self.dtype, held)
        return True


def _general(array, src, dst, shape, out, numbers: Numbers, region, at, pad_value, threads):
    """`reorder` of boxes, or with numbers that change."""
    key: tuple | None
    try:
        key = (
            src, dst, array.shape, array.strides, array.dtype, shape, region, at,
            (out.shape, out.strides) if isinstance(out, np.ndarray) else None, *map(token, numbers),
            token(pad_value), threads, cost_table.generation, registry.isa(),
        )  # fmt: skip
        bound = _bound.get(key)
    except TypeError:  # something given is no key
        key = bound = None
    if bound is None:
        bind = _bind_conversion if numbers.change(array.dtype) else _bind_box
        bound = bind(array, src, dst, shape, out, numbers, region, at, pad_value, threads)
        if key is not None:
            if len(_bound) >= MAX_BOUND:
                _bound.clear()
            _bound[key] = bound
    run, given, physical, dtype, threads, what, pitched = bound
    if out is not None:
        check_out(out, physical, dtype, (array,), what)
    else:
        out = empty(physical, dtype, what) if pitched is None else new(pitched[0], pitched[1], dtype, what)
    if run is not None:
        run(array, out, threads, *given)
    return out


def _bind_box(array, src, dst, shape, out, numbers, region, at, pad_value, threads):
    """As _bind_conversion, of a box whose elements only move."""
    run, physical, *rest = _bind(array, src, dst, shape, out, region, at, pad_value, threads)
    return run, (), physical, array.dtype, *rest


def _bind_conversion(array, src, dst, shape, out, numbers, region, at, pad_value, threads):
    """As _bind: the program, its parameters, shape and dtype of the result, threads, name, explicit strides."""
    src, dst = Layout(src), Layout(dst)
    what = f"reorder {src} -> {dst}"
    dtype, scale, zero_point, axis, alpha, beta = numbers
    t = types(array.dtype, dtype, what)
    box, physical, pitched = _place(array, src, dst, shape, out, region, at, what)
    given = parameters(t, scale, zero_point, axis, alpha, beta, box.shape, what)
    if beta and out is None:
        raise ValueError(f"{what}: beta={beta} adds to out, and there is none")
    if not prod(physical) or (0 in box.shape and not box.whole):
        return None, given, physical, t.dtype, 1, what, pitched
    out_strides = _strides(dst, box.dst_shape, t.dtype.itemsize)
    if out is not None:
        out_strides = check_out(out, physical, t.dtype, (array,), what).strides
    run = converter(
        src.dense, dst.dense, box, t, array.strides, out_strides, pad_bytes(pad_value, t),
        axis % src.rank if given.per_channel else None, beta != 0, registry.isa(),
    )  # fmt: skip
    nbytes = max(array.itemsize, t.dtype.itemsize) * prod(box.shape)
    return run, given, physical, t.dtype, useful_threads(nbytes, threads), what, pitched


def useful_threads(nbytes: int, threads: int) -> int:
    """How many of `threads` a reorder that writes `nbytes` uses."""
    return threads if nbytes >= SMALL else 1


@planner(reorder)
def _plan(
    array, src, dst, *, shape=None, out=None, dtype=None, scale=None, zero_point=None, axis=1, alpha=1, beta=0,
    region=None, at=None, pad_value=0, threads=None,
) -> Plan:  # fmt: skip
    src, dst = Layout(src), Layout(dst)
    array = as_array(array, "reorder")
    what = f"reorder {src} -> {dst}"
    box, physical, _ = _place(array, src, dst, shape, out, region, at, what)
    threads = useful_threads(array.itemsize * prod(physical), check_threads(threads))
    moved = 2 * array.itemsize * prod(box.shape)
    title = reorder_key(src, dst, box.shape, array.itemsize, threads)
    if Numbers(dtype, scale, zero_point, axis, alpha, beta).change(array.dtype):
        t = types(array.dtype, dtype, what)
        moved = prod(box.shape) * (array.itemsize + t.dtype.itemsize * (2 if beta else 1))
        seconds = moved / (COPY if moved > 2 * last_level_cache() else CACHED)
        way = Candidate(f"convert {t.src} to {t.dst}", seconds, lambda: None)
        found: tuple[Choice, ...] = (Choice(way, seconds, "estimated"),)
        title = title.replace(f"x{8 * array.itemsize}", f"{t.src}>{t.dst}")
        lines, run = (), None
    else:
        found = choices(src, dst, box.shape, array.itemsize, threads)
        run, lines = _kept(array, src, dst, shape, out, region, at, pad_value, threads, found[0].candidate.name)

    def note() -> str:
        rate, copy = moved / found[0].seconds, copy_rate(moved, threads)
        said = "achieved" if found[0].source == "measured" else "predicted"
        return "\n".join((*lines, f"{moved / 1e6:.3g} MB read and written, {rate / 1e9:.1f} GB/s {said}, "
                           f"{rate / copy:.0%} of a copy ({copy / 1e9:.1f} GB/s, measured now)"))  # fmt: skip

    return Plan(title, found, note, run)


def _kept(array, src, dst, shape, out, region, at, pad_value, threads: int, kind: str):
    """What a plan runs, of arrays like these, and lines that tell its nests."""
    move, physical, threads, what, pitched = _bind(array, src, dst, shape, out, region, at, pad_value, threads)
    if move is None:
        return None, ()
    if out is None:
        strides = tuple(array.itemsize * s for s in (pitched[0] if pitched else dst).axis_strides(
            pitched[1] if pitched else dst.padded_shape(physical)))  # fmt: skip
    else:
        strides = check_out(out, physical, array.dtype, (array,), what).strides
    box = _place(array, src, dst, shape, out, region, at, what)[0]
    nests, slab, _ = _nests(src.dense, dst.dense, box.shape, array.itemsize, array.strides, strides, kind, box)
    run = Kept(move, array.dtype, (array.shape, array.strides), (physical, strides), threads, what)
    return run, tell(nests, KINDS[kind], slab)


# ---- the candidates

COPY, CACHED = 12e9, 30e9  # bytes a second on a thread, read and written, where nothing was measured


def reorder_key(src: Layout, dst: Layout, shape: tuple[int, ...], width: int, threads: int) -> str:
    """What the cost table knows a reorder by."""
    return f"reorder {'x'.join(map(str, shape))} {key(src)}>{key(dst)} x{8 * width} t{threads}"


_KEY = re.compile(r"reorder (\S+) ([^\s>]+)>(\S+) x(\d+)")


def candidates(src: Layout, dst: Layout, shape: tuple[int, ...], width: int) -> Iterator[Candidate]:
    """The ways to move a tensor between contiguous arrays."""
    moved = 2 * width * prod(shape)
    large = moved > 2 * last_level_cache()
    args = (src, dst, shape, width, _strides(src, shape, width), _strides(dst, shape, width))
    ragged = len(regions(shape, *Box.all_of(shape).sides(src, args[4], dst, args[5]))) > 1
    for i, (name, kind) in enumerate(KINDS.items()):
        if kind.slabs and not ragged:
            continue
        seconds = moved / (COPY if large else CACHED) * (1 + (kind.stream != large) + i / 100)
        yield Candidate(name, seconds, partial(program, *args, bytes(width), name))


def _strides(layout: Layout, shape: tuple[int, ...], width: int) -> tuple[int, ...]:
    return tuple(width * s for s in layout.axis_strides(shape))


def parse_key(text: str) -> tuple[Layout, Layout, tuple[int, ...], int]:
    """Layouts, shape and bytes of an element of a reorder's key, without threads; ValueError if it is none."""
    found = _KEY.fullmatch(text)
    if not found:
        raise ValueError(f"not a reorder: {text!r}; expected one such as 'reorder 1x64x56x56 NCHW>NHWC x32'")
    sizes, src, dst, bits = found.groups()
    shape, width, src, dst = tuple(map(int, sizes.split("x"))), int(bits) // 8, Layout(src), Layout(dst)
    if width not in (1, 2, 4, 8, 16) or int(bits) % 8 or not src.rank == dst.rank == len(shape):
        raise ValueError(f"not a reorder: {text!r}; its shape, layouts and bits do not fit together")
    return src, dst, shape, width


@describes("reorder")
def _describe(key: str):
    text, _, threads = key.rpartition(" t")
    src, dst, shape, width = parse_key(text)
    features = reorder_features(src, dst, shape, width, int(threads))
    return features, lambda: {c.name: c.estimate for c in candidates(src, dst, shape, width)}.get


def choices(src: Layout, dst: Layout, shape: tuple[int, ...], width: int, threads: int) -> tuple[Choice, ...]:
    """The candidates in order, best first."""
    if mode() == "measure" and all(shape):
        first_use(reorder_contest(src, dst, shape, width, threads))
    return _choices(src, dst, shape, width, threads, registry.isa(), cost_table.generation)


@lru_cache(4096)
def _choices(src, dst, shape, width, threads, isa, generation) -> tuple[Choice, ...]:
    return tuple(rank(reorder_key(src, dst, shape, width, threads), list(candidates(src, dst, shape, width))))


def _runner(src: Layout, dst: Layout, shape: tuple[int, ...], width: int, threads: int):
    """What turns a program into a call on contiguous arrays that are touched."""
    dtype = np.dtype(f"V{width}" if width == 16 else f"u{width}")
    a, b = (empty(x.physical_shape(shape), dtype, "measure") for x in (src, dst))  # as `reorder` makes them
    for x in (a, b):
        x[...] = np.ones((), dtype)
    return lambda run: partial(run, a, b, threads)


def reorder_contest(src: Layout, dst: Layout, shape: tuple[int, ...], width: int, threads: int) -> Contest:
    """The ways to move a tensor between contiguous arrays, to be measured."""
    key = reorder_key(src, dst, shape, width, threads)
    found = list(candidates(src, dst, shape, width))
    return Contest(key, found, partial(_runner, src, dst, shape, width, threads))


def program(src, dst, shape, width: int, src_strides, dst_strides, pad: bytes | None = None,
            kind: str | None = None, box: Box | None = None, phase: int = 0) -> Program:  # fmt: skip
    """The reorder of arrays of exactly these strides, ready to run; by default the pads are zeros.

    Of a `box`, `shape` is the shape. It is fastest where the destination begins `phase` bytes past a whole line.
    """
    if kind is None:
        kind = choices(src, dst, shape, width, 1)[0].candidate.name
    pad = bytes(width) if pad is None else pad
    box = Box.all_of(shape) if box is None else box
    return _program(src, dst, shape, width, src_strides, dst_strides, pad, kind, box, phase, registry.isa())


@lru_cache(4096)
def _program(src, dst, shape, width, src_strides, dst_strides, pad, kind, box, phase, isa) -> Program:
    nests, slab, fills = _nests(src, dst, shape, width, src_strides, dst_strides, kind, box, phase)
    way = KINDS[kind]
    loops = slab and (slab.loops, slab.bytes)
    return Program(nests + fills, width, pad, way.stream and not slab, way.blocking.panel, loops)


def _nests(src, dst, shape, width, src_strides, dst_strides, kind, box, phase=0):
    """The nests that move elements, the slabs that they make, if they do, and the nests that fill pads."""
    s, d = box.sides(src, src_strides, dst, dst_strides)
    vector = registry.best("transpose", 32)[0].nr * 4
    full = dst.full_shape(shape)
    slab = slabs(shape, full, s, d, width) if KINDS[kind].slabs and box.whole else None
    if slab:
        shape, full = slab.shape, dst.full_shape(slab.shape)
    nests, done = copy_nests(shape, s, d, width, vector, KINDS[kind].blocking._replace(phase=phase), box.whole)
    return nests, slab, fill_nests(shape, full, d, width, done) if box.whole else []
