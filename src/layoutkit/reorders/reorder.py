"""Reorder: the same tensor in another memory format."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .._core import registry
from .._core.reorder import Kept, address
from ..choosing.limits import copy_rate
from ..choosing.machine import last_level_cache
from ..choosing.plan import Candidate, Choice, Plan, planner
from ..choosing.table import cost_table
from ..choosing.threads import check_threads
from ..formats.families import check_names
from ..formats.layout import Layout
from ..memory.arguments import Held, hold, target
from ..memory.arrays import as_array, as_out, check_held, check_movable, check_out, empty, nbytes_of, new, overlap
from ..memory.pad_value import pad_element
from ..memory.tensor import UNDEFINED, Tensor, moved_by
from .box import Box, box_of
from .candidates import CACHED, COPY, choices, nests_of, program, reorder_key, strides_of, suited, useful_threads
from .convert import Types, converter, dimension, is_dtype, pad_bytes, parameters, token, types
from .inplace import reorder_in_place
from .kinds import KINDS, tell
from .leaves import LINE


def reorder(
    array,
    src: str | Layout | None = None,
    dst: str | Layout | None = None,
    *,
    shape: Sequence[int] | None = None,
    out: Any = None,
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
) -> Any:
    """Move a tensor from memory format `src` to `dst`.

    Parameters
    ----------
    array : array_like or Tensor
        The tensor as it lies in `src`: one axis per factor of the layout (an NHWC array has shape
        (N, H, W, C), an nChw16c one (N, ceil(C/16), H, W, 16)). Any strides. Elements of 1, 2, 4, 8 or
        16 bytes of any dtype; they are moved as they are, bit for bit. A `Tensor` brings its layout and its shape.
    src, dst : str or Layout
        Formats of equal rank, of the same dimensions where both are in names (NCHW is not OIHW; see
        `layoutkit.formats.families`). `src` of a `Tensor` is its own, and may be left out:
        ``reorder(tensor, dst="NHWC")``.
    shape : sequence of int, optional
        The logical shape, in logical order, where blocks of `src` are padded. By default all of `array`.
    out : ndarray or Tensor, optional
        Where to write: shape ``dst.physical_shape(shape)``, dtype of the result, any strides. It may be a view
        of the memory of `array` where two dimensions of equal size change places, and nothing else does.
        A `Tensor` must be in `dst`, of the shape of the result, and promise the pads that are written.
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
        What the pads of `dst` are set to: a value that the dtype of the result has.
    threads : int, optional
        At most this many threads.

    Returns
    -------
    ndarray or Tensor
        The physical array of `dst`: `out`, or a new one aligned to 64 bytes. A `Tensor` over it if `array` is one.

    Raises
    ------
    TypeError, ValueError
        Before anything is written: dtype, shapes, layouts, parameters or `out` do not fit, or a `Tensor` is in another
        layout or of another shape than an argument says.

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
    plain_out = type(out) is np.ndarray
    if type(array) is not np.ndarray or not (plain_out or out is None):
        numbers = Numbers(dtype, scale, zero_point, axis, alpha, beta)
        return _unwrapped(array, src, dst, shape, out, region, at, pad_value, threads, numbers)
    if not (dtype is scale is zero_point is region is at is None and alpha == 1 and beta == 0):
        numbers = Numbers(dtype, scale, zero_point, axis, alpha, beta)
        return _general(array, src, dst, shape, out, numbers, region, at, pad_value, check_threads(threads))
    out_strides = phase = None
    if plain_out:
        out_strides, phase = out.strides, address(out) % LINE
    if type(shape) is list:
        shape = tuple(shape)
    threads = check_threads(threads)
    key: tuple | None
    try:
        key = (
            src, dst, array.shape, array.strides, array.dtype, shape, out_strides, phase,
            pad_value if type(pad_value) is int else None, threads, cost_table.generation, registry.isa(),
        )  # fmt: skip
        bound = _bound.get(key)
    except TypeError:  # something given is no key: an array as shape, say
        key = bound = None
    if bound is None:
        bound = _bind(array, src, dst, shape, out, None, None, pad_value, threads)
        if key is not None and type(pad_value) is int:
            if len(_bound) >= MAX_BOUND:
                _bound.clear()
            _bound[key] = bound
    move, physical, threads, what, pitched, layouts = bound
    if layouts is not None:
        _check_equal(src, dst, layouts)
    if out is None:
        out = empty(physical, array.dtype, what) if pitched is None else new(pitched[0], pitched[1], array.dtype, what)
    else:
        check_out(out, physical, array.dtype, (), what)
        if overlap(array, out):
            held, to = _format(src, "src"), _format(dst, "dst")
            shape = held.padded_shape(array.shape) if shape is None else held.check_shape(shape)
            reorder_in_place(array, out, held, to, shape, partial(reorder, threads=threads), what)
            return out
    if move is not None:
        move(array, out, threads)
    return out


