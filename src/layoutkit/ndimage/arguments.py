"""What all filters accept: arrays, outputs, axes, modes, origins, as scipy.ndimage has them, with its errors."""

from __future__ import annotations

import functools
import inspect
import operator
import textwrap
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import numpy as np

from ..choosing.repeats import not_again, repeated
from ..choosing.warn import warn
from ..memory.arrays import as_array, empty
from ..memory.foreign import as_torch_like, is_torch, memory_of

F = TypeVar("F", bound=Callable[..., Any])

# Arrays that are not in memory: whether a value is one, and what runs a filter with its arguments; see tiles.py.
OTHERS: list[tuple[Callable[[Any], bool], Callable[..., Any]]] = []

# scipy's names of what is outside of an array, and what filters make of them.
MODES = {
    "reflect": "reflect", "grid-mirror": "reflect", "mirror": "mirror", "nearest": "nearest", "wrap": "wrap",
    "grid-wrap": "wrap", "constant": "constant", "grid-constant": "constant",
}  # fmt: skip


# What parameters of the same name are, in all filters: a kind, a text, and what may be wrong, by scipy's errors.
PARAMETERS = {
    "input": "array_like or torch tensor|Of any shape and strides, and of any type: complex where the filter is a sum."
    "|RuntimeError: the dtype of `input` is not supported",
    "output": "ndarray or dtype, optional|Where to write, or the type of a new array: that of the input by default."
    "|RuntimeError: `output` is of another shape, or not complex where the result is|ValueError: `output` is read-only"
    "|TypeError: `output` is neither an array nor a dtype",
    "mode": '"reflect", "mirror", "nearest", "wrap" or "constant", or one for each axis|What is outside of the array.'
    "|RuntimeError: `mode` is not known",
    "cval": 'float|With mode "constant": what is outside.|ValueError: `cval` is complex, `input` not',
    "origin": "int, or one for each axis|How far windows are moved towards the beginning."
    "|ValueError: `origin` moves a window beyond its element",
    "axis": "int|The axis along which is filtered.|ValueError: `axis` is out of range",
    "axes": "tuple of int, optional|Axes that are filtered: all by default."
    "|ValueError: one of `axes` is out of range, or repeated",
    "channel_axis": "int, optional|The only axis that is not filtered, as in scikit-image."
    "|ValueError: `axes` and `channel_axis` are both given",
    "threads": "int, optional|At most this many threads.|ValueError: `threads` is less than 1",
    "size": "int, or one for each axis|Elements of a window.|RuntimeError: a size is less than 1",
    "weights": "array_like|What the elements of a window are multiplied by."
    "|RuntimeError: `weights` is empty, or has not as many dimensions as axes are filtered",
    "sigma": "float, or one for each axis|Standard deviations.|TypeError: `sigma` is no number",
    "order": "int, or one for each axis|0: smoothing; more: that derivative.|ValueError: `order` is negative",
    "truncate": "float|Standard deviations to either side that count.",
    "radius": "int, or one for each axis, optional|Elements to either side, in place of `truncate`."
    "|ValueError: `radius` is negative or no integer",
    "fft": "bool|Whether products of spectra may stand for sums, where they are faster: less precise, see the notes.",
    "recursive": "bool|Whether recursions may stand for the weights of Gaussians, where they are faster."
    "|ValueError: `recursive` with an `order` or a `radius`",
    "footprint": "array_like of bool, optional|Which elements of a window count, in place of `size`."
    "|RuntimeError: `footprint` has not as many dimensions as axes are filtered|TypeError: `input` is complex",
    "structure": "array_like, optional|What is added to, or taken from, the elements of a window."
    "|RuntimeError: `structure` has not as many dimensions as axes are filtered",
}


def filters(operation: Any = None, **parameters: str) -> Any:
    """Let a filter take tensors of torch, and return one where its input is one; they share memory with arrays.

    Its docstring gets the description of its parameters and of their errors, from `parameters` and `PARAMETERS`.
    """
    if operation is None:
        return lambda of: filters(of, **parameters)
    known = {**PARAMETERS, **parameters}
    lines, errors = ["Parameters", "----------"], dict[str, list[str]]()
    for name in inspect.signature(operation).parameters:
        kind, text, *wrong = known[name].split("|")
        lines += [f"{name} : {kind}"] + [f"    {text}"] * bool(text)
        for error, _, reason in (w.partition(": ") for w in wrong):
            errors.setdefault(error, []).append(reason)
    lines += ["", "Returns", "-------", "ndarray", "", "Raises", "------"]
    for error, reasons in errors.items():
        lines += [error, *textwrap.wrap("; ".join(reasons) + ".", 110, initial_indent="    ", subsequent_indent="    ")]
    first, _, rest = inspect.cleandoc(operation.__doc__ or "").partition("\n\nPARAMETERS")
    operation.__doc__ = "\n".join([first, "", *lines]) + rest
    return repeated(_takes_torch(operation))


def _takes_torch(operation: F) -> F:
    @functools.wraps(operation)
    def wrapped(*args: Any, **keywords: Any) -> Any:
        first = args[0] if args else keywords.get("input")
        for takes, run in OTHERS:
            if takes(first):
                call = inspect.signature(operation).bind(*args, **keywords)
                call.apply_defaults()
                given = dict(call.arguments)
                return run(wrapped, given | given.pop("kwargs", {}))
        if not any(map(is_torch, (*args, *keywords.values()))):
            return operation(*args, **keywords)
        bound = inspect.signature(operation).bind(*args, **keywords).arguments
        output = bound.get("output")
        arrays = {k: memory_of(v, f"{operation.__name__}: {k}") if is_torch(v) else v for k, v in bound.items()}
        result = operation(**arrays)
        return output if is_torch(output) else as_torch_like(result, bound["input"])

    return cast(F, wrapped)


