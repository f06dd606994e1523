"""Reorder: the same tensor in another memory format."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import address, form, meet, takes
from .._core.convert import Conversion
from .._core.registry import isa
from .._core.reorder import Kept
from ..choosing.best import choices
from ..choosing.cache import plans
from ..choosing.learning import Learner, learns
from ..choosing.limits import copy_rate
from ..choosing.machine import last_level_cache
from ..choosing.plan import Plan, planner
from ..choosing.problem import Candidate, Choice
from ..choosing.table import cost_table
from ..choosing.threads import check_threads
from ..formats.families import check_names
from ..formats.layout import Layout
from ..memory.arguments import Held, target
from ..memory.arrays import (
    allocate,
    as_array,
    as_out,
    check_held,
    check_movable,
    check_out,
    contiguous_strides,
    nbytes_of,
    new,
    overlap,
)
from ..memory.pad_value import pad_element
from ..memory.tensor import UNDEFINED, Tensor, moved_by
from . import pairs
from .box import Box, box_of
from .convert import Numbers, Types, converter, pad_bytes, parameters, token, types
from .inplace import reorder_in_place
from .learning import InUse, learner_of
from .loops import LINE_BYTES
from .pairs import NEITHER, Packed, packed_of
from .problem import (
    CACHE_BYTES_PER_SECOND,
    MEMORY_BYTES_PER_SECOND,
    ReorderProblem,
    useful_threads,
)
from .program import Transfer, program, stages_of, suited
from .variants import VARIANTS, tell


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
    offset=None,
    out_scale=None,
    out_zero_point=None,
    axis: int | Sequence[int] = 1,
    block_size: int | Sequence[int] = 1,
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
        Type of the result; by default that of `array`. Other than moves, conversions know float64, float32, float16,
        int64, int32, int16, int8, uint32, uint16, uint8, bool, and of ml_dtypes bfloat16, float8_e4m3fn, float8_e5m2,
        int4, uint4 (one in a byte). ``"int4x2"`` and ``"uint4x2"`` are packed pairs, two in a byte of a uint8 array,
        which has one axis or half as many along the last one. A pair names the type of `array` too:
        ``("bfloat16", "float32")`` reads uint16 as bfloat16, which are numbers otherwise; ``"bfloat16"`` without
        ml_dtypes gives such.
    scale, zero_point, offset, out_scale, out_zero_point : number or array of them, optional
        One for all, or one for each index of dimension `axis`. What they do is said below. Zero points of integers are
        any numbers of int32.
    axis : int or sequence of int, optional
        The logical dimension of scales per channel: 1 for activations (the default), 0 or 1 for filters. Of several
        dimensions arrays have an axis for each, in this order.
    block_size : int or sequence of int, optional
        Indices of `axis` that share a number, for each of its dimensions; the last block may be shorter.
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
    With a `dtype`, a scale, an offset or a zero point, an element q or x becomes

    - integer to float: ``(q - zero_point) * scale + offset``
    - float to integer: ``saturate(round((x - offset) / scale) + zero_point)``, as QuantizeLinear of ONNX
    - integer to integer: ``saturate(round(q * scale + offset) + zero_point)``
    - float to float: ``(x - zero_point) * scale + offset``

    With `out_scale` or `out_zero_point`, whatever the types, `scale`, `zero_point` and `offset` are of the source:

    - ``(q - zero_point) * (scale / out_scale) + offset / out_scale + out_zero_point``, before the last of which
      integers are rounded; without `scale`, ``(q - zero_point) / out_scale``

    and with alpha and beta, where ``steps`` is that without the last zero point z:
    ``round(alpha * steps + beta * (out - z)) + z``, not rounded for floats, whose z is 0 without `out_zero_point`.

    All of it is computed in float32, or in float64 where float64, int32, uint32, int64 or a zero point that is no
    number of its integer type takes part: parameters are rounded to that, each operation is, to nearest even, and none
    is fused with another (product and sum are two roundings, as numpy's are); the result is rounded to its type, to
    nearest even, once. int64 beyond 2^53 is rounded to float64 with that; but integers to integers that are only
    shifted, without scales, offset, alpha and beta, are exact. Integers saturate; NaN counts as 0 there, and stays NaN
    in floats. Floats overflow to infinity (float8_e4m3fn, which has none, to NaN) and keep denormals. bool is the
    integers 0 and 1 where it is read; what is not 0, NaN too, becomes True. Pads are not converted: they hold
    `pad_value`, a value of the result's type.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> image = np.arange(6).reshape(1, 2, 1, 3)        # N H W C
    >>> lk.reorder(image, "NHWC", "NCHW").tolist()
    [[[[0], [3]], [[1], [4]], [[2], [5]]]]
    >>> lk.reorder(image, "NHWC", "NCHW", region=(None, (1, 3), None, None)).tolist()
    [[[[1], [4]], [[2], [5]]]]

    Pictures as networks of ImageNet take them, ``(x / 255 - mean) / std`` by channel, and back:

    >>> mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    >>> how = dict(scale=1 / (255 * std), offset=-mean / std)
    >>> image = image.astype(np.uint8)
    >>> x = lk.reorder(image, "NHWC", "NCHW", dtype="float32", **how)
    >>> bool(np.allclose(x, ((image / 255 - mean) / std).transpose(0, 3, 1, 2)))
    True
    >>> bool((lk.reorder(x, "NCHW", "NHWC", dtype="uint8", **how) == image).all())
    True
    """
    plain = type(array) is np.ndarray and (out is None or type(out) is np.ndarray)
    moved = dtype is scale is zero_point is offset is out_scale is out_zero_point is None and alpha == 1 and beta == 0
    if not (plain and moved and region is at is None):
        numbers = Numbers(
            dtype, scale, zero_point, offset, out_scale, out_zero_point, axis, block_size, alpha, beta
        )  # fmt: skip
        given = array, src, dst, shape, out, numbers, region, at, pad_value
        return _general(Call(*given, check_threads(threads))) if plain else _unwrapped(Call(*given, threads))
    if type(shape) is list:
        shape = tuple(shape)
    threads = check_threads(threads)
    pad = pad_value if type(pad_value) is int else None
    key: tuple | None
    try:
        key = src, dst, form(array, out), array.dtype, shape, pad, threads, cost_table.generation, isa()
        bound = _kept_for(key)
    except TypeError:  # an argument is not hashable: an array as shape, say
        key = bound = None
    if bound is None:
        key = None if pad is None else key
        bound = bind(Call(array, src, dst, shape, out, MOVED, None, None, pad_value, threads), key)
        if key is not None:
            plans.put(key, bound)
    if bound.layouts is not None:
        _check_equal(src, dst, bound.layouts)
    if out is None:
        out = bound.new()
    else:
        if not takes(out, bound.physical, bound.dtype):
            check_out(out, bound.physical, bound.dtype, (), bound.what)
        if meet(array, out) and overlap(array, out):
            held, to = _format(src, "src"), _format(dst, "dst")
            shape = held.padded_shape(array.shape) if shape is None else held.check_shape(shape)
            reorder_in_place(array, out, held, to, shape, partial(reorder, threads=threads), bound.what)
            return out
    if bound.run is not None:
        bound.run(array, out, bound.threads)
    return out


