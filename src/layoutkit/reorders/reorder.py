"""Reorder: the same tensor in another memory format."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypedDict, TypeVar, Unpack, cast, overload

import numpy as np

from .._core.runtime.arrays import can_hold_result, extents_overlap, strides_key
from .._core.runtime.registry import isa
from ..choosing.cache import plans, token
from ..choosing.table import cost_table
from ..choosing.threads import check_threads
from ..choosing.watching import watched, watchers
from ..formats.layout import Layout
from ..formats.reading import layout_of
from ..memory.arrays import as_array, as_out, check_out, overlap
from ..memory.foreign import as_torch_like, in_layout, is_torch, memory_of
from ..memory.tensor import Tensor, register_reorder
from .binding import UNCHANGED, Call, bind, bind_conversion, check_same_names, layout_argument, resolved
from .convert import Numbers, Types, pad_bytes
from .inplace import reorder_in_place
from .saturation import warn_of_saturation
from .strided_regions import has_steps, without_steps

T = TypeVar("T")


class ReorderOptions(TypedDict, total=False):
    """The keywords of `reorder`, for type checkers."""

    shape: Sequence[int] | None
    out: Any
    dtype: Any
    scale: Any
    zero_point: Any
    offset: Any
    out_scale: Any
    out_zero_point: Any
    axis: int | Sequence[int]
    block_size: int | Sequence[int]
    alpha: float
    beta: float
    region: Any
    at: Any
    pad_value: Any
    threads: int | None


class Reorder(Protocol):
    """A reorder, for type checkers: an array of an array, otherwise what goes in: a `Tensor`, a tensor of torch."""

    __name__: str
    __doc__: str | None

    @overload
    def __call__(
        self, array: np.ndarray, src: str | Layout | None = None, dst: str | Layout | None = None,
        **options: Unpack[ReorderOptions],
    ) -> np.ndarray: ...  # fmt: skip
    @overload
    def __call__(
        self, array: T, src: str | Layout | None = None, dst: str | Layout | None = None,
        **options: Unpack[ReorderOptions],
    ) -> T: ...  # fmt: skip


def _reorder(function: Callable[..., Any]) -> Reorder:
    return cast(Reorder, function)


@_reorder
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
    array : array_like, torch tensor or Tensor
        The physical array of the tensor in `src`: one axis per factor of the layout (an NHWC array has shape
        (N, H, W, C), an nChw16c one (N, ceil(C/16), H, W, 16)). Any strides. Elements of 1, 2, 4, 8 or
        16 bytes of any dtype; they are moved bit for bit. A `Tensor` has its own layout and shape.
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
        anywhere in blocks; negative ends count from the end, and slices may have steps, negative ones too. The result
        has its shape.
    at : sequence of int, optional
        Where in the tensor that `out` holds to write, per logical dimension: nothing else of `out` is written,
        no pads either.
    pad_value : scalar, optional
        What the pads of `dst` are set to: a value that the dtype of the result has.
    threads : int, optional
        At most this many threads.

    Returns
    -------
    ndarray, torch tensor or Tensor
        The physical array of `dst`: `out`, or a new one aligned to 64 bytes. A `Tensor` over it if `array` is one, a
        tensor of torch over it if that is one.

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
    in floats. Floats that saturate without a scale are most often a mistake, of which a RuntimeWarning tells once per
    process; up to a million numbers of an array are looked at where its shape, strides and types are met first. Floats
    overflow to infinity (float8_e4m3fn, which has none, to NaN) and keep denormals. bool is the integers 0 and 1 where
    it is read; what is not 0, NaN too, becomes True. Pads are not converted: they hold `pad_value`, a value of the
    result's type.

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
    moved = dtype is scale is zero_point is offset is out_scale is out_zero_point is None
    moved = moved and type(alpha) is type(beta) is int and alpha == 1 and beta == 0
    if not (plain and moved and region is at is None):
        numbers = Numbers(
            dtype, scale, zero_point, offset, out_scale, out_zero_point, axis, block_size, alpha, beta
        )  # fmt: skip
        call = Call(array, src, dst, shape, out, numbers, region, at, pad_value, threads)
        if not plain and (is_torch(array) or is_torch(out)):
            return _of_torch(call)
        if has_steps(region):
            call = without_steps(call, reorder)
        return _general(call._replace(threads=check_threads(threads))) if plain else _with_tensors(call)
    if type(shape) is list:
        shape = tuple(shape)
    threads = check_threads(threads)
    pad = pad_value if type(pad_value) is int else None
    key: tuple | None
    try:
        key = src, dst, strides_key(array, out), array.dtype, shape, pad, threads, cost_table.generation, isa()
        bound = _cached(key)
    except TypeError:  # an argument is not hashable: an array as shape, say
        key = bound = None
    if bound is None:
        key = None if pad is None else key
        bound = bind(Call(array, src, dst, shape, out, UNCHANGED, None, None, pad_value, threads), key)
        if key is not None:
            plans.put(key, bound)
    if bound.layouts is not None:
        check_same_names(src, dst, bound.layouts)
    if out is None:
        out = bound.new()
    else:
        if not can_hold_result(out, bound.physical, bound.dtype):
            check_out(out, bound.physical, bound.dtype, (), bound.what)
        if extents_overlap(array, out) and overlap(array, out):
            layout, to = layout_argument(src, "src"), layout_argument(dst, "dst")
            shape = layout.padded_shape(array.shape) if shape is None else layout.check_shape(shape)
            arguments = array, out, layout, to, shape, partial(reorder, threads=threads), bound.what
            watched(partial(bound.call_info, "in place"), reorder_in_place, *arguments)
            return out
    if bound.run is not None:
        if watchers:
            watched(bound.call_info, bound.run, array, out, bound.threads)
        else:
            bound.run(array, out, bound.threads)
    return out


register_reorder(reorder)
_cached = plans.get


def _of_torch(call: Call):
    """`reorder` of a tensor of torch: its axes are the physical ones of `src`, or without it those of its strides."""
    array, dst, out = call.array, call.dst, call.out
    if call.src is None and is_torch(array):
        array = in_layout(array, layout_of(array).dense, "reorder: array")
    elif is_torch(array):
        array = memory_of(array, "reorder: array")
    if is_torch(out):
        whole = isinstance(array, Tensor)
        out = in_layout(out, Layout(dst), "reorder: out") if whole else memory_of(out, "reorder: out")
    result = reorder(
        array, call.src, dst, shape=call.shape, out=out, region=call.region, at=call.at, pad_value=call.pad_value,
        threads=call.threads, **call.numbers._asdict(),
    )  # fmt: skip
    return as_torch_like(result, call.array) if call.out is None else call.out


def _with_tensors(call: Call):
    """`reorder` where an argument is a Tensor, or no plain numpy array."""
    rest = dict(region=call.region, at=call.at, pad_value=call.pad_value, threads=call.threads)
    rest |= call.numbers._asdict()
    if not isinstance(call.array, Tensor) and not isinstance(call.out, Tensor):
        to = None if call.out is None else as_out(call.out, "reorder")
        y = reorder(as_array(call.array, "reorder: array"), call.src, call.dst, shape=call.shape, out=to, **rest)
        return y if call.out is None else call.out
    source, to, dst, box = resolved(call)
    y = reorder(source.array, source.layout, dst, shape=source.shape, out=to, **rest)
    if isinstance(call.out, Tensor):
        return call.out
    pad_value = _pad_contract(call.pad_value, y.dtype, call.numbers.dtype)
    return Tensor(y, dst if call.out is None else dst.dense, box.dst_shape, pad_value=pad_value)


def _pad_contract(pad_value, result: np.dtype, requested):
    """The value of the pads of a result of dtype `result`, in that dtype: bfloat16 may be bits in uint16."""
    src, dst = requested if isinstance(requested, tuple) else (None, requested)
    if result != np.uint16 or not (dst == "bfloat16" or (dst is None and src == "bfloat16")):
        return pad_value
    return int.from_bytes(pad_bytes(pad_value, Types("f32", "bf16", result), "reorder"), sys.byteorder)


def _general(call: Call):
    """`reorder` of plain arrays where only a box moves, or where numbers change."""
    array, src, dst, shape, out, numbers, region, at, pad, threads = call
    key: tuple | None
    try:
        key = (
            src, dst, strides_key(array, out), None if out is None else out.shape, array.dtype, threads,
            *map(token, (shape, region, at, pad, *numbers)), cost_table.generation, isa(),
        )  # fmt: skip
        bound = plans.get(key)
    except TypeError:  # an argument is not hashable
        key = bound = None
    if bound is None:
        if call.numbers.change(array.dtype):
            bound = bind_conversion(call)
            warn_of_saturation(call, bound)
        else:
            bound = bind(call, key)
        if key is not None:
            plans.put(key, bound)
    if bound.layouts is not None:
        check_same_names(src, dst, bound.layouts)
    if out is None:
        out = bound.new()
    else:
        check_out(out, bound.physical, bound.dtype, (array,), bound.what)
    if bound.run is not None:
        if watchers:
            watched(bound.call_info, bound.run, array, out, bound.threads, *bound.parameters)
        else:
            bound.run(array, out, bound.threads, *bound.parameters)
    return out