def array_of(value: Any, what: str) -> np.ndarray:
    """The input of a filter, of a type that it can compute with."""
    array = as_array(
        np.asarray(value) if isinstance(value, list | tuple | int | float | complex) else value, f"{what}: input"
    )
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > (16 if array.dtype.kind == "c" else 8):
        raise RuntimeError(f"{what}: input of dtype {array.dtype} is not supported")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def dtype_of(output: Any, array: np.ndarray, is_complex: bool, what: str) -> np.dtype:
    """The type of a new output."""
    if output is None:
        return np.promote_types(array.dtype, np.complex64) if is_complex else array.dtype
    dtype = np.dtype(output)
    if is_complex and dtype.kind != "c":
        if isinstance(output, str):
            raise RuntimeError(f"{what}: output must have a complex dtype, got {dtype}")
        warned(f"{what}: output of {dtype} becomes complex")
        dtype = np.promote_types(dtype, np.complex64)
    if isinstance(output, str) and not issubclass(dtype.type, np.number):
        raise RuntimeError(f"{what}: output must have a numeric dtype, got {dtype}")
    return dtype


def warned(text: str) -> None:
    """Warn of a call, each time."""
    not_again()
    warn(text, UserWarning)


def output_for(output: Any, array: np.ndarray, what: str, is_complex: bool = False, shape: Any = None) -> np.ndarray:
    """The array that a result is written to: that given, or a new one of the type given or that of the input."""
    shape = array.shape if shape is None else shape
    if output is None or isinstance(output, type | np.dtype | str):
        return empty(shape, dtype_of(output, array, is_complex, what), what, used_with=array)
    given = np.asarray(output)
    if given is not output and not isinstance(output, np.ndarray):
        raise TypeError(f"{what}: output must be an array or a dtype, got {type(output).__name__}")
    if given.shape != tuple(shape):
        raise RuntimeError(f"{what}: output must have shape {tuple(shape)}, got {given.shape}")
    if is_complex and given.dtype.kind != "c":
        raise RuntimeError(f"{what}: output must have a complex dtype, got {given.dtype}")
    if not given.flags.writeable:
        raise ValueError(f"{what}: output is read-only")
    return given


def axes_of(axes: Any, ndim: int, channel_axis: int | None, what: str) -> tuple[int, ...]:
    """The axes that are filtered, as numbers from 0."""
    if channel_axis is not None:
        if axes is not None:
            raise ValueError(f"{what}: axes and channel_axis both given")
        channel = axis_of(channel_axis, ndim, f"{what}: channel_axis")
        return tuple(i for i in range(ndim) if i != channel)
    if axes is None:
        return tuple(range(ndim))
    if not isinstance(axes, Iterable):
        try:
            axes = (operator.index(axes),)
        except TypeError:
            raise ValueError(f"{what}: axes must be an int, ints, or None, got {axes!r}") from None
    found = tuple(axis_of(a, ndim, f"{what}: axes") for a in axes)
    if len(set(found)) != len(found):
        raise ValueError(f"{what}: axes {tuple(axes)} must be unique")
    return found


def axis_of(axis: Any, ndim: int, what: str) -> int:
    """An axis as a number from 0."""
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(f"{what}: axis {axis} is out of range for an array with {ndim} axes")
    return axis % ndim


def one_each(value: Any, count: int, what: str) -> list[Any]:
    """A value for each axis: those given, or one for all."""
    if isinstance(value, str) or not np.iterable(value):
        return [value] * count
    found = list(value)
    if len(found) != count:
        raise RuntimeError(f"{what}: expected one, or one for each of {count} axes, got {len(found)}")
    return found


def numbers_of(value: Any, count: int, what: str) -> list[float]:
    """A number for each axis: those given, or one for all."""
    try:
        return [float(v) for v in one_each(value, count, what)]
    except (TypeError, ValueError):
        raise TypeError(f"{what}: expected a number, or one for each of {count} axes, got {value!r}") from None


def mode_of(mode: Any, what: str) -> str:
    """The mode of filters that a name stands for."""
    if not isinstance(mode, str) or mode not in MODES:
        raise RuntimeError(f"{what}: mode must be one of {', '.join(MODES)}, got {mode!r}")
    return MODES[mode]


def before_of(size: int, origin: Any, what: str) -> int:
    """Elements of a window before the one whose place it is."""
    origin = operator.index(origin)
    if not 0 <= size // 2 + origin < size:
        raise ValueError(
            f"{what}: invalid origin {origin}, of {size} elements it must be from {-(size // 2)} to {(size - 1) // 2}"
        )
    return size // 2 + origin


def by_parts(run: Callable[..., None], x: np.ndarray, y: np.ndarray, cval: Any, what: str) -> None:
    """``run(x, y, cval)``, of complex numbers for both of their parts."""
    if y.dtype.kind != "c":
        if np.iscomplexobj(cval):
            raise ValueError(f"{what}: a complex cval for an input of {x.dtype}")
        run(x, y, float(cval))
        return
    run(x.real, y.real, float(np.real(cval)))
    if x.dtype.kind == "c":
        run(x.imag, y.imag, float(np.imag(cval)))
    else:
        y.imag = 0


def sizes_of(size: Any, count: int, what: str) -> list[int]:
    """Sizes of windows, one for each axis."""
    sizes = [int(s) for s in one_each(size, count, f"{what}: size")]
    if any(s < 1 for s in sizes):
        raise RuntimeError(f"{what}: incorrect filter size {size!r}, expected at least 1 along each axis")
    return sizes