moved_by(reorder)
_kept_for = plans.get


MOVED = Numbers()  # no number changes


class Call(NamedTuple):
    """The arguments of `reorder`, as given."""

    array: Any
    src: Any
    dst: Any
    shape: Any
    out: Any
    numbers: Numbers
    region: Any
    at: Any
    pad_value: Any
    threads: Any


class Bound(NamedTuple):
    """What to run on arrays like those of a call, and what its result is."""

    run: Any  # a Program, a Converter, or what learns; None: there is nothing to move
    physical: tuple[int, ...]  # shape of the result
    dtype: np.dtype
    nbytes: int
    threads: int  # how many are used
    what: str  # the operation, for errors
    explicit: tuple[Layout, tuple[int, ...]] | None  # layout and shape of the result where it has explicit strides
    layouts: tuple | None  # see `_check_equal`
    parameters: tuple = ()  # what `run` of a conversion takes beside arrays and threads

    def new(self) -> np.ndarray:
        """A new array for the result."""
        if self.explicit is None:
            return allocate(self.physical, self.dtype, self.nbytes)
        return new(*self.explicit, self.dtype, self.what)


def _unwrapped(call: Call):
    """`reorder` where an array is a Tensor, or is no plain numpy array."""
    rest = dict(region=call.region, at=call.at, pad_value=call.pad_value, threads=call.threads)
    rest |= call.numbers._asdict()
    if not isinstance(call.array, Tensor) and not isinstance(call.out, Tensor):
        to = None if call.out is None else as_out(call.out, "reorder")
        y = reorder(as_array(call.array, "reorder"), call.src, call.dst, shape=call.shape, out=to, **rest)
        return y if call.out is None else call.out
    held, to, dst, box = _taken(call)
    y = reorder(held.array, held.layout, dst, shape=held.shape, out=to, **rest)
    if isinstance(call.out, Tensor):
        return call.out
    promised = _promise(call.pad_value, y.dtype, call.numbers.dtype)
    return Tensor(y, dst if call.out is None else dst.dense, box.dst_shape, pad_value=promised)