moved_by(reorder)
MAX_BOUND = 4096
_bound: dict = {}  # what a call's arguments look like -> what to run


def _unwrapped(array, src, dst, shape, out, region, at, pad_value, threads, numbers: Numbers):
    """`reorder` where a Tensor or another array than a plain one of numpy takes part."""
    rest = dict(region=region, at=at, pad_value=pad_value, threads=threads, **numbers._asdict())
    if not isinstance(array, Tensor) and not isinstance(out, Tensor):
        to = None if out is None else as_out(out, "reorder")
        y = reorder(as_array(array, "reorder"), src, dst, shape=shape, out=to, **rest)
        return y if out is None else out
    held, to, dst, box = _taken(array, src, dst, shape, out, region, at, pad_value)
    y = reorder(held.array, held.layout, dst, shape=held.shape, out=to, **rest)
    if isinstance(out, Tensor):
        return out
    promised = _promise(pad_value, y.dtype, numbers.dtype)
    return Tensor(y, dst if out is None else dst.dense, box.dst_shape, pad_value=promised)


def _taken(array, src, dst, shape, out, region, at, pad_value) -> tuple[Held, np.ndarray | None, Layout, Box]:
    """What is read, the array that is written if there is one, its layout, and what moves."""
    held, dst = hold(array, src, shape, "reorder: array"), _format(dst, "dst")
    what = f"reorder {held.layout} -> {dst}"
    if held.layout.rank != dst.rank:
        raise ValueError(f"{what}: layouts of {held.layout.rank} and {dst.rank} dimensions")
    to = None if out is None else as_out(out.array if isinstance(out, Tensor) else out, what)
    box = Box.all_of(held.shape)
    if region is not None or at is not None:
        box = box_of(held.shape, region, at, out.shape if isinstance(out, Tensor) else _shape_of(to, dst), what)
    if isinstance(out, Tensor):
        target(out, dst, box.dst_shape, pad_value if box.whole else UNDEFINED, what)
    return held, to, dst, box


def _format(given: str | Layout | None, name: str) -> Layout:
    if given is None:
        raise TypeError(f"reorder: {name} was not given, expected a layout (only a Tensor brings its own, as src)")
    return Layout(given)


def _shape_of(out: np.ndarray | None, dst: Layout) -> tuple[int, ...] | None:
    return dst.padded_shape(out.shape) if isinstance(out, np.ndarray) else None


def _promise(pad_value, held: np.dtype, asked):
    """What the pads of a result of dtype `held` hold, as a value of it: bfloat16 may be bits in uint16."""
    src, dst = asked if isinstance(asked, tuple) else (None, asked)
    if held != np.uint16 or not (dst == "bfloat16" or (dst is None and src == "bfloat16")):
        return pad_value
    return int.from_bytes(pad_bytes(pad_value, Types("f32", "bf16", held), "reorder"), sys.byteorder)


def _check_equal(src, dst, layouts: tuple) -> None:
    """Raise ValueError unless layouts, equal to ones that one tensor can have both of, are such too: names are no part
    of equality."""
    if src is not layouts[0] or dst is not layouts[1]:
        check_names(Layout(src), Layout(dst), "reorder")


def _layouts(src, dst) -> tuple | None:
    """What `_check_equal` takes; None of texts, which are equal if they are the same."""
    return None if type(src) is type(dst) is str else (src, dst)


def _bind(array, src, dst, shape, out, region, at, pad_value, threads: int):
    """The program of arrays like these, the shape of its result, the threads it uses, its name, layout and shape of
    the result if that has explicit strides, and what `_layouts` says."""
    layouts = _layouts(src, dst)
    src, dst = _format(src, "src"), _format(dst, "dst")
    check_movable(array, "reorder")
    what = f"reorder {src} -> {dst}"
    box, physical, pitched = _place(array, src, dst, shape, out, region, at, what)
    width, nbytes = array.itemsize, nbytes_of(physical, array.dtype, what)
    pad = pad_element(pad_value, array.dtype, what).tobytes()
    if not nbytes or (0 in box.shape and not box.whole):
        return None, physical, 1, what, pitched, layouts
    out_strides = out.strides if type(out) is np.ndarray else None
    if out_strides is None or len(out_strides) != len(physical):  # the latter: not an out that will be used
        out_strides = strides_of(dst, box.dst_shape, width)
    threads = useful_threads(prod(box.shape) * width if at else nbytes, threads)
    src, dst = src.dense, dst.dense
    phase = _phase(out)
    found = choices(src, dst, box.shape, width, threads)
    given = src, dst, box.shape, width, array.strides, out_strides
    move = program(*given, pad, suited(found, phase, given, box), box, phase)
    return move, physical, threads, what, pitched, layouts


