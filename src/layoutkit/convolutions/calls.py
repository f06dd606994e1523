"""The base of all convolutions, transposed ones too: residual and workspace of a call, and plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np

from .._core.nests.convolutions.route import Epilogue, laid_out_as
from .._core.runtime.arrays import address
from ..choosing.best import choices
from ..choosing.limits import disturbed, peak_limit
from ..choosing.plan import Plan
from ..choosing.problem import Choice, Problem
from ..choosing.threads import get_num_threads
from ..choosing.watching import CallInfo
from ..formats.families import ACTIVATIONS, meaning_of_activations, meaning_of_filters
from ..formats.layout import Layout
from ..memory.arguments import tensor_argument
from ..memory.arrays import as_array, as_out, overlap, placeholder
from ..memory.faults import Faults
from ..memory.foreign import as_torch_like, channels_last_of, in_layout, is_torch, memory_of
from ..memory.tensor import Tensor
from ..signatures import explaining, renamed, with_parameters
from .algorithms import AUTO
from .attributes import FilterAttributes
from .descriptions import on_threads
from .epilogue import NO_ACTIVATION, Operand, in_words
from .filter import Filter
from .hints import swapped
from .task import PackTask
from .types import check_type

C = TypeVar("C", bound=type)
Repeated = Callable[[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray], None]
_CACHES = "_packed", "_bound", "_by_layout", "_routes"  # of objects


class ConvolutionBase:
    """The common base of convolutions and transposed convolutions."""

    rank: int
    _filter: Filter
    _threads: int | None
    _packed: dict
    _bound: dict
    _by_layout: dict[Layout, Any]  # the same for other layouts, by layout

    def __getstate__(self) -> dict[str, Any]:  # copies and pickles are packed and planned again where they are used
        return self.__dict__ | {cache: {} for cache in _CACHES if cache in self.__dict__}

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "rank"):
            plain = getattr(cls.__init__, "__wrapped__", cls.__init__)
            cls.__init__ = explaining(renamed(plain, cls.__name__))  # type: ignore[method-assign]  # for errors

    # What it is

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """Taps of the kernel, by axis."""
        return self._filter.kernel

    @property
    def in_channels(self) -> int:
        """Channels of an input."""
        return self._filter.ic

    @property
    def out_channels(self) -> int:
        """Channels of a result."""
        return self._filter.oc

    @property
    def groups(self) -> int:
        """Groups of channels."""
        return self._filter.groups

    @property
    def stride(self) -> tuple[int, ...]:
        """Distance of the windows in pixels, by axis."""
        return self._filter.stride

    @property
    def dilation(self) -> tuple[int, ...]:
        """Distance of the taps in a window in pixels, by axis."""
        return self._filter.dilation

    @property
    def padding(self) -> Any:
        """Pixels around the input, as the argument was."""
        return self._filter.padding

    @property
    def layout(self) -> Layout:
        """The layout of inputs."""
        return self._filter.layout

    @property
    def out_layout(self) -> Layout:
        """The layout of results."""
        return self._filter.out_layout

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements of results."""
        return self._filter.dst_dtype

    @property
    def algorithm(self) -> str:
        """The algorithm that was asked for."""
        return self._filter.algorithm

    @property
    def accuracy(self) -> str:
        """What "auto" may choose from, as it was asked for."""
        return self._filter.accuracy

    @property
    def activation(self) -> Any:
        """What follows the sum, as the argument was."""
        return self._filter.activation

    @property
    def threads(self) -> int | None:
        """The most threads that calls use; None: as many as are allowed."""
        return self._threads

    def _repr_parts(self) -> Iterable[str]:
        """What `repr` says besides channels, kernel and layouts: what differs from the default."""
        f = self._filter
        for name, value in (("stride", f.stride), ("dilation", f.dilation)):
            if set(value) - {1}:
                yield f"{name} {value[0] if len(set(value)) == 1 else value}"
        padding = self.padding
        if isinstance(padding, str) or np.any(padding):
            yield f"padding {padding!r}"
        if f.padding_mode != "zeros":
            yield f"of mode {f.padding_mode}"
        if f.groups > 1:
            yield f"{f.groups} groups"
        if f.activation is not None:
            yield in_words(f.activation)
        if f.algorithm != AUTO:
            yield f"by {f.algorithm}"
        if f.accuracy != "standard" and not f.types.integers:
            yield f.accuracy

    def __repr__(self) -> str:
        f = self._filter
        layouts = f"{f.layout}" if f.layout == f.out_layout else f"{f.layout} to {f.out_layout}"
        types = f"{f.src_dtype}" if f.src_dtype == f.dst_dtype else f"{f.src_dtype} to {f.dst_dtype}"
        kernel = "x".join(map(str, f.kernel))
        rest = "".join(f", {text}" for text in self._repr_parts())
        return f"{type(self).__name__}({f.ic} to {f.oc} channels, kernel {kernel}{rest}; {layouts}, {types})"

    plan: Callable[[Any], Plan]

    def explain(self, shape: Any, verbose: bool = False) -> str:
        """The plan as text: the candidates, or the phases of a transposed convolution, and why.

        Parameters
        ----------
        shape : sequence of int, array or Tensor
            The logical shape, (N, C, spatial axes), or an input of it.
        verbose : bool
            With the names and keys that the cost table knows, and what estimates rest on.
        """
        return self.plan(shape).explain(verbose)

    # Calls on single inputs and tensors of torch

    def _lacks_batch(self, x: np.ndarray) -> bool:
        """Whether an array is a single input without the axis of the batch."""
        f = self._filter
        return x.ndim == len(f.layout.factors) - 1 and f.layout.block(0) == f.out_layout.block(0) == 1

    def _unbatched(self, x: np.ndarray, out: Any, add: Any, workspace: Any, shape: Any) -> Any:
        f = self._filter
        at, to = f.layout.digits(0)[0], f.out_layout.digits(0)[0]

        def batch(value: Any, name: str) -> np.ndarray | None:
            return None if value is None else np.expand_dims(as_out(value, f"{f.what}: {name}"), to)

        shape = None if shape is None else (1, *shape)
        y = self(np.expand_dims(x, at), batch(out, "out"), batch(add, "add"), workspace, shape=shape)  # type: ignore[operator]
        return y.squeeze(to) if out is None else out

    def _torch(self, x: Any, out: Any, add: Any, workspace: Any, shape: Any) -> Any:
        f, what = self._filter, self._filter.what
        last = channels_last_of(x) if f.layout_defaulted else None
        op = self
        memory: Callable[..., Any] = memory_of
        if last is not None and last.rank == f.layout.rank:
            op, memory = self._with_layout(last), partial(in_layout, layout=last)
        tensors = ("x", x), ("out", out), ("add", add)
        arrays = [memory(tensor, what=f"{what}: {n}") if is_torch(tensor) else tensor for n, tensor in tensors]
        result = op(*arrays, workspace, shape=shape)  # type: ignore[operator]
        return as_torch_like(result, x) if out is None else out

    def _with_layout(self, layout: Layout) -> Self:
        """The same for inputs and results in another layout; cached."""
        other = self._by_layout.get(layout)
        if other is None:
            other = object.__new__(type(self))
            f = self._filter.with_layout(layout)
            other.__dict__ = self.__dict__ | {"_filter": f, "_packed": {}, "_bound": {}, "_by_layout": {}}
            self._by_layout[layout] = other
        return other

    # The same with other filters

    def emptied(self) -> Self:
        """The same without a filter, to be cached for `over`: a view would keep the caller's memory."""
        return self._with_weights(np.empty(0, self._filter.w.dtype))

    def _with_weights(self, w: np.ndarray, bias: np.ndarray | None = None) -> Self:
        """The same with another filter, (O, I/groups, *k), and another bias if one is given."""
        other = object.__new__(type(self))
        state = {"_filter": self._filter.with_weights(w), "_packed": {}, "_bound": {}, "_by_layout": {}}
        other.__dict__ = self.__dict__ | state
        if bias is not None:
            other._filter.bias = other._filter.per_channel(bias, "bias")
        return other