def _taken(call: Call) -> tuple[Held, np.ndarray | None, Layout, Box]:
    """The tensor that is read, the array that is written (None: a new one), its layout, and the box that moves."""
    dst, out, packed = _format(call.dst, "dst"), call.out, packed_of(call.numbers.dtype)
    held = pairs.held_of(call.array, call.src, call.shape, packed, "reorder: array")
    what = f"reorder {held.layout} -> {dst}"
    if held.layout.rank != dst.rank:
        raise ValueError(f"{what}: layouts of {held.layout.rank} and {dst.rank} dimensions")
    if any(packed) and isinstance(out, Tensor):
        raise TypeError(f"{what}: out is a Tensor, which takes no part in conversions of packed pairs")
    pairs.refuse(packed, call.at, what)
    to = None if out is None else as_out(out.array if isinstance(out, Tensor) else out, what)
    box = Box.all_of(held.shape)
    if call.region is not None or call.at is not None:
        shape = out.shape if isinstance(out, Tensor) else None if packed.dst else _shape_of(to, dst)
        box = box_of(held.shape, call.region, call.at, shape, what)
    if isinstance(out, Tensor):
        target(out, dst, box.dst_shape, call.pad_value if box.whole else UNDEFINED, what)
    return held, to, dst, box


def _format(given: str | Layout | None, name: str) -> Layout:
    if given is None:
        raise TypeError(f"reorder: {name} was not given, expected a layout (only a Tensor brings its own, as src)")
    return Layout(given)


def _shape_of(out: np.ndarray | None, dst: Layout) -> tuple[int, ...] | None:
    return dst.padded_shape(out.shape) if isinstance(out, np.ndarray) else None


def _promise(pad_value, held: np.dtype, asked):
    """What the pads of a result of dtype `held` hold, as a value of that dtype: bfloat16 may be bits in uint16."""
    src, dst = asked if isinstance(asked, tuple) else (None, asked)
    if held != np.uint16 or not (dst == "bfloat16" or (dst is None and src == "bfloat16")):
        return pad_value
    return int.from_bytes(pad_bytes(pad_value, Types("f32", "bf16", held), "reorder"), sys.byteorder)


def _check_equal(src, dst, layouts: tuple) -> None:
    """Raise ValueError unless `src` and `dst` name the same dimensions.

    `layouts`, which the plan was made for, are equal to them and do; but names take no part in equality.
    """
    if src is not layouts[0] or dst is not layouts[1]:
        check_names(Layout(src), Layout(dst), "reorder")


def _layouts(src, dst) -> tuple | None:
    """What `_check_equal` compares with; None for texts, as equal texts have equal names."""
    return None if type(src) is type(dst) is str else (src, dst)


def bind(call: Call, key: tuple | None) -> Bound:
    """What to run for a call on plain arrays whose elements only move, to be kept under `key` if that is not None. An
    `out` that does not fit is not looked at: the caller checks it."""
    decided = _decide(call)
    bound, learner = decided.bound, decided.learner
    if key is None or learner is None or learner.over:
        return bound
    return bound._replace(run=InUse(learner, lambda best: plans.replace(key, bound._replace(run=best))))


class Decided(NamedTuple):
    """What to run for a call, how, and what learns from such calls; nothing to move: no more than `bound`."""

    bound: Bound
    move: Transfer | None = None
    variant: str = ""
    learner: Learner | None = None