def _phase(out) -> int:
    """Bytes from the last whole line to where `out` begins."""
    return address(out) % LINE if type(out) is np.ndarray else 0


def _place(array, src, dst, shape, out, region, at, what):
    """What moves, the physical shape of the result, and its layout and shape if that has explicit strides."""
    box = Box.all_of(check_held(array, src, dst, shape, what))
    if region is not None or at is not None:
        box = box_of(box.shape, region, at, _shape_of(out, dst), what)
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
    run, given, physical, dtype, threads, what, pitched, layouts = bound
    if layouts is not None:
        _check_equal(src, dst, layouts)
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
    layouts = _layouts(src, dst)
    src, dst = _format(src, "src"), _format(dst, "dst")
    what = f"reorder {src} -> {dst}"
    dtype, scale, zero_point, axis, alpha, beta = numbers
    t = types(array.dtype, dtype, what)
    box, physical, pitched = _place(array, src, dst, shape, out, region, at, what)
    given = parameters(t, scale, zero_point, axis, alpha, beta, box.shape, what)
    if beta and out is None:
        raise ValueError(f"{what}: beta={beta} adds to out, and there is none")
    pad = pad_bytes(pad_value, t, what)
    if not nbytes_of(physical, t.dtype, what) or (0 in box.shape and not box.whole):
        return None, given, physical, t.dtype, 1, what, pitched, layouts
    out_strides = strides_of(dst, box.dst_shape, t.dtype.itemsize)
    if out is not None:
        out_strides = check_out(out, physical, t.dtype, (array,), what).strides
    run = converter(
        src.dense, dst.dense, box, t, array.strides, out_strides, pad,
        dimension(axis, src.rank, what) if given.per_channel else None, beta != 0, registry.isa(),
    )  # fmt: skip
    nbytes = max(array.itemsize, t.dtype.itemsize) * prod(box.shape)
    return run, given, physical, t.dtype, useful_threads(nbytes, threads), what, pitched, layouts


@planner(reorder)
def _plan(
    array, src=None, dst=None, *, shape=None, out=None, dtype=None, scale=None, zero_point=None, axis=1, alpha=1,
    beta=0, region=None, at=None, pad_value=0, threads=None,
) -> Plan:  # fmt: skip
    held, out, dst, _ = _taken(array, src, dst, shape, out, region, at, pad_value)
    array, src, shape = held
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
        run, lines = _kept(array, src, dst, shape, out, region, at, pad_value, threads, found)

    def note() -> str:
        rate, copy = moved / found[0].seconds, copy_rate(moved, threads)
        said = "achieved" if found[0].source == "measured" else "predicted"
        return "\n".join((*lines, f"{moved / 1e6:.3g} MB read and written, {rate / 1e9:.1f} GB/s {said}, "
                           f"{rate / copy:.0%} of a copy ({copy / 1e9:.1f} GB/s, measured now)"))  # fmt: skip

    return Plan(title, found, note, run)


def _kept(array, src, dst, shape, out, region, at, pad_value, threads: int, found: tuple[Choice, ...]):
    """What a plan runs, of arrays like these, and lines that tell its nests."""
    move, physical, threads, what, pitched, _ = _bind(array, src, dst, shape, out, region, at, pad_value, threads)
    if move is None:
        return None, ()
    if out is None:
        strides = tuple(array.itemsize * s for s in (pitched[0] if pitched else dst).axis_strides(
            pitched[1] if pitched else dst.padded_shape(physical)))  # fmt: skip
    else:
        strides = check_out(out, physical, array.dtype, (array,), what).strides
    box = _place(array, src, dst, shape, out, region, at, what)[0]
    given, phase = (src.dense, dst.dense, box.shape, array.itemsize, array.strides, strides), _phase(out)
    kind = suited(found, phase, given, box)
    nests, slab, _ = nests_of(*given, kind, box, phase)
    run = Kept(move, array.dtype, (array.shape, array.strides), (physical, strides), threads, what, as_array)
    return run, tell(nests, KINDS[kind], slab)