_CALL_ARGUMENTS = dict.fromkeys(("x", "shape", "add", "out"), "")  # arguments of each call, not of the object
_DOC = """A {0} whose filter is packed once, for all calls: ``op(x, out=None, add=None)``, otherwise as `{1}`.

    Parameters
    ----------
    {{PARAMETERS}}

    Raises
    ------
    TypeError, ValueError
        Types, shapes, layouts or attributes do not fit.
    """


def documented_by(function: Callable[..., Any], kind: str) -> Callable[[C], C]:
    """Give the class of a `kind` of operation the parameters of the function that does the same."""

    def describe(cls: C) -> C:
        cls.__doc__ = _DOC.format(kind, function.__name__)
        return with_parameters(function, **_CALL_ARGUMENTS)(cls)

    return describe


def with_input(error: Exception, what: str, rank: int, x: Any, w: Any, **attributes: Any) -> Exception:
    """An error about a filter or `attributes` (of `FilterAttributes`), extended by what is wrong with the input `x`."""
    faults = Faults(what)
    faults.errors += getattr(error, "faults", [error])
    layout, groups = attributes.get("layout"), attributes.get("groups", 1)
    with suppress(TypeError, ValueError, BufferError, IndexError):
        source, filters = as_array(x, "x"), as_array(w, "w")
        if source.dtype != filters.dtype != np.int8 and "w: expected dtype" not in str(error):
            faults.errors.append(TypeError(f"x is of dtype {source.dtype}, w of {filters.dtype}"))
        names = Layout(meaning_of_activations(rank) if layout is None else layout)
        channels, expected = names.padded_shape(source.shape)[1], filters.shape[1] * groups
        known = names.family is None or names.family.kind == ACTIVATIONS
        if filters.ndim == rank + 2 and known and names.block(1) == 1 and channels != expected:
            faults.errors.append(ValueError(f"x of shape {source.shape} has {channels} channels, expected {expected}"))
    try:
        faults.done()
    except (TypeError, ValueError) as combined:
        return with_swapped(combined, rank, x, w, **attributes)
    return error