def _decide(call: Call) -> Decided:
    src, dst, array = _format(call.src, "src"), _format(call.dst, "dst"), call.array
    check_movable(array, "reorder")
    what = f"reorder {src} -> {dst}"
    box, physical, explicit = _place(call, src, dst, what)
    nbytes = nbytes_of(physical, array.dtype, what)
    pad = pad_element(call.pad_value, array.dtype, what).tobytes()
    bound = Bound(None, physical, array.dtype, nbytes, 1, what, explicit, _layouts(call.src, call.dst))
    if not nbytes or (0 in box.shape and not box.whole):
        return Decided(bound)
    threads = useful_threads(prod(box.shape) * array.itemsize if call.at else nbytes, call.threads)
    move = _transfer(call, src, dst, box)
    problem = ReorderProblem(move.src, move.dst, box.shape, move.width, threads)
    found = choices(problem)
    learner = learner_of(problem, found, move, pad)
    name = learner.name if learner and learns(found) else suited(found, move)
    return Decided(bound._replace(run=program(move, name, pad), threads=threads), move, name, learner)


def _transfer(call: Call, src: Layout, dst: Layout, box: Box) -> Transfer:
    """The transfer between the arrays of a call."""
    width, out = call.array.itemsize, call.out
    strides, phase = contiguous_strides(dst, box.dst_shape, width), 0
    if type(out) is np.ndarray and len(out.strides) == len(strides):
        strides, phase = out.strides, address(out) % LINE_BYTES
    return Transfer(src.dense, dst.dense, width, call.array.strides, strides, box, phase)


def _place(call: Call, src: Layout, dst: Layout, what: str, packed: Packed = NEITHER):
    """The box that moves, the physical shape of the result, and its layout and shape if it has explicit strides."""
    check = pairs.check_held if packed.src else check_held
    box = Box.all_of(check(call.array, src, dst, call.shape, what))
    pairs.refuse(packed, call.at, what)
    if call.region is not None or call.at is not None:
        box = box_of(box.shape, call.region, call.at, None if packed.dst else _shape_of(call.out, dst), what)
    if packed.dst:
        return box, pairs.result_shape(call.out, dst, box.shape, what), None
    return box, dst.physical_shape(box.dst_shape), None if dst.is_dense else (dst, box.dst_shape)


def _general(call: Call):
    """`reorder` of plain arrays where only a box moves, or where numbers change."""
    array, src, dst, shape, out, numbers, region, at, pad, threads = call
    key: tuple | None
    try:
        key = (
            src, dst, form(array, out), None if out is None else out.shape, array.dtype, shape, region, at,
            *map(token, numbers), token(pad), threads, cost_table.generation, isa(),
        )  # fmt: skip
        bound = plans.get(key)
    except TypeError:  # an argument is not hashable
        key = bound = None
    if bound is None:
        bound = _bind_conversion(call) if call.numbers.change(array.dtype) else bind(call, key)
        if key is not None:
            plans.put(key, bound)
    if bound.layouts is not None:
        _check_equal(src, dst, bound.layouts)
    if out is None:
        out = bound.new()
    else:
        check_out(out, bound.physical, bound.dtype, (array,), bound.what)
    if bound.run is not None:
        bound.run(array, out, bound.threads, *bound.parameters)
    return out


def _bind_conversion(call: Call) -> Bound:
    """What to run for a call on plain arrays whose numbers change."""
    src, dst, array, out = _format(call.src, "src"), _format(call.dst, "dst"), call.array, call.out
    what = f"reorder {src} -> {dst}"
    beta = call.numbers.beta
    t = types(array.dtype, call.numbers.dtype, what)
    box, physical, explicit = _place(call, src, dst, what, t.packed)
    t, given, along = parameters(t, call.numbers, box.shape, what)
    if beta and out is None:
        raise ValueError(f"{what}: beta={beta} adds to out, and there is none")
    pad = pad_bytes(call.pad_value, t, what)
    nbytes = nbytes_of(physical, t.dtype, what)
    bound = Bound(None, physical, t.dtype, nbytes, 1, what, explicit, _layouts(call.src, call.dst), given)
    if not nbytes or (0 in box.shape and not box.whole):
        return bound
    strides = contiguous_strides(dst, box.dst_shape, t.dtype.itemsize)
    if out is not None:
        check_out(out, physical, t.dtype, (array,), what)
        strides = strides if t.packed.dst else out.strides
    read = contiguous_strides(src, box.src_shape, 1) if t.packed.src else array.strides
    move = Transfer(src.dense, dst.dense, t.dtype.itemsize, read, strides, box)
    run = converter(move, t, pad, along, beta != 0)
    threads = useful_threads(max(array.itemsize, t.dtype.itemsize) * prod(box.shape), call.threads)
    return bound._replace(run=run, threads=threads)