def with_swapped(error: Exception, rank: int, x: Any, w: Any, **attributes: Any) -> Exception:
    """An error of a call with these `attributes`, extended by whether `x` and `w` would fit if they were swapped."""
    if isinstance(x, Tensor) or isinstance(w, Tensor):
        return error
    hint, known = "", {f.name for f in fields(FilterAttributes)}
    with suppress(TypeError, ValueError):
        a = FilterAttributes(**{name: value for name, value in attributes.items() if name in known})
        layout = Layout(meaning_of_activations(rank) if a.layout is None else a.layout)
        filter_layout = Layout(meaning_of_filters(rank) if a.filter_layout is None else a.filter_layout)
        hint = swapped(a, layout, filter_layout, np.shape(x), np.shape(w))
    return type(error)(f"{error}{hint}") if hint and isinstance(error, ValueError) else error


def input_shape(f: Filter, value: Any) -> tuple[int, ...]:
    """The logical shape of an input: the shape itself, or that of an array or Tensor."""
    if isinstance(value, Tensor) or getattr(value, "ndim", 1) > 1:
        return f.input_argument(value, None).shape
    try:
        return f.layout.check_shape(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{f.what}: shape: expected an array, or a logical shape; {error}") from None


def _residual(f: Filter, add, out: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, bool]:
    """`add`, a tensor like the result of logical `shape`; and whether it must be copied to `out` first."""
    what = f"{f.what}: add"
    add = _like_result(f, add, out, shape, what)
    if add.strides == out.strides:
        if address(add) == address(out) or not overlap(add, out):
            return add, False
    elif not overlap(add, out):
        return add, True
    raise ValueError(f"{what} and out share memory without being the same array")


def _like_result(f: Filter, value, out: np.ndarray, shape: tuple[int, ...], what: str) -> np.ndarray:
    """The array of a tensor like the result, of logical `shape`; raise if it is not."""
    array = (
        tensor_argument(value, f.out_layout, shape, what).array if isinstance(value, Tensor) else as_array(value, what)
    )
    check_type(array, f.dst_dtype, what)
    if array.shape != out.shape:
        raise ValueError(f"{what} has shape {array.shape}, expected the result's {out.shape}")
    return array


def bind_epilogue(f: Filter, add, out: np.ndarray, shape: tuple[int, ...]) -> tuple[Epilogue, np.ndarray | None, bool]:
    """The epilogue of a call with its tensors, `add` unless that is one of them, and whether `add` must be copied to
    `out` first."""
    if add is not None and f.types.elements[3] == "s32":
        raise ValueError(f"{f.what}: results of int32 are the sums: no add follows")
    if f.uses_residual and add is None:
        raise ValueError(f"{f.what}: activation {in_words(f.activation)} sums up with add, which was not given")
    epilogue, copied = f.epilogue or NO_ACTIVATION, False
    if f.operands:
        epilogue = epilogue.over([_operand_array(f, operand, add, out, shape) for operand in f.operands])
    if any(operand.value is None for operand in f.operands):
        add = None
    if add is not None:
        add, copied = _residual(f, add, out, shape)
    return epilogue, add, copied


def _operand_array(f: Filter, operand: Operand, add, out: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array of an operand of the epilogue, with the strides of `out`."""
    value, what = operand.value, f"{f.what}: {operand.name}"
    if value is None:
        value, what = add, f"{f.what}: add"
    array = _like_result(f, value, out, shape, what)
    same = array.strides == out.strides
    if operand.value is None and same and address(array) == address(out):
        return array
    if overlap(array, out):
        raise ValueError(f"{what} and out share memory" + " without being the same array" * (operand.value is None))
    return array if same or not out.size else laid_out_as(array, out)


def workspace_operands(f: Filter, y: np.ndarray, add: bool) -> tuple[np.ndarray | None, Epilogue | None]:
    """Placeholders of `add` and of the tensors of the epilogue, to ask for the workspace of a call into `y`."""
    if not f.operands:
        return y if add else None, f.epilogue
    other = placeholder(y.shape, y.dtype, y.strides)
    epilogue = (f.epilogue or NO_ACTIVATION).over([y if operand.value is None else other for operand in f.operands])
    return y if add and all(operand.value is not None for operand in f.operands) else None, epilogue


def check_workspace(
    what: str, workspace: Any, needed: int, arrays: Iterable[np.ndarray | None], epilogue: Epilogue | None
) -> None:
    """Raise unless `workspace` has the bytes that a call needs, apart from its arrays."""
    what = f"{what}: workspace"
    if not isinstance(workspace, np.ndarray) or not workspace.flags.c_contiguous or not workspace.flags.writeable:
        raise TypeError(f"{what} must be a contiguous, writeable numpy array, got {type(workspace).__name__}")
    if workspace.nbytes < needed:
        raise ValueError(f"{what} of {workspace.nbytes} bytes, this call needs {needed}")
    tensors = () if epilogue is None else epilogue.tensors
    if any(overlap(workspace, a) for a in (*arrays, *tensors) if a is not None):
        raise ValueError(f"{what} overlaps x, out or add")


def call_info(what: str, task: Problem, threads: int) -> CallInfo:
    """What watchers are told of a call of an operation `what`."""
    return CallInfo(what, task.key, choices(task)[0].candidate.name, threads)


def packing_info(f: Filter, packing: str) -> CallInfo:
    """What watchers are told of packing a filter."""
    return CallInfo("pack", PackTask(f.oc, f.ic, f.kernel, f.groups, f.types).key, packing, get_num_threads())


def plan_of(
    task: Problem,
    threads: int,
    rows: str,
    more_facts: Callable[[Sequence[Choice], bool], Iterable[str | None]],
    what: str,
    activation: Any = None,
    **others: Any,
) -> Plan:
    """The plan of a problem of an operation `what`, explained by its share of the peak of rows of type `rows`, and by
    `more_facts` about the choices; `others` as of `Plan`."""
    ranked = choices(task)

    def facts(verbose: bool) -> Iterable[str]:
        best, words = ranked[0], ranked[0].candidate.words
        rate = task.work / best.seconds
        peak = peak_limit(rate / words.saving, threads, rows)
        if peak is None:
            share = disturbed("the FMA peak", best.source)
        else:
            share = f"{rate / peak:.0%} of the FMA peak ({peak / 1e9:.0f} GFLOP/s {on_threads(threads)}, measured now)"
        then = "" if activation is None else f", then {in_words(activation)}"
        yield f"{task.work / 1e6:.3g} MFLOP, {rate / 1e9:.1f} GFLOP/s, {share}{then}"
        if peak is not None and rate > peak and words.why:
            yield f"more than 100%: {words.why}"
        yield from filter(None, more_facts(ranked, verbose))

    words = task.words if task.words.startswith(f"{what} ") else f"{what}, which is {task.words}"
    return Plan(task.key, ranked, facts, words=words, **others)