@planner(reorder)
def _plan(
    array, src=None, dst=None, *, shape=None, out=None, dtype=None, scale=None, zero_point=None, offset=None,
    out_scale=None, out_zero_point=None, axis=1, block_size=1, alpha=1, beta=0, region=None, at=None, pad_value=0,
    threads=None,
) -> Plan:  # fmt: skip
    numbers = Numbers(dtype, scale, zero_point, offset, out_scale, out_zero_point, axis, block_size, alpha, beta)
    call = Call(array, src, dst, shape, out, numbers, region, at, pad_value, check_threads(threads))
    held, to, dst, _ = _taken(call)
    call = call._replace(array=held.array, src=held.layout, dst=dst, shape=held.shape, out=to)
    array, src, what = held.array, held.layout, f"reorder {held.layout} -> {dst}"
    packed = packed_of(dtype)
    box, physical, _ = _place(call, src, dst, what, packed)
    threads = useful_threads(array.itemsize * prod(physical), call.threads)
    problem = ReorderProblem(src.dense, dst.dense, box.shape, array.itemsize, threads)  # as `bind` has it
    title, moved = problem.key, problem.work
    if numbers.change(array.dtype):
        t = types(array.dtype, dtype, what)
        moved = int(prod(box.shape) * (t.widths[0] + t.widths[1] * (2 if beta else 1)))
        seconds = moved / (MEMORY_BYTES_PER_SECOND if moved > 2 * last_level_cache() else CACHE_BYTES_PER_SECOND)
        only = Candidate(f"convert {t}", seconds, lambda: None)
        found: tuple[Choice, ...] = (Choice(only, seconds, "estimated"),)
        title = title.replace(f"x{8 * array.itemsize}", f"{t}".replace(" to ", ">"))
        lines, run = (), None if beta and to is None else _kept_conversion(call)
    else:
        run, name, lines = _kept(call)
        found = tuple(sorted(choices(problem), key=lambda c: c.candidate.name != name))  # what runs goes first

    def note() -> str:
        rate, copy = moved / found[0].seconds, copy_rate(moved, threads)
        said = "achieved" if found[0].source == "measured" else "predicted"
        share = f"{rate / copy:.0%} of a copy ({copy / 1e9:.1f} GB/s, measured now)"
        return "\n".join((*lines, f"{moved / 1e6:.3g} MB read and written, {rate / 1e9:.1f} GB/s {said}, {share}"))

    return Plan(title, found, note, run)


def _kept(call: Call):
    """What a plan runs on arrays like those of a call, the name of its variant, and lines that describe its nests."""
    bound, move, name, learner = _decide(call)
    if move is None:
        return None, "", ()
    array, what = call.array, bound.what
    if call.out is not None:
        check_out(call.out, bound.physical, bound.dtype, (array,), what)
    src, dst = (array.shape, array.strides), (bound.physical, move.dst_strides)
    stages = stages_of(move, name)
    moves = [nest for stage in stages for nest in stage.moves]
    run = Kept(bound.run, (bound.dtype, bound.dtype), src, dst, bound.threads, what, as_array)
    learnt = (learner.report(),) if learner else ()
    return run, name, (*tell(moves, VARIANTS[name], stages[0].slab), *learnt)


def _kept_conversion(call: Call) -> Kept | None:
    """What a plan runs on arrays like those of a call whose numbers change; None: there is nothing to move."""
    bound, array, out = _bind_conversion(call), call.array, call.out
    if bound.run is None:
        return None
    *arrays, divide, alpha, beta = bound.parameters
    moves = Conversion(bound.run, *arrays, divide=divide, alpha=alpha, beta=beta)
    dst = _format(call.dst, "dst")
    if out is not None:
        strides = out.strides
    elif packed_of(call.numbers.dtype).dst:
        strides = (1,)
    else:
        box, _, _ = _place(call, _format(call.src, "src"), dst, bound.what, packed_of(call.numbers.dtype))
        strides = contiguous_strides(dst, box.dst_shape, bound.dtype.itemsize)
    read, written = (array.shape, array.strides), (bound.physical, strides)
    return Kept(moves, (array.dtype, bound.dtype), read, written, bound.threads, bound.what, as_array)
